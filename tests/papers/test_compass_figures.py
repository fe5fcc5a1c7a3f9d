"""FedCompass, Figures 1, 20, 21 and 22, event by event: five clients, Q from 20 to 100, lambda 1.2; time in minutes.

Clients take 10, 5, 4, 2.5 and 2 steps a minute: 20 steps take 2, 4, 5, 8 and 10 minutes.
"""

import pytest

from fedhpc.budget import Budget
from tests.silos import WatchedCompass, compass

MINUTES_A_STEP = {1: 0.1, 2: 0.2, 3: 0.25, 4: 0.4, 5: 0.5}
SETTINGS = {"min_steps": 20, "max_steps": 100, "latest_time_factor": 1.2, "mixing": 0.9}
POLYNOMIAL = {"kind": "polynomial", "exponent": 0.5}

Assigned = tuple[float, int, int, int]
"""Minute, client, steps, group."""

FIRST_ROUND = [
    # 02:00, no group: Q_max steps, T_a = 2 + 100 * 0.1.
    (2.0, 1, 100, 1),
    # 04:00: (12 - 4) / 0.2 = 40. 05:00: (12 - 5) / 0.25 = 28.
    (4.0, 2, 40, 1),
    (5.0, 3, 28, 1),
    # 08:00: (12 - 8) / 0.4 = 10 is below 20. A new group, that client 1 can join at 12:00 with 100 steps, is expected
    # at 12 + 100 * 0.1 = 22: (22 - 8) / 0.4 = 35.
    (8.0, 4, 35, 2),
    # 10:00: (12 - 10) / 0.5 = 4 is below 20, (22 - 10) / 0.5 = 24.
    (10.0, 5, 24, 2),
]
TIMES = {1: (12.0, 14.0), 2: (22.0, 24.8)}
"""T_a and T_max: 2 + 1.2 * 10 and 8 + 1.2 * 14."""


def played(third: float, until: float) -> tuple[WatchedCompass, list[tuple[float, list[int], list[float]]]]:
    """Until that minute, with client 3 at ``third`` minutes a step from its second round on. Server updates are (time,
    clients, weights), clients in order of their names where they arrive together."""

    def speed(client: int, participation: int) -> float:
        return third if client == 2 and participation else MINUTES_A_STEP[client + 1]

    server, scheduler = compass(speed, Budget(virtual_seconds=until), 5, staleness=POLYNOMIAL, **SETTINGS)
    made = []
    for update in server.server_updates():
        pairs = sorted(
            (round(one.arrives, 6), one.client + 1, weight)
            for one, weight in zip(update.updates, update.weights, strict=True)
        )
        made.append((round(update.time, 6), [client for _, client, _ in pairs], [weight for *_, weight in pairs]))
    assert [(time, clients) for time, clients, _ in made[:6]] == [
        (0.0, []),
        (2.0, [1]),
        (4.0, [2]),
        (5.0, [3]),
        (8.0, [4]),
        (10.0, [5]),
    ]
    return scheduler, made[6:]


def assigned(scheduler: WatchedCompass) -> list[Assigned]:
    """Who was assigned together comes in order of the names."""
    return sorted((minute, client + 1, steps, group) for minute, client, steps, group in scheduler.assigned)


def together(minute: float, group: int, steps: list[int]) -> list[Assigned]:
    """Clients 1, 2, ... are assigned to that group."""
    return [(minute, client, each, group) for client, each in enumerate(steps, 1)]


def test_compass_figure_1() -> None:
    scheduler, made = played(third=0.25, until=41.9)
    assert [(time, clients) for time, clients, _ in made] == [
        (12.0, [1, 2, 3]),
        (22.0, [1, 2, 3, 4, 5]),
        (32.0, [1, 2, 3, 4, 5]),
    ]
    assert assigned(scheduler) == [
        *FIRST_ROUND,
        # 12:00, group 1 is complete: (22 - 12) / 0.1 = 100, / 0.2 = 50, / 0.25 = 40.
        *together(12.0, 2, [100, 50, 40]),
        # 22:00, all are there and no group is left. The fastest makes the new one: 22 + 100 * 0.1 = 32.
        *together(22.0, 3, [100, 50, 40, 25, 20]),
        *together(32.0, 4, [100, 50, 40, 25, 20]),
    ]
    assert scheduler.times == TIMES | {3: (32.0, 34.0), 4: (42.0, 44.0)}


