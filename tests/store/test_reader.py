import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import h5py
import numpy as np
import pytest

from fedhpc.store import open_experiment, open_run
from fedhpc.store.reader import Unusable
from fedhpc.store.record import RunRecord
from fedhpc.store.run_file import write_run
from tests.store.records import ROOT, record, run_path


def keep(folder: Path, *records: RunRecord) -> None:
    for one in records:
        write_run(run_path(folder, one), one)


def plan(folder: Path, algorithms: str, scenarios: str, trials: int) -> None:
    text = f"algorithms: {{{algorithms}}}\nscenarios: {{{scenarios}}}\ntrials: {trials}\n"
    (folder / "experiment.yaml").write_text(text)


def test_one_run(tmp_path: Path) -> None:
    keep(tmp_path, record(trial=2))
    run = open_run(tmp_path / "fedavg" / "per_domain" / "trial-2.h5")
    assert run["trial"].item() == 2
    assert run["total_accuracy"].sel(evaluation=1).item() == 0.5
    assert run["total_accuracy"].coords["time"].values.tolist() == [0.0, 1800.0, 3600.0]


def test_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such result"):
        open_run(tmp_path / "trial-0.h5")
    (tmp_path / "trial-0.h5").write_bytes(b"half")
    with pytest.raises(ValueError, match="no complete result"):
        open_run(tmp_path / "trial-0.h5")


def test_a_whole_experiment(tmp_path: Path) -> None:
    keep(
        tmp_path,
        *(
            record(algorithm, scenario, trial, evaluations={"total_accuracy": [0.0, 0.0, mark + trial / 10]})
            for algorithm, mark in (("fedbuff", 0.25), ("fedavg", 0.5))
            for scenario in ("slow", "even")
            for trial in (0, 1)
        ),
    )
    runs = open_experiment(tmp_path)
    assert runs["total_accuracy"].dims == ("algorithm", "scenario", "trial", "evaluation")
    assert runs["algorithm"].values.tolist() == ["fedavg", "fedbuff"]
    assert runs["scenario"].values.tolist() == ["even", "slow"]
    assert runs["trial"].values.tolist() == [0, 1]
    last = runs["total_accuracy"].sel(evaluation=2)
    assert last.sel(algorithm="fedbuff", scenario="slow", trial=1).item() == 0.25 + 0.1
    assert last.sel(algorithm="fedavg", scenario="even", trial=0).item() == 0.5
    assert runs["client_updates"].dtype == np.int64
    assert runs["straggler"].dtype == np.int8
    assert runs["time"].attrs == {
        "units": "s",
        "long_name": "time of the evaluated server version: virtual, or the clock's (attribute clock)",
    }
    assert "time" in runs["total_accuracy"].coords
    assert runs["seed"].item() == 7
    assert runs.attrs["title"] == "A title"


def test_the_experiment_file_gives_names_and_order(tmp_path: Path) -> None:
    plan(tmp_path, "zeta: {}, alpha: {}", "slow: {}, even: {}", trials=2)
    keep(tmp_path, record("alpha", "even", 0), record("zeta", "slow", 1), record("former", "slow", 0))
    runs = open_experiment(tmp_path)
    assert runs["algorithm"].values.tolist() == ["zeta", "alpha"]
    assert runs["scenario"].values.tolist() == ["slow", "even"]
    assert runs["trial"].values.tolist() == [0, 1]
    there = runs["client_updates"].isel(evaluation=2).notnull()
    assert [(a, s, t) for a in (0, 1) for s in (0, 1) for t in (0, 1) if there[a, s, t]] == [(0, 0, 1), (1, 1, 0)]


def test_runs_of_unequal_length_are_padded(tmp_path: Path) -> None:
    keep(tmp_path, record(trial=0, updates=1), record(trial=1, updates=3))
    runs = open_experiment(tmp_path).sel(algorithm="fedavg", scenario="per_domain")
    assert runs["server_update"].values.tolist() == [1, 2, 3]
    assert runs["updates_aggregated"].dtype == np.float64
    np.testing.assert_array_equal(runs["updates_aggregated"], [[10, np.nan, np.nan], [10, 10, 10]])
    np.testing.assert_array_equal(runs["server_update_time"], [[1800, np.nan, np.nan], [1800, 3600, 5400]])
    assert runs["participations"].dtype == np.int64


def test_durations_are_padded_and_stay_in_single_precision(tmp_path: Path) -> None:
    keep(tmp_path, record(trial=0, updates=1), record(trial=1, client_updates={"duration": [0.1, 7.5]}))
    durations = open_experiment(tmp_path)["duration"].sel(algorithm="fedavg", scenario="per_domain")
    assert (durations.dims, durations.dtype) == (("trial", "client_update"), np.float32)
    np.testing.assert_array_equal(durations.sel(trial=1)[:3], np.array([0.1, 7.5, np.nan], np.float32))
    assert durations.sel(trial=0).notnull().all()


def test_deadlines_are_a_variable_where_there_are_any(tmp_path: Path) -> None:
    keep(
        tmp_path,
        record("fedavg", "slow", attributes={"deadline": 12.5}),
        record("fedavg", "even", attributes={"deadline": 3.0}),
        record("other", "even"),
    )
    runs = open_experiment(tmp_path)
    assert runs["deadline"].dims == ("algorithm", "scenario", "trial")
    np.testing.assert_array_equal(runs["deadline"][..., 0], [[3.0, 12.5], [np.nan, np.nan]])
    keep(tmp_path / "without", record())
    assert "deadline" not in open_experiment(tmp_path / "without")


