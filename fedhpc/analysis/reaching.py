"""When runs first reach a target: what FedBuff's Tables 1, 2, 5 and 7 count."""

import numpy as np
import xarray as xr

from fedhpc.published import Milestone

_COUNTS = ("time", "client_trips", "client_updates", "server_updates")


class NotMeasured(ValueError):
    """No run has the metric that was asked for."""


def reaching(dataset: xr.Dataset, metric: Milestone, target: float) -> xr.Dataset:
    """What each run of an experiment (``open_experiment``; a single run will do) took to reach the target.

    The variables time (virtual s), client_trips, client_updates and server_updates, each of shape
    (algorithm, scenario, trial), are those of the first evaluation with ``metric`` at or above ``target``; NaN where
    there is none. Raises NotMeasured where no run has that metric.
    """
    first = first_evaluation(dataset, metric, target)
    return xr.Dataset({name: at_evaluation(dataset[name], first) for name in _COUNTS})


def first_evaluation(dataset: xr.Dataset, metric: Milestone, target: float) -> xr.DataArray:
    """The position of each run's first evaluation at or above the target, -1 where there is none."""
    if metric not in dataset.variables:
        raise NotMeasured(f"these runs have no {metric}, so that none can reach {target:g}")
    # What was not evaluated is NaN, which is at or above nothing.
    reached = dataset[metric] >= target
    return reached.argmax("evaluation").where(reached.any("evaluation"), -1).astype(np.int64)


def last_evaluation(dataset: xr.Dataset) -> xr.DataArray:
    """The position of each run's own last evaluation, -1 where the run is not there."""
    return dataset["time"].notnull().sum("evaluation").astype(np.int64) - 1


def at_the_end(dataset: xr.Dataset) -> xr.Dataset:
    """Each run's own last evaluation: the variables along ``evaluation`` without that dimension. Runs that end at a
    target, or by virtual time, have unequal numbers of evaluations."""
    last = last_evaluation(dataset)
    return xr.Dataset(
        {name: at_evaluation(dataset[name], last) for name in dataset if "evaluation" in dataset[name].dims}
    )


def at_evaluation(values: xr.DataArray, position: xr.DataArray) -> xr.DataArray:
    """The values at each run's position, without the evaluation dimension; NaN where the position is -1."""
    taken = values.isel(evaluation=position.clip(min=0)).where(position >= 0)
    return taken.drop_vars(["time", "evaluation"], errors="ignore")
