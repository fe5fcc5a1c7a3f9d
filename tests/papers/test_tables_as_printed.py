"""Every table of ``configs/published`` is what the paper's text prints, read here from that text."""

import os
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fedhpc.published import PublishedTable, published_table, published_tables

PAPERS = Path(os.environ.get("FEDHPC_SHARED", Path(__file__).parents[3] / "shared")) / "papers"
TEXTS = {
    "hard": "straggler-clients.txt",
    "fedbuff": "fedbuff.txt",
    "fedcompass": "fedcompass.txt",
    "fedcore": "fedcore.txt",
    "relay": "relay.txt",
}
pytestmark = pytest.mark.skipif(not PAPERS.is_dir(), reason=f"there is no {PAPERS}; set FEDHPC_SHARED")

Rows = dict[str, dict[str, Any]]


def block(paper: str, number: int) -> list[list[str]]:
    """A table's lines of cells, parted by tabs: those after its caption or, in two of the papers, before it."""
    lines = [*(PAPERS / TEXTS[paper]).read_text().splitlines(), ""]
    places = [place for place, line in enumerate(lines) if re.match(rf"(\*\*)?Table {number}:", line)]
    step = -1 if paper in ("fedcore", "relay") else 1
    place = places[-1] + step
    while "\t" not in lines[place]:
        place += step
    found = []
    while "\t" in lines[place]:
        found.append([re.sub(r"<.*?>", "", cell).strip() for cell in lines[place].split("\t")])
        place += step
    return found[::step]


def numbers(cell: str) -> list[float]:
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", cell)]


def number(cell: str) -> float:
    (only,) = numbers(cell)
    return only


def ending_of(table: int) -> Rows:
    """Hard et al., Tables 20 to 25 and 4."""
    columns = ("straggler_accuracy", "total_accuracy")
    rows: Rows = {}
    for name, straggler, its, total, totals, time in block("hard", table)[2:]:
        rows[name] = {"time": number(time)}
        for column, median, interval in zip(columns, (straggler, total), (its, totals), strict=True):
            rows[name] |= {column: number(median), f"{column}_interval": tuple(numbers(interval))}
    return rows


def percentiles_of(number: int) -> Rows:
    """Hard et al., Tables 7 to 9 and 3."""
    names = [f"{model}_percentile_{percent}" for model in ("per_example", "per_domain") for percent in (50, 95, 99)]
    return {
        name: dict(zip(names, [numbers(cell)[0] for cell in cells], strict=True))
        for name, *cells in block("hard", number)[2:]
    }


def clients_and_speeds(speeds: str = "homo normal exp") -> list[str]:
    return [f"m = {clients}, {speed}" for clients, speed in product((5, 10, 20), speeds.split())]


def factor(cell: str) -> float | str:
    return "never" if cell == "-" else number(cell)


def partition_of(heading: str) -> str:
    data = "CIFAR-10" if "CIFAR" in heading else "MNIST"
    return f"{data} {'class' if 'Class' in heading else 'Dirichlet'}"


def parted(number: int) -> Iterator[tuple[str, str, list[str]]]:
    """The rows of FedCompass's tables with a heading over several: the heading's partition, the row's name, cells."""
    partition = ""
    for first, *cells in block("fedcompass", number)[2:]:
        if "Partition" in first:
            partition = partition_of(first)
        name = first if first.startswith("Fed") else cells.pop(0)
        yield partition, name, [cell for cell in cells if cell]


def relative_times(number: int, prefix: str, speeds: str = "homo normal exp") -> Rows:
    """FedCompass, Tables 1, 19 and 21."""
    rows: Rows = {}
    for partition, name, cells in parted(number):
        label = name if name.startswith("Fed") else prefix + name
        for place, cell in zip(clients_and_speeds(speeds), cells, strict=True):
            rows[f"{partition}, {place}, {label}"] = {"relative_time": factor(cell)}
    return rows


def by_setting(cells: list[str], settings: list[str], label: str, columns: tuple[str, ...]) -> Rows:
    return {
        f"{setting}, {label}": dict(zip(columns, numbers(cell), strict=True))
        for setting, cell in zip(settings, cells, strict=True)
    }


