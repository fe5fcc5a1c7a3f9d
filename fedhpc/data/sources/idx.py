"""IDX files, the format of MNIST (LeCun et al. 1998), with or without gzip.

A file is two bytes of 0, a byte for the numbers' type, a byte for the number of dimensions, each dimension's length as
a 32-bit big-endian integer, then the numbers, big-endian, the last dimension varying fastest.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.naming import mistake

_GZIP = b"\x1f\x8b"
DENSEST = 1032
"""No deflated byte stands for more bytes than this."""

_TYPES: dict[int, tuple[str, np.dtype[Any]]] = {
    0x08: ("bytes", np.dtype(np.uint8)),
    0x0C: ("32-bit integers", np.dtype(">i4")),
}
_KINDS = {(0x08, 3): "pictures (idx3-ubyte)", (0x08, 1): "labels (idx1-ubyte)", (0x0C, 2): "QMNIST's labels (idx2-int)"}
PICTURES, LABELS, EXTENDED_LABELS = _KINDS
"""The files that MNIST and its kin have: (type, dimensions)."""


def read_idx(path: Path, key: str, *kinds: tuple[int, int]) -> NDArray[Any]:
    """The file's array, in this machine's byte order; it is of one of the ``kinds``.

    Raises ExperimentError, of ``task.data.<key>``, where it is of another kind, shorter or longer than its head says,
    or damaged.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            most = path.stat().st_size * (DENSEST if packed else 1)
            if packed:
                with gzip.open(raw) as unpacked:
                    return _read(cast(BinaryIO, unpacked), most, path, key, kinds)
            return _read(raw, most, path, key, kinds)
    except (OSError, EOFError, zlib.error) as error:
        raise mistake(path, key, f"the file cannot be read: {error}; fetch it anew") from None


def _read(file: BinaryIO, most: int, path: Path, key: str, kinds: tuple[tuple[int, int], ...]) -> NDArray[Any]:
    head = file.read(4)
    wanted = " or ".join(_KINDS[kind] for kind in kinds)
    if len(head) < 4 or head[:2] != b"\0\0":
        raise mistake(path, key, f"the file is no IDX file, which begins with two bytes of 0; it takes {wanted}")
    kind = (head[2], head[3])
    if kind not in kinds:
        told = _KINDS.get(kind, f"numbers of type 0x{head[2]:02x} in {head[3]} dimensions")
        raise mistake(path, key, f"the file holds {told}; it takes {wanted}")
    lengths = file.read(4 * head[3])
    shape = struct.unpack(f">{len(lengths) // 4}I", lengths[: len(lengths) // 4 * 4])
    numbers, dtype = _TYPES[head[2]]
    size = math.prod(shape) * dtype.itemsize
    if len(shape) < head[3]:
        raise mistake(path, key, "the file ends early, within its head; fetch it anew")
    told = "x".join(map(str, shape))
    # The head may claim any size, so that it is believed only as far as the file could hold it.
    content = file.read(size) if size <= most else b""
    if len(content) < size:
        raise mistake(path, key, f"the file ends early: its head tells of {told} {numbers}; fetch it anew")
    if file.read(1):
        raise mistake(path, key, f"the file goes on after the {told} {numbers} that its head tells of")
    array: NDArray[Any] = np.frombuffer(content, dtype).astype(dtype.newbyteorder("="), copy=False)
    return array.reshape(shape)
