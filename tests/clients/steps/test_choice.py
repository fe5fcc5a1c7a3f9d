"""Which ways are measured, and how the choice is kept."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.calibration import calibrate
from fedhpc.clients.steps.candidates import UnfitChoice, candidates
from fedhpc.clients.steps.choice_file import OtherChoice, choice_file, kept_choice
from fedhpc.clients.steps.device import prepare_device
from fedhpc.clients.steps.step_choice import Device, NoDevice, StepChoice, StepWishes
from fedhpc.models.settings import EMNISTCNN, Logistic, Model
from tests.clients.steps.reference import images

LOGISTIC, EMNIST = Logistic(name="logistic"), EMNISTCNN(name="emnist_cnn")
SGD = {"name": "sgd", "rate": 0.1}


def client(**settings: Any) -> ClientSettings:
    return ClientSettings.model_validate({"batch_size": 5, "epochs": 1, "optimizer": SGD, **settings})


def ways(
    model: Model,
    device: Device = "cpu",
    updates: int = 10,
    settings: ClientSettings | None = None,
    parameters: int = 610,
    **wishes: Any,
) -> list[StepChoice]:
    return candidates(model, settings or client(), device, updates, parameters, StepWishes(**wishes))


@pytest.mark.parametrize(("updates", "height"), [(1, 1), (4, 1), (5, 2), (10, 3), (60, 15), (128, 32), (10_000, 32)])
def test_a_stack_is_a_quarter_of_a_server_update_at_most(updates: int, height: int) -> None:
    # So that four ranks have work, whatever the number of ranks that there are (law 3).
    assert ways(LOGISTIC, updates=updates)[0] == StepChoice(form="dense", clients=height)


@pytest.mark.parametrize(("parameters", "height"), [(2**19, 32), (2**20, 16), (2**24, 1), (2**30, 1)])
def test_a_stack_of_large_models_is_lower(parameters: int, height: int) -> None:
    # 64 MiB of float32 are 2^24 weights.
    assert ways(LOGISTIC, updates=1000, parameters=parameters)[0] == StepChoice(form="dense", clients=height)


def test_what_is_measured_where() -> None:
    assert [way.form for way in ways(EMNIST)] == ["channels_last", "plain"]
    assert {way.form for way in ways(EMNIST, "cuda")} == {"stacked", "channels_last", "plain"}
    half = client(precision="bf16")
    assert [way.form for way in ways(LOGISTIC, settings=half)] == ["channels_last", "plain"]


def test_a_wish_is_what_is_left_to_measure() -> None:
    assert ways(EMNIST, form="plain") == [StepChoice(form="plain")]
    assert ways(LOGISTIC, clients=7) == [StepChoice(form="dense", clients=7)]
    assert ways(EMNIST, form="compiled") == [StepChoice(form="compiled")]
    (stacked,) = ways(EMNIST, form="stacked", clients=4, convolution="grouped")
    assert stacked == StepChoice(form="stacked", clients=4, convolution="grouped")
    assert all(way.convolution == "grouped" for way in ways(EMNIST, "cuda", convolution="grouped"))


@pytest.mark.parametrize(
    ("model", "wishes", "sentence"),
    [
        (EMNIST, {"form": "dense"}, "step.form: dense is for logistic and mlp in fp32 on a CPU; name another"),
        (EMNIST, {"form": "plain", "clients": 4}, "step.clients: plain trains one client at a time"),
        (EMNIST, {"clients": 4}, "step.clients: channels_last trains one client at a time"),
        (LOGISTIC, {"graph": True}, "step.graph: only stacked steps on a GPU are captured"),
        (EMNIST, {"form": "stacked", "graph": True}, "step.graph: only stacked steps on a GPU are captured"),
    ],
)
def test_what_cannot_be_is_refused_in_words(model: Model, wishes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnfitChoice) as refused:
        ways(model, **wishes)
    assert str(refused.value).startswith(sentence)


def test_tf32_without_a_gpu_is_refused_in_words() -> None:
    with pytest.raises(UnfitChoice, match=r"client.precision: tf32 is for GPUs, and there is none; name fp32 or bf16"):
        ways(EMNIST, settings=client(precision="tf32"))
    assert ways(EMNIST, "cuda", settings=client(precision="tf32"))


def test_a_gpu_that_is_not_there_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(NoDevice, match="this host has none"):
        prepare_device(StepChoice(form="plain", device="cuda"), "fp32")


def test_a_calibration_measures_every_way() -> None:
    data = images((8, 8), [7, 12, 4], 4)
    measured = calibrate(EMNIST, client(), data, 10, StepWishes(device="cpu"))
    assert {choice.form for choice, _ in measured} == {"channels_last", "plain"}
    assert all(seconds > 0 for _, seconds in measured)
    # Nothing that is faster by a third is passed over.
    assert measured[0][1] <= min(seconds for _, seconds in measured) * 1.5


def test_a_calibration_without_an_example_takes_the_preferred_way() -> None:
    data = images((8, 8), [0, 0], 4)
    ((choice, seconds), *_) = calibrate(EMNIST, client(), data, 10, StepWishes(device="cpu"))
    assert (choice.form, seconds) == ("channels_last", 0)


def test_the_choice_is_kept_with_what_was_measured_and_never_measured_again(tmp_path: Path) -> None:
    file = choice_file(tmp_path / "fedavg", EMNIST, client(), (28, 28), 62)
    plain, fast = StepChoice(form="plain"), StepChoice(form="channels_last")
    assert kept_choice(file, StepWishes(), lambda: [(plain, 0.5), (fast, 0.7)]) == plain
    kept = json.loads(file.read_text())
    assert [(entry["choice"]["form"], entry["seconds_per_step"]) for entry in kept["measured"]] == [
        ("plain", 0.5),
        ("channels_last", 0.7),
    ]
    assert kept_choice(file, StepWishes(form="plain"), lambda: pytest.fail("measured again")) == plain
    with pytest.raises(OtherChoice, match=r"\{'form': 'channels_last'\} is asked for, but .*keeps .*'plain'"):
        kept_choice(file, StepWishes(form="channels_last"), list)
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_a_step_file_that_cannot_be_read_is_told_and_left(tmp_path: Path) -> None:
    file = tmp_path / "step.json"
    for content in ("", "{", "[]", '{"choice": {"form": "fast"}}', '{"measured": []}'):
        file.write_text(content)
        with pytest.raises(OtherChoice, match=r"step.json cannot be understood.*put it back as it was"):
            kept_choice(file, StepWishes(), list)
        assert file.read_text() == content


def test_what_a_step_depends_on_has_a_file_of_its_own(tmp_path: Path) -> None:
    known = [
        (EMNIST, client(), (28, 28), 62),
        (LOGISTIC, client(), (28, 28), 62),
        (EMNIST, client(batch_size=6), (28, 28), 62),
        (EMNIST, client(precision="bf16"), (28, 28), 62),
        (EMNIST, client(), (28, 28, 1), 62),
        (EMNIST, client(), (28, 28), 10),
    ]
    assert len({choice_file(tmp_path, *subject) for subject in known}) == len(known)


def test_of_many_that_measure_at_once_the_first_ones_choice_holds_for_all(tmp_path: Path) -> None:
    program = """
import sys, time
from pathlib import Path
from fedhpc.clients.steps.choice_file import kept_choice
from fedhpc.clients.steps.step_choice import StepChoice, StepWishes
def measure():
    Path(sys.argv[2]).touch()
    while len(list(Path(sys.argv[2]).parent.glob("measuring-*"))) < 5:
        time.sleep(0.01)
    return [(StepChoice(form="dense", clients=int(sys.argv[3])), 1.0)]
print(kept_choice(Path(sys.argv[1]), StepWishes(), measure).clients)
"""
    file = tmp_path / "step.json"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(file), str(tmp_path / f"measuring-{number}"), str(number + 1)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(5)
    ]
    answers = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert len(set(answers)) == 1
    assert json.loads(file.read_text())["choice"]["clients"] == int(answers[0])
