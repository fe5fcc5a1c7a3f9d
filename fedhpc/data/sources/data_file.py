"""A person's own data file, from columns to examples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples, FileRows
from fedhpc.data.held_out import share_of_all, share_of_each
from fedhpc.data.settings import DataFile
from fedhpc.data.sources.array_file import open_arrays, read_arrays
from fedhpc.data.sources.coding import codes, holds_fractions, missing
from fedhpc.data.sources.csv_file import read_csv
from fedhpc.data.sources.naming import Named, mistake
from fedhpc.data.sources.rows import Rows
from fedhpc.data.sources.scaling import scaled
from fedhpc.mistakes import ExperimentError


def load_data_file(
    settings: DataFile, path: Path, keeps_clients: bool, tags: Sequence[str], generator: np.random.Generator
) -> Examples:
    """The file's examples; see DataFile for what the settings mean and ``load`` for the arguments.

    Raises ExperimentError where the file is not as the settings say, or no training example bears one of the tags.
    """
    rows, held_out = _read(settings, path)
    if not len(rows.features):
        raise mistake(path, "path", "the file holds no examples")
    names = rows.columns["sample"].astype(str) if settings.sample is not None else None
    rows = Rows(_chosen_columns(rows.features, settings.columns, path), rows.columns)
    keep = _complete(rows, held_out, keeps_clients, settings.drop_missing, path)
    features = rows.features[keep]
    label, held_out = rows.columns["label"][keep], held_out[keep] if held_out is not None else None
    if holds_fractions(label):
        raise mistake(path, "label", f"'{settings.label}' holds fractions; labels are whole numbers or text")
    labels, class_names = codes(label)

    clients: NDArray[np.int64] | None = None
    client_names: tuple[str, ...] = ()
    if keeps_clients:
        training = ~held_out if held_out is not None else np.ones(len(labels), bool)
        clients = np.full(len(labels), -1)
        clients[training], client_names = codes(rows.columns["client"][keep][training])
    if settings.held_out is not None:
        held_out = (
            share_of_each(settings.held_out, clients, generator)
            if clients is not None
            else share_of_all(settings.held_out, len(labels), generator)
        )
    assert held_out is not None
    features = scaled(features, ~held_out, settings.scaling)
    if not np.isfinite(features).all():
        raise mistake(path, "features", "some values are infinite, or too large for 32-bit numbers")
    file_rows = FileRows(np.flatnonzero(keep), len(keep), names)
    tagged = _tagged(rows.columns["tag"][keep], ~held_out, settings, tags, path) if tags else None
    return Examples(features, labels, held_out, class_names, clients, client_names, file_rows, tagged=tagged)


def _read(settings: DataFile, path: Path) -> tuple[Rows, NDArray[np.bool_] | None]:
    """The file's rows, and which are held out where the file says so."""
    columns = [
        Named(key, column)
        for key in ("label", "client", "tag", "sample", "split")
        if (column := getattr(settings, key)) is not None
    ]
    if path.suffix.lower() == ".csv":
        rows = read_csv(path, settings.feature_names, columns)
    elif settings.templated:
        return _read_both(settings.feature_names, columns, path)
    else:
        with open_arrays(path) as arrays:
            rows = read_arrays(arrays, settings.feature_names, columns)
    if settings.split is None:
        return rows, None
    values = rows.columns["split"]
    held_out = values.astype(str) == str(settings.held_out_value)
    if not held_out.any():
        some = ", ".join(map(repr, np.unique(values.astype(str))[:10].tolist()))
        raise mistake(
            path, "held_out_value", f"no row has {settings.held_out_value!r} in '{settings.split}', but {some}"
        )
    return rows, held_out


def _read_both(features: list[str], columns: list[Named], path: Path) -> tuple[Rows, NDArray[np.bool_]]:
    """Training rows, then held-out ones, from the arrays named for them. A held-out row needs no client and no
    name."""
    with open_arrays(path) as arrays:
        train, test = (
            read_arrays(
                arrays,
                [name.replace("{split}", word) for name in features],
                [Named(name.key, name.column.replace("{split}", word)) for name in columns if name.key in keys],
            )
            for word, keys in (("train", {"label", "client", "tag", "sample"}), ("test", {"label", "tag"}))
        )
    if train.features.shape[1:] != test.features.shape[1:]:
        shapes = (f"{'x'.join(map(str, part.features.shape[1:]))}" for part in (train, test))
        raise mistake(path, "features", f"training examples are of shape {next(shapes)}, held-out ones {next(shapes)}")
    joined = {key: np.concatenate([train.columns[key], test.columns[key]]) for key in test.columns}
    if "client" in train.columns:
        clients = train.columns["client"]
        joined["client"] = np.concatenate([clients, np.zeros(len(test.features), clients.dtype)])
    if "sample" in train.columns:
        joined["sample"] = np.concatenate([train.columns["sample"].astype(str), np.full(len(test.features), "")])
    held_out = np.arange(len(train.features) + len(test.features)) >= len(train.features)
    return Rows(np.concatenate([train.features, test.features]), joined), held_out


def _complete(
    rows: Rows, held_out: NDArray[np.bool_] | None, keeps_clients: bool, drop: bool, path: Path
) -> NDArray[np.bool_]:
    """The rows to keep, bool [rows]. Raises ExperimentError where values are missing and are not to be dropped."""
    values = rows.features
    lacking = {
        "features": np.isnan(values).reshape(len(values), -1).any(axis=1)
        if values.dtype.kind == "f"
        else np.zeros(len(values), bool),
        "label": missing(rows.columns["label"]),
    }
    if keeps_clients:
        needed = ~held_out if held_out is not None else True
        lacking["client"] = missing(rows.columns["client"]) & needed
    mistakes = [
        f"task.data.{key}: {np.count_nonzero(where):,} of {len(values):,} examples have a missing value; set "
        "task.data.drop_missing: true to leave them out"
        for key, where in lacking.items()
        if where.any()
    ]
    if mistakes and not drop:
        raise ExperimentError(path, mistakes)
    keep: NDArray[np.bool_] = ~np.any(list(lacking.values()), axis=0)
    if not keep.any():
        raise mistake(path, "drop_missing", f"all {len(keep):,} examples have a missing value, so that none is left")
    return keep


def _tagged(
    values: NDArray[Any], training: NDArray[np.bool_], settings: DataFile, tags: Sequence[str], path: Path
) -> NDArray[np.bool_]:
    """Bool [examples]: those with one of the tags."""
    borne = values.astype(str)
    known = np.unique(borne[training])
    if strangers := [tag for tag in tags if tag not in known]:
        some = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        told = f"no training example bears {', '.join(strangers)}; '{settings.tag}' holds {some}"
        raise ExperimentError(path, [f"task.stragglers.tags: {told}"])
    return np.isin(borne, tags)


def _chosen_columns(features: NDArray[Any], columns: list[int] | None, path: Path) -> NDArray[Any]:
    if columns is None:
        return features
    if features.ndim != 2 or max(columns) >= features.shape[1]:
        shape = "x".join(map(str, features.shape[1:]))
        raise mistake(path, "columns", f"there is no column {max(columns)}; an example's features are of shape {shape}")
    return features[:, columns]
