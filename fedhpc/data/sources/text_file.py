"""Text by documents, as LEAF (Caldas et al. 2018) prepares Shakespeare: windows of characters, the next as label."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.settings import TextFile
from fedhpc.data.sources.array_file import Arrays, open_arrays
from fedhpc.data.sources.naming import Named, check_columns, mistake


def load_text_file(settings: TextFile, path: Path) -> Examples:
    """The windows as float32 codes [examples, window]. A code is a byte's rank among the bytes that the text uses, and
    these are the classes; the client is the document, named by its number.

    Raises ExperimentError where the file holds no such text, or no document is long enough.
    """
    with open_arrays(path) as arrays:
        documents = [with_single_spaces(document) for document in _documents(settings, arrays)]
    used, codes = np.unique(np.frombuffer(b"".join(documents), np.uint8), return_inverse=True)
    ends = np.cumsum([len(document) for document in documents])
    window = settings.window
    features, labels, held_out, clients = [], [], [], []
    for client, text in enumerate(np.split(codes.astype(np.uint8), ends[:-1])):
        training, last = window_starts(len(text), window, settings.limit, settings.held_out, settings.stride)
        starts = np.concatenate([training, last])
        if len(starts):
            features.append(np.lib.stride_tricks.sliding_window_view(text, window)[starts].astype(np.float32))
            labels.append(text[starts + window].astype(np.int64))
            held_out.append(np.arange(len(starts)) >= len(training))
            clients.append(np.full(len(starts), client))
    if not features:
        raise mistake(path, "window", f"no document is longer than {window} characters")
    return Examples(
        features=np.concatenate(features),
        labels=np.concatenate(labels),
        held_out=np.concatenate(held_out),
        class_names=tuple(chr(byte) for byte in used),
        clients=np.concatenate(clients),
        client_names=tuple(str(client) for client in range(len(documents))),
    )


def with_single_spaces(document: bytes) -> bytes:
    """LEAF's reading of a role's lines: joined by spaces, and several spaces made one."""
    return re.sub(b"  +", b" ", document.replace(b"\n", b" "))


def window_starts(
    characters: int, window: int, limit: int | None, held_out: float, stride: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where a document's training windows and its held-out windows begin.

    Every ``stride`` characters, or at most ``limit`` windows of those, evenly spread; the last ``held_out`` share of
    them is held out, and no training window or its next character reaches into a held-out one.
    """
    possible = -(-max(characters - window, 0) // stride)
    kept = min(possible, limit or possible)
    starts = stride * np.linspace(0, possible - 1, kept).astype(np.int64)
    first_held_out = kept - round(held_out * kept)
    training, last = starts[:first_held_out], starts[first_held_out:]
    if len(last):
        training = training[training + window < last[0]]
    return training, last


def _documents(settings: TextFile, arrays: Arrays) -> list[bytes]:
    text_name, offsets_name = Named("text", settings.text), Named("offsets", settings.offsets)
    check_columns([text_name, offsets_name], arrays.names, arrays.path)
    text, offsets = arrays.values(text_name), arrays.values(offsets_name)
    if text.dtype != np.uint8 or text.ndim != 1:
        raise mistake(arrays.path, "text", f"'{settings.text}' is no array of bytes (uint8)")
    if (
        offsets.dtype.kind not in "iu"
        or offsets.ndim != 1
        or len(offsets) < 2
        or (np.diff(offsets.astype(np.int64)) < 0).any()
        or offsets[0] < 0
        or offsets[-1] > len(text)
    ):
        raise mistake(
            arrays.path,
            "offsets",
            f"'{settings.offsets}' does not divide '{settings.text}'; it takes ascending indices",
        )
    return [text[start:end].tobytes() for start, end in pairwise(offsets)]
