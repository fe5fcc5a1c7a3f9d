"""Coresets: a few of a client's examples, weighted, that stand for all (FedCore: Guo et al. 2024, sections 4.2, 4.3).

The medoids of the examples' gradients, by FasterPAM (Schubert and Rousseeuw 2021), each weighted by how many examples
it is nearest to. A gradient is told by that of the loss at the last layer's input; of a convex model, by the example
itself.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy

MOST_AT_ONCE = 8192
"""Examples whose distances from each other are taken at once: 256 MiB. More are dealt into blocks."""

_SWAP_ROUNDS = 2
"""Passes over the examples in search of better medoids. The first finds nearly all; what later ones than the second
find shortens the distances by less than a thousandth."""

_GRADIENT_BATCH = 512


@dataclass(frozen=True)
class Coreset:
    """``rows``: int64 [size], which of a client's examples, counted from 0, ascending. ``weights``: float32 [size], for
    how many examples each stands; they add up to all."""

    rows: NDArray[np.int64]
    weights: NDArray[np.float32]


def build_coreset(features: torch.Tensor, size: int, chance: np.random.Generator) -> Coreset:
    """The coreset of ``size`` examples, by Euclidean distances between their ``features``, float32 [examples, numbers].

    More than ``MOST_AT_ONCE`` examples are dealt into blocks as equal as can be, and each block gives as many medoids
    as its share; the weights are over all examples all the same. Memory is that of one block's distances.
    """
    examples = len(features)
    if size >= examples:
        return Coreset(np.arange(examples), np.ones(examples, np.float32))
    features = features - features.mean(0)  # else what examples have in common costs digits
    if not torch.isfinite(features).all() or not torch.isfinite(features.square().sum()):
        features = torch.zeros_like(features)  # a model that has diverged tells no example from another
    dealt = chance.permutation(examples)
    blocks = -(-examples // MOST_AT_ONCE)
    chosen = []
    for block in range(blocks):
        first, last = examples * block // blocks, examples * (block + 1) // blocks
        # The medoids up to a block's end are its share of all, rounded down.
        medoids = size * last // examples - size * first // examples
        if medoids:
            own = dealt[first:last]
            chosen.append(own[_medoids(features[torch.from_numpy(own)], medoids, int(chance.integers(2**31)))])
    rows = np.sort(np.concatenate(chosen))
    return Coreset(rows, _nearest_counts(features, torch.from_numpy(rows)))


def last_layer(module: nn.Module) -> nn.Linear:
    """The layer that gives the logits: the last fully connected one. Raises ValueError where there is none."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise ValueError("coresets need a model whose last layer is fully connected; name another model")
    return layers[-1]


def input_gradients(scores: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Each example's gradient of the cross-entropy at the last layer's input, (softmax - one-hot) W, float32 [examples,
    inputs]. ``scores``: logits [examples, classes]; ``weight``: the last layer's [classes, inputs]."""
    error = torch.softmax(scores, 1, dtype=torch.float32)
    error[torch.arange(len(labels)), labels] -= 1
    return error @ weight.float()


def gradient_error(module: nn.Module, features: torch.Tensor, labels: torch.Tensor, coreset: Coreset) -> float:
    """Equation 2: the Euclidean length, over all parameters, of the gradient of all examples' summed losses less that
    of the coreset's weighted ones, with nothing dropped out."""
    # Both sums in one: an example counts 1 less what it weighs in the coreset.
    counts = torch.ones(len(labels), device=features.device)
    counts[torch.from_numpy(coreset.rows)] -= torch.from_numpy(coreset.weights).to(features.device)
    parameters = list(module.parameters())
    totals = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in parameters]
    was_training = module.training
    module.eval()
    for piece in torch.split(torch.arange(len(labels)), _GRADIENT_BATCH):
        with torch.enable_grad():
            losses = cross_entropy(module(features[piece]), labels[piece], reduction="none")
            gradients = torch.autograd.grad(losses @ counts[piece], parameters)
        for total, gradient in zip(totals, gradients, strict=True):
            total += gradient
    module.train(was_training)
    return float(torch.cat([total.flatten() for total in totals]).norm())


def _medoids(features: torch.Tensor, count: int, seed: int) -> NDArray[np.int64]:
    """So many medoids of these examples, by their places."""
    # Not before it is needed: it brings scikit-learn along, which takes a second.
    from kmedoids import fasterpam

    # At random to begin with: the greedy beginning takes count passes over the distances, and swaps end as low.
    found = fasterpam(
        _distances(features, features).fill_diagonal_(0).numpy(),
        count,
        max_iter=_SWAP_ROUNDS,
        init="random",
        random_state=seed,
        n_cpu=1,
    )
    return np.asarray(found.medoids, np.int64)


def _nearest_counts(features: torch.Tensor, rows: torch.Tensor) -> NDArray[np.float32]:
    """How many examples are nearest to each of ``rows``; every one of these is nearest to itself."""
    medoids = features[rows]
    at_once = max(1, MOST_AT_ONCE**2 // len(rows))
    nearest = torch.cat([_distances(piece, medoids).argmin(1) for piece in torch.split(features, at_once)])
    nearest[rows] = torch.arange(len(rows))
    return torch.bincount(nearest, minlength=len(rows)).numpy().astype(np.float32)


def _distances(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Euclidean distances, float32 [some, others], in the memory of one such matrix."""
    squares = some.square().sum(1)[:, None] + others.square().sum(1)
    return squares.addmm_(some, others.t(), alpha=-2).clamp_(min=0).sqrt_()
