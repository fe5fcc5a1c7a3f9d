"""From measurements to figures: rates, ratios, and their spread over the repeats."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from workflow.bench.measuring import Measurement

Spread = dict[str, float]
"""``min``, ``median`` and ``max`` over the repeats."""

KEYS = ("min", "median", "max")


def spread(values: Sequence[float]) -> Spread:
    """Minimum, median and maximum."""
    return {"min": min(values), "median": median(values), "max": max(values)}


def rates(measured: Sequence[Measurement]) -> list[float]:
    """Client updates a second of each repeat's whole run."""
    return [one.client_updates / one.ours for one in measured]


def against_bare_loop(measured: Sequence[Measurement]) -> dict[str, Any]:
    """Rates of the whole runs and of the bare loops, and the ratios pair by pair. ``seconds`` holds what was measured,
    repeat by repeat; ``step`` tells how a step was computed."""
    ours, bare = [one.ours for one in measured], [one.bare for one in measured if one.bare is not None]
    updates = [one.client_updates for one in measured]
    return {
        "ratio_to_bare_loop": spread([theirs / own for own, theirs in zip(ours, bare, strict=True)]),
        "client_updates_per_s": spread(rates(measured)),
        "bare_client_updates_per_s": spread([number / theirs for number, theirs in zip(updates, bare, strict=True)]),
        "client_updates": updates[0],
        "step": measured[0].step,
        "seconds": {"ours": ours, "bare": bare},
    }


def of_the_slowest(by_algorithm: dict[str, Sequence[Measurement]]) -> dict[str, Any]:
    """Each algorithm's rates, and before them those of the one whose median is lowest."""
    each = {name: spread(rates(measured)) for name, measured in by_algorithm.items()}
    slowest = min(each, key=lambda name: each[name]["median"])
    return {
        "client_updates_per_s": each[slowest],
        "slowest": slowest,
        "algorithms": {name: {"client_updates_per_s": rate} for name, rate in each.items()},
    }


def of_scaling(one: Sequence[Measurement], two: Sequence[Measurement]) -> dict[str, Any]:
    """Rates on one rank and on two, and their ratios pair by pair."""
    pairs = zip(rates(one), rates(two), strict=True)
    return {
        "ratio_of_two_ranks_to_one": spread([on_two / on_one for on_one, on_two in pairs]),
        "one_rank": {"client_updates_per_s": spread(rates(one))},
        "two_ranks": {"client_updates_per_s": spread(rates(two))},
    }


def of_waiting(short: Sequence[Measurement], long: Sequence[Measurement]) -> dict[str, Any]:
    """The share of a core that a rank costs in what the long run has beyond the short one."""
    pairs = list(zip(short, long, strict=True))
    return {
        "share_of_a_core": spread([(more.processor - less.processor) / (more.ours - less.ours) for less, more in pairs])
    }
