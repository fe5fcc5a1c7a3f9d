"""What is tried before the trials, for each algorithm and each latency scenario separately (Hard et al., appendix G).

A grid gives values to keys of an algorithm's settings; each combination is a point. Every point is one run, and the
best by one metric at its last evaluation is what that pair's trials run with.
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from fedhpc.budget import Accuracy, Budget
from fedhpc.federation.schedulers import Algorithm
from fedhpc.overrides import algorithm_mistakes, algorithm_with, known_names, relocated, resolved, with_values
from fedhpc.settings import Name, Settings

MOST_POINTS = 10_000

Metric = Literal[Accuracy, "loss"]
Axis = Annotated[list[Any], Field(min_length=1)]
Axes = Annotated[dict[str, Axis], Field(min_length=1)]


class Tuning(Settings):
    """``grid``: algorithm -> key of its settings, such as ``client.optimizer.rate`` -> the values that it takes by
    turns; all combinations are tried, the last key's values following each other fastest. ``budget`` ends a tuning run
    before the experiment's own budget would."""

    metric: Metric
    grid: Annotated[dict[Name, Axes], Field(min_length=1)]
    budget: Budget | None = None


@dataclass(frozen=True)
class Point:
    """``values``: key -> value, as the settings hold it. ``algorithm``: the settings with these values."""

    values: Mapping[str, Any]
    algorithm: Algorithm

    def __str__(self) -> str:
        return in_words(self.values)


def in_words(values: Mapping[str, Any]) -> str:
    """``client.optimizer.rate=0.1,server_optimizer.rate=1.0``: one text for a point, however its grid is ordered."""
    return ",".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value, separators=(',', ':'))}"
        for key, value in sorted(values.items())
    )


def point(algorithm: Algorithm, values: Mapping[str, Any]) -> Point:
    """The algorithm with these values. Raises ValidationError where they do not fit it."""
    tried = algorithm_with(algorithm, values)
    settings = tried.model_dump(mode="json")
    return Point({key: _at(settings, key) for key in values}, tried)


def points(algorithm: Algorithm, axes: Mapping[str, Sequence[Any]]) -> Iterator[Point]:
    """Every point of an algorithm's grid, in the grid's order."""
    for values in _combinations(axes):
        yield point(algorithm, values)


@dataclass(frozen=True)
class Outcome:
    """What a tuning run came to: the metric and the loss at its last evaluation."""

    metric: float
    loss: float

    @property
    def diverged(self) -> bool:
        """A model of no numbers still has an accuracy: that of the class that ``argmax`` falls on."""
        return not (math.isfinite(self.loss) and math.isfinite(self.metric))


def best(outcomes: Sequence[Outcome], metric: Metric) -> int:
    """Which one wins: the lowest loss or the highest accuracy, the first of those that are equal. One that diverged
    wins only where all did, and then it is the first."""
    sound = [number for number, outcome in enumerate(outcomes) if not outcome.diverged]
    if not sound:
        return 0
    sign = 1.0 if metric == "loss" else -1.0
    return min(sound, key=lambda number: sign * outcomes[number].metric)


def tuning_mistakes(filled: Mapping[str, Any]) -> list[str]:
    """What is wrong with a file's ``tuning`` beyond its form, one sentence a mistake. ``filled`` is the file's content
    with the algorithms' defaults in them, and may hold other mistakes, which are not told again."""
    tuning, algorithms = filled.get("tuning"), filled.get("algorithms")
    if not isinstance(tuning, dict) or not isinstance(algorithms, dict):
        return []
    told: dict[str, None] = dict.fromkeys(_budget_mistakes(tuning.get("budget"), filled.get("budget")))
    if "tuning" in algorithms:
        told["algorithms.tuning: this name is taken by the folder of the tuning runs; give another"] = None
    grid = tuning.get("grid")
    for name, axes in grid.items() if isinstance(grid, dict) else ():
        if name not in algorithms:
            told[f"tuning.grid.{name}: unknown algorithm{known_names(name, algorithms)}"] = None
        elif isinstance(algorithms[name], dict) and _is_grid(axes):
            # As the algorithm is written, and as it is in the scenarios that change it.
            for own in (algorithms[name], *_overridden(str(name), algorithms[name], filled.get("overrides"))):
                told |= dict.fromkeys(_grid_mistakes(str(name), own, axes))
    return list(told)


def _overridden(name: str, algorithm: Mapping[str, Any], overrides: Any) -> Iterator[dict[str, Any]]:
    for of_algorithms in overrides.values() if isinstance(overrides, dict) else ():
        values = of_algorithms.get(name) if isinstance(of_algorithms, dict) else None
        if isinstance(values, dict) and not algorithm_mistakes(name, algorithm):
            yield with_values(resolved(algorithm), values)


def relocated_in_grid(name: str, values: Mapping[str, Any], sentence: str) -> str:
    """A sentence about an algorithm, which begins with the key within it, as one about a point of its grid."""
    return relocated(f"tuning.grid.{name}", values, sentence, in_words(values))


def _grid_mistakes(name: str, own: dict[str, Any], axes: dict[str, list[Any]]) -> Iterator[str]:
    number = math.prod(map(len, axes.values()))
    if number > MOST_POINTS:
        yield f"tuning.grid.{name}: {number:,} points; {MOST_POINTS:,} are the most, so leave some values out"
        return
    blocks = [key for key, axis in axes.items() if any(isinstance(value, dict) for value in axis)]
    yield from (f"tuning.grid.{name}.{key}: a grid's values are no blocks; name a key within" for key in blocks)
    if blocks:
        return
    try:
        # As the results folder's own experiment file has it, with every default written out.
        own = resolved(own)
        known: set[str] = set()
    except ValidationError:
        known = set(algorithm_mistakes(name, own))
    seen: set[str] = set()
    told = set(known)
    for values in _combinations(axes):
        changed = with_values(own, values)
        found = algorithm_mistakes(name, changed)
        # What many points have in common is told of the first.
        yield from (relocated_in_grid(name, values, sentence) for sentence in found if sentence not in told)
        told.update(found)
        if not found:
            settings = resolved(changed)
            text = in_words({key: _at(settings, key) for key in axes})
            if text in seen:
                yield f"tuning.grid.{name}: {text} is given twice; leave one out"
            seen.add(text)


def _budget_mistakes(shorter: Any, whole: Any) -> Iterator[str]:
    if not isinstance(shorter, dict) or not isinstance(whole, dict):
        return
    for unit, limit in shorter.items():
        most = whole.get(unit)
        if isinstance(limit, int | float) and isinstance(most, int | float) and limit > most:
            yield f"tuning.budget.{unit}: {limit} exceeds the experiment's own {most}; lower it or leave it out"


def _is_grid(axes: Any) -> bool:
    return isinstance(axes, dict) and all(isinstance(key, str) and isinstance(axis, list) for key, axis in axes.items())


def _combinations(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _at(settings: Mapping[str, Any], key: str) -> Any:
    value: Any = settings
    for name in key.split("."):
        value = value[name]
    return value
