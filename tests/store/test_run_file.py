import os
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray as xr

from fedhpc.store.replacing import NotWritable
from fedhpc.store.run_file import finished_digest, write_run
from tests.store.records import ROOT, null_record, record, run_path, without


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = run_path(tmp_path, record())
    write_run(path, record())
    return path


def test_a_result_opens_in_plain_xarray(written: Path) -> None:
    with xr.open_dataset(written, engine="h5netcdf") as run:
        assert dict(run.sizes) == {"evaluation": 3, "server_update": 2, "client": 4, "client_update": 20}
        assert {"algorithm", "scenario", "trial", "seed", "time", "server_update_time"} <= set(run.coords)
        assert (run["algorithm"].item(), run["scenario"].item(), run["trial"].item(), run["seed"].item()) == (
            "fedavg",
            "per_domain",
            0,
            7,
        )
        assert run["evaluation"].values.tolist() == [0, 1, 2]
        assert run["server_update"].values.tolist() == [1, 2]
        assert run["client"].values.tolist() == [0, 1, 2, 3]
        assert run["client_update"].values.tolist() == list(range(20))
        assert run["duration"].dtype == np.float32
        assert run["duration"].values.tolist() == [1.5 * number for number in range(20)]
        assert run["time"].dtype == np.float64
        assert run["time"].values.tolist() == [0.0, 1800.0, 3600.0]
        assert run["time"].attrs["units"] == "s"
        assert run["client_trips"].dtype == np.int64
        assert run["client_trips"].values.tolist() == [0, 13, 26]
        assert run["straggler"].dtype == np.int8
        assert run["straggler"].values.tolist() == [0, 0, 0, 1]
        assert run["loss"].values.tolist() == [2.25, 1.5, 0.5]
        assert all(run[name].attrs["long_name"] and run[name].attrs["units"] for name in run.data_vars)
        assert run.attrs["title"] == "A title"
        assert run.attrs["settings"] == "task:\n  kind: null\n"
        assert run.attrs["wall_seconds"] == 1.5


def test_a_result_opens_in_ncdump(written: Path) -> None:
    if shutil.which("ncdump") is None:
        pytest.skip("ncdump is not on PATH; Debian's netcdf-bin brings it")
    dump = subprocess.run(["ncdump", written], capture_output=True, text=True, check=True).stdout
    assert "evaluation = 3 ;" in dump
    assert "int64 client_trips(evaluation) ;" in dump
    assert " client_trips = 0, 13, 26 ;" in dump
    assert ' algorithm = "fedavg" ;' in dump
    assert 'string :title = "A title" ;' in dump
    kind = subprocess.run(["ncdump", "-k", written], capture_output=True, text=True, check=True).stdout
    assert kind.strip() == "netCDF-4"


def test_a_result_holds_nothing_that_netcdf_forbids(written: Path) -> None:
    with h5netcdf.File(written, "r", invalid_netcdf=False) as file:
        assert set(file.dimensions) == {"evaluation", "server_update", "client", "client_update"}


def test_equal_records_give_equal_variables(tmp_path: Path) -> None:
    first, second = tmp_path / "first.h5", tmp_path / "second.h5"
    write_run(first, record())
    write_run(second, record())
    with h5py.File(first) as one, h5py.File(second) as other:
        assert set(one) == set(other)
        for name in set(one) - {"algorithm", "scenario"}:
            assert one[name][()].tobytes() == other[name][()].tobytes()


def test_a_run_without_server_updates_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "trial-0.h5"
    write_run(path, record(updates=0))
    with xr.open_dataset(path, engine="h5netcdf") as run:
        assert run.sizes["server_update"] == 0
        assert run["client_updates"].values.tolist() == [0, 10, 20]


def test_long_settings_and_empty_titles_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "trial-0.h5"
    settings = "größe: 1\n" * 20_000
    write_run(path, record(attributes={"settings": settings, "title": ""}))
    with xr.open_dataset(path, engine="h5netcdf") as run:
        assert run.attrs["settings"] == settings
        assert run.attrs["title"] == ""


