"""Clients that learn each next token or each voxel: updates in every form, evaluations and losses."""

import math
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.objective import Objective
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.device import prepare_device
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member, ShardCounts, teacher_id
from fedhpc.data.federated import FederatedData, open_prepared
from fedhpc.federation.metrics import HeldOut
from fedhpc.models.settings import Logistic, StackOverflowLSTM, UNet3D
from fedhpc.optimizers import SGD
from tests.clients.steps.cases import away
from tests.clients.steps.plain_reference import batch_rows, stream
from tests.sentences import CLASSES, TAGGED_CLIENTS, UNKNOWN, sentence_experiment

MODEL = StackOverflowLSTM(name="stackoverflow_lstm")
TEACHER = teacher_id(0)


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> FederatedData:
    folder = tmp_path_factory.mktemp("sentences")
    sentence_experiment(folder, [folder])
    (prepared,) = (folder / "data").glob("*.hdf5")
    return open_prepared(prepared)


def training(data: FederatedData, choice: StepChoice, measures: bool = False, **settings: Any) -> LocalTraining:
    client = ClientSettings(batch_size=2, steps=3, optimizer=SGD(name="sgd", rate=0.5), **settings)
    prepare_device(choice, client.precision)
    objective = Objective("next_words")
    return LocalTraining(MODEL, client, data, 5, 0, choice, objective=objective, measures_losses=measures)


def test_prepared_sentences_keep_their_labels_marks_and_tags(sentences: FederatedData) -> None:
    assert sentences.labels.shape == sentences.features.shape == (17, 5)
    assert sentences.unscored.tolist() == [0, 9, 10, 11]
    assert sentences.test_tagged is not None
    assert sentences.test_tagged.tolist() == [False] * 4 + [True] * 3
    assert np.flatnonzero(sentences.stragglers).tolist() == TAGGED_CLIENTS
    assert sentences.population.examples.tolist() == [2, 1, 4, 3, 5, 2]


