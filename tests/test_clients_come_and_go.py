"""Devices and availability in an experiment's file: what is refused, where files are found, and what they change."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.data.paths import DataMissing
from fedhpc.data.preparation import population_of, prepared_data
from fedhpc.experiment import Experiment, Run, load_experiment
from fedhpc.federation.population import Population
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.latency.device_settings import CapacityFile
from fedhpc.mistakes import ExperimentError
from tests.workflow.experiments import SYNCHRONOUS, schedules_only, write

CLUSTERS = {"source": "clusters", "model_kbit": 800}
CAPACITY = {"source": "fedscale", "path": "capacity.pkl", "model_kbit": 800}
TRACE = {"source": "fedscale", "path": "trace.pkl"}
POPULATION = Population(np.full(20, 10), np.zeros(20, bool))


@pytest.fixture
def follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler that follows who is online, as far as the file is concerned."""
    monkeypatch.setattr(SynchronousSettings, "FOLLOWS_AVAILABILITY", True)


def loaded(folder: Path, scenario: dict[str, Any], **others: Any) -> Experiment:
    content = schedules_only(algorithms={"fedavg": SYNCHRONOUS}, scenarios={"phones": scenario}, **others)
    return load_experiment(write(folder / "phones.yaml", content))


def mistakes(folder: Path, scenario: dict[str, Any], **others: Any) -> list[str]:
    with pytest.raises(ExperimentError) as caught:
        loaded(folder, scenario, **others)
    return caught.value.mistakes


def write_capacity(path: Path, milliseconds: float = 100) -> None:
    path.write_bytes(pickle.dumps({1: {"computation": milliseconds, "communication": 200}}))


def write_trace(path: Path, end: float = 500) -> None:
    path.write_bytes(pickle.dumps({1: {"active": [0], "inactive": [end], "finish_time": 1000}}))


RUN = Run("fedavg", "phones", 0)


def test_devices_are_enough_to_take_time(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, {"devices": CLUSTERS})
    assert experiment.scenario_mistakes(POPULATION) == []
    *_, last = make_schedule(experiment.settings_of(RUN), POPULATION).server_updates()
    assert last.time > 8  # the slowest link takes 1.6 s, twenty times


def test_availability_alone_takes_none(tmp_path: Path, follows: None) -> None:
    (told,) = mistakes(tmp_path, {"availability": {"source": "generated"}})
    assert told.startswith(
        "scenarios.phones: give at least one of communication, overhead, per_example and per_step, or"
    )


def test_the_null_task_has_no_model_whose_size_could_be_known(tmp_path: Path) -> None:
    assert mistakes(tmp_path, {"devices": {"source": "clusters"}}) == [
        "scenarios.phones.devices.model_kbit: missing; the null task has no model whose size could be taken; give the "
        "kilobits that clients download and upload, 32 for each thousand parameters"
    ]


def test_availability_is_for_who_follows_it(tmp_path: Path) -> None:
    assert mistakes(tmp_path, {"devices": CLUSTERS, "availability": {"source": "generated"}}) == [
        "scenarios.phones.availability: clients who come and go are for scheduler stale_synchronous, and fedavg would "
        "start them whether they are online or not; take stale_synchronous, which without `stale` is FedAvg in rounds, "
        "or leave availability out"
    ]


@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        (
            {"devices": {**CLUSTERS, "source": "cluster"}},
            "devices.source: 'cluster' is unknown; did you mean 'clusters'?",
        ),
        ({"devices": {**CLUSTERS, "faster": 3}}, "devices.faster: unknown key"),
        ({"devices": {"source": "file"}}, "devices.path: missing"),
        ({"devices": CLUSTERS, "availability": {"source": "diurnal"}}, "availability.source: 'diurnal' is unknown"),
        (
            {"devices": CLUSTERS, "availability": {"source": "generated", "forecast": {"kind": "oracel"}}},
            "availability.forecast.kind: 'oracel' is unknown; did you mean 'oracle'?",
        ),
    ],
)
def test_mistakes_are_told_by_their_keys(tmp_path: Path, follows: None, scenario: dict[str, Any], told: str) -> None:
    (found,) = mistakes(tmp_path, scenario)
    assert found.startswith(f"scenarios.phones.{told}")