TOP = ("top_accuracy", "top_accuracy_deviation")


def top_accuracies(number: int, partition: str) -> Rows:
    """FedCompass, Tables 14 to 17."""
    rows: Rows = {}
    for name, *cells in block("fedcompass", number)[2:]:
        rows |= by_setting(cells, [f"{partition}, {place}" for place in clients_and_speeds()], name, TOP)
    return rows


FLAMBY = [f"{data}, {speed}" for data, speed in product(("Fed-IXI", "Fed-ISIC2019"), ("homo", "normal", "exp"))]


def table_2() -> Rows:
    rows: Rows = {}
    for name, *cells in block("fedcompass", 2)[2:]:
        rows |= by_setting(cells, FLAMBY, name, ("relative_time",))
    return rows


def table_18() -> Rows:
    """FedCompass, Table 18, whose two data sets have a metric each."""
    rows: Rows = {}
    for name, *cells in block("fedcompass", 18)[2:]:
        for first, metric in ((0, "top_dice"), (3, "top_balanced_accuracy")):
            part = slice(first, first + 3)
            rows |= by_setting(cells[part], FLAMBY[part], name, (metric, f"{metric}_deviation"))
    return rows


def table_3() -> Rows:
    """FedCompass, Table 3: two figures a cell, MNIST's and CIFAR-10's."""
    rows: Rows = {}
    for first, ratio, *cells in block("fedcompass", 3)[2:]:
        label = first if first.startswith("Fed") else f"1/Q = {ratio}"
        for place, cell in zip(clients_and_speeds(), cells, strict=True):
            for data, one in zip(("MNIST", "CIFAR-10"), cell.split("/"), strict=True):
                rows[f"{data} Dirichlet, {place}, {label}"] = {"relative_time": factor(one)}
    return rows


def table_20() -> Rows:
    """FedCompass, Table 20, whose headings stand beside their rows, a word in each."""
    partitions = ["MNIST class", "MNIST Dirichlet", "CIFAR-10 Dirichlet"]
    rows: Rows = {}
    lines = [
        [cell for cell in line if "±" in cell or re.fullmatch(r"\d\.\d\d", cell)] for line in block("fedcompass", 20)
    ]
    for place, (ratio, *cells) in enumerate(line for line in lines if line):
        settings = [f"{partitions[place // 7]}, {where}" for where in clients_and_speeds()]
        rows |= by_setting(cells, settings, f"1/Q = {ratio}", TOP)
    return rows


def table_22() -> Rows:
    rows: Rows = {}
    for partition, name, cells in parted(22):
        settings = [f"{partition}, {place}" for place in clients_and_speeds("normal exp")]
        rows |= by_setting(cells, settings, name if name.startswith("Fed") else f"lambda = {name}", TOP)
    return rows


def fedcore_2() -> Rows:
    heads, _, *lines = block("fedcore", 2)
    settings = [f"{data}, {percent} %" for data, percent in product([head for head in heads if head], (10, 30))]
    rows: Rows = {
        f"{place}, {name}": {} for place in settings for name in ("FedAvg", "FedAvg-DS", "FedProx", "FedCore")
    }
    times = False
    for _, name, *cells in lines:
        # FedAvg's times stand in a line without a name, above the line that has the name only.
        times = times or not name
        found = [numbers(cell) for cell in cells]
        if any(found):
            column = "round_length" if times else "total_accuracy"
            # FedAvg knows no deadline: one accuracy for both percentages.
            values = [one or found[place - 1] for place, one in enumerate(found)]
            for setting, (value,) in zip(settings, values, strict=True):
                rows[f"{setting}, {name or 'FedAvg'}"][column] = value
    return rows


DATA = ("CelebA", "Sent140", "CIFAR-10")


def fedbuff_1() -> Rows:
    heads, *lines = block("fedbuff", 1)
    rows: Rows = {}
    for data, _, *cells in lines:
        for name, cell in zip(heads[2:], cells, strict=True):
            trips, *speedup = [cell] if ">" in cell else numbers(cell)
            rows[f"{data}, {name}"] = {"client_trips": trips} | ({"speedup": speedup[0]} if speedup else {})
    return rows


