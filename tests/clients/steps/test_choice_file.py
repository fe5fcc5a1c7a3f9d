import json
import multiprocessing
from pathlib import Path

import pytest

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.choice_file import OtherChoice, choice_file, kept_choice
from fedhpc.clients.steps.step_choice import StepChoice, StepWishes
from fedhpc.models.settings import MLP, Logistic
from fedhpc.optimizers import SGD

PLAIN, LAST = StepChoice(form="plain"), StepChoice(form="channels_last")
NONE = StepWishes()


def unexpected() -> list[tuple[StepChoice, float]]:
    raise AssertionError("measured again")


def test_what_was_measured_is_kept_and_not_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "fedavg" / "step.json"
    assert kept_choice(file, NONE, lambda: [(LAST, 0.5), (PLAIN, 0.75)]) == LAST
    assert kept_choice(file, NONE, unexpected) == LAST
    content = json.loads(file.read_text())
    assert content["choice"]["form"] == "channels_last"
    found = [(way["choice"]["form"], way["seconds_per_step"]) for way in content["measured"]]
    assert found == [("channels_last", 0.5), ("plain", 0.75)]
    assert [path.name for path in file.parent.iterdir()] == ["step.json"]


def test_a_measurement_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        kept_choice(tmp_path / "step.json", NONE, unexpected)
    assert list(tmp_path.iterdir()) == []


def test_the_first_writer_wins_over_one_that_measured_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "step.json"

    def overtaken() -> list[tuple[StepChoice, float]]:
        assert kept_choice(file, NONE, lambda: [(PLAIN, 1.0)]) == PLAIN
        return [(LAST, 0.1)]

    assert kept_choice(file, NONE, overtaken) == PLAIN
    assert json.loads(file.read_text())["measured"][0]["seconds_per_step"] == 1.0


def decide(file: Path, clients: int, barrier: object, answers: object) -> None:
    def measure() -> list[tuple[StepChoice, float]]:
        barrier.wait(30)  # type: ignore[attr-defined]
        return [(StepChoice(form="dense", clients=clients), 1.0)]

    answers.put(kept_choice(file, NONE, measure).clients)  # type: ignore[attr-defined]


def test_processes_that_measure_at_once_agree(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(5):
        barrier, answers = context.Barrier(2), context.Queue()
        file = tmp_path / f"step.{attempt}.json"
        processes = [context.Process(target=decide, args=(file, number, barrier, answers)) for number in (1, 2)]
        for process in processes:
            process.start()
        found = {answers.get(timeout=60) for _ in processes}
        for process in processes:
            process.join(60)
            assert process.exitcode == 0
        assert found in ({1}, {2})
        assert json.loads(file.read_text())["choice"]["clients"] in found
    assert len(list(tmp_path.iterdir())) == 5


def test_a_wish_against_the_kept_choice_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "step.json"
    kept_choice(file, NONE, lambda: [(LAST, 1.0)])
    assert kept_choice(file, StepWishes(form="channels_last", clients=1), unexpected) == LAST
    with pytest.raises(OtherChoice, match=r"step: \{'form': 'plain'\} is asked for, but .*step\.json keeps"):
        kept_choice(file, StepWishes(form="plain", deterministic=True), unexpected)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"choice": {"form": "fast"}}', '{"measured": []}'])
def test_a_step_file_that_cannot_be_read_is_told_and_left(tmp_path: Path, content: str) -> None:
    file = tmp_path / "step.json"
    file.write_text(content)
    with pytest.raises(OtherChoice, match=r"step.json cannot be understood.*put it back as it was"):
        kept_choice(file, NONE, unexpected)
    assert file.read_text() == content


def test_what_a_step_depends_on_has_a_file_of_its_own(tmp_path: Path) -> None:
    client = ClientSettings(batch_size=4, steps=3, optimizer=SGD(name="sgd", rate=0.1))
    first = choice_file(tmp_path, Logistic(name="logistic"), client, (3, 2), 5)
    assert first == choice_file(tmp_path, Logistic(name="logistic"), client.model_copy(), (3, 2), 5)
    others = [
        choice_file(tmp_path / "other", Logistic(name="logistic"), client, (3, 2), 5),
        choice_file(tmp_path, MLP(name="mlp"), client, (3, 2), 5),
        choice_file(tmp_path, MLP(name="mlp", hidden=[8]), client, (3, 2), 5),
        choice_file(tmp_path, Logistic(name="logistic"), client.model_copy(update={"batch_size": 5}), (3, 2), 5),
        choice_file(tmp_path, Logistic(name="logistic"), client.model_copy(update={"precision": "bf16"}), (3, 2), 5),
        choice_file(tmp_path, Logistic(name="logistic"), client, (2, 3), 5),
        choice_file(tmp_path, Logistic(name="logistic"), client, (3, 2), 6),
    ]
    assert len({first, *others}) == 1 + len(others)


def test_a_rate_is_no_reason_to_measure_again(tmp_path: Path) -> None:
    def of(rate: float, momentum: float, proximal: float, clip: float | None) -> Path:
        optimizer = SGD(name="sgd", rate=rate, momentum=momentum)
        client = ClientSettings(batch_size=4, steps=3, optimizer=optimizer, proximal=proximal, clip=clip)
        return choice_file(tmp_path, Logistic(name="logistic"), client, (3, 2), 5)

    assert of(0.1, 0.9, 0.5, 1.0) == of(0.3, 0.5, 0.1, 2.0)
    without = [of(0.1, 0.0, 0.5, 1.0), of(0.1, 0.9, 0.0, 1.0), of(0.1, 0.9, 0.5, None)]
    assert len({of(0.1, 0.9, 0.5, 1.0), *without}) == 4