def test_no_device_has_a_say_under_a_clock(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings |= {"clock": "wall", "scenarios": {"alike": {"devices": CLUSTERS}}}

    with pytest.raises(ExperimentError) as caught:
        load_experiment(tiny(change))
    assert caught.value.mistakes[0].startswith("scenarios.alike.devices: under clock: wall silos take the time")


def test_files_are_found_beside_the_experiment_and_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follows: None
) -> None:
    folder, data = tmp_path / "experiments", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    monkeypatch.setenv("FEDHPC_DATA", str(data))
    experiment = loaded(folder, {"devices": CAPACITY, "availability": TRACE})
    with pytest.raises(DataMissing) as missing:
        experiment.settings_of(RUN)
    assert missing.value.path == experiment.file
    # Both at once.
    looked = f"looked in {folder} and in FEDHPC_DATA={data}"
    assert missing.value.mistakes == [
        f"scenarios.phones.devices.path: there is no file 'capacity.pkl'; {looked}",
        f"scenarios.phones.availability.path: there is no file 'trace.pkl'; {looked}",
    ]
    write_capacity(data / "capacity.pkl")
    write_trace(folder / "trace.pkl")
    found = experiment.settings_of(RUN).scenario.files
    assert found == {"devices.path": data / "capacity.pkl", "availability.path": folder / "trace.pkl"}


def test_damaged_files_are_told_before_anything_runs(tmp_path: Path, follows: None) -> None:
    (tmp_path / "capacity.pkl").write_bytes(b"no pickle")
    (tmp_path / "trace.pkl").write_bytes(pickle.dumps({3: {"active": [5]}}))
    told = loaded(tmp_path, {"devices": CAPACITY, "availability": TRACE}).scenario_mistakes(POPULATION)
    damaged = f"scenarios.phones.devices.path: {tmp_path}/capacity.pkl is not as it should be: the file is no pickle"
    assert told[0].startswith(damaged)
    assert told[1:] == [
        f"scenarios.phones.availability.path: {tmp_path}/trace.pkl is not as it should be: client 3 lacks inactive, "
        "finish_time"
    ]


def test_the_files_content_is_part_of_a_runs_hash_and_their_place_is_not(tmp_path: Path, follows: None) -> None:
    def digest(folder: str, milliseconds: float = 100, end: float = 500) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        write_capacity(tmp_path / folder / "capacity.pkl", milliseconds)
        write_trace(tmp_path / folder / "trace.pkl", end)
        experiment = loaded(tmp_path / folder, {"devices": CAPACITY, "availability": TRACE})
        return experiment.settings_of(RUN).digest("")

    assert digest("here") == digest("there")
    assert len({digest("here"), digest("here", milliseconds=50), digest("here", end=600)}) == 3


def test_who_has_neither_has_the_hash_of_before(tmp_path: Path) -> None:
    settings = loaded(tmp_path, {"per_step": {"distribution": "constant", "value": 1}}).settings_of(RUN)
    assert {"devices", "availability"}.isdisjoint(settings.model_dump()["scenario"])
    # The hash of this very file when there were neither.
    assert settings.digest("data") == "ccb179daef225e6bb058972e5ad8e021857eeec88dc2fbc08ae04493e8a55ec2"


def test_tuning_runs_are_counted_before_the_files_are_there(tmp_path: Path, tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings["scenarios"] = {"alike": {"devices": CAPACITY}}
        settings["tuning"] = {"metric": "loss", "grid": {"fedavg": {"client.optimizer.rate": [0.1, 0.2]}}}

    experiment = load_experiment(tiny(change))
    before = list(experiment.tuning_runs(("fedavg", "alike")))
    assert len(before) == 2
    write_capacity(tmp_path / "capacity.pkl")
    assert list(experiment.tuning_runs(("fedavg", "alike"))) == before


def test_the_models_size_is_what_its_parameters_make(tiny: Callable[..., Path], tmp_path: Path) -> None:
    write_capacity(tmp_path / "capacity.pkl")

    def change(settings: dict[str, Any]) -> None:
        settings["scenarios"] = {"alike": {"devices": {"source": "fedscale", "path": "capacity.pkl"}}}

    experiment = load_experiment(tiny(change))
    settings = experiment.settings_of(Run("fedavg", "alike", 0))
    assert isinstance(settings.scenario.devices, CapacityFile)
    population = population_of(experiment.task, prepared_data(experiment, tmp_path))
    # Two features, six hidden units, four classes.
    assert population.parameters == (2 + 1) * 6 + (6 + 1) * 4
    *_, last = make_schedule(settings, population).server_updates()
    # Each round lasts as long as its client with the most batches of five, of 3 * 5 * 100 / 1000 s each.
    link = 2 * population.parameters * 32 / 1000 / 200
    rounds = last.totals.server_updates
    assert rounds * (link + 1.5) <= last.time <= rounds * (link + 8 * 1.5)
    assert (last.time - rounds * link) / 1.5 == pytest.approx(round((last.time - rounds * link) / 1.5))