def test_compass_figure_20() -> None:
    # Client 3 takes 5 steps a minute: 05:00 + 28 * 0.2 = 10:36. It waits until 12:00, and then (22 - 12) / 0.2 = 50.
    scheduler, made = played(third=0.2, until=31.9)
    assert [(time, clients) for time, clients, _ in made] == [(12.0, [3, 1, 2]), (22.0, [1, 2, 3, 4, 5])]
    assert assigned(scheduler) == [
        *FIRST_ROUND,
        *together(12.0, 2, [100, 50, 50]),
        *together(22.0, 3, [100, 50, 50, 25, 20]),
    ]


def test_compass_figure_21() -> None:
    # Client 3 takes 10/3 steps a minute: 05:00 + 28 * 0.3 = 13:24, after T_a = 12:00 and before T_max = 14:00. Then
    # (22 - 13.4) / 0.1 = 86, / 0.2 = 43, and / 0.3 = 28.7. 28 steps of 0.3 end at 21:48.
    scheduler, made = played(third=0.3, until=31.8)
    assert [(time, clients) for time, clients, _ in made] == [(13.4, [1, 2, 3]), (22.0, [3, 1, 2, 4, 5])]
    assert assigned(scheduler) == [
        *FIRST_ROUND,
        *together(13.4, 2, [86, 43, 28]),
        # 10 / 0.3 = 33.3.
        *together(22.0, 3, [100, 50, 33, 25, 20]),
    ]


def test_compass_figure_22() -> None:
    # Client 3 takes 2.5 steps a minute: 05:00 + 28 * 0.4 = 16:12 (the figure's 15:12 is a slip), after T_max = 14:00.
    scheduler, made = played(third=0.4, until=31.7)
    assert assigned(scheduler) == [
        *FIRST_ROUND,
        # 14:00, T_max: (22 - 14) / 0.1 = 80, / 0.2 = 40.
        *together(14.0, 2, [80, 40]),
        # 16:12: (22 - 16.2) / 0.4 = 14.5 is below 20. Client 1 could be back at 22 + 100 * 0.1 = 32:
        # (32 - 16.2) / 0.4 = 39.5. 39 steps: T_a = 16.2 + 15.6 = 31.8, T_max = 16.2 + 1.2 * 15.6 = 34.92.
        (16.2, 3, 39, 3),
        # 22:00: (31.8 - 22) / 0.1 = 98, / 0.2 = 49, / 0.4 = 24.5; client 5's / 0.5 = 19.6 is below 20, so that it does
        # not fit (at the figure's 15:12 it would). Client 1, now in group 3, could be back at 31.8 + 10 = 41.8:
        # (41.8 - 22) / 0.5 = 39.6. T_a = 22 + 39 * 0.5 = 41.5, T_max = 22 + 1.2 * 19.5 = 45.4.
        (22.0, 1, 98, 3),
        (22.0, 2, 49, 3),
        (22.0, 4, 24, 3),
        (22.0, 5, 39, 4),
    ]
    assert scheduler.times == TIMES | {3: (31.8, 34.92), 4: (41.5, 45.4)}
    (fourteen, first, _), (at_22, second, weights) = made
    assert (fourteen, first, at_22, second) == (14.0, [1, 2], 22.0, [3, 1, 2, 4, 5])
    # Versions: client i made version i, the clients of group 1 version 6. Client 3 came from 3 when 6 was the newest,
    # 1 and 2 from 6, 4 from 4 and 5 from 5: st = (tau + 1)^-0.5 with tau = 3, 0, 0, 2, 1.
    assert weights == pytest.approx([0.9 / 5 * (tau + 1) ** -0.5 for tau in (3, 0, 0, 2, 1)])
