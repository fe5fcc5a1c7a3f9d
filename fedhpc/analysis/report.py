"""What a sweep leaves to look at: tables, figures, the papers' tables beside them, and a page that holds it all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from fedhpc.analysis.account import Account
from fedhpc.analysis.accuracy_figure import accuracy_drawing
from fedhpc.analysis.clients_figure import clients_drawing
from fedhpc.analysis.comparison import Comparison, compare
from fedhpc.analysis.comparison_table import (
    by_table,
    closing_remarks,
    comparison_heading,
    comparison_laid,
    comparison_remarks,
    csv_comparisons,
    format_comparisons,
)
from fedhpc.analysis.coreset_error_figure import coreset_error_drawing
from fedhpc.analysis.drawing import Drawing, csv_rows, write_drawing
from fedhpc.analysis.durations_figure import durations_drawing
from fedhpc.analysis.latency_draws import Latencies, draw_latencies, population_in
from fedhpc.analysis.latency_figure import latency_drawing, percentile_rows, percentiles_laid
from fedhpc.analysis.page import Page, Section, page_html
from fedhpc.analysis.participation_figure import participation_drawing
from fedhpc.analysis.relative_time import common_target
from fedhpc.analysis.relative_time_figure import relative_time_drawing
from fedhpc.analysis.resource_table import csv_resource_table, resource_laid, resource_note, resource_table
from fedhpc.analysis.resources_figure import resources_drawing
from fedhpc.analysis.rounds_figure import rounds_drawing
from fedhpc.analysis.staleness_figure import staleness_drawing
from fedhpc.analysis.table import closing_table, csv_table, format_table, table_laid, table_note
from fedhpc.analysis.target_table import Target, csv_target_table, target_laid, target_table
from fedhpc.analysis.time_unit import time_unit
from fedhpc.analysis.tradeoff_figure import tradeoff_drawing
from fedhpc.analysis.wasted_figure import wasted_drawing
from fedhpc.experiment import Experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.published import Published, published_table
from fedhpc.store.reader import open_experiment
from fedhpc.store.replacing import replacing


@dataclass(frozen=True)
class _Table:
    """A table as text, which files of its section's name hold, and as the page's sections. ``printed``: whether it is
    part of what a person is told at once."""

    name: str
    text: str
    comma_separated: str
    sections: Sequence[Section]
    printed: bool = True


def write_report(
    folder: Path,
    published: Sequence[Published] = (),
    target: Target | None = None,
    *,
    experiment: Experiment | None = None,
    account: Account | None = None,
) -> str:
    """Writes into ``FOLDER/report/`` the tables as ``.txt`` and ``.csv``, the figures as ``.png``, ``.pdf`` and
    ``.csv``, and ``index.html``, which holds them all.

    Tables: ``table``; ``resources`` (what the clients spent); ``target`` where one is given; ``comparison`` with
    ``published``, the experiment's; ``latencies`` where the ``experiment`` is given. The ``account`` says what is
    missing, which nothing else here knows.

    Returns the tables as text; that of the resources only where nothing was learned, of which they are all there is to
    tell. Raises NotMeasured where no run has the target's metric, and FileNotFoundError where the folder holds no
    result; with an ``account`` the page is there all the same, and says so.
    """
    report = folder / "report"
    try:
        dataset = open_experiment(folder)
    except FileNotFoundError as nothing:
        if account is not None:
            _write_page(report, _empty_page(folder, experiment, account))
        raise nothing
    latencies, left_out = _latencies(folder, experiment, dataset)
    tables = list(_tables(dataset, published, target, latencies, experiment))
    for table in tables:
        _write(report / f"{table.name}.txt", table.text)
        _write(report / f"{table.name}.csv", table.comma_separated)
    drawings = list(_drawings(dataset, published, target, experiment, latencies))
    for drawing in drawings:
        write_drawing(drawing, report)
    sections = [section for table in tables for section in table.sections]
    facts = account.facts if account is not None else []
    _write_page(report, Page(*_titles(folder, account), account, sections, drawings, left_out, facts))
    return "\n".join(table.text for table in tables if table.printed)


def _tables(
    dataset: xr.Dataset,
    published: Sequence[Published],
    target: Target | None,
    latencies: Latencies | None,
    experiment: Experiment | None,
) -> Iterator[_Table]:
    rows, unit = closing_table(dataset), time_unit(dataset)
    lead = f"What each algorithm came to under each scenario{_when(experiment)}."
    closing = Section("table", "Results", lead, table_laid(rows, unit), table_note(rows), _files("table"))
    yield _Table("table", format_table(rows, unit), csv_table(rows), [closing])
    if target is not None:
        to_target = target_table(dataset, target)
        laid = target_laid(to_target, target, unit)
        title = f"Time to {target}"
        lead = (
            'What it took until the target was reached, as medians over trials; ">" what was spent without reaching it.'
        )
        section = Section("target", title, lead, laid, files=_files("target"))
        yield _Table("target", str(laid), csv_target_table(to_target, target), [section])
    if published:
        comparisons = [compare(dataset, block, published_table(block.table)) for block in published]
        sections = [section for number, one in enumerate(by_table(comparisons)) for section in _beside(one, number)]
        yield _Table("comparison", format_comparisons(comparisons), csv_comparisons(comparisons), sections)
    costs, units = resource_table(dataset, target), (time_unit(dataset, "resource_used"), unit)
    laid = resource_laid(costs, target, *units)
    lead = "The time that all clients together spent, and how much of it went into updates that nobody used (medians)."
    note = resource_note(dataset)
    section = Section("resources", "What learning cost the clients", lead, laid, note, _files("resources"))
    # Where something was learned, this is not the first thing to be asked.
    yield _Table("resources", f"{laid}{note}", csv_resource_table(costs, target), [section], not rows[0].measures)
    if latencies is not None:
        laid = percentiles_laid(latencies)
        lead = f"How long a client takes for the work of {latencies.algorithm}, by scenario and group of clients."
        section = Section("latencies", "Latency percentiles", lead, laid, files=_files("latencies"))
        yield _Table("latencies", str(laid), csv_rows(percentile_rows(latencies)), [section], printed=False)


def _when(experiment: Experiment | None) -> str:
    """What ended the runs: at equal client updates, say, times differ."""
    if experiment is None:
        return ""
    budget = experiment.budget.model_dump(exclude_none=True, exclude={"target"})
    ends = [f"{value:,} {key.replace('_', ' ')}" for key, value in budget.items()]
    if experiment.budget.target is not None:
        ends.append(f"a {experiment.budget.target.metric.replace('_', ' ')} of {experiment.budget.target.value:g}")
    return f" when its runs ended: after {' or '.join(ends)}"


def _drawings(
    dataset: xr.Dataset,
    published: Sequence[Published],
    target: Target | None,
    experiment: Experiment | None,
    latencies: Latencies | None,
) -> Iterator[Drawing]:
    chosen, why = _target(dataset, published, target, experiment)
    reference = next((one.relative_to for one in published if one.relative_to), str(dataset["algorithm"].values[0]))
    drawings = [
        accuracy_drawing(dataset),
        tradeoff_drawing(dataset, published),
        resources_drawing(dataset),
        wasted_drawing(dataset),
        None if chosen is None else relative_time_drawing(dataset, chosen, reference, why),
        None if latencies is None else latency_drawing(latencies),
        rounds_drawing(dataset),
        durations_drawing(dataset),
        participation_drawing(dataset),
        staleness_drawing(dataset),
        coreset_error_drawing(dataset),
        clients_drawing(dataset),
    ]
    yield from (drawing for drawing in drawings if drawing is not None)


def _target(
    dataset: xr.Dataset, published: Sequence[Published], target: Target | None, experiment: Experiment | None
) -> tuple[Target | None, str]:
    """The target to which times are drawn, and whose choice it is: the person's, the budget's, a published table's,
    or one that most algorithms reach."""
    if target is not None:
        return target, "the one that was asked for"
    if experiment is not None and (budget := experiment.budget.target) is not None and budget.metric in dataset:
        return Target(budget.metric, budget.value), "the experiment's own"
    for block in published:
        for metric, value in (block.at or {}).items():
            if metric in dataset and metric.endswith(("accuracy", "dice")):
                return Target(metric, value), f"that of the published {block.table}"
    return common_target(
        dataset
    ), "nine tenths of what the best algorithm comes to, in the scenario where that is least"


def _latencies(
    folder: Path, experiment: Experiment | None, dataset: xr.Dataset | None
) -> tuple[Latencies | None, list[tuple[str, str]]]:
    """The draws, or why there are none."""
    if experiment is None or experiment.clock == "wall":
        return None, []
    try:
        population = population_in(experiment, folder, dataset)
        latencies = None if population is None else draw_latencies(experiment, population)
    except (ExperimentError, OSError) as error:
        return None, [("Latency by client group", str(error))]
    return latencies, [] if latencies is not None else [
        ("Latency by client group", "who its clients are is not known.")
    ]


def _beside(comparisons: Sequence[Comparison], number: int) -> Iterator[Section]:
    """A section a scenario, the first of which names the table, and the last its notes."""
    table = comparisons[0].table
    for place, comparison in enumerate(comparisons):
        name = "comparison" if number == place == 0 else f"comparison-{number}-{place}"
        title = f"Beside {table.paper}, Table {table.table}: {comparison.published.scenario}"
        laid = comparison_laid(comparison) if comparison.figures else None
        remarks = comparison_remarks(comparison) if comparison.figures else "Nothing that the table holds is measured."
        if place == len(comparisons) - 1:
            remarks += f"\n{closing_remarks(comparisons)}"
        lead = f"{table.caption}. {comparison_heading(comparison)}:"
        yield Section(name, title, lead, laid, remarks, _files("comparison"))


def _empty_page(folder: Path, experiment: Experiment | None, account: Account) -> Page:
    nothing = "No run of a trial is finished, so that there is nothing to tabulate or to draw yet."
    latencies, left_out = _latencies(folder, experiment, None)
    drawings, tables = [], []
    if latencies is not None:
        drawing, laid = latency_drawing(latencies), percentiles_laid(latencies)
        write_drawing(drawing, folder / "report")
        drawings.append(drawing)
        tables.append(Section("latencies", "Latency percentiles", "What its clients will take:", laid))
    return Page(*_titles(folder, account), account, tables, drawings, left_out, account.facts, nothing)


def _titles(folder: Path, account: Account | None) -> tuple[str, str]:
    if account is None:
        return folder.resolve().name, ""
    return (account.title, account.name) if account.title else (account.name, "")


def _files(name: str) -> list[str]:
    return [f"{name}.csv", f"{name}.txt"]


def _write_page(report: Path, page: Page) -> None:
    _write(report / "index.html", page_html(page, report))


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
