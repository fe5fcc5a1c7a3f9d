"""Losses that stand in for training's."""

import math

import numpy as np
import pytest

from fedhpc.federation.synthetic_losses import SyntheticLosses


def test_they_fall_with_participations_from_guessing_among_ten_classes() -> None:
    losses = SyntheticLosses(3, 0)
    for client in (0, 7, 10**6):
        first = losses[client, 0]
        assert losses[client, 1] == pytest.approx(first / 4)
        assert losses[client, 9] == pytest.approx(first / 100)
    assert not losses


def test_a_clients_factor_is_its_own_and_log_normal() -> None:
    losses = SyntheticLosses(3, 0)
    logs = np.log([losses[client, 0] / math.log(10) ** 2 for client in range(4000)])
    assert abs(logs.mean()) < 5 * 0.5 / math.sqrt(4000)
    assert abs(logs.std() - 0.5) < 5 * 0.5 / math.sqrt(8000)
    # Whoever asks, in whatever order, and by the trial.
    again = SyntheticLosses(3, 0)
    assert [again[client, 2] for client in (5, 1)] == [losses[client, 2] for client in (5, 1)]
    assert SyntheticLosses(3, 1)[5, 2] != losses[5, 2]
