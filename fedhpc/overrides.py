"""An algorithm's settings in one scenario only: papers tune for each latency scenario separately (Hard et al., G)."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from fedhpc.federation.schedulers import Algorithm
from fedhpc.mistakes import nearest, sentences
from fedhpc.settings import Name, Settings

Values = Annotated[dict[str, Any], Field(min_length=1)]
Overrides = dict[Name, dict[Name, Values]]
"""Scenario -> algorithm -> key of its settings, such as ``client.optimizer.rate`` -> the value that it has there."""

_ALGORITHM: TypeAdapter[Any] = TypeAdapter(Algorithm)


class _Algorithms(Settings):
    """Algorithms and nothing else, so that mistakes are told as an algorithm's are."""

    algorithms: dict[Name, Algorithm]


def with_values(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of nested settings in which each key, its blocks parted by dots, has its value."""
    changed = dict(settings)
    for key, value in values.items():
        first, _, rest = key.partition(".")
        if rest:
            block = changed.get(first)
            changed[first] = with_values(block if isinstance(block, dict) else {}, {rest: value})
        else:
            changed[first] = value
    return changed


def algorithm_with(algorithm: Algorithm, values: Mapping[str, Any]) -> Algorithm:
    """The algorithm with these values. Raises ValidationError where they do not fit it."""
    changed: Algorithm = _ALGORITHM.validate_python(with_values(algorithm.model_dump(mode="json"), values))
    return changed


def resolved(algorithm: Mapping[str, Any]) -> dict[str, Any]:
    """An algorithm's settings with every default written out. Raises ValidationError where they do not fit."""
    settings: dict[str, Any] = _ALGORITHM.validate_python(algorithm).model_dump(mode="json")
    return settings


def algorithm_mistakes(name: str, algorithm: Mapping[str, Any]) -> list[str]:
    """An algorithm's mistakes, one sentence each, beginning with the key within it."""
    content = {"algorithms": {name: algorithm}}
    try:
        _Algorithms.model_validate(content)
    except ValidationError as error:
        return [line.removeprefix(f"algorithms.{name}.") for line in sentences(error, _Algorithms, content, content)]
    return []


def relocated(place: str, values: Mapping[str, Any], sentence: str, in_words: str) -> str:
    """A sentence about an algorithm, which begins with the key within it, as one about ``place``, where some of its
    keys are given ``values``; where it is about another key, ``in_words`` says what the values are."""
    key = sentence.partition(": ")[0]
    for given in values:
        if key == given or key.startswith(f"{given}."):
            return f"{place}.{sentence}"
        if given.startswith(f"{key}."):
            return f"{place}.{given}{sentence.removeprefix(key)}"
    return f"{place}: with {in_words}, {sentence}"


def override_mistakes(filled: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a file's ``overrides`` beyond its form, one sentence a mistake. ``filled`` is the file's
    content with the algorithms' defaults in them, and may hold other mistakes, which are not told again."""
    overrides, algorithms, scenarios = (filled.get(key) for key in ("overrides", "algorithms", "scenarios"))
    if not (isinstance(overrides, dict) and isinstance(algorithms, dict) and isinstance(scenarios, dict)):
        return
    for scenario, of_algorithms in overrides.items():
        if scenario not in scenarios:
            yield f"overrides.{scenario}: unknown scenario{known_names(scenario, scenarios)}"
        for name, values in of_algorithms.items() if isinstance(of_algorithms, dict) else ():
            place = f"overrides.{scenario}.{name}"
            if name not in algorithms:
                yield f"{place}: unknown algorithm{known_names(name, algorithms)}"
            elif isinstance(algorithms[name], dict) and isinstance(values, dict):
                told = algorithm_mistakes(name, algorithms[name])
                own = algorithms[name] if told else resolved(algorithms[name])
                for sentence in algorithm_mistakes(name, with_values(own, values)):
                    if sentence not in told:
                        in_words = ", ".join(f"{key} {value}" for key, value in values.items())
                        yield relocated(place, values, sentence, in_words)


def known_names(name: Any, names: Mapping[str, Any]) -> str:
    """The end of a sentence about an unknown name: what may have been meant, and what there is."""
    known = list(map(str, names))
    return f"{nearest(name, known)}; known: {', '.join(known)}"
