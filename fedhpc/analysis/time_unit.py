"""The unit in which tables and figures tell times: hours, or seconds where none is as long as one."""

from typing import NamedTuple

import numpy as np
import xarray as xr

_HOUR = 3600.0


class TimeUnit(NamedTuple):
    """``seconds`` is how long it is."""

    name: str
    seconds: float

    def told(self, seconds: float, rounding: float | None = None) -> str:
        """So many seconds in this unit: to a tenth, or less than one to two digits. ``rounding``: the seconds that say
        which of the two, where not these themselves."""
        of = (seconds if rounding is None else rounding) / self.seconds
        return f"{seconds / self.seconds:{',.1f' if not of < 1 else '.2g'}}"


VIRTUAL_HOURS = TimeUnit("virtual hours", _HOUR)


def unit_for(longest: float, kind: str = "virtual ") -> TimeUnit:
    """The unit for times of which the longest has so many seconds."""
    return TimeUnit(f"{kind}hours", _HOUR) if longest >= _HOUR else TimeUnit(f"{kind}seconds", 1.0)


def time_unit(dataset: xr.Dataset, of: str = "time") -> TimeUnit:
    """That of an experiment (``open_experiment``) for its variable ``of``, by the largest of any run; virtual unless
    its clock was real."""
    kind = "" if dataset.attrs.get("clock") == "wall" else "virtual "
    return unit_for(float(np.nanmax(dataset[of].values, initial=0.0)), kind)