def test_an_update_is_that_of_a_plain_loop(sentences: FederatedData) -> None:
    """The mean over each batch's labelled tokens, its gradient by autograd, one client, with a teacher."""
    ours = training(sentences, StepChoice(form="plain"), distillation=0.3)
    weights = ours.initial_weights()
    teacher = weights + np.random.default_rng(1).normal(0, 0.1, len(weights)).astype(np.float32)
    update = ours.update({0: weights, TEACHER: teacher}, [Member(0, 2, 1, 3, 1.0, TEACHER)], lambda: None)
    student, taught_by = (deepcopy(ours._steps.module) for _ in range(2))
    nn.utils.vector_to_parameters(torch.from_numpy(weights.copy()), student.parameters())
    nn.utils.vector_to_parameters(torch.from_numpy(teacher), taught_by.parameters())
    first = int(sentences.offsets[2])
    for _, rows in zip(range(3), batch_rows(stream(5, 0, 4, 2, 1), 4, 2), strict=False):
        x, y = (torch.from_numpy(array[first + rows]) for array in (sentences.features, sentences.labels))
        with torch.enable_grad():
            logs = student(x).log_softmax(-1)
            total = torch.zeros(())
            for sentence, place in (y != -1).nonzero().tolist():
                total = total - logs[sentence, place, y[sentence, place]]
                total = total - 0.3 * (taught_by(x)[sentence, place].softmax(-1).detach() * logs[sentence, place]).sum()
            gradients = torch.autograd.grad(total / (y != -1).sum(), list(student.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(student.parameters(), gradients, strict=True):
                parameter -= 0.5 * gradient
    end = nn.utils.parameters_to_vector(student.parameters()).detach().numpy()
    assert away(update, weights - end) < 1e-4


def test_a_stack_gives_the_updates_of_its_members(sentences: FederatedData) -> None:
    # Unequal numbers of steps, of batches and of labelled tokens; one has no teacher.
    members = [Member(0, 4, 0, 3, 0.5, TEACHER), Member(0, 1, 0, 2, 1.0), Member(0, 3, 2, 2, 0.25, TEACHER)]
    plain = training(sentences, StepChoice(form="plain"), distillation=0.3)
    stacked = training(sentences, StepChoice(form="stacked", clients=3), distillation=0.3)
    weights = plain.initial_weights()
    versions = {0: weights, TEACHER: weights[::-1].copy()}
    alone = sum(plain.update(versions, [member], lambda: None) for member in members)
    assert away(stacked.update(versions, members, lambda: None), alone) < 1e-4


def test_an_evaluation_counts_words_and_the_tagged_ones(sentences: FederatedData) -> None:
    ours = training(sentences, StepChoice(form="plain"))
    # A model that says the same everywhere: one word more than chance.
    weights = np.zeros_like(ours.initial_weights())
    word = 3
    weights[-CLASSES + word] = math.log(2)
    counts = ours.evaluate(weights, 0)
    labels, tagged = sentences.test_labels, sentences.test_tagged
    assert counts.correct == int((labels == word).sum()) > 0
    assert counts.straggler_correct == int((labels[tagged] == word).sum())
    # Eleven have 1/13 each, the word 2/13; the end and unknown words are lost on too.
    labelled, right = int((labels >= 0).sum()), int((labels == word).sum())
    assert counts.loss == pytest.approx(labelled * math.log(13) - right * math.log(2), rel=1e-5)
    weights[-CLASSES + UNKNOWN] = 1
    assert (labels == UNKNOWN).any()
    assert ours.evaluate(weights, 0).correct == 0
    held = HeldOut.of(sentences, Objective("next_words"))
    assert held.metrics([counts]).perplexity == pytest.approx(math.exp(counts.loss / labelled))


def test_oorts_losses_are_of_sentences(sentences: FederatedData) -> None:
    ours = training(sentences, StepChoice(form="plain"), measures=True)
    weights = np.zeros_like(ours.initial_weights())
    weights[-CLASSES] = math.log(2)
    ours.update({0: weights}, [Member(0, 2, 0, 1, 1.0)], lambda: None)
    # Nobody writes the padding: each token, and so each sentence, costs ln 13.
    assert ours.losses == [pytest.approx(math.log(13) ** 2, rel=1e-5)]


class Voxels(nn.Module):
    """Logits of a voxel from it alone: [batch, x, y, z] to [batch, x, y, z, 2]."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.line(x.unsqueeze(-1))
        return logits


@pytest.fixture
def volumes(monkeypatch: pytest.MonkeyPatch) -> LocalTraining:
    """Clients with masks of what is above 0, and a model that sees one voxel at a time."""
    monkeypatch.setattr("fedhpc.clients.local_training.build_model", lambda *_: Voxels())
    draw = np.random.default_rng(0)
    features = draw.normal(size=(26, 2, 3, 2)).astype(np.float32)
    masks = (features > 0).astype(np.int64)
    masks[:, 0, 0, 0] = -1
    data = FederatedData(
        features=features[:6],
        labels=masks[:6],
        offsets=np.array([0, 2, 6]),
        stragglers=np.zeros(2, bool),
        straggler_classes=np.empty(0, np.int64),
        test_features=features[6:],
        test_labels=masks[6:],
        classes=2,
        client_names=("a", "b"),
        class_names=("other", "brain"),
    )
    client = ClientSettings(batch_size=2, epochs=1, optimizer=SGD(name="sgd", rate=1.0))
    prepare_device(StepChoice(form="plain"), client.precision)
    return LocalTraining(
        UNet3D(name="unet3d"), client, data, 0, 0, StepChoice(form="plain"), objective=Objective("segmentation")
    )


def test_volumes_are_evaluated_in_shards_and_counted_voxel_by_voxel(volumes: LocalTraining) -> None:
    assert volumes.shards == 2
    # Weight [[-1], [1]]: class 1 where x > 0, which is right everywhere.
    counts = [volumes.evaluate(np.array([-1, 1, 0, 0], np.float32), shard) for shard in range(2)]
    assert [count.correct for count in counts] == [16 * 11, 4 * 11]
    # Sure of all: the Dice score is 1. Sure of the opposite: 0.
    sure = [volumes.evaluate(np.array([-1e4, 1e4, 0, 0], np.float32), shard) for shard in range(2)]
    wrong = [volumes.evaluate(np.array([1e4, -1e4, 0, 0], np.float32), shard) for shard in range(2)]
    held = HeldOut.of(volumes._data, Objective("segmentation"))
    assert held.scored == 20 * 11
    found = [held.metrics(shards) for shards in (sure, wrong)]
    assert [one.dice for one in found] == pytest.approx([1, 0], abs=1e-3)
    assert [one.total_accuracy for one in found] == [1, 0]


def test_volumes_are_learned(volumes: LocalTraining) -> None:
    weights = np.array([0.1, -0.1, 0, 0], np.float32)
    losses = []
    for participation in range(8):
        losses.append(sum(volumes.evaluate(weights, shard).loss for shard in range(2)))
        weights = weights - volumes.update({0: weights}, [Member(0, 1, participation, 2, 1.0)], lambda: None)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.7 * losses[0]


def test_counts_of_top_5_and_of_classes() -> None:
    # W = 0 and biases 7, 6, ..., 1: class 0 is said; 0 to 4 are among the best five.
    labels = np.array([0, 0, 4, 5, 6, 1])
    data = FederatedData(
        features=np.zeros((1, 1), np.float32),
        labels=np.zeros(1, np.int64),
        offsets=np.array([0, 1]),
        stragglers=np.zeros(1, bool),
        straggler_classes=np.empty(0, np.int64),
        test_features=np.zeros((6, 1), np.float32),
        test_labels=labels,
        classes=7,
        client_names=("0",),
        class_names=tuple("abcdefg"),
    )
    client = ClientSettings(batch_size=1, epochs=1, optimizer=SGD(name="sgd", rate=0.1))
    objective = Objective(top5=True, balanced=True)
    ours = LocalTraining(Logistic(name="logistic"), client, data, 0, 0, StepChoice(form="plain"), objective=objective)
    counts = ours.evaluate(np.array([*[0] * 7, *range(7, 0, -1)], np.float32), 0)
    assert counts == ShardCounts(2, 0, counts.loss, 4, (2, 0, 0, 0, 0, 0, 0))
    # Classes 0, 1, 4, 5 and 6 are held out.
    assert HeldOut.of(data, objective).metrics([counts]).balanced_accuracy == pytest.approx(1 / 5)
