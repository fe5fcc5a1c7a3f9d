"""LEAF's JSON files (Caldas et al. 2018): ``users``, their ``num_samples``, and ``user_data`` of ``x`` and ``y``."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fedhpc.data.sources.naming import is_name, mistake
from fedhpc.mistakes import ExperimentError


class User(NamedTuple):
    """What a user has: ``x`` and ``y`` are as JSON has them, equally many. ``file`` is where they stand."""

    name: str
    x: list[Any]
    y: list[Any]
    file: Path


class _KeyTwice(ValueError):
    pass


def read_users(path: Path, key: str) -> Iterator[User]:
    """The users of a file, or of the ``.json`` files of a folder, one file after another by their names. Raises
    ExperimentError, of ``task.data.<key>``, where one is no file of LEAF's, cannot be read, or has a user twice or one
    that another has."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise mistake(path, key, "the folder holds no .json file; it takes those that LEAF's scripts write")
    file_of: dict[str, Path] = {}
    for file in files:
        for user in _users(file, key):
            if user.name in file_of:
                other = file_of[user.name]
                where = "twice" if other == file else f"there and in {other.name}"
                raise mistake(file, key, f"the user '{user.name}' stands {where}")
            file_of[user.name] = file
            yield user


def of_user(user: User, key: str, sentence: str) -> ExperimentError:
    """The error that something is wrong with what a user has."""
    return mistake(user.file, key, f"user '{user.name}': {sentence}")


def _users(file: Path, key: str) -> Iterator[User]:
    content = _content(file, key)
    names, sizes, data = content["users"], content["num_samples"], content["user_data"]
    if len(names) != len(sizes):
        raise mistake(file, key, f"it has {len(names):,} users, but {len(sizes):,} num_samples")
    if len(names) != len(data):
        raise mistake(file, key, f"it has {len(names):,} users, but user_data of {len(data):,}")
    for name, size in zip(names, sizes, strict=True):
        if not isinstance(name, str) or not is_name(name):
            raise mistake(file, key, f"a user is called {name!r}; it takes a text")
        own = data.pop(name, None)  # given away, so that a file's content goes as it is used
        if own is None:
            told = "stands twice" if names.count(name) > 1 else "has no user_data"
            raise mistake(file, key, f"the user '{name}' {told}")
        x, y = (own.get("x"), own.get("y")) if isinstance(own, dict) else (None, None)
        if not isinstance(x, list) or not isinstance(y, list):
            raise mistake(file, key, f"user '{name}': it takes lists x and y")
        if not len(x) == len(y) == size:
            raise mistake(file, key, f"user '{name}': num_samples is {size}, but there are {len(x)} x and {len(y)} y")
        yield User(name, x, y, file)


def _content(file: Path, key: str) -> dict[str, Any]:
    try:
        with file.open(encoding="utf-8") as text:
            content: dict[str, Any] = json.load(text, object_pairs_hook=_each_once)
    except _KeyTwice as error:
        raise mistake(file, key, f"the user or key '{error}' stands twice") from None
    except (OSError, ValueError, RecursionError) as error:
        raise mistake(file, key, f"the file cannot be read as JSON: {error}") from None
    kinds = {"users": list, "num_samples": list, "user_data": dict}
    for name, kind in kinds.items():
        if not isinstance(content, dict) or not isinstance(content.get(name), kind):
            one = "an object" if kind is dict else "a list"
            raise mistake(file, key, f"the file has no '{name}', {one}; it takes a file that LEAF's scripts write")
    return content


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _KeyTwice(next(name for name in names if names.count(name) > 1))
    return found
