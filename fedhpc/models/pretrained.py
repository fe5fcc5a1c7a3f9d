"""Weights that others have published, from torch's file of a module's state by names."""

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedhpc.mistakes import ExperimentError

_KEY = "task.model.weights"


@torch.no_grad()
def load_pretrained(module: nn.Module, names: Sequence[str], path: Path) -> None:
    """Copies the file's tensors into the parameters and running statistics of ``module``. ``names``: what the file
    calls the layers that have any, in their order. Where the last one has other classes it stays as it is.

    Nothing but tensors is read: a file that would run code is refused. Raises ExperimentError, saying what does not
    fit; the module may then hold a part.
    """
    state = _read(path)
    layers = [layer for layer in module.modules() if next(_tensors(layer), None) is not None]
    for layer, called in zip(layers, names, strict=True):
        found = {name: (f"{called}.{name}", own) for name, own in _tensors(layer)}
        for full, own in found.values():
            if not isinstance(state.get(full), torch.Tensor):
                raise ExperimentError(path, [f"{_KEY}: the file has no tensor {full}; give efficientnet-b0's weights"])
            if layer is not layers[-1] and state[full].shape != own.shape:
                raise ExperimentError(
                    path,
                    [
                        f"{_KEY}: {full} has the shape {list(state[full].shape)} and should have {list(own.shape)}; "
                        "give efficientnet-b0's weights, and pictures with as many channels as it was trained on"
                    ],
                )
            if not torch.isfinite(state[full]).all():
                raise ExperimentError(path, [f"{_KEY}: {full} holds what is no finite number; fetch the file anew"])
        if all(state[full].shape == own.shape for full, own in found.values()):
            for full, own in found.values():
                own.copy_(state[full])


def _read(path: Path) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ExperimentError(path, [f"{_KEY}: the file cannot be read: {error.strerror}"]) from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError):
        raise ExperimentError(
            path, [f"{_KEY}: this is no whole file of tensors by name, as torch saves them; fetch the file anew"]
        ) from None
    if not isinstance(state, dict):
        raise ExperimentError(
            path, [f"{_KEY}: the file holds no tensors by name; give a module's state, as torch saves it"]
        )
    return state


def _tensors(layer: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """A layer's own parameters and running statistics, by name."""
    yield from layer.named_parameters(recurse=False)
    yield from ((name, buffer) for name, buffer in layer.named_buffers(recurse=False) if buffer.is_floating_point())
