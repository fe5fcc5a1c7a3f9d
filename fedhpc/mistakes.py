"""Mistakes in words: pydantic's findings as sentences with the key's path, the value, and the mend."""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails


class ExperimentError(Exception):
    """A file that cannot be run as it stands. ``mistakes`` are sentences, each with the path of its key."""

    def __init__(self, path: Path, mistakes: Sequence[str]) -> None:
        self.path, self.mistakes = path, list(mistakes)
        super().__init__("\n".join([f"{path}:", *(f"  {mistake}" for mistake in mistakes)]))


def sentences(error: ValidationError, model: type[BaseModel], raw: Any, filled: Any) -> list[str]:
    """One sentence a mistake. ``raw`` is the file's content; ``filled`` is what was checked, with defaults copied in.

    A mistake in a default shows up in every algorithm that inherits it; it is told once, at the default's own key.
    """
    told: dict[str, None] = {}
    for details in error.errors():
        keys, models = _walk(model, filled, details["loc"])
        path = ".".join(str(key) for key in keys)
        if len(keys) > 2 and keys[0] == "algorithms" and not _present(raw, keys) and _present(raw, keys[2:]):
            path = ".".join(str(key) for key in keys[2:])
        told.setdefault(_sentence(path, details, models[-1] if models else None))
    return list(told)


def _sentence(path: str, details: ErrorDetails, model: type[BaseModel] | None) -> str:
    place = path or "the file"
    value = details.get("input")
    shown = repr(value) if not isinstance(value, dict | list) else f"{type(value).__name__} of {len(value)}"
    context = details.get("ctx", {})
    match details["type"]:
        case "extra_forbidden":
            parent, _, key = path.rpartition(".")
            known = list(model.model_fields) if model else []
            where = f"{parent} has" if parent else "the file has"
            return f"{place}: unknown key{_nearest(key, known)}; {where} the keys {', '.join(known)}"
        case "missing":
            return f"{place}: missing{_allowed(model, path)}"
        case "value_error":
            message = str(context["error"])
            # A validator of a block may name a key of that block; the sentence then reads as one path.
            head, colon, rest = message.partition(": ")
            if colon and " " not in head:
                return f"{path}.{head}: {rest}" if path else message
            return f"{place}: {message}"
        case "union_tag_invalid":
            tags = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
            key = context["discriminator"].strip("'")
            tag = context["tag"]
            return f"{place}.{key}: {tag!r} is unknown{_nearest(tag, tags)}; known: {', '.join(tags)}"
        case "union_tag_not_found":
            return f"{place}.{context['discriminator'].strip(chr(39))}: missing; it says which kind of block this is"
        case "literal_error":
            allowed = context["expected"]
            names = [name.strip(" '") for name in allowed.replace(" or ", ",").split(",")]
            return f"{place}: {shown} is not allowed{_nearest(str(value), names)}; allowed: {', '.join(names)}"
        case "string_pattern_mismatch":
            key = path.removesuffix(".[key]")
            return f"{key}: a name is lower-case letters, digits and underscores, since it becomes a folder"
        case _:
            return f"{place}: {shown} is not allowed: {_plain(details['msg'])}"


def _plain(message: str) -> str:
    message = message.removeprefix("Input ").replace("should be", "it should be", 1)
    return message[0].lower() + message[1:]


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def _allowed(model: type[BaseModel] | None, path: str) -> str:
    field = model.model_fields.get(path.rpartition(".")[2]) if model else None
    if field is None:
        return ""
    choices = [value for part in _members(field.annotation) for value in get_args(part) if get_origin(part) is Literal]
    if choices:
        return f"; allowed: {', '.join(map(str, choices))}"
    kinds = [kind.__name__ for kind in _members(field.annotation) if kind in (int, float, str, bool)]
    return f"; it takes {'an' if kinds[0] == 'int' else 'a'} {' or '.join(kinds)}" if kinds else ""


def _present(content: Any, keys: Sequence[Any]) -> bool:
    for key in keys:
        if not isinstance(content, dict) or key not in content:
            return False
        content = content[key]
    return True


def _members(annotation: Any) -> Iterator[Any]:
    """The alternatives of an annotation, through Annotated, unions and dict values."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    elif origin is dict:
        yield from _members(get_args(annotation)[1])
    else:
        yield annotation


def _walk(
    model: type[BaseModel], content: Any, loc: Sequence[int | str]
) -> tuple[list[int | str], list[type[BaseModel]]]:
    """Pydantic's location as the file's keys, without the tags of unions, and the models on the way to it."""
    keys: list[int | str] = []
    models: list[type[BaseModel]] = [model]
    expected: list[Any] = [model]
    for step in loc:
        tagged = [
            member
            for member in expected
            if isinstance(member, type) and issubclass(member, BaseModel) and step in _tags(member)
        ]
        if tagged and not (isinstance(content, dict) and step in content and step in tagged[0].model_fields):
            expected = tagged
            models.append(tagged[0])
            continue
        keys.append(step)
        if isinstance(content, dict):
            content = content.get(step)
        elif isinstance(content, list) and isinstance(step, int) and step < len(content):
            content = content[step]
        owner = next((member for member in expected if _has_field(member, step)), None)
        if owner is not None:
            if owner is not models[-1]:
                models.append(owner)
            expected = list(_members(owner.model_fields[str(step)].annotation))
            if get_origin(owner.model_fields[str(step)].annotation) is dict:
                continue
        below = [member for member in expected if isinstance(member, type) and issubclass(member, BaseModel)]
        if len(below) == 1 and step != loc[-1] and below[0] is not models[-1]:
            models.append(below[0])
    return keys, models


def _has_field(member: Any, step: int | str) -> bool:
    return isinstance(member, type) and issubclass(member, BaseModel) and step in member.model_fields


def _tags(member: type[BaseModel]) -> set[Any]:
    """The values of a block's one-word fields, which a discriminated union uses as tags."""
    return {
        value
        for field in member.model_fields.values()
        if get_origin(field.annotation) is Literal and field.is_required()
        for value in get_args(field.annotation)
    }
