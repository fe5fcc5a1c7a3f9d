"""Pictures as they are used: which part, whether mirrored, on which scale."""

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.objective import Objective
from fedhpc.clients.pictures import PictureChanges
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member
from fedhpc.models.settings import MLP
from fedhpc.optimizers import SGD
from fedhpc.task import Pictures
from tests.clients.steps.cases import away, data_for
from tests.clients.steps.plain_reference import batch_rows, stream

PICTURES = 18
ALL = Pictures(crop=5, flip=True, standardize=True)


def part_by_hand(picture: np.ndarray, word: int, crop: int, flip: bool) -> np.ndarray:
    """A 64-bit word: 31 bits say how far down, 31 how far right, the highest whether it is mirrored."""
    height, width = picture.shape[:2]
    top = (word % 2**31) * (height - crop + 1) // 2**31
    left = (word // 2**31 % 2**31) * (width - crop + 1) // 2**31
    part = picture[top : top + crop, left : left + crop]
    return part[:, ::-1] if flip and word >= 2**63 else part


def on_one_scale(picture: np.ndarray) -> np.ndarray:
    return (picture - picture.mean()) / max(picture.std(), 1 / math.sqrt(picture.size))


@pytest.mark.parametrize("shape", [(8, 9), (7, 6, 3)])
def test_each_is_the_part_that_its_word_names(shape: tuple[int, ...]) -> None:
    source = np.random.default_rng(2).normal(size=(6, *shape)).astype(np.float32)
    changes = PictureChanges(ALL, shape)
    drawn = changes.draw(np.random.default_rng(3), 20, 4)
    words = np.random.default_rng(3).integers(0, 2**64, (20, 4), dtype=np.uint64).ravel().tolist()
    rows = np.random.default_rng(4).integers(6, size=80)
    found = changes.train(torch.from_numpy(source), torch.from_numpy(rows), drawn.reshape(-1, 3))
    assert found.shape == (80, 5, 5, *shape[2:])
    for picture, row, word in zip(found.numpy(), rows, words, strict=True):
        np.testing.assert_allclose(picture, on_one_scale(part_by_hand(source[row], word, 5, True)), atol=1e-5)
    assert set(drawn[..., 0].ravel()) == set(range(shape[0] - 4))
    assert set(drawn[..., 1].ravel()) == set(range(shape[1] - 4))
    assert set(drawn[..., 2].ravel()) == {0, 1}


def test_a_picture_of_one_colour_is_0_and_a_faint_one_is_not_blown_up() -> None:
    changes = PictureChanges(Pictures(standardize=True), (2, 2))
    faint = torch.tensor([[0.0, 0.002], [0.0, 0.002]])
    found = changes.evaluate(torch.stack([torch.full((2, 2), 7.0), faint]))
    assert not found[0].any()
    # Deviation 0.001 is below 1 / sqrt(4): divided by 1/2.
    assert found[1].flatten().tolist() == pytest.approx([-0.002, 0.002, -0.002, 0.002], abs=1e-8)


def test_the_middle_is_evaluated_unflipped() -> None:
    picture = torch.arange(20.0).view(1, 4, 5)
    assert PictureChanges(Pictures(crop=2, flip=True), (4, 5)).evaluate(picture).tolist() == [[[6, 7], [11, 12]]]


def test_drawing_some_steps_at_a_time_draws_the_same() -> None:
    changes = PictureChanges(ALL, (8, 9))
    whole, in_parts = changes.draw(np.random.default_rng(1), 7, 3), np.random.default_rng(1)
    assert whole.tolist() == np.concatenate([changes.draw(in_parts, steps, 3) for steps in (1, 4, 2)]).tolist()


def training(choice: StepChoice, pictures: Pictures | None) -> LocalTraining:
    client = ClientSettings(batch_size=4, steps=3, optimizer=SGD(name="sgd", rate=0.1))
    model = MLP(name="mlp", hidden=[6])
    return LocalTraining(model, client, data_for("emnist_cnn"), 5, 0, choice, objective=Objective(pictures=pictures))


MEMBERS = [Member(0, 2, 1, 3, 0.5), Member(0, 4, 0, 2, 1.0)]


def test_an_update_is_that_of_pictures_changed_by_hand() -> None:
    """One client of seven pictures, batches of 4 and 3: each place of a batch has a word, that which fills up too."""
    ours, data = training(StepChoice(form="plain"), ALL), data_for("emnist_cnn")
    weights = ours.initial_weights()
    update = ours.update({0: weights}, [Member(0, 2, 1, 3, 1.0)], lambda: None)
    order, words = stream(5, 0, 4, 2, 1), stream(5, 0, PICTURES, 2, 1)
    first = int(data.offsets[2])
    layers = torch.nn.Sequential(torch.nn.Linear(25, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).double()
    torch.nn.utils.vector_to_parameters(torch.from_numpy(weights).double(), layers.parameters())
    for _, rows in zip(range(3), batch_rows(order, 7, 4), strict=False):
        drawn = words.integers(0, 2**64, 4, dtype=np.uint64).tolist()
        parts = [
            on_one_scale(part_by_hand(data.features[first + row].astype(float), word, 5, True))
            for row, word in zip(rows, drawn, strict=False)
        ]
        labels = torch.from_numpy(data.labels[first + rows])
        loss = torch.nn.functional.cross_entropy(layers(torch.from_numpy(np.stack(parts)).flatten(1)), labels)
        gradients = torch.autograd.grad(loss, list(layers.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(layers.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient
    end = torch.nn.utils.parameters_to_vector(layers.parameters()).detach().numpy()
    assert away(update, weights - end) < 1e-5


def test_the_same_pictures_whatever_the_form_and_the_stack() -> None:
    whole = None
    for form in ("plain", "channels_last", "dense", "stacked"):
        together = form in ("dense", "stacked")
        ours = training(StepChoice.model_validate({"form": form, "clients": 2 if together else 1}), ALL)
        versions = {0: ours.initial_weights()}
        stacks = [MEMBERS] if together else [[member] for member in MEMBERS]
        update = sum(ours.update(versions, stack, lambda: None) for stack in stacks)
        whole = update if whole is None else whole
        assert away(update, whole) < 1e-5
    assert away(training(StepChoice(form="dense"), Pictures(crop=5)).update(versions, MEMBERS[:1], lambda: None), whole)


def test_the_streams_of_other_draws_stay_where_they_were() -> None:
    # Pictures that are changed in nothing are those that are not changed, byte for byte: order and dropout too.
    none, nothing = (training(StepChoice(form="dense"), pictures) for pictures in (None, Pictures()))
    versions = {0: none.initial_weights()}
    assert versions[0].tobytes() == nothing.initial_weights().tobytes()
    found = [one.update(versions, MEMBERS[:1], lambda: None).tobytes() for one in (none, nothing)]
    assert found[0] == found[1]


def test_the_mean_and_deviation_of_each_channel() -> None:
    changes = PictureChanges(Pictures(crop=1, mean=[0.5, 0.25], deviation=[0.5, 2]), (3, 1, 2))
    pictures = torch.tensor([[[[9.0, 9.0]], [[1.0, 0.25]], [[9.0, 9.0]]]])
    assert changes.evaluate(pictures).flatten().tolist() == [1.0, 0.0]
    grey = PictureChanges(Pictures(mean=[0.5], deviation=[0.25]), (1, 2))
    assert grey.evaluate(torch.tensor([[[0.5, 1.0]]])).flatten().tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mean": [0.5]}, "deviation: goes with mean"),
        ({"mean": [0.5], "deviation": [1, 1]}, "deviation: has 2 numbers, mean 1; one each a channel"),
        ({"mean": [0.5], "deviation": [1], "standardize": True}, "standardize: gives each picture a scale of its own"),
    ],
)
def test_pictures_come_to_one_scale_in_one_way(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Pictures.model_validate(settings)
