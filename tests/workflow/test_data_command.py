"""``fedhpc data``: a catalogue of the test's own, fetched from files; what is prepared is what the sweep reads."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from fedhpc.data import catalogue
from fedhpc.data.preparation import prepared_data
from fedhpc.experiment import load_experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.store.replacing import NotWritable
from tests.workflow.experiments import digits, fedhpc, schedules_only, write
from workflow.data_describe import print_description
from workflow.data_fetch import print_fetch
from workflow.data_list import print_list
from workflow.data_prepare import print_check, print_prepare
from workflow.results_folder import write_experiment


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A catalogue of one data set, ``it``, whose address is a file that the test may write; and FEDHPC_DATA."""
    folder = tmp_path / "catalogue"
    folder.mkdir()
    file = {"addresses": [f"file://{tmp_path}/published.csv"], "to": "it/table.csv", "size": "1 kB"}
    known = {"title": "A table", "paper": "p", "licence": "CC0", "used_by": ["A", "B"], "clients": 1234, "size": "1 kB"}
    write(folder / "it.yaml", {**known, "files": [file], "paste": {"data": {"source": "file", "path": "it/table.csv"}}})
    monkeypatch.setattr(catalogue, "FOLDER", folder)
    catalogue.data_set.cache_clear()
    monkeypatch.setenv("FEDHPC_DATA", str(tmp_path / "data"))
    yield tmp_path
    catalogue.data_set.cache_clear()


def printed(act: Any, *arguments: Any) -> tuple[Any, str]:
    console = Console(width=160, file=io.StringIO(), record=True)
    result = act(*arguments, console)
    return result, console.export_text()


def fetched(folder: Path | None) -> tuple[int, str, str]:
    console, errors = Console(width=160, file=io.StringIO(), record=True), io.StringIO()
    return print_fetch("it", folder, console, errors), console.export_text(), errors.getvalue()


def row(folder: Path | None, check: bool = False) -> tuple[int, list[str], str]:
    status, text = printed(print_list, folder, check)
    return status, next(line for line in text.splitlines() if line.startswith(" it ")).split(), text


def test_list_and_fetch(own: Path) -> None:
    folder = own / "data"
    assert row(None)[1:] == (["it", "A", "table", "1,234", "1", "kB", "no", "A,", "B"], row(None)[2])
    assert "FEDHPC_DATA is not set" in row(None)[2]
    assert f"there is no such folder: {own}/none; set FEDHPC_DATA" in row(own / "none")[2].replace("\n", "")
    status, text, errors = fetched(folder)
    assert status == 1
    assert "there is no such file" in errors
    assert f"its place is {folder}/it/table.csv\n" in errors
    assert "put it at its place, and give this command again." in errors
    pasted = text.partition("Once it is there, to use it:\n")[2]
    assert yaml.safe_load(pasted) == {"data": {"source": "file", "path": "it/table.csv"}}
    (own / "published.csv").write_text("a,b\n")
    status, text, errors = fetched(folder)
    assert (status, errors) == (0, "")
    assert text.splitlines()[:2] == ["A table", "licence: CC0"]
    assert yaml.safe_load(text.partition("To use it:\n")[2]) == {"data": {"source": "file", "path": "it/table.csv"}}
    assert row(folder, check=True)[:2] == (0, ["it", "A", "table", "1,234", "1", "kB", "whole", "A,", "B"])
    (folder / "it/table.csv").write_text("a,c\n")
    status, cells, text = row(folder, check=True)
    assert (status, cells[6]) == (1, "changed")
    assert f"{folder}/it/table.csv has changed since" in text
    assert fetched(folder)[0] == 1


def test_what_may_stand_in_its_place_is_told_with_its_block(tmp_path: Path) -> None:
    console = Console(width=160, file=io.StringIO(), record=True)
    assert print_fetch("mnist_by_writer", tmp_path, console, io.StringIO()) == 1
    text = console.export_text()
    assert "In its place, where no writers are needed, as with the partitions class_partition, " in text
    block = text.partition("`fedhpc data fetch mnist`, and in the experiment's task:\n")[2].partition("In its place")[0]
    assert yaml.safe_load(block) == catalogue.data_set("mnist").paste


def test_fetch_elsewhere_says_how_it_is_found(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "published.csv").write_text("a,b\n")
    assert f"(set FEDHPC_DATA={own}/there to have it found)" in fetched(own / "there")[1]
    with pytest.raises(ExperimentError, match="it is not set; set it to the folder"):
        fetched(None)


def test_a_file_where_a_folder_is_needed_is_told(own: Path) -> None:
    (own / "taken").write_text("")
    with pytest.raises(NotWritable) as error:
        fetched(own / "taken")
    told = f"{own}/taken cannot be written: Not a directory; move what is in the place of it or of its folder, and the "
    assert str(error.value) == f"{told}same command goes on"


def test_list_is_quick_and_needs_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['fedhpc', 'data', 'list']\n"
        "from workflow.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end\n"
        "assert not {'torch', 'parsl', 'h5py', 'numpy', 'matplotlib'} & set(sys.modules), sys.modules.keys()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "FEDHPC_DATA"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "stackoverflow" in done.stdout


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    done = fedhpc("data", "fetch", "emnits", "--to", tmp_path)
    assert done.returncode == 2
    assert "'emnits' is unknown; did you mean 'emnist'?" in done.stderr


