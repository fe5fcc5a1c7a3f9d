"""Time to a target over another algorithm's: FedCompass' Tables 1 and 2, and what a sweep is asked first."""

import math
from typing import cast

import numpy as np
import xarray as xr

from fedhpc.analysis.measures import main_measure
from fedhpc.analysis.reaching import last_evaluation, reaching
from fedhpc.analysis.target_table import Target
from fedhpc.published import Milestone

_PART = 0.9


def relative_time(dataset: xr.Dataset, target: Target, reference: str) -> xr.DataArray:
    """The virtual time that each run of an experiment (``open_experiment``) took to its first evaluation at or above
    the target, over that of the algorithm ``reference`` in the same scenario and trial, whose clients are the same.

    Infinite where a finished run never gets there; NaN where either run is not finished, or the reference never got
    there, or got there at 0 as the untrained model does. Raises NotMeasured where no run has the target's metric.
    """
    times = reaching(dataset, target.metric, target.value)["time"].fillna(np.inf).where(last_evaluation(dataset) >= 0)
    of_reference = times.sel(algorithm=reference, drop=True)
    found = times / of_reference.where(np.isfinite(of_reference))
    return found.assign_attrs(units="1", long_name=f"time to {target} over that of {reference}")


def common_target(dataset: xr.Dataset) -> Target | None:
    """A target that most algorithms reach, where nobody names one: nine tenths of what the best algorithm comes to by
    its median over trials, in the scenario where that is least, rounded down to a whole percent. None where nothing is
    learned, or too little."""
    name = main_measure(dataset)
    if name is None:
        return None
    # The best evaluation and not the last, since the first to reach it counts.
    best = dataset[name].max("evaluation").median("trial").max("algorithm").values
    best = best[np.isfinite(best)]
    percent = math.floor(_PART * 100 * best.min() + 1e-9) if best.size else 0
    return Target(cast(Milestone, name), percent / 100) if percent > 0 else None
