"""``tf.train.Example`` as it lies in TFF's SQLite files: protocol buffers' wire format, read without TensorFlow.

A message is fields one after another, each a key (number * 8 + wire type, a varint) and its value. Of an Example, field
1 is a Features; its field 1, a name (1) and a Feature (2), stands once for each name; a Feature holds a list of bytes
(1), of floats (2) or of int64 (3), whose values are its field 1: numbers one by one, or packed into one value.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Feature = list[bytes] | NDArray[np.float32] | NDArray[np.int64]

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_LONGEST_VARINT = 10
_LISTS = {1: "bytes", 2: "floats", 3: "integers"}


class NotAnExample(ValueError):
    """Bytes that are no ``tf.train.Example``; says why."""


def example_features(message: bytes) -> dict[str, Feature]:
    """The features of an Example by name: bytes as a list, numbers as float32 or int64 [values]. One that is set to
    nothing has no values. Raises NotAnExample where the message is cut short or is something else."""
    features: dict[str, Feature] = {}
    for _, field in _messages(memoryview(message), (1,)):
        for _, entry in _messages(field, (1,)):
            name, feature = b"", memoryview(b"")
            for number, part in _messages(entry, (1, 2)):
                if number == 1:
                    name = bytes(part)
                else:
                    feature = part
            features[name.decode("utf-8", "replace")] = _feature(feature)
    return features


def _feature(message: memoryview) -> Feature:
    kind, values = "bytes", memoryview(b"")
    for number, part in _messages(message, tuple(_LISTS)):
        kind, values = _LISTS[number], part  # the last one counts
    if kind == "bytes":
        return [bytes(part) for _, part in _messages(values, (1,))]
    parts: list[NDArray[Any]] = [np.zeros(0, np.float32 if kind == "floats" else np.int64)]
    for number, wire_type, part in _fields(values):
        if number != 1:
            continue
        if kind == "floats" and wire_type in (_LENGTH, _FOUR_BYTES) and len(part) % 4 == 0:
            parts.append(np.frombuffer(part, "<f4").astype(np.float32))
        elif kind == "integers" and wire_type in (_LENGTH, _VARINT):
            parts.append(_varints(part))
        else:
            raise NotAnExample(f"its {kind} are none")
    return np.concatenate(parts)


def _messages(message: memoryview, numbers: tuple[int, ...]) -> Iterator[tuple[int, memoryview]]:
    """The fields of these numbers, which hold messages, text or bytes; others are passed over."""
    for number, wire_type, part in _fields(message):
        if number in numbers:
            if wire_type != _LENGTH:
                raise NotAnExample(f"a field {number} is of wire type {wire_type}")
            yield number, part


def _fields(message: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Number, wire type and content of each field; a varint's content is its bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire_type = key >> 3, key & 7
        start = at
        if wire_type == _VARINT:
            _, end = _varint(message, at)
        elif wire_type == _EIGHT_BYTES:
            end = at + 8
        elif wire_type == _FOUR_BYTES:
            end = at + 4
        elif wire_type == _LENGTH:
            length, start = _varint(message, at)
            end = start + length
        else:
            raise NotAnExample(f"there is no wire type {wire_type}")
        if not number:
            raise NotAnExample("there is no field 0")
        if end > len(message):
            raise NotAnExample("it is cut short")
        yield number, wire_type, message[start:end]
        at = end


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """The number whose bytes begin at ``at``, seven bits a byte, the lowest first; and where they end."""
    value = 0
    for place, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise NotAnExample("it is cut short" if len(message) - at < _LONGEST_VARINT else "a number is too long")


def _varints(packed: memoryview) -> NDArray[np.int64]:
    """Numbers one after another, all at once: a picture has thousands."""
    raw = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(raw < 128)
    if not len(raw):
        return np.zeros(0, np.int64)
    if not len(ends) or ends[-1] != len(raw) - 1:
        raise NotAnExample("it is cut short")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > _LONGEST_VARINT:
        raise NotAnExample("a number is too long")
    places = np.arange(len(raw)) - np.repeat(starts, lengths)
    bits = (raw & 127).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, starts).view(np.int64)
