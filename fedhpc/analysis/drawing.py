"""A figure as the report keeps it: picture, print, numbers, and the words that say what to read from it."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedhpc.store.replacing import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, object]]
"""What a figure shows, as a table: a row's cells by the names of their columns, alike in all rows. NaN is empty."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """``name`` is its files' stem; ``caption`` says what to read from it, and ``alternative`` what is seen on it, for
    who does not see it."""

    name: str
    title: str
    caption: str
    alternative: str
    figure: "Figure"
    rows: Rows


def write_drawing(drawing: Drawing, folder: Path) -> None:
    """Writes ``NAME.png`` and ``NAME.pdf``, whose letters are text in an embedded font, and ``NAME.csv``."""
    save(drawing.figure, folder / f"{drawing.name}.png")
    # The places of panels are found by now, and finding them takes as long as drawing.
    drawing.figure.set_layout_engine("none")
    save(drawing.figure, folder / f"{drawing.name}.pdf")
    with replacing(folder / f"{drawing.name}.csv") as temporary:
        temporary.write_text(csv_rows(drawing.rows), encoding="utf-8")


def save(figure: "Figure", path: Path) -> None:
    """Writes a figure as its suffix says: .png, .pdf or .svg. The same figure gives the same bytes at any time."""
    import matplotlib as mpl

    kind = path.suffix[1:].lower()
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    # 42: TrueType, which stays text in the file, and which journals take.
    with mpl.rc_context({"pdf.fonttype": 42, "svg.hashsalt": "fedhpc"}), replacing(path) as temporary:
        figure.savefig(temporary, format=kind, metadata=undated)


def csv_rows(rows: Rows) -> str:
    """Comma-separated values under the names of the first row."""
    text = io.StringIO()
    if rows:
        table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else "never" if np.isinf(value) else float(value)
    return value
