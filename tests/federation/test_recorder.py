"""Evaluation k takes the first server version at or past ``k * every``; the last version always has a row."""

import numpy as np
import pytest

from fedhpc.budget import Evaluation
from fedhpc.federation import recorder as subject
from fedhpc.federation.recorder import Metrics, Recorder
from fedhpc.federation.updates import Participation, ServerUpdate, Totals


def update(version: int, client_updates: int, time: float, stale: tuple[int, ...] = (0,)) -> ServerUpdate:
    updates = [
        Participation(0, 0, 0, version - 1 - staleness, 1, 0.0, steps=1, arrives=time, staleness=staleness)
        for staleness in stale
    ]
    totals = Totals(server_updates=version, client_updates=client_updates)
    return ServerUpdate(version, time, updates if version else [], [], totals, [])


def test_rows_align_with_the_grid_and_hold_the_true_counts() -> None:
    recorder = Recorder(Evaluation(every=10))
    counts = [0, 4, 8, 12, 16, 20, 24]
    wanted = [recorder.observe(update(version, count, 1.0 * version)) for version, count in enumerate(counts)]
    assert wanted == [True, False, False, True, False, True, False]
    assert recorder.finish() == 6
    metrics = {version: Metrics(version / 10, None, 1.0) for version in (0, 3, 5, 6)}
    columns = recorder.evaluations(metrics)
    assert columns["client_updates"].tolist() == [0, 12, 20, 24]
    assert columns["time"].tolist() == [0.0, 3.0, 5.0, 6.0]
    assert columns["total_accuracy"].tolist() == [0.0, 0.3, 0.5, 0.6]
    assert "straggler_accuracy" not in columns


def test_a_version_past_several_grid_points_takes_them_all() -> None:
    recorder = Recorder(Evaluation(every=10))
    for version, count in enumerate([0, 35, 40]):
        recorder.observe(update(version, count, 0.0))
    assert recorder.finish() is None
    assert recorder.evaluations({})["client_updates"].tolist() == [0, 35, 35, 35, 40]


def test_by_server_updates_and_by_virtual_seconds() -> None:
    by_updates = Recorder(Evaluation(every=2, unit="server_updates"))
    by_time = Recorder(Evaluation(every=5, unit="virtual_seconds"))
    for version, time in enumerate([0.0, 4.0, 6.0, 9.0, 11.0]):
        by_updates.observe(update(version, version, time))
        by_time.observe(update(version, version, time))
    assert by_updates.evaluations({})["server_updates"].tolist() == [0, 2, 4]
    assert by_time.evaluations({})["time"].tolist() == [0.0, 6.0, 11.0]


def test_staleness_of_a_server_update() -> None:
    recorder = Recorder(Evaluation(every=100))
    recorder.observe(update(0, 0, 0.0))
    recorder.observe(update(1, 3, 2.5))
    recorder.observe(update(2, 6, 4.0, stale=(0, 1, 1)))
    columns = recorder.server_updates()
    assert columns["staleness"].tolist() == [0.0, 2 / 3]
    assert columns["staleness_max"].tolist() == [0, 1]
    assert columns["updates_aggregated"].tolist() == [1, 3]
    assert columns["server_update_time"].tolist() == [2.5, 4.0]


def test_durations_are_kept_in_the_order_of_use_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST_DURATIONS", 4)
    recorder = Recorder(Evaluation(every=100))
    for version, durations in enumerate([[], [3.0, 1.5], [0.1, 7.0, 8.0], [9.0]]):
        one = update(version, 0, 0.0)
        one.updates = [Participation(0, 0, 0, 0, 1, 10.0, arrives=10 + seconds) for seconds in durations]
        if version == 1:
            one.late = [Participation(0, 0, 0, 0, 1, 2.0, arrives=27.0)]
        recorder.observe(one)
    column = recorder.client_updates()["duration"]
    assert column.dtype == np.float32
    assert column == pytest.approx([3.0, 1.5, 25.0, 0.1])


def test_coreset_errors_stand_at_the_versions_that_they_made() -> None:
    recorder = Recorder(Evaluation(every=100))
    for version in range(4):
        recorder.observe(update(version, 0, 0.0))
    assert "coreset_error" not in recorder.server_updates()
    np.testing.assert_array_equal(
        recorder.server_updates({1: 0.5, 3: 0.25, 9: 1.0})["coreset_error"], [0.5, np.nan, 0.25]
    )