def test_a_null_task_has_no_accuracy(tmp_path: Path) -> None:
    path = tmp_path / "trial-0.h5"
    write_run(path, null_record())
    with xr.open_dataset(path, engine="h5netcdf") as run:
        assert not {"total_accuracy", "straggler_accuracy", "loss"} & set(run.variables)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"evaluations": {"acuracy": [1, 2, 3]}}, "evaluations.acuracy: unknown column"),
        ({"clients": {"time": [1, 2, 3, 4]}}, "clients.time: unknown column"),
        ({"evaluations": {"time": [0.0, 1.0]}}, "differ in length"),
        ({"evaluations": {"client_updates": [0.0, 1.5, 2.0]}}, "client_updates: float64 values do not fit int64"),
        ({"evaluations": {"time": [[0.0, 1.0, 2.0]]}}, "time: a column has one dimension, not 2"),
        ({"attributes": {"digest": ""}}, "needs the digest"),
    ],
)
def test_a_record_refuses(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        record(**changes)


def test_a_record_refuses_missing_columns() -> None:
    full = record()
    with pytest.raises(ValueError, match="evaluations: the column time is missing"):
        replace(full, evaluations=without(full.evaluations, "time"))


def test_law_5_a_digest_is_of_a_complete_result_only(written: Path, tmp_path: Path) -> None:
    assert finished_digest(written) == "d" * 64
    assert finished_digest(tmp_path / "none.h5") is None
    assert finished_digest(tmp_path) is None
    content = written.read_bytes()
    for length in (0, 1, 7, 100, len(content) // 2, len(content) - 1):
        half = tmp_path / "half.h5"
        half.write_bytes(content[:length])
        assert finished_digest(half) is None
    text = tmp_path / "text.h5"
    text.write_text("no HDF5 at all")
    assert finished_digest(text) is None
    with h5py.File(tmp_path / "foreign.h5", "w") as foreign:
        foreign.attrs["digest"] = "d" * 64
    assert finished_digest(tmp_path / "foreign.h5") is None


def test_a_result_with_a_spoilt_head_raises_nothing(written: Path, tmp_path: Path) -> None:
    content = written.read_bytes()
    spoilt = tmp_path / "spoilt.h5"
    for start in range(0, 384, 32):
        spoilt.write_bytes(content[:start] + b"\xff" * 32 + content[start + 32 :])
        assert finished_digest(spoilt) in (None, "d" * 64)
    spoilt.write_bytes(b"\xff" * 384 + content[384:])
    assert finished_digest(spoilt) is None


def test_law_5_a_full_disk_leaves_the_earlier_result(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        path = small / "trial-0.h5"
        write_run(path, record())
        with pytest.raises(OSError, match="No space left"):
            write_run(path, record(updates=20_000))
        assert [file.name for file in small.iterdir()] == ["trial-0.h5"]
        assert finished_digest(path) == "d" * 64
    finally:
        subprocess.run(["umount", small], check=True)


def test_law_5_nothing_is_left_beside_a_refused_result(tmp_path: Path) -> None:
    (tmp_path / "trial-0.h5").mkdir()
    with pytest.raises(NotWritable, match="Is a directory; move what is in the place of it"):
        write_run(tmp_path / "trial-0.h5", record())
    assert [file.name for file in tmp_path.iterdir()] == ["trial-0.h5"]


def test_law_5_a_killed_writer_leaves_a_whole_result_or_none(tmp_path: Path) -> None:
    path = tmp_path / "trial-0.h5"
    endless = textwrap.dedent(f"""
        from pathlib import Path
        from fedhpc.store.run_file import write_run
        from tests.store.records import record
        big = record(updates=20_000)
        print("writing", flush=True)
        while True:
            write_run(Path({str(path)!r}), big)
    """)
    for pause in (0.0, 0.002, 0.01, 0.05):
        path.unlink(missing_ok=True)
        writer = subprocess.Popen([sys.executable, "-c", endless], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        try:
            writer.wait(pause)
        except subprocess.TimeoutExpired:
            writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert writer.returncode == -signal.SIGKILL
        assert path.exists() == (finished_digest(path) is not None)
        assert all(name == "trial-0.h5" or not name.endswith(".h5") for name in os.listdir(tmp_path))
