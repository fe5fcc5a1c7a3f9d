"""Datasets as ``open_experiment`` gives them, made by hand."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

Cells = Mapping[tuple[str, str], list[Mapping[str, list[float]] | None]]


def experiment(cells: Cells) -> xr.Dataset:
    """(algorithm, scenario) -> its trials, each a run's columns along ``evaluation``, or None where it is missing. All
    runs have the same columns, ``time`` among them; shorter ones end in NaN."""
    algorithms = list(dict.fromkeys(algorithm for algorithm, _ in cells))
    scenarios = list(dict.fromkeys(scenario for _, scenario in cells))
    trials = max(len(runs) for runs in cells.values())
    present = [run for runs in cells.values() for run in runs if run is not None]
    length = max(len(run["time"]) for run in present)
    arrays = {name: np.full((len(algorithms), len(scenarios), trials, length), np.nan) for name in present[0]}
    for (algorithm, scenario), runs in cells.items():
        for trial, run in enumerate(runs):
            for name, column in (run or {}).items():
                cell = algorithms.index(algorithm), scenarios.index(scenario), trial
                arrays[name][cell][: len(column)] = column
    dimensions = ("algorithm", "scenario", "trial", "evaluation")
    return xr.Dataset(
        {name: (dimensions, array) for name, array in arrays.items() if name != "time"},
        {
            "algorithm": algorithms,
            "scenario": scenarios,
            "trial": np.arange(trials),
            "evaluation": np.arange(length),
            "time": (dimensions, arrays["time"]),
        },
    )
