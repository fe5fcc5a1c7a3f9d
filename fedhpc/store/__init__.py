"""One netCDF-4 file a run; ``open_run`` and ``open_experiment`` give them back as xarray Datasets."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedhpc.store.reader import open_experiment, open_run

__all__ = ["open_experiment", "open_run"]


def __getattr__(name: str) -> Any:
    # xarray takes half a second to import, and a run or a login node that only writes or looks never needs it.
    if name in __all__:
        from fedhpc.store import reader

        return getattr(reader, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
