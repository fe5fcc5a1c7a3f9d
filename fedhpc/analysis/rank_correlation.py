"""How far two orders agree."""

from collections.abc import Sequence
from itertools import combinations
from math import sqrt


def kendall_tau(one: Sequence[float], other: Sequence[float]) -> float:
    """Kendall's tau-b of two equally long sequences: 1 where they order all pairs alike, -1 where they order them
    contrariwise; ties count for neither. NaN where one of them has ties only, or fewer than two values."""
    concordance, ordered_by_one, ordered_by_other = 0, 0, 0
    for (a, x), (b, y) in combinations(zip(one, other, strict=True), 2):
        first, second = (a > b) - (a < b), (x > y) - (x < y)
        concordance += first * second
        ordered_by_one += first != 0
        ordered_by_other += second != 0
    pairs = sqrt(ordered_by_one * ordered_by_other)
    return concordance / pairs if pairs else float("nan")
