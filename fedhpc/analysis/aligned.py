"""Tables as plain text."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Laid:
    """A table's words, however they are shown: the first ``names`` columns are names, the others numbers. Where it is
    ``grouped``, a line whose first cell is empty belongs to the group above it."""

    headings: Sequence[str]
    lines: Sequence[Sequence[str]]
    names: int
    grouped: bool = True

    def __str__(self) -> str:
        return aligned(self.headings, self.lines, self.names, self.grouped)


def aligned(headings: Sequence[str], lines: Sequence[Sequence[str]], names: int, grouped: bool = True) -> str:
    """A heading, a rule and the lines: the first ``names`` columns to the left, the others (numbers) to the right.
    With ``grouped``, an empty line stands before every later line whose first cell is filled: a new group."""
    widths = [max(len(line[column]) for line in [headings, *lines]) for column in range(len(headings))]
    text = [_line(headings, widths, names), _line(["-" * width for width in widths], widths, names)]
    for index, line in enumerate(lines):
        if grouped and line[0] and index:
            text.append("")
        text.append(_line(line, widths, names))
    return "\n".join(text) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int], names: int) -> str:
    left = [cell.ljust(width) for cell, width in zip(cells[:names], widths[:names], strict=True)]
    right = [cell.rjust(width) for cell, width in zip(cells[names:], widths[names:], strict=True)]
    return "  ".join([*left, *right])
