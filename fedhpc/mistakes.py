"""Mistakes in words: pydantic's findings as sentences with the key's path, the value, and the mend."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_QUOTES = "'"
_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


class ExperimentError(Exception):
    """A file that cannot be run as it stands. ``mistakes`` are sentences, each with the path of its key."""

    def __init__(self, path: Path, mistakes: Sequence[str]) -> None:
        # The arguments are those of the constructor, so that the exception survives pickling on its way between ranks.
        super().__init__(path, mistakes)
        self.path, self.mistakes = path, list(mistakes)

    def __str__(self) -> str:
        return "\n".join([f"{self.path}:", *(f"  {mistake}" for mistake in self.mistakes)])


@dataclass(frozen=True)
class _Place:
    """Where a mistake is: its keys in the file, the block that holds the last of them, and what may stand there."""

    keys: list[int | str]
    block: type[BaseModel] | None
    kinds: list[Any]


def sentences(error: ValidationError, model: type[BaseModel], raw: Any, filled: Any) -> list[str]:
    """One sentence a mistake. ``raw`` is the file's content; ``filled`` is what was checked, with defaults copied in.

    A mistake in a default shows up in every algorithm that inherits it; it is told once, at the default's own key.
    """
    told: dict[str, None] = {}
    for details in error.errors():
        place = _find(model, filled, details["loc"])
        keys = place.keys
        if len(keys) > 2 and keys[0] == "algorithms" and not _present(raw, keys) and _present(raw, keys[2:]):
            keys = keys[2:]
        told.setdefault(_sentence(".".join(map(str, keys)), details, place))
    return list(told)


def _sentence(path: str, details: ErrorDetails, place: _Place) -> str:
    value = details.get("input")
    shown = repr(value) if not isinstance(value, dict | list) else f"{type(value).__name__} of {len(value)}"
    context = details.get("ctx", {})
    parent, _, key = path.rpartition(".")
    match details["type"]:
        case "extra_forbidden":
            known = list(place.block.model_fields) if place.block else []
            return f"{path}: unknown key{nearest(key, known)}; {parent or 'the file'} has the keys {', '.join(known)}"
        case "missing":
            return f"{path}: missing{_allowed(place.kinds)}"
        case "value_error":
            message = str(context["error"])
            # A validator may name the key that it means, of its own block or of the block that its field is in.
            head, colon, rest = message.partition(": ")
            if not colon or " " in head:
                return f"{path}: {message}"
            of_own = any(_has_field(kind, head.partition(".")[0]) for kind in place.kinds)
            block = path if of_own else parent
            return f"{block}.{head}: {rest}" if block else message
        case "union_tag_invalid":
            tags = _words(context["expected_tags"])
            tag = context["tag"]
            where = f"{path}.{context['discriminator'].strip(_QUOTES)}"
            return f"{where}: {tag!r} is unknown{nearest(tag, tags)}; known: {', '.join(tags)}"
        case "union_tag_not_found":
            where = f"{path}.{context['discriminator'].strip(_QUOTES)}"
            tags = sorted({str(tag) for kind in place.kinds if _is_block(kind) for tag in _tags(kind)})
            return f"{where}: missing; known: {', '.join(tags)}"
        case "literal_error":
            words = _words(context["expected"])
            name = path.removesuffix(".[key]")
            return f"{name}: {shown} is not allowed{nearest(str(value), words)}; allowed: {', '.join(words)}"
        case "string_pattern_mismatch":
            name = path.removesuffix(".[key]")
            return f"{name}: a name is lower-case letters, digits and underscores, since it becomes a folder"
        case "model_type" | "dict_type" | "model_attributes_type":
            if (tag := _tag(value, place.kinds)) is not None:
                return f"{path}: {shown} is not allowed; write {{{tag}: {value}}}"
            return f"{path}: {shown} is not allowed; it takes a block of keys{_keys(place.kinds)}"
        case _:
            return f"{path}: {shown} is not allowed: {_plain(details['msg'])}"


def _plain(message: str) -> str:
    message = message.removeprefix("Input ").replace("should be", "it should be", 1)
    return message[0].lower() + message[1:]


def nearest(word: str, known: Sequence[str]) -> str:
    """The end of a sentence that names the known word most like this one; empty where none is like it."""
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def _words(listed: str) -> list[str]:
    """The words of a list as pydantic writes it: 'a', 'b' or 'c'."""
    return [word.strip(f" {_QUOTES}") for word in listed.replace(" or ", ",").split(",")]


def _allowed(kinds: list[Any]) -> str:
    choices = [str(value) for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
    if choices:
        return f"; allowed: {', '.join(choices)}"
    names = [_NAMES[kind] for kind in kinds if kind in _NAMES]
    if any(_is_block(kind) for kind in kinds):
        names.append(f"a block of keys{_keys(kinds)}")
    return f"; it takes {' or '.join(names)}" if names else ""


def _keys(kinds: list[Any]) -> str:
    known = [key for kind in kinds if _is_block(kind) for key in kind.model_fields]
    return f": {', '.join(dict.fromkeys(known))}" if known else ""


def _present(content: Any, keys: Sequence[Any]) -> bool:
    for key in keys:
        if not isinstance(content, dict) or key not in content:
            return False
        content = content[key]
    return True


def _members(annotation: Any) -> Iterator[Any]:
    """The alternatives of an annotation, through Annotated, unions, dict values and lists of blocks."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    elif origin is dict:
        yield from _members(get_args(annotation)[1])
    elif origin is list and _is_block(get_args(annotation)[0]):
        yield get_args(annotation)[0]
    else:
        yield annotation


def _find(model: type[BaseModel], content: Any, loc: Sequence[int | str]) -> _Place:
    """Follows pydantic's location, in which the tags of unions stand between the file's keys."""
    keys: list[int | str] = []
    block: type[BaseModel] | None = None
    kinds: list[Any] = [model]
    for step in loc:
        if str(step).startswith("<") and not _present(content, [step]):
            continue  # So settings name a union's members where no word of the file does.
        tagged = [kind for kind in kinds if _is_block(kind) and step in _tags(kind)]
        if tagged and not (isinstance(content, dict) and step in content):
            kinds = tagged
            continue
        keys.append(step)
        if isinstance(content, dict):
            content = content.get(step)
        elif isinstance(content, list) and isinstance(step, int) and step < len(content):
            content = content[step]
        blocks = [kind for kind in kinds if _is_block(kind)]
        block = next((kind for kind in blocks if _has_field(kind, step)), blocks[0] if len(blocks) == 1 else None)
        if block is not None and _has_field(block, step):
            kinds = list(_members(block.model_fields[str(step)].annotation))
    return _Place(keys, block, kinds)


def _is_block(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _has_field(kind: Any, step: int | str) -> bool:
    return _is_block(kind) and step in kind.model_fields


def _tag(value: Any, kinds: list[Any]) -> str | None:
    """The key of a block that is told from others by having this word there; None where no block is."""
    for kind in kinds:
        if isinstance(value, str) and _is_block(kind) and value in _tags(kind):
            return next(str(key) for key, field in kind.model_fields.items() if value in get_args(field.annotation))
    return None


def _tags(member: type[BaseModel]) -> set[Any]:
    """The values of a block's one-word fields, which a discriminated union uses as tags."""
    return {
        value
        for field in member.model_fields.values()
        if get_origin(field.annotation) is Literal and field.is_required()
        for value in get_args(field.annotation)
    }
