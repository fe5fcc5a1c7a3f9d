"""Grids, points, and who wins."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.tuning import Metric, Outcome, best, in_words, point, points

FEDAVG = SynchronousSettings.model_validate(
    {
        "scheduler": "synchronous",
        "cohort": 4,
        "client": {"batch_size": 5, "epochs": 1, "optimizer": {"name": "sgd", "rate": 0.1}},
        "server_optimizer": {"name": "sgd", "rate": 1.0},
    }
)


def test_the_outer_product_in_the_grids_order() -> None:
    found = [each.values for each in points(FEDAVG, {"server_optimizer.rate": [1, 0.3], "cohort": [2, 3, 4]})]
    assert found == [
        {"server_optimizer.rate": rate, "cohort": cohort}
        for rate, cohort in [(1.0, 2), (1.0, 3), (1.0, 4), (0.3, 2), (0.3, 3), (0.3, 4)]
    ]


def test_a_point_changes_its_keys_and_nothing_else() -> None:
    found = point(FEDAVG, {"client.optimizer.rate": "1e-3", "deadline": 7})
    assert found.algorithm.model_dump() == {
        **FEDAVG.model_dump(),
        "deadline": 7.0,
        "client": {
            **FEDAVG.client.model_dump(),
            "optimizer": {**FEDAVG.client.optimizer.model_dump(), "rate": 0.001},
        },
    }
    # As the settings hold it, and whatever the order of the keys.
    assert str(found) == "client.optimizer.rate=0.001,deadline=7.0"
    assert in_words({"deadline": None, "weighting": "uniform"}) == "deadline=null,weighting=uniform"


@pytest.mark.parametrize(
    ("metric", "outcomes", "winner"),
    [
        ("total_accuracy", [(0.2, 1.0), (0.5, 9.0), (0.4, 1.0)], 1),
        ("total_accuracy", [(0.2, 1.0), (0.5, 2.0), (0.5, 1.0)], 1),  # equal: the first
        ("loss", [(2.0, 2.0), (0.5, 0.5), (0.5, 0.5)], 1),
        # The accuracy of a model that holds no numbers is no merit.
        ("straggler_accuracy", [(0.9, math.nan), (0.1, 2.0), (0.8, math.inf)], 1),
        ("loss", [(math.nan, math.nan), (5.0, 5.0)], 1),
        ("loss", [(math.inf, math.inf), (math.nan, math.nan)], 0),
    ],
)
def test_the_best_by_hand(metric: Metric, outcomes: list[tuple[float, float]], winner: int) -> None:
    assert best([Outcome(*outcome) for outcome in outcomes], metric) == winner


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 9) | st.sampled_from([math.nan, math.inf])), min_size=1),
)
def test_the_winner_is_sound_and_nothing_sound_is_better_or_as_good_and_earlier(
    outcomes: list[tuple[float, float]],
) -> None:
    winner = best([Outcome(*outcome) for outcome in outcomes], "total_accuracy")
    sound = {number: accuracy for number, (accuracy, loss) in enumerate(outcomes) if math.isfinite(loss)}
    if not sound:
        assert winner == 0
        return
    assert all(sound[winner] >= accuracy for accuracy in sound.values())
    assert all(sound[winner] > sound[number] for number in sound if number < winner)
