"""Who holds how much of what: a partition as FedCompass draws it (Figures 3 and 4), and for many clients in sums."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedhpc.store.replacing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")

MOST_CLIENTS = 60
"""Of more clients, or of more classes than ``MOST_CLASSES``, the distributions are drawn."""

MOST_CLASSES = 100

_COLOUR, _STRAGGLERS = "#0072B2", "#D55E00"
_PITCH = 0.45  # inches between two clients, and between two classes, where there is room
_WIDEST, _HIGHEST = 12.0, 10.0  # inches
_FILLED = 0.92  # of the pitch, by the largest marker
_POINTS = 72  # to the inch
_LONGEST_NAME = 16
_BINS = 30
_WIDE = 30  # times the smallest size: from there on sizes are drawn along a logarithmic axis


def partition_figure(
    counts: NDArray[np.int64],
    client_names: Sequence[str],
    class_names: Sequence[str],
    title: str,
    path: Path,
    stragglers: NDArray[np.bool_] | None = None,
) -> None:
    """Draws ``counts``, the training examples of each client and class, int64 [clients, classes], as a file of one of
    ``SUFFIXES``: clients along x, classes along y, and a marker whose area is the number of examples; of many clients
    or classes, how many clients hold how many examples (empty ones left out) and how many classes. ``stragglers``:
    bool [clients], who is drawn in another colour, None where nobody is."""
    figure = drawn(counts, client_names, class_names, title, stragglers)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), bbox_inches="tight")


def drawn(
    counts: NDArray[np.int64],
    client_names: Sequence[str],
    class_names: Sequence[str],
    title: str,
    stragglers: NDArray[np.bool_] | None = None,
) -> "Figure":
    """``partition_figure`` before it is written, for a notebook to show or change."""
    clients, classes = counts.shape
    if clients > MOST_CLIENTS or classes > MOST_CLASSES:
        return _distributions(counts, title)
    of_client = np.where(stragglers if stragglers is not None else np.zeros(clients, bool), _STRAGGLERS, _COLOUR)
    return _markers(counts, client_names, class_names, title, of_client)


def _markers(
    counts: NDArray[np.int64],
    client_names: Sequence[str],
    class_names: Sequence[str],
    title: str,
    colours: NDArray[np.str_],
) -> "Figure":
    # Not pyplot: it would look for a display and keep every figure.
    from matplotlib.figure import Figure

    clients, classes = counts.shape
    pitch = min(_PITCH, _WIDEST / clients, _HIGHEST / classes)
    width, height = pitch * clients, pitch * classes
    # The panel has the figure's whole size, so that the pitch is known: labels and legend lie outside, and the file
    # is cut to what is drawn.
    figure = Figure(figsize=(width, height), dpi=200)
    panel = figure.add_axes((0, 0, 1, 1))
    largest = max(int(counts.max()), 1)
    area = (_FILLED * pitch * _POINTS) ** 2 / largest
    client, label = np.nonzero(counts)
    panel.scatter(client, label, s=area * counts[client, label], c=colours[client], linewidths=0)
    panel.set_xlim(-0.5, clients - 0.5)
    panel.set_ylim(-0.5, classes - 0.5)
    _name(panel, "x", "client", client_names, pitch)
    _name(panel, "y", "class", class_names, pitch)
    panel.grid(color="0.92", linewidth=0.6)
    panel.set_axisbelow(True)
    told = f"{title}\nin orange the straggler clients" if (colours == _STRAGGLERS).any() else title
    panel.set_title(told, loc="left", fontsize=9)
    shown = _round_counts(largest)
    panel.legend(
        [panel.scatter([], [], s=area * count, color=_COLOUR, linewidths=0) for count in shown],
        [f"{count:,}" for count in shown],
        title="training examples",
        loc="upper left",
        bbox_to_anchor=(1.01, 1),
        borderaxespad=0,
        frameon=False,
        alignment="left",
        fontsize=8,
        title_fontsize=8,
        # In units of the font: as far apart as the largest marker is high, and as wide.
        labelspacing=max(0.4, _FILLED * pitch * _POINTS / 8 - 0.6),
        handlelength=max(1.5, _FILLED * pitch * _POINTS / 8),
    )
    return figure


def _name(panel: "Axes", axis: str, what: str, names: Sequence[str], pitch: float) -> None:
    """An axis of names, of which every n-th is written where there is no room for all."""
    every = int(np.ceil(0.14 / pitch))
    places = range(0, len(names), every)
    short = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in names]
    written = [short[place] for place in places]
    turned = axis == "x" and max(map(len, written)) * 0.075 > pitch * every
    panel.tick_params(axis="both", labelsize=8, length=2)
    if axis == "x":
        panel.set_xticks(places, written, rotation=90 if turned else 0)
        panel.set_xlabel(what, fontsize=9)
    else:
        panel.set_yticks(places, written)
        panel.set_ylabel(what, fontsize=9)


def _round_counts(largest: int) -> list[int]:
    """Up to three counts with one figure that is not 0, for the legend: near the largest, a quarter, a sixteenth."""
    parts = [largest // 16, largest // 4, largest]
    rounded = [part // 10 ** (len(str(part)) - 1) * 10 ** (len(str(part)) - 1) for part in parts]
    return sorted({count for count in rounded if count > 0})


def _distributions(counts: NDArray[np.int64], title: str) -> "Figure":
    from matplotlib.figure import Figure

    sizes, classes = counts.sum(axis=1), np.count_nonzero(counts, axis=1)
    figure = Figure(figsize=(9, 3.2), dpi=200, layout="constrained")
    left, right = figure.subplots(1, 2)
    held = sizes[sizes > 0] if (sizes > 0).any() else sizes
    least, most = int(held.min()), int(held.max())
    # Between whole numbers, so that every bar stands for as many sizes as it is wide.
    if most > _WIDE * least:
        left.set_xscale("log")
        edges = np.unique(np.round(np.geomspace(least, most + 1, _BINS + 1)))
    else:
        step = -(-(most + 1 - least) // _BINS)
        edges = np.arange(float(least), most + 1 + step, step)
        left.set_xlim(least - 0.5 - 2 * step, edges[-1] - 0.5 + 2 * step)
        left.xaxis.get_major_locator().set_params(integer=True)
    left.xaxis.set_major_formatter("{x:,.0f}")
    left.hist(held, edges - 0.5, color=_COLOUR, edgecolor="white", linewidth=0.4)
    left.set_xlabel("training examples of a client")
    numbers = np.bincount(classes)
    right.bar(np.arange(len(numbers)), numbers, color=_COLOUR, width=0.9)
    right.set_xlabel("classes of a client")
    right.xaxis.get_major_locator().set_params(integer=True)
    for panel in (left, right):
        panel.yaxis.get_major_locator().set_params(integer=True)
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.set_ylabel("clients")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="0.92", linewidth=0.6)
        panel.set_axisbelow(True)
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    return figure