def test_what_is_prepared_is_what_the_sweep_reads(tmp_path: Path) -> None:
    experiment = load_experiment(_own_partitions(tmp_path))
    folder = tmp_path / "results"
    assert printed(lambda console: print_check(experiment, folder, console))[0] == 1
    status, text = printed(lambda console: print_prepare(experiment, folder, console))
    assert status == 0
    assert [line.partition(":")[0] for line in text.splitlines()] == ["trial 0", "trial 1", "trial 2"]
    assert all("kB, prepared in " in line for line in text.splitlines())
    made = {file: file.stat().st_mtime_ns for file in (folder / "data").iterdir()}
    assert len(made) == 3
    # As the sweep's DAG does it.
    write_experiment(experiment, folder)
    of_sweep = load_experiment(folder / "experiment.yaml")
    assert {prepared_data(of_sweep, folder, trial) for trial in range(3)} == set(made)
    text = printed(lambda console: print_prepare(experiment, folder, console))[1]
    assert text.count("was there") == 3
    assert {file: file.stat().st_mtime_ns for file in (folder / "data").iterdir()} == made
    assert printed(lambda console: print_check(experiment, folder, console))[0] == 0


def test_what_is_wrong_with_the_data_file_is_told_of_the_experiment(tmp_path: Path) -> None:
    settings = digits(2000)
    (tmp_path / "own.csv").write_text("a,y\n1,2\n")
    settings["task"]["data"] = {"source": "file", "path": "own.csv", "features": "*", "label": "Y", "held_out": 0.2}
    experiment = load_experiment(write(tmp_path / "small.yaml", settings))
    with pytest.raises(ExperimentError) as refused:
        prepared_data(experiment, tmp_path / "results")
    assert refused.value.path == tmp_path / "small.yaml"
    assert refused.value.mistakes[0].startswith(f"task.data.label: {tmp_path}/own.csv: the file has no column 'Y'")


def test_a_refused_prepare_leaves_no_folder(tmp_path: Path) -> None:
    settings = digits(2000)
    settings["task"]["data"] = {"source": "file", "path": "absent.csv", "features": "*", "label": "y", "held_out": 0.2}
    experiment = load_experiment(write(tmp_path / "small.yaml", settings))
    with pytest.raises(ExperimentError, match=r"absent\.csv"):
        printed(lambda console: print_prepare(experiment, tmp_path / "results", console))
    assert not (tmp_path / "results").exists()


def test_a_damaged_prepared_file_is_told(tmp_path: Path) -> None:
    experiment = load_experiment(_own_partitions(tmp_path))
    folder = tmp_path / "results"
    printed(lambda console: print_prepare(experiment, folder, console))
    first, second, _ = sorted((folder / "data").iterdir())
    content = bytearray(first.read_bytes())
    content[len(content) // 3] ^= 1
    first.write_bytes(content)
    second.write_bytes(second.read_bytes()[:1000])
    status, text = printed(lambda console: print_check(experiment, folder, console))
    assert status == 1
    told = {line.split(" ")[2]: line for line in text.splitlines()}
    assert "is damaged: its checksum is not that of what was written; remove it" in told[str(first)]
    assert "cannot be read" in told[str(second)]
    assert sum(line.endswith("is whole") for line in text.splitlines()) == 1
    with pytest.raises(ExperimentError) as error:
        printed(lambda console: print_prepare(experiment, folder, console))
    assert error.value.path == second
    assert error.value.mistakes[0].startswith("the prepared file cannot be read (")
    assert error.value.mistakes[0].endswith("); remove it, and `fedhpc data prepare` or the sweep makes it anew")


def test_describe_reads_what_was_prepared_and_draws_it(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path / "small.yaml", digits(2000)))
    picture = tmp_path / "partition.png"
    text = printed(lambda console: print_description(experiment, tmp_path / "none", picture, console))[1]
    assert not (tmp_path / "none").exists()
    assert "clients            20" in text
    assert "straggler clients  5 (25 % of the clients)" in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed(lambda console: print_prepare(experiment, tmp_path / "results", console))
    again = printed(lambda console: print_description(experiment, tmp_path / "results", None, console))[1]
    assert again.splitlines() == text.splitlines()[:-1]


def test_a_null_task_has_nothing_to_prepare_or_describe(tmp_path: Path) -> None:
    experiment = write(tmp_path / "small.yaml", schedules_only())
    for words in (("prepare", experiment), ("describe", experiment)):
        with pytest.raises(SystemExit) as end:
            _main("data", *map(str, words))
        assert end.value.code == 2


def _main(*words: str) -> None:
    from workflow.cli import main

    before = sys.argv
    sys.argv = ["fedhpc", *words]
    try:
        main()
    finally:
        sys.argv = before


def _own_partitions(folder: Path) -> Path:
    settings = digits(2000)
    settings["task"]["partition"]["each_trial"] = True
    return write(folder / "small.yaml", {**settings, "trials": 3})


def test_the_command_is_there() -> None:
    done = fedhpc("data", "--help")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("list", "fetch", "prepare", "describe"))
