import numpy as np
import pytest

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member
from fedhpc.optimizers import SGD
from tests.clients.steps.cases import DEVICES, away, delta_of, training_for, weights_for

HALF_FORMS = ["plain", "channels_last", "stacked"]


def delta(precision: str, form: str, device: str) -> np.ndarray:
    client = ClientSettings.model_validate(
        {"batch_size": 4, "steps": 3, "optimizer": SGD(name="sgd", rate=0.05), "precision": precision}
    )
    training = training_for("emnist_cnn", client, StepChoice.model_validate({"form": form, "device": device}))
    return delta_of(training, "emnist_cnn", form, {0: weights_for("emnist_cnn")}, [Member(0, 4, 0, 3, 1.0)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", HALF_FORMS)
def test_bf16_differs_from_fp32_and_by_little(form: str, device: str) -> None:
    # bfloat16 has eight bits of mantissa: a rounding is up to 2**-9 of a value, here of a dozen layers of values.
    assert 1e-4 < away(delta("bf16", form, device), delta("fp32", form, device)) < 1e-1


@pytest.mark.parametrize("form", HALF_FORMS)
def test_weights_stay_in_float32(form: str) -> None:
    update = delta("bf16", form, "cpu")
    assert update.dtype == np.float32
    # Weights in bfloat16 near 0.1 move in steps of 2**-11; these move by less.
    assert (np.abs(update[update != 0]) < 2**-12).any()


def test_nothing_is_rounded_unless_it_is_asked_for() -> None:
    assert ClientSettings(batch_size=1, steps=1, optimizer=SGD(name="sgd", rate=1)).precision == "fp32"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", HALF_FORMS)
def test_a_teacher_is_asked_in_the_students_precision(form: str, device: str) -> None:
    # A model without dropout that is its own teacher finds its own probabilities, and is pulled nowhere.
    model = "mnist_cnn"

    def first_step(distillation: float) -> np.ndarray:
        client = ClientSettings.model_validate(
            {
                "batch_size": 4,
                "steps": 1,
                "optimizer": SGD(name="sgd", rate=0.05),
                "precision": "bf16",
                "distillation": distillation,
            }
        )
        training = training_for(model, client, StepChoice.model_validate({"form": form, "device": device}))
        return delta_of(training, model, form, {0: weights_for(model)}, [Member(0, 4, 0, 1, 1.0, 0)])

    # A GPU's bfloat16 rounds a large multiple of its own probabilities: by 2 % of an update at 20, by nothing at 0.5.
    assert away(first_step(4.0 if device == "cpu" else 0.5), first_step(0.0)) < 1e-3
