"""The report as one HTML page that needs nothing beside it: no file, no script, no network."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fedhpc.analysis.account import Account, Missing
from fedhpc.analysis.aligned import Laid
from fedhpc.analysis.comparison_table import ABOVE, BELOW, INSIDE
from fedhpc.analysis.drawing import Drawing

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class Section:
    """A table of the page, under its ``title``: ``name`` is its anchor, and the stem of its files where it has
    ``files``. ``remarks`` stand below it, a line a paragraph."""

    name: str
    title: str
    lead: str
    laid: Laid | None
    remarks: str = ""
    files: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """All that the page shows. ``nothing`` says why there are no results, empty where there are; ``left_out`` are
    figures that could not be drawn, by title, and why."""

    title: str
    subtitle: str
    account: Account | None
    tables: Sequence[Section]
    drawings: Sequence[Drawing]
    left_out: Sequence[tuple[str, str]]
    facts: Sequence[tuple[str, str]]
    nothing: str = ""


def page_html(page: Page, folder: Path) -> str:
    """The page as text. The pictures of its drawings must be in ``folder``, and are taken into it. Whatever comes from
    an experiment, a table or a log is shown as the text that it is."""
    pictures = {one.name: _data_uri(folder / f"{one.name}.png") for one in page.drawings}
    return _template().render(
        page=page, pictures=pictures, grouped=_grouped, mark=_mark, told=_told, silent=lambda runs: _of_reason(runs, "")
    )


@cache
def _template() -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def _data_uri(picture: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode('ascii')}"


def _grouped(laid: Laid) -> list[tuple[bool, Sequence[str]]]:
    """Each line, and whether it begins a group."""
    return [(laid.grouped and bool(line[0]) and number > 0, line) for number, line in enumerate(laid.lines)]


def _told(missing: Sequence[Missing]) -> list[list[Missing]]:
    """The runs that said why they have no result, those together that said the same."""
    reasons = dict.fromkeys(one.reason for one in missing if one.reason)
    return [_of_reason(missing, reason) for reason in reasons]


def _of_reason(missing: Sequence[Missing], reason: str) -> list[Missing]:
    return [one for one in missing if one.reason == reason]


def _mark(cell: str) -> str:
    """The class of a cell that holds a mark against an interval; empty of any other."""
    words = cell.split(" by ", 1)
    if cell == INSIDE:
        return "inside"
    return "outside" if len(words) == 2 and words[0] in (ABOVE, BELOW) else ""
