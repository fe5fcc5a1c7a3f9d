"""The index of experiments: each table and figure of the papers is one of an experiment, or has a reason why not."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedhpc.published import published_tables
from tests.papers.experiments import FILES, FOLDER, experiment_of, index
from tests.papers.test_tables_as_printed import PAPERS, TEXTS

COUNTS = {"hard": (25, 23), "fedbuff": (8, 11), "fedcompass": (22, 22), "fedcore": (3, 7), "relay": (2, 21)}
"""Of each paper, its tables and its figures."""

NOT_COMPARED = {
    # Percentiles of latencies, factors between two algorithms, and rows that Table 19 has as well.
    *("hard_table_7", "hard_table_8", "hard_table_9", "fedbuff_table_5", "fedcompass_table_3")
}
PAPERLESS = {"quickstart", "silos", "overhead"}


def items(paper: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in ("tables", "figures"):
        for number, item in index()[paper][kind].items():
            yield f"{paper}, {kind} {number}", item


def names(item: dict[str, Any]) -> list[str]:
    return [*item.get("files", []), *item.get("small", [])]


@pytest.mark.parametrize("paper", COUNTS)
def test_every_table_and_figure_is_there(paper: str) -> None:
    tables, figures = COUNTS[paper]
    assert list(index()[paper]["tables"]) == list(range(1, tables + 1))
    assert list(index()[paper]["figures"]) == list(range(1, figures + 1))


@pytest.mark.skipif(not PAPERS.is_dir(), reason=f"there is no {PAPERS}; set FEDHPC_SHARED")
@pytest.mark.parametrize("paper", COUNTS)
def test_the_paper_has_no_others(paper: str) -> None:
    text = (PAPERS / TEXTS[paper]).read_text()
    for kind, count in zip(("Table", "Figure"), COUNTS[paper], strict=True):
        captions = {int(number) for number in re.findall(rf"^\s*(?:\*\*)?{kind} (\d+):", text, re.MULTILINE)}
        assert captions == set(range(1, count + 1))


@pytest.mark.parametrize("paper", COUNTS)
def test_each_has_an_experiment_or_a_reason(paper: str) -> None:
    for place, item in items(paper):
        assert set(item) <= {"files", "small", "published", "reason"}, place
        assert bool(item.get("files")) != bool(item.get("reason")), place
        for name in names(item):
            assert (FOLDER / index()[paper]["folder"] / f"{name}.yaml").is_file(), (place, name)


def test_every_experiment_is_one_of_them() -> None:
    named = set(PAPERLESS)
    for paper in COUNTS:
        folder = index()[paper]["folder"]
        of_paper = [*index()[paper].get("others", {}), *(name for _, item in items(paper) for name in names(item))]
        named |= {f"{folder}/{name}" for name in of_paper}
    assert named == {str(file.relative_to(FOLDER).with_suffix("")) for file in FILES}


def test_every_published_table_is_one_of_them_and_is_compared() -> None:
    indexed = {}
    for paper in COUNTS:
        for number, item in index()[paper]["tables"].items():
            if "published" in item:
                assert item["published"] == f"{paper}_table_{number}"
                folder = index()[paper]["folder"]
                indexed[item["published"]] = [f"{folder}/{name}" for name in item["files"]]
    assert set(indexed) == set(published_tables())
    for table, places in indexed.items():
        compared = [place for place in places if table in {block.table for block in experiment_of(place).published}]
        assert bool(compared) != (table in NOT_COMPARED), table


@pytest.mark.parametrize("paper", COUNTS)
def test_a_file_says_at_its_top_what_it_is(paper: str) -> None:
    """Its title or the comment below names each table or figure that it is in full."""
    folder = FOLDER / index()[paper]["folder"]
    silent = [
        f"{name}: {kind} {number}"
        for kind in ("Table", "Figure")
        for number, item in index()[paper][f"{kind.lower()}s"].items()
        for name in item.get("files", [])
        if number not in numbers(kind, top(folder / f"{name}.yaml"))
    ]
    assert silent == []


def top(file: Path) -> str:
    lines = file.read_text().splitlines()
    return " ".join(line.removeprefix("# ") for line in lines[: lines.index("task:") if "task:" in lines else 8])


def numbers(kind: str, text: str) -> set[int]:
    """Those that "Figures 2, 7 (left) and 12 to 15" names."""
    found = set()
    for listed in re.findall(
        rf"{kind}s? ((?:\d+|\b(?:[a-f]|to|and)\b|[\s,])+)", re.sub(r" \((?:(?!Table|Figure)[^)])*\)", "", text)
    ):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", listed):
            found |= set(range(int(first), int(last or first) + 1))
    return found


def test_numbers_are_read() -> None:
    assert numbers("Figure", "Figures 2, 7 and 12 to 15, all from these runs; Table 9") == {2, 7, 12, 13, 14, 15}
    assert numbers("Table", "Tables 1 and 2 (CelebA) and Figure 10, and the half-normal row of Table 5") == {1, 2, 5}