def test_attributes_on_which_runs_differ_are_left_out(tmp_path: Path) -> None:
    keep(tmp_path, record(trial=0, attributes={"host": "a"}), record(trial=1, attributes={"host": "b"}))
    attributes = open_experiment(tmp_path).attrs
    assert "host" not in attributes
    assert attributes["title"] == "A title"


def test_clients_have_the_names_that_the_data_give_them(tmp_path: Path) -> None:
    names = ["plant_a", "plant_b", "plant_c", "d\u00fcsseldorf"]
    for trial in (0, 1):
        keep(tmp_path, record(trial=trial, attributes={"client_names": json.dumps(names)}))
    for dataset in (open_experiment(tmp_path), open_run(run_path(tmp_path, record(trial=1)))):
        assert dataset["client_name"].dims == ("client",)
        assert dataset["client_name"].values.tolist() == names
        # The record's last client is its straggler: no join is needed to say who that is.
        slow = (
            dataset["straggler"].isel(trial=0, algorithm=0, scenario=0)
            if "trial" in dataset.dims
            else dataset["straggler"]
        )
        assert slow["client_name"].values[slow.values == 1].tolist() == ["d\u00fcsseldorf"]


@pytest.mark.parametrize("names", [["a"], []])
def test_names_that_are_not_the_clients_are_none_of_theirs(tmp_path: Path, names: list[str]) -> None:
    keep(tmp_path, record(attributes={"client_names": json.dumps(names)}))
    assert "client_name" not in open_experiment(tmp_path).coords


def test_results_of_different_seeds_are_no_experiment(tmp_path: Path) -> None:
    keep(tmp_path, record(trial=0), record(trial=1, seed=8))
    with pytest.raises(Unusable, match=r"different seeds \(7, 8\)"):
        open_experiment(tmp_path)


@pytest.mark.parametrize("damage", ["group", "text", "plane", "seed"])
def test_a_damaged_result_is_told_with_its_mend(tmp_path: Path, damage: str) -> None:
    keep(tmp_path, record(trial=0), record(trial=1))
    path = tmp_path / "fedavg" / "per_domain" / "trial-1.h5"
    name = "seed" if damage == "seed" else "total_accuracy"
    with h5py.File(path, "a") as file:
        del file[name]
        if damage == "group":
            file.create_group(name)
        else:
            file[name] = np.zeros((2, 2)) if damage == "plane" else "text"
    with pytest.raises(Unusable) as error:
        open_experiment(tmp_path)
    assert str(error.value).startswith(f"{path}: this result is damaged (")
    assert str(error.value).endswith("); delete it and run the sweep again")


def test_law_5_only_complete_results_are_read(tmp_path: Path) -> None:
    keep(tmp_path, record(trial=0))
    cell = tmp_path / "fedavg" / "per_domain"
    whole = (cell / "trial-0.h5").read_bytes()
    (cell / "trial-1.h5").write_bytes(whole[: len(whole) // 2])
    (cell / "trial-2.h5.tmp.node1.77.0").write_bytes(whole)
    (cell / "trial-x.h5").write_bytes(whole)
    (cell / "trial-04.h5").write_bytes(whole)
    (tmp_path / "trial-3.h5").write_bytes(whole)
    assert open_experiment(tmp_path)["trial"].values.tolist() == [0]


def test_a_folder_without_results_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no finished results here"):
        open_experiment(tmp_path)
    with pytest.raises(FileNotFoundError, match="no finished results here"):
        open_experiment(tmp_path / "absent")


def test_reading_while_a_writer_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HDF5_USE_FILE_LOCKING", raising=False)
    keep(tmp_path, record())
    path = tmp_path / "fedavg" / "per_domain" / "trial-0.h5"
    rewrite = textwrap.dedent(f"""
        from pathlib import Path
        from fedhpc.store.run_file import write_run
        from tests.store.records import record
        print("writing", flush=True)
        while True:
            write_run(Path({str(path)!r}), record())
    """)
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_USE_FILE_LOCKING"}
    writer = subprocess.Popen(
        [sys.executable, "-c", rewrite], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        for _ in range(5):
            assert open_experiment(tmp_path)["client_updates"].values.ravel().tolist() == [0, 10, 20]
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()


def test_what_is_open_can_be_deleted(tmp_path: Path) -> None:
    keep(tmp_path, record())
    runs = open_experiment(tmp_path)
    shutil.rmtree(tmp_path / "fedavg")
    assert runs["client_updates"].values.ravel().tolist() == [0, 10, 20]


def test_a_login_node_pays_nothing_for_the_reader() -> None:
    heavy = "xarray", "torch", "mpi4py", "parsl", "h5py", "matplotlib", "pandas"
    look = f"import sys, fedhpc.store; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, cwd=ROOT).stdout == "[]\n"


def test_store_and_analysis_need_neither_torch_nor_mpi_nor_parsl() -> None:
    look = (
        "import sys, fedhpc.store.reader, fedhpc.analysis.report; "
        "print([name for name in ('torch', 'mpi4py', 'parsl') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, cwd=ROOT).stdout == "[]\n"
