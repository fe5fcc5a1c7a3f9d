"""Results as xarray Datasets: one run, or a whole experiment."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedhpc.experiment import Run
from fedhpc.store.run_file import finished_digest
from fedhpc.store.variables import CELL, INDEXES, VARIABLES, Dimension
from fedhpc.yaml_text import read_yaml


class Unusable(ValueError):
    """Results that cannot be read, or are not of one experiment; says which, and the mend."""


class _Result(NamedTuple):
    """A run's columns by their names, its attributes and its seed."""

    columns: dict[str, NDArray[Any]]
    attributes: dict[str, Any]
    seed: int


class _Axes(NamedTuple):
    algorithm: list[str]
    scenario: list[str]
    trial: list[int]


def open_run(path: Path | str) -> xr.Dataset:
    """One run's result, in memory: variables along ``evaluation``, ``server_update``, ``client`` and ``client_update``,
    with ``algorithm``, ``scenario``, ``trial`` and ``seed`` as scalar coordinates, and ``client_name`` along ``client``
    where the data name their clients.

    Raises FileNotFoundError where there is no file, and ValueError where it is no complete result.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such result")
    if finished_digest(path) is None:
        raise ValueError(f"{path}: this is no complete result of a run; delete it and run the sweep again")
    run = _load(path)
    return run.assign_coords(_client_names(run.attrs, run.sizes["client"]))


def open_experiment(folder: Path | str) -> xr.Dataset:
    """Every result ``FOLDER/<algorithm>/<scenario>/trial-<n>.h5``, in memory, as one Dataset.

    Variables have the dimensions (algorithm, scenario, trial) and their own. Runs that are not there, and what lies
    beyond a shorter run's end, are NaN; counts turn into floats only where that is so. Which algorithms, scenarios
    and trials there are, and their order, is said by ``FOLDER/experiment.yaml``; without it, all results found are
    taken, in order of their names. Attributes are those on which all runs agree; ``deadline``, of runs that have one,
    is a variable (algorithm, scenario, trial) too. ``client_name`` along ``client`` is what the data call the clients,
    where all runs agree on that.

    Raises FileNotFoundError where there is no result, and Unusable where one is damaged or they have different
    seeds.
    """
    folder = Path(folder)
    found = {run: path for path in folder.glob("*/*/trial-*.h5") if (run := _run(path)) and finished_digest(path)}
    axes = _planned_axes(folder / "experiment.yaml") or _found_axes(found)
    cells = {_cell(run, axes): _read(path) for run, path in found.items() if _is_within(run, axes)}
    if not cells:
        raise FileNotFoundError(
            f"{folder}: no finished results here; `fedhpc sweep EXPERIMENT --output {folder}` makes them"
        )
    return _combined(cells, axes, _common_seed(folder, cells))


_Cell = tuple[int, int, int]


def _load(path: Path) -> xr.Dataset:
    # A result is never changed in place, so that HDF5's lock would guard nothing, and shared file systems refuse it.
    return xr.load_dataset(path, engine="h5netcdf", driver_kwds={"locking": False})


def _read(path: Path) -> _Result:
    # By h5py alone, which takes a tenth of the time of a Dataset for each of what may be a thousand runs.
    try:
        with h5py.File(path, "r", locking=False) as file:
            there = [name for name in VARIABLES if name in file]
            columns = {name: np.asarray(file[name][()], VARIABLES[name].dtype) for name in there}
            attributes = {name: _plain(value) for name, value in file.attrs.items() if not name.startswith("_NC")}
            seed = int(file["seed"][()])
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:  # h5py's, of a damaged file
        raise Unusable(f"{path}: this result is damaged ({error}); delete it and run the sweep again") from None
    strange = [name for name, column in columns.items() if column.ndim != 1]
    if strange:
        raise Unusable(f"{path}: this result is damaged ('{strange[0]}'); delete it and run the sweep again")
    return _Result(columns, attributes, seed)


def _plain(value: Any) -> Any:
    """An attribute as xarray gives it: netCDF has numbers in rows of one."""
    return value[0] if isinstance(value, np.ndarray) and value.shape == (1,) else value


def _run(path: Path) -> Run | None:
    number = path.stem.removeprefix("trial-")
    # "trial-00" is no trial of a sweep, and would stand for trial 0.
    is_number = number.isdecimal() and str(int(number)) == number
    return Run(path.parent.parent.name, path.parent.name, int(number)) if is_number else None


def _planned_axes(file: Path) -> _Axes | None:
    if not file.exists():
        return None
    experiment = read_yaml(file)
    return _Axes(list(experiment["algorithms"]), list(experiment["scenarios"]), list(range(experiment["trials"])))


def _found_axes(found: Mapping[Run, Path]) -> _Axes:
    return _Axes(
        sorted({run.algorithm for run in found}),
        sorted({run.scenario for run in found}),
        sorted({run.trial for run in found}),
    )


def _is_within(run: Run, axes: _Axes) -> bool:
    return run.algorithm in axes.algorithm and run.scenario in axes.scenario and run.trial in axes.trial


def _cell(run: Run, axes: _Axes) -> _Cell:
    return axes.algorithm.index(run.algorithm), axes.scenario.index(run.scenario), axes.trial.index(run.trial)


def _common_seed(folder: Path, cells: Mapping[_Cell, _Result]) -> int:
    seeds = sorted({run.seed for run in cells.values()})
    if len(seeds) > 1:
        raise Unusable(
            f"{folder}: these results have different seeds ({', '.join(map(str, seeds))}), so that they are not of one "
            "experiment; run its sweep to the end, or give each seed its own folder"
        )
    return seeds[0]


def _combined(cells: Mapping[_Cell, _Result], axes: _Axes, seed: int) -> xr.Dataset:
    shape = (len(axes.algorithm), len(axes.scenario), len(axes.trial))
    runs = list(cells.values())
    lengths = dict.fromkeys(INDEXES, 0)
    for run in runs:
        for name, column in run.columns.items():
            dimension = VARIABLES[name].dimension
            lengths[dimension] = max(lengths[dimension], len(column))
    arrays: dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]] = {
        name: (
            (*axes._fields, entry.dimension),
            _stacked(name, cells, shape, lengths[entry.dimension]),
            {"units": entry.units, "long_name": entry.long_name},
        )
        for name, entry in VARIABLES.items()
        if any(name in run.columns for run in runs)
    }
    if any("deadline" in run.attributes for run in runs):
        deadlines = np.full(shape, np.nan)
        for cell, run in cells.items():
            deadlines[cell] = run.attributes.get("deadline", np.nan)
        arrays["deadline"] = (axes._fields, deadlines, {"units": "s", "long_name": "deadline of a round"})
    times = {name: array for name, array in arrays.items() if name in VARIABLES and VARIABLES[name].coordinate}
    coordinates: dict[str, Any] = {
        "seed": ((), seed, {"long_name": CELL["seed"]}),
        **{axis: (axis, values, {"long_name": CELL[axis]}) for axis, values in axes._asdict().items()},
        **{dimension: _index(dimension, length) for dimension, length in lengths.items()},
        **times,
    }
    attributes = _common_attributes(runs)
    return xr.Dataset(
        {name: array for name, array in arrays.items() if name not in times},
        {**coordinates, **_client_names(attributes, lengths["client"])},
        attributes,
    )


def _stacked(name: str, cells: Mapping[_Cell, _Result], shape: _Cell, length: int) -> np.ndarray:
    """Shape (algorithms, scenarios, trials, length); of the variable's own type where nothing is missing."""
    columns = {cell: run.columns[name] for cell, run in cells.items() if name in run.columns}
    whole = len(columns) == np.prod(shape) and all(len(column) == length for column in columns.values())
    kind = np.dtype(VARIABLES[name].dtype)
    # Counts turn into floats where some are missing; floats stay as they are.
    gaps = np.full((*shape, length), np.nan, kind if kind.kind == "f" else np.float64)
    stacked = np.zeros((*shape, length), kind) if whole else gaps
    for cell, column in columns.items():
        stacked[cell][: len(column)] = column
    return stacked


def _index(dimension: Dimension, length: int) -> tuple[str, np.ndarray, dict[str, str]]:
    first, long_name = INDEXES[dimension]
    return dimension, np.arange(first, first + length), {"units": "1", "long_name": long_name}


def _client_names(attributes: Mapping[Any, Any], clients: int) -> dict[str, Any]:
    """The coordinate of the clients' names, empty where the data have none, or others than there are clients."""
    names = json.loads(attributes.get("client_names", "[]"))
    if not names or len(names) != clients:
        return {}
    return {"client_name": ("client", np.array(names, dtype=str), {"long_name": "what the data call the client"})}


def _common_attributes(runs: Sequence[_Result]) -> dict[str, object]:
    first, *others = (run.attributes for run in runs)
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
