"""What learning costs the clients (RELAY: Abdelmoniem et al. 2021): how much of their time came to nothing."""

import xarray as xr

COUNTED = (
    "A client's time counts from its download to its upload, and not while it idles; what is still under way when a "
    "run ends is neither in what was used nor in what was wasted."
)
"""What the clients' time is, for whoever compares algorithms by it."""


def wasted_share(dataset: xr.Dataset) -> xr.DataArray:
    """The part of the clients' time whose updates were never used, as a fraction, wherever the dataset tells it (at
    every evaluation of ``open_experiment`` and ``open_run``; at the last ones of ``at_the_end``). 0 where no time was
    spent, and NaN where a run is not there."""
    used, wasted = dataset["resource_used"], dataset["resource_wasted"]
    return (
        (wasted / used)
        .where(used != 0, 0.0)
        .assign_attrs(units="1", long_name="share of client time whose client update was never used")
    )
