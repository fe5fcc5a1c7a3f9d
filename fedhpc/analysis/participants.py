"""How much data the clients hold whom the model has learned from (FedBuff, Figure 7)."""

from collections.abc import Sequence

import numpy as np
import xarray as xr


def participants_examples(
    dataset: xr.Dataset, quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)
) -> xr.Dataset:
    """The distribution of the number of examples held by the clients whose updates were aggregated, each client
    counted as often as that happened; of an experiment (``open_experiment``) or a single run.

    ``share`` (..., examples) is the fraction of a run's client updates that came from clients with that many examples;
    ``quantile_examples`` (..., quantile) the smallest number of examples at which the shares up to it come to the
    quantile; ``...`` are the dataset's algorithm, scenario and trial. NaN where a run is not there or aggregated
    nothing. Raises ValueError where a quantile is not within 0..1.
    """
    levels = np.asarray(quantiles, np.float64)
    if ((levels < 0) | (levels > 1)).any():
        raise ValueError(f"quantiles: {list(quantiles)} are not all within 0..1")
    held, counts = dataset["examples"], dataset["updates_aggregated_of_client"]
    cells = [dimension for dimension in held.dims if dimension != "client"]
    held_by, counted = (array.transpose(*cells, "client").values.astype(np.float64) for array in (held, counts))
    shape = held_by.shape[:-1]
    sizes = np.unique(held_by[np.isfinite(held_by)])
    shares = np.full((int(np.prod(shape)), len(sizes)), np.nan)
    found = np.full((len(shares), len(levels)), np.nan)
    rows = zip(held_by.reshape(len(shares), -1), counted.reshape(len(shares), -1), strict=True)
    for row, (examples, times) in enumerate(rows):
        there = np.isfinite(examples)
        total = times[there].sum()
        if total == 0:
            continue
        whole = np.bincount(np.searchsorted(sizes, examples[there]), times[there], len(sizes))
        shares[row] = whole / total
        # Counts and not shares are added up, whose sums would miss a quantile by rounding.
        found[row] = sizes[np.searchsorted(np.cumsum(whole), np.maximum(levels * total, 1))]
    coordinates = {name: dataset[name] for name in cells if name in dataset.coords}
    return xr.Dataset(
        {
            "share": ((*cells, "examples"), shares.reshape(*shape, -1), {"units": "1"}),
            "quantile_examples": ((*cells, "quantile"), found.reshape(*shape, -1), {"units": "1"}),
        },
        {**coordinates, "examples": sizes.astype(np.int64), "quantile": levels},
    )
