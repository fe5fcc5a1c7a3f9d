"""The papers' own tables, and what an experiment says about them: which of its algorithms is which row.

A table is a file of ``configs/published``, its figures as printed. Nothing here touches a run: a comparison may be
added to an experiment, or changed, after its sweep.
"""

import math
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator

from fedhpc.budget import Accuracy
from fedhpc.mistakes import nearest, validated
from fedhpc.settings import Name, Settings
from fedhpc.yaml_text import read_yaml

FOLDER = Path(__file__).resolve().parent.parent / "configs" / "published"

Interval = tuple[float, float]
Above = Annotated[str, Field(pattern=r"^> \d+(\.\d+)?$")]
"""A target that was not reached within so much, as the paper prints it."""
Cell = float | Interval | Above | Literal["never"]
"""A figure, an interval, or a target that was not reached."""

RELATIVE_TIME = "relative_time"
"""The column of a table that has an algorithm's time over another's."""

Milestone = Literal[Accuracy, "client_updates", "client_trips", "server_updates", "time"]
"""What of a run can be said to reach a value."""


class Column(Settings):
    """``factor`` turns a printed figure into a result file's: a fraction, virtual seconds, a count."""

    units: str
    meaning: str
    factor: float = 1.0


class PublishedTable(Settings):
    """One table of a paper: row's name -> column's name -> figure as printed. Where a cell is empty there is no key.

    ``until_target`` tables hold what it took to reach a target, the others what a whole training came to. A column that
    has a result variable's name is compared with it. ``notes`` are on figures that cannot all be right.
    """

    paper: str
    table: int
    caption: str
    until_target: bool = False
    columns: dict[str, Column] = Field(min_length=1)
    rows: dict[str, dict[str, Cell]] = Field(min_length=1)
    notes: list[str] = Field(default_factory=list)

    @field_validator("rows")
    @classmethod
    def _cells_have_columns(
        cls, rows: dict[str, dict[str, Cell]], others: ValidationInfo
    ) -> dict[str, dict[str, Cell]]:
        for row, cells in rows.items():
            for column, cell in cells.items():
                if column not in others.data.get("columns", cells):
                    raise ValueError(f"rows.{row}.{column}: no such column; name it under columns")
                if isinstance(cell, tuple) and cell[0] > cell[1]:
                    raise ValueError(f"rows.{row}.{column}: {cell[0]:g} exceeds {cell[1]:g}; swap them")
        return rows

    def figure(self, row: str, column: str) -> float | None:
        """A cell as printed, infinite for a target never reached; None where the paper prints none, or only that it
        took more than so much."""
        cell = self.rows[row].get(column)
        if cell == "never":
            return math.inf
        return cell if isinstance(cell, float) else None

    def interval(self, row: str, column: str) -> Interval | None:
        """The interval printed beside that column (``<column>_interval``)."""
        cell = self.rows[row].get(f"{column}_interval")
        return cell if isinstance(cell, tuple) else None


def published_tables() -> list[str]:
    """The names of the tables that there are."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


@cache
def published_table(name: str) -> PublishedTable:
    """The table of that name. Raises ExperimentError where the file is missing or no table."""
    path = FOLDER / f"{name}.yaml"
    return validated(PublishedTable, read_yaml(path), path)


class Published(Settings):
    """One table beside one scenario: ``rows`` says which row of it each algorithm is.

    Compared is where the runs end or, with ``at`` (``{total_accuracy: 0.9}``, say), the first evaluation at or above.
    ``relative_to``: the algorithm to whose times a table of relative times has the others'.
    """

    table: str
    scenario: Name
    rows: dict[Name, str] = Field(min_length=1)
    at: dict[Milestone, Annotated[float, Field(gt=0)]] | None = Field(None, min_length=1, max_length=1)
    relative_to: Name | None = None

    @field_validator("at")
    @classmethod
    def _accuracies_are_fractions(cls, at: dict[Milestone, float] | None) -> dict[Milestone, float] | None:
        for metric, value in (at or {}).items():
            if metric in get_args(Accuracy) and value > 1:
                raise ValueError(f"at.{metric}: {value:g} is above 1, and an accuracy is a fraction; lower it")
        return at

    def mistakes(self, algorithms: list[str], scenarios: list[str], unmeasured: list[str]) -> list[tuple[str, str]]:
        """What does not fit the table, or an experiment with these names whose task lacks the ``unmeasured``
        milestones: key within the block -> what is wrong. An empty list of names is not checked against."""
        found = [(f"at.{name}", "the task measures no such thing") for name in self.at or () if name in unmeasured]
        if scenarios and self.scenario not in scenarios:
            found.append(("scenario", _unknown(self.scenario, scenarios)))
        for algorithm in self.rows:
            if algorithms and algorithm not in algorithms:
                found.append((f"rows.{algorithm}", f"no such algorithm{_known(algorithm, algorithms)}"))
        if self.relative_to is not None and algorithms and self.relative_to not in algorithms:
            found.append(("relative_to", _unknown(self.relative_to, algorithms)))
        if self.table not in published_tables():
            return [("table", _unknown(self.table, published_tables())), *found]
        table = published_table(self.table)
        for algorithm, row in self.rows.items():
            if row not in table.rows:
                found.append((f"rows.{algorithm}", _unknown(row, list(table.rows))))
        if RELATIVE_TIME in table.columns and self.relative_to is None:
            found.append(("relative_to", f"missing; {self.table} holds relative times: name the algorithm they are of"))
        if table.until_target and self.at is None:
            found.append(
                (
                    "at",
                    f"missing; {self.table} holds what it took to reach a target: say which, such as "
                    "{total_accuracy: 0.9}",
                )
            )
        return found


def _unknown(name: str, known: list[str]) -> str:
    return f"'{name}' is unknown{_known(name, known)}"


def _known(name: str, known: list[str]) -> str:
    # The names of rows hold commas.
    return f"{nearest(name, known)}; known: {'; '.join(known)}"
