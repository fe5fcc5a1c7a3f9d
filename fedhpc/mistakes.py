"""Mistakes in words: pydantic's findings as sentences with the key's path, the value, and the mend."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from fedhpc.field_words import ours

M = TypeVar("M", bound=BaseModel)

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


def validated(model: type[M], raw: Any, place: Path) -> M:
    """The content of a file, or of whatever ``place`` names, as the model has it. Raises ExperimentError with every
    mistake."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise ExperimentError(place, sentences(error, model, raw, raw)) from None


def sentences(error: ValidationError, model: type[BaseModel], raw: Any, filled: Any) -> list[str]:
    """One sentence a mistake. ``raw`` is the file's content; ``filled`` is what was checked, with defaults copied in.

    A mistake in a default shows up in every algorithm that inherits it; it is told once, at the default's own key.
    Where others inherit it and it is none there, those whose it is are named.
    """
    told: dict[str, list[_Place]] = {}
    for details in error.errors():
        place = _find(model, filled, details["loc"])
        keys = place.keys
        if (key := _inherited(details["type"], keys)) and _inherits(raw, filled, str(keys[1]), key):
            keys = keys[2:]
        of_default = told.setdefault(_sentence(".".join(map(str, keys)), details, place), [])
        if keys is not place.keys:
            of_default.append(place)
    # Of an algorithm whose kind is not known, nothing else was checked.
    unread = {
        str(details["loc"][1])
        for details in error.errors()
        if details["type"].startswith("union_tag") and details["loc"][0] == "algorithms"
    }
    return [_told_of_some(sentence, places, raw, filled, unread) for sentence, places in told.items()]


def _inherited(kind: str, keys: Sequence[int | str]) -> Sequence[int | str]:
    """What an algorithm may have from a default, of a mistake of that kind at ``keys``: a key within the algorithm;
    empty where that is none. What is missing is missing in its block."""
    if not keys or keys[0] != "algorithms":
        return []
    return keys[2:-1] if kind == "missing" else keys[2:]


def _inherits(raw: Any, filled: Any, algorithm: str, key: Sequence[int | str]) -> bool:
    own = ["algorithms", algorithm, *key]
    return _present(raw, key) and not _present(raw, own) and _present(filled, own)


def _told_of_some(sentence: str, places: list[_Place], raw: Any, filled: Any, unread: set[str]) -> str:
    """A mistake in a default, of the algorithms in whose ``places`` it is one: with their names, if it is none in
    others."""
    if not places:
        return sentence
    names = [str(place.keys[1]) for place in places]
    key = next(key for key in (places[0].keys[2:], places[0].keys[2:-1]) if _present(raw, key))
    others = [str(name) for name in filled["algorithms"] if name not in unread and name not in names]
    fitting = [name for name in others if _inherits(raw, filled, name, key)]
    if not fitting:
        return sentence
    default = ".".join(map(str, key))
    if len(names) == 1:
        return (
            f"algorithms.{names[0]}.{sentence}; it has this from the default {default}, which may stay: give it "
            f"otherwise in algorithms.{names[0]}.{key[0]}"
        )
    fits = f"algorithms.{fitting[0]}.{key[0]}" if len(fitting) == 1 else f"those of {', '.join(fitting)}"
    return f"{sentence}, or move {default} from the default to {fits}: it is a mistake in {', '.join(names)}"


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
        case "list_type":
            return f"{path}: {shown} is not allowed; write a list: [{value!r}]"
        case "int_type" if isinstance(value, list):
            return f"{path}: {shown} is not allowed; it takes a whole number: how many, not which ones"
        case "string_type" if isinstance(value, int | float):
            return f'{path}: {shown} is not allowed; write it in quotes: "{value}"'
        case _:
            return f"{path}: {shown} is not allowed: {_plain(details['msg'])}"


def _plain(message: str) -> str:
    message = message.removeprefix("Input ").replace("should be", "it should be", 1)
    return message[0].lower() + message[1:]


def nearest(word: str, known: Sequence[str]) -> str:
    """The end of a sentence that names the known word most like this one; empty where none is like it."""
    called = ours(str(word), list(known))
    close = [called] if called else difflib.get_close_matches(str(word), known, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def _words(listed: str) -> list[str]:
    """The words of a list as pydantic writes it: 'a', 'b' or 'c'."""
    return [word.strip(f" {_QUOTES}") for word in listed.replace(" or ", ",").split(",")]


def _allowed(kinds: list[Any]) -> str:
    choices = [str(value) for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
    if choices:
        return f"; allowed: {', '.join(choices)}"
    if kinds_of_block := _kinds_of_block(kinds):
        return f"; {kinds_of_block}"
    names = [_NAMES[kind] for kind in kinds if kind in _NAMES]
    if any(_is_block(kind) for kind in kinds):
        names.append(f"a block of keys{_keys(kinds)}")
    return f"; it takes {' or '.join(names)}" if names else ""


def _kinds_of_block(kinds: list[Any]) -> str:
    """What to give where only blocks of several kinds may stand, told apart by the word of one key; empty elsewhere."""
    blocks = [kind for kind in kinds if _is_block(kind)]
    tags = [
        {key: _words_of(field) for key, field in block.model_fields.items() if _words_of(field)} for block in blocks
    ]
    only = len(blocks) == len(kinds) > 1
    common = [key for key in tags[0] if all(key in each for each in tags)] if only else []
    if not common:
        return ""
    key = common[0]
    alone = [each[key][0] for block, each in zip(blocks, tags, strict=True) if len(block.model_fields) == 1]
    others = sorted(str(word) for each in tags for word in each[key] if word not in alone)
    ready = "".join(f"{{{key}: {word}}}, or " for word in alone)
    return f"give {ready}a block with {'another' if alone else 'a'} {key}: {', '.join(others)}"


def _words_of(field: FieldInfo) -> tuple[Any, ...]:
    """The words of a key that must be given, and that has one of them."""
    return get_args(field.annotation) if get_origin(field.annotation) is Literal and field.is_required() else ()


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
    return {value for field in member.model_fields.values() for value in _words_of(field)}
