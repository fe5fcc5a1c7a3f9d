from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps import calibration
from fedhpc.clients.steps.calibration import calibrate
from fedhpc.clients.steps.candidates import UnfitChoice
from fedhpc.clients.steps.step_choice import StepChoice, StepWishes
from fedhpc.clients.work import Member
from fedhpc.mistakes import ExperimentError
from fedhpc.models.settings import OwnModule
from fedhpc.optimizers import SGD
from tests.clients.steps.cases import MODELS, data_for

CLIENT = ClientSettings(batch_size=4, epochs=1, optimizer=SGD(name="sgd", rate=0.05))
ON_CPU = StepWishes(device="cpu")


def chosen(seconds: list[float], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, float]]:
    """What is made of these measurements of [dense by 5, dense by 1]."""
    times = iter(seconds)

    def clock(*arguments: object) -> Callable[[], float]:
        time = next(times)
        return lambda: time

    monkeypatch.setattr(calibration, "_clock", clock)
    found = calibrate(MODELS["mlp"], CLIENT, data_for("mlp"), 20, ON_CPU)
    return [(way.form, way.clients, time) for way, time in found]


def test_a_way_that_is_preferred_less_must_be_clearly_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen([1.0, 0.7], monkeypatch) == [("dense", 5, 1.0), ("dense", 1, 0.7)]
    assert chosen([1.0, 0.6], monkeypatch) == [("dense", 1, 0.6), ("dense", 5, 1.0)]


def test_a_way_that_does_not_fit_into_memory_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(model: object, client: object, data: object, way: StepChoice, *_: object) -> Callable[[], float]:
        if way.clients > 1 or out_of_memory == "always":
            raise torch.OutOfMemoryError
        return lambda: 0.5

    monkeypatch.setattr(calibration, "_clock", measure)
    out_of_memory = "with many"
    found = calibrate(MODELS["mlp"], CLIENT, data_for("mlp"), 20, ON_CPU)
    assert found == [(StepChoice(form="dense", clients=1), 0.5)]
    out_of_memory = "always"
    with pytest.raises(torch.OutOfMemoryError):
        calibrate(MODELS["mlp"], CLIENT, data_for("mlp"), 20, ON_CPU)


def test_every_way_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_SECONDS", 0.001)
    found = calibrate(MODELS["emnist_cnn"], CLIENT, data_for("emnist_cnn"), 20, ON_CPU)
    assert sorted(way.form for way, _ in found) == ["channels_last", "plain"]
    assert all(0 < seconds < 10 for _, seconds in found)


def test_data_without_examples_need_no_measurement() -> None:
    data = data_for("mlp")
    empty = replace(data, features=data.features[:0], labels=data.labels[:0], offsets=np.zeros(6, np.int64))
    assert [seconds for _, seconds in calibrate(MODELS["mlp"], CLIENT, empty, 20, ON_CPU)] == [0.0, 0.0]


@pytest.mark.parametrize("distillation", [0.0, 0.5])
def test_a_step_is_measured_with_a_teacher_where_there_will_be_one(
    distillation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught: set[bool] = set()
    update = LocalTraining.update

    def watched(
        self: LocalTraining, versions: Mapping[int, np.ndarray], members: Sequence[Member], between: Callable[[], None]
    ) -> np.ndarray:
        taught.update(member.teacher in versions for member in members)
        return update(self, versions, members, between)

    monkeypatch.setattr(LocalTraining, "update", watched)
    monkeypatch.setattr(calibration, "_SECONDS", 0.001)
    client = CLIENT.model_copy(update={"distillation": distillation})
    calibrate(MODELS["mlp"], client, data_for("mlp"), 20, ON_CPU)
    assert taught == {distillation > 0}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_told_in_words() -> None:
    with pytest.raises(UnfitChoice, match="device: cuda is wished for, and this host has no GPU"):
        calibrate(MODELS["mlp"], CLIENT, data_for("mlp"), 20, StepWishes(device="cuda"))


def test_an_own_module_that_fails_on_the_data_is_one_sentence(tmp_path: Path) -> None:
    # The checks before it have tried two examples of zeros.
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    def forward(self, x):\n"
        "        if len(x) > 2:\n"
        "            raise IndexError('index out of range')\n"
        "        return super().forward(x)\n"
        "def net(shape, classes):\n"
        "    return Net(nn.Flatten(), nn.LazyLinear(classes))\n"
    )
    model = OwnModule(name="own", callable="mine:net", file=tmp_path / "mine.py")
    with pytest.raises(ExperimentError, match="its module raises IndexError: index out of range as it trains"):
        calibrate(model, CLIENT, data_for("mlp"), 20, ON_CPU)
