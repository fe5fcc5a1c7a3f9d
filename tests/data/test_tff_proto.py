"""The reader of tf.train.Example against an encoder of its own, by the wire format's public description."""

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.data.sources.tff_proto import NotAnExample, example_features
from tests.tff_files import encoded, field, varint

NAMES = st.text(max_size=8)
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32, allow_nan=False)
VALUES = st.one_of(
    st.lists(st.binary(max_size=20), max_size=4),
    st.lists(INT64, min_size=1, max_size=6),
    st.lists(FLOATS, min_size=1, max_size=6),
)


def _as_lists(features):
    return {name: list(values) for name, values in features.items()}


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.booleans())
def test_what_is_written_is_read(features, packed):
    read = example_features(encoded(features, packed))
    assert _as_lists(read) == features


def test_a_message_byte_by_byte():
    # An Example (10, length) of Features with the entry ("label", Int64List packed [300]): 300 is 0xAC 0x02.
    entry = b"\x0a\x05label" + b"\x12\x06" + b"\x1a\x04" + b"\x0a\x02\xac\x02"
    message = b"\x0a" + bytes([len(entry) + 2]) + b"\x0a" + bytes([len(entry)]) + entry
    (values,) = example_features(message).values()
    assert (values.tolist(), values.dtype) == ([300], np.int64)


def test_unknown_fields_are_passed_over_and_numbers_may_be_mixed():
    floats = field(1, 5, struct.pack("<f", 0.5)) + field(1, 2, struct.pack("<2f", 1, 2))
    feature = field(9, 0, varint(7)) + field(2, 2, floats) + field(8, 1, bytes(8))
    entry = field(1, 2, b"x") + field(2, 2, feature)
    assert example_features(field(7, 2, b"?") + field(1, 2, field(1, 2, entry)))["x"].tolist() == [0.5, 1, 2]


@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(message):
    with contextlib.suppress(NotAnExample):
        example_features(message)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=3), st.data())
def test_a_message_with_one_byte_changed_or_cut_is_read_or_refused(features, data):
    message = bytearray(encoded(features, True))
    at = data.draw(st.integers(0, len(message) - 1))
    message[at] = data.draw(st.integers(0, 255))
    for content in (bytes(message), bytes(message[:at])):
        with contextlib.suppress(NotAnExample):
            example_features(content)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\x0a\x05abc", "it is cut short"),
        (b"\x0a", "it is cut short"),
        (b"\x80" * 12, "a number is too long"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "it is cut short"),
        (b"\x08\x01", "a field 1 is of wire type 0"),
        (b"\x0b", "there is no wire type 3"),
        (b"\x02\x00", "there is no field 0"),
        (encoded({"x": [1]}, True)[:-1] + b"\x80", "it is cut short"),
        (field(1, 2, field(1, 2, field(2, 2, field(2, 2, field(1, 2, b"abc"))))), "its floats are none"),
        (
            field(1, 2, field(1, 2, field(2, 2, field(3, 2, field(1, 2, b"\xff" * 11 + b"\x01"))))),
            "a number is too long",
        ),
        (field(1, 2, field(1, 2, field(2, 2, field(3, 2, field(1, 5, b"abcd"))))), "its integers are none"),
    ],
)
def test_what_is_no_example(message, why):
    with pytest.raises(NotAnExample, match=f"^{why}$"):
        example_features(message)
