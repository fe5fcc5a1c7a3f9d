"""FedScale's behaviour trace, in its true format."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.latency.availability_settings import BehaviourTrace
from fedhpc.latency.availability_sources import availability_of
from fedhpc.latency.availability_sources.behaviour_trace import behaviour
from fedhpc.latency.damaged import DamagedFile


def trace(active: list[Any], inactive: list[Any], finish: float = 1000, **others: Any) -> dict[str, Any]:
    return {"duration": 211625, "inactive": inactive, "active": active, "finish_time": finish, "model": "a", **others}


def written(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "behaviour.pkl"
    path.write_bytes(pickle.dumps(content))
    return path


def test_a_small_trace_by_hand(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {
            2: trace([100, 400], [150, 500], finish=600),
            # The order of ids, and not of the file: 10 comes last.
            10: trace([0, 900], [50, 1200]),
            1: trace([10, 20, 700], [15, 20, 800]),
        },
    )
    found = availability_of(BehaviourTrace(source="fedscale", path=path), 3, 0, 0)
    # Client 0 is id 1 (the interval without a length is none), client 1 is id 2, client 2 is id 10, whose last interval
    # reaches the end of its time and so goes on in the next: 900..1050.
    assert found.intervals.first.tolist() == [0, 2, 4, 6]
    assert found.intervals.period.tolist() == [1000, 600, 1000]
    moments = {12: [True, False, True], 120: [False, True, False], 760: [True, False, False], 720: [True, True, False]}
    for now in sorted(moments):
        assert found.online(now).tolist() == moments[now], now
    assert found.online(990).tolist() == [False, False, True]
    assert found.until(2, 990) == 1050
    # 600 * 1 + 400 = 1000: client 1 comes on, and client 2 stays.
    assert found.online(1000).tolist() == [False, True, True]
    # What ends at a second is over at it.
    assert found.online(1050).tolist() == [False, True, False]


def test_overlapping_and_adjoining_intervals_are_one(tmp_path: Path) -> None:
    found = behaviour(written(tmp_path, {0: trace([0, 40, 90, 200], [50, 90, 120, 210])}), 1, 0, 0)
    assert (found.begins.tolist(), found.ends.tolist()) == ([0, 200], [120, 210])


def test_more_clients_than_traces_draw_theirs(tmp_path: Path) -> None:
    path = written(tmp_path, {number: trace([number], [number + 1]) for number in range(10)})
    ordered = behaviour(path, 4, 0, 0)
    assert ordered.begins.tolist() == [0, 1, 2, 3]
    drawn = behaviour(path, 2000, 5, 1)
    counts = np.bincount(drawn.begins.astype(int), minlength=10)
    # 200 each, give or take 13.4.
    assert (abs(counts - 200) < 60).all()
    assert behaviour(path, 2000, 5, 1).begins.tolist() == drawn.begins.tolist()
    assert behaviour(path, 2000, 5, 2).begins.tolist() != drawn.begins.tolist()
    assert behaviour(path, 2000, 6, 1).begins.tolist() != drawn.begins.tolist()


def test_ids_that_are_texts_come_after_numbers_in_their_order(tmp_path: Path) -> None:
    path = written(tmp_path, {"b": trace([3], [4]), "a": trace([2], [4]), 7: trace([1], [4])})
    assert behaviour(path, 3, 0, 0).begins.tolist() == [1, 2, 3]


def test_a_client_may_never_be_active(tmp_path: Path) -> None:
    found = behaviour(written(tmp_path, {0: trace([], []), 1: trace([5], [9]), 2: trace([], [])}), 3, 0, 0)
    assert found.first.tolist() == [0, 0, 1, 1]


def test_a_file_written_anew_is_read_anew(tmp_path: Path) -> None:
    assert behaviour(written(tmp_path, {0: trace([1], [2])}), 1, 0, 0).begins.tolist() == [1]
    assert behaviour(written(tmp_path, {0: trace([1, 5], [2, 8])}), 1, 0, 0).begins.tolist() == [1, 5]


def test_an_interval_in_which_nothing_can_be_done_is_none(tmp_path: Path) -> None:
    # Where virtual time is larger, its begin and its end are one number, and to wait for it would never end.
    assert behaviour(written(tmp_path, {0: trace([3, 7], [3 + 5e-10, 8])}), 1, 0, 0).begins.tolist() == [7]


ENDLESS: Any = [0]
for _ in range(12):
    ENDLESS = [ENDLESS] * 10


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([1, 2], "it holds no dict of clients"),
        ({}, "it holds no dict of clients"),
        ({4: [1, 2]}, "client 4 has no dict"),
        ({4: {"active": [], "duration": 3}}, "client 4 lacks inactive, finish_time"),
        ({4: trace([0], [1], finish=0)}, "client 4 has a finish_time of 0, where 60 s are the least"),
        ({4: trace([0], [1], finish=float("nan"))}, "client 4 has a finish_time of nan"),
        ({4: trace([0], [1], finish=10**400)}, "client 4 has a finish_time of a number of many digits, where 60 s are"),
        ({4: trace([0], [1], finish=ENDLESS)}, "client 4 has a finish_time of a list, where 60 s are the least"),
        ({4: trace([0], [10**400])}, "client 4: inactive is no list of seconds"),
        ({10**5000: 1}, "client a number of many digits has no dict"),
        ({4: trace([0, 5], [1])}, "client 4 is 2 times active and 1 times inactive"),
        ({4: trace([5], [1])}, "client 4 is active from second 5 to 1"),
        ({4: trace([-5], [1])}, "client 4 is active from second -5 to 1"),
        ({4: trace([0], ["late"])}, "client 4: inactive is no list of seconds"),
        ({4: trace([0], [True])}, "client 4: inactive is no list of seconds"),
        ({4: trace([0], [float("inf")])}, "client 4: inactive is no list of seconds"),
        ({4: {**trace([], []), "active": {}}}, "client 4: active is no list of seconds"),
        ({4: trace([0], [1], model=np.float64(3))}, r"the pickle names numpy\S+, and only plain dicts"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, content: object, told: str) -> None:
    with pytest.raises(DamagedFile, match=told):
        behaviour(written(tmp_path, content), 1, 0, 0)