def fedbuff_in_threes(number: int) -> Iterator[tuple[str, list[str]]]:
    """The rows of tables in which the data set's name stands beside the middle one of three."""
    for place, (_, *cells) in enumerate(block("fedbuff", number)[1:]):
        yield DATA[place // 3], cells


def fedbuff_2() -> Rows:
    columns = ("client_trips", "client_trips_deviation")
    return {
        f"{data}, K={size}": dict(zip(columns, numbers(trips), strict=True))
        for data, (size, trips) in fedbuff_in_threes(2)
    }


def fedbuff_5() -> Rows:
    columns = ("speedup_over_fedavgm", "speedup_over_fedasync")
    return {
        f"{data}, {delays}": dict(zip(columns, map(number, cells), strict=True))
        for data, (delays, *cells) in fedbuff_in_threes(5)
    }


def fedbuff_6() -> Rows:
    rows: Rows = {}
    for data, (name, concurrency, time, trips) in fedbuff_in_threes(6):
        over = "FedAvgM, over-selection" if "over-selection" in name else "FedAvgM"
        plain = "FedBuff (K=1000)" if "FedBuff" in name else over
        seconds, *slowdown = numbers(time)
        rows[f"{data}, {plain}"] = {
            "concurrency": number(concurrency),
            "time": seconds,
            "client_trips_started": number(trips),
        } | ({"slowdown": slowdown[0]} if slowdown else {})
    return rows


def fedbuff_7() -> Rows:
    ways = ("LR-Norm", "Example Weight", "Uniform Weight")
    return {
        f"{data}, K={size}, {way}": {"client_updates": number(cell)}
        for data, (size, *cells) in fedbuff_in_threes(7)
        for way, cell in zip(ways, cells, strict=True)
    }


def relay_2() -> Rows:
    rows: Rows = {}
    for name, metric, _, *cells in block("relay", 2)[4:]:
        column = "top5_accuracy" if "Accuracy" in metric else "perplexity"
        for mapping, cell in zip(("IID", "L2", "L3", "L1"), cells, strict=False):
            if cell != "N/A":
                rows[f"{name}, {mapping}"] = {column: number(cell)}
    return rows


AS_PRINTED = {
    **{f"hard_table_{number}": lambda number=number: percentiles_of(number) for number in (7, 8, 9)},
    **{f"hard_table_{number}": lambda number=number: ending_of(number) for number in range(20, 26)},
    "fedbuff_table_1": fedbuff_1,
    "fedbuff_table_2": fedbuff_2,
    "fedbuff_table_5": fedbuff_5,
    "fedbuff_table_6": fedbuff_6,
    "fedbuff_table_7": fedbuff_7,
    "fedcompass_table_1": lambda: relative_times(1, ""),
    "fedcompass_table_2": table_2,
    "fedcompass_table_3": table_3,
    "fedcompass_table_14": lambda: top_accuracies(14, "MNIST class"),
    "fedcompass_table_15": lambda: top_accuracies(15, "MNIST Dirichlet"),
    "fedcompass_table_16": lambda: top_accuracies(16, "CIFAR-10 class"),
    "fedcompass_table_17": lambda: top_accuracies(17, "CIFAR-10 Dirichlet"),
    "fedcompass_table_18": table_18,
    "fedcompass_table_19": lambda: relative_times(19, "1/Q = "),
    "fedcompass_table_20": table_20,
    "fedcompass_table_21": lambda: relative_times(21, "lambda = ", "normal exp"),
    "fedcompass_table_22": table_22,
    "fedcore_table_2": fedcore_2,
    "relay_table_2": relay_2,
}


def cells(table: PublishedTable) -> Rows:
    return {row: dict(values) for row, values in table.rows.items()}


def test_every_table_is_compared() -> None:
    assert set(AS_PRINTED) == set(published_tables())


@pytest.mark.parametrize("name", AS_PRINTED)
def test_a_table_is_as_printed(name: str) -> None:
    assert cells(published_table(name)) == AS_PRINTED[name]()


def test_tables_that_are_printed_twice_are_the_same() -> None:
    assert ending_of(4) == ending_of(24)
    assert percentiles_of(3) == percentiles_of(7)
