"""Clipping of client updates (FedBuff: Nguyen et al. 2022, algorithm 1, line 7; McMahan et al. 2018)."""

import torch


def clip_factors(deltas: torch.Tensor, longest: float) -> torch.Tensor:
    """min(1, longest / |delta|) of each delta, float64 [clients]; ``deltas``: float32 [clients, parameters].

    The L2 norms are added up in float64, so that what a client is computed beside does not show in them.
    """
    norms: torch.Tensor = torch.linalg.vector_norm(deltas, dim=1, dtype=torch.float64)
    return (longest / norms).clamp(max=1)
