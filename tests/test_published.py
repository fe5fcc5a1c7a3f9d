"""The papers' tables: complete, as the texts have them, and what an experiment may say about them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedhpc import published
from fedhpc.experiment import load_experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.published import PublishedTable, published_table, published_tables
from tests.test_experiment import digests, mistakes

# Rows, and sums of the columns' figures (of both ends for an interval), added up from the papers' texts.
HARD = {
    "hard_table_20": (12, 879.6, 1768.4, 1003.7, 2009.7, 2_394_293),
    "hard_table_21": (12, 877.2, 1745.4, 977.0, 1954.6, 3_182_071),
    "hard_table_22": (11, 541.5, 1079.4, 459.2, 915.3, 3_286_468),
    "hard_table_23": (11, 503.1, 1003.4, 446.4, 892.6, 4_593_169),
    "hard_table_24": (10, 238.8, 474.4, 242.7, 480.9, 9_904_415),
    "hard_table_25": (11, 262.0, 522.9, 267.9, 532.1, 15_984_683),
}
OTHERS = {
    "hard_table_7": (2, 2224.68),
    "hard_table_8": (2, 1896.16),
    "hard_table_9": (2, 8709.99),
    # 600 is the two "> 600".
    "fedbuff_table_1": (15, 3463.0),
    "fedbuff_table_2": (9, 963.0),
    "fedbuff_table_5": (6, 26.3),
    "fedbuff_table_6": (6, 9900.32),
    "fedbuff_table_7": (18, 2359.5),
    # Without the rows of FedCompass+N that are printed twice.
    "fedcompass_table_1": (4 * 8 * 9, 603.85),
    "fedcompass_table_2": (8 * 6, 76.23),
    # Both data sets' figures of each cell; the 14 that are "-" are none.
    "fedcompass_table_3": (2 * 9 * 9, 201.42),
    "fedcompass_table_14": (8 * 9, 6855.06 + 177.82),
    "fedcompass_table_15": (8 * 9, 6786.4 + 233.78),
    "fedcompass_table_16": (8 * 9, 4638.37 + 198.16),
    "fedcompass_table_17": (8 * 9, 3699.92 + 268.6),
    "fedcompass_table_18": (8 * 6, 3807.13 + 68.83),
    "fedcompass_table_19": (3 * 8 * 9, 259.59),
    "fedcompass_table_20": (3 * 7 * 9, 15384.7 + 517.9),
    "fedcompass_table_21": (2 * 5 * 6, 75.52),
    "fedcompass_table_22": (2 * 5 * 6, 5784.77 + 117.54),
    "relay_table_2": (
        14,
        90.4 + 86.1 + 76.4 + 86.4 + 70.7 + 30.6 + 32.3 + 35.5 + 76.5 + 34.7 + 33.4 + 37.1 + 43.6 + 40.2,
    ),
    # Accuracies: FedAvg's five twice, then the rows of the others; times row by row.
    "fedcore_table_2": (
        4 * 10,
        2 * (94.7 + 44.9 + 71.8 + 73.7 + 88.2) + 421.0 + 727.8 + 740.7 + 35.73 + 7.6 + 9.19 + 9.63,
    ),
}


def figures(table: PublishedTable, column: str | None = None) -> list[float]:
    """Every figure of a column, or of all, both ends of an interval each."""
    cells = [cell for row in table.rows.values() for name, cell in row.items() if column in (None, name)]
    flat: list[float] = []
    for cell in cells:
        if cell != "never":
            flat += cell if isinstance(cell, tuple) else [float(cell.strip("> ") if isinstance(cell, str) else cell)]
    return flat


def test_all_tables_are_here() -> None:
    assert set(published_tables()) == {*HARD, *OTHERS}


@pytest.mark.parametrize("name", HARD)
def test_figures_of_hard_et_al_add_up_as_in_the_text(name: str) -> None:
    rows, *sums = HARD[name]
    table = published_table(name)
    assert len(table.rows) == rows
    assert {len(row) for row in table.rows.values()} == {5}
    assert [round(sum(figures(table, column)), 1) for column in table.columns] == sums


@pytest.mark.parametrize("name", OTHERS)
def test_figures_add_up_as_in_the_text(name: str) -> None:
    rows, total = OTHERS[name]
    table = published_table(name)
    assert len(table.rows) == rows
    assert round(sum(figures(table)), 2) == round(total, 2)


@pytest.mark.parametrize("name", HARD)
def test_rows_stand_as_the_captions_say_and_medians_within_their_intervals(name: str) -> None:
    table = published_table(name)
    straggler = figures(table, "straggler_accuracy")
    assert straggler == sorted(straggler, reverse=True)
    for row in table.rows:
        for column in ("straggler_accuracy", "total_accuracy"):
            interval, median = table.interval(row, column), table.figure(row, column)
            assert interval is not None
            assert median is not None
            assert interval[0] <= median <= interval[1]


@pytest.mark.parametrize("name", ["hard_table_7", "hard_table_8", "hard_table_9"])
def test_percentiles_rise(name: str) -> None:
    for row in published_table(name).rows.values():
        for scenario in ("per_example", "per_domain"):
            percentiles = [row[f"{scenario}_percentile_{percent}"] for percent in (50, 95, 99)]
            assert percentiles == sorted(percentiles, key=float)  # type: ignore[arg-type]


def test_fedbuffs_factors_follow_from_its_client_trips() -> None:
    table = published_table("fedbuff_table_1")
    wrong = {"CelebA, FedAvg", "CelebA, FedProx"}
    for row in table.rows:
        factor, trips = table.figure(row, "speedup"), table.figure(row, "client_trips")
        own = table.figure(f"{row.partition(',')[0]}, FedBuff", "client_trips")
        if factor is None or own is None or trips is None:
            continue
        assert (abs(trips / own - factor) < 0.06) == (row not in wrong), row
    table = published_table("fedbuff_table_6")
    for row in table.rows:
        factor, time = table.figure(row, "slowdown"), table.figure(row, "time")
        own = table.figure(f"{row.partition(',')[0]}, FedBuff (K=1000)", "time")
        assert time is not None
        assert own is not None
        assert factor is None or abs(time / own - factor) < 0.01


def test_fedbuffs_tables_agree_with_each_other() -> None:
    first, second, fifth, seventh = (published_table(f"fedbuff_table_{number}") for number in (1, 2, 5, 7))
    for data in ("CelebA", "Sent140", "CIFAR-10"):
        assert first.figure(f"{data}, FedBuff", "client_trips") == second.figure(f"{data}, K=10", "client_trips")
    for data in ("CelebA", "Sent140"):
        for algorithm, column in (("FedAvgM", "speedup_over_fedavgm"), ("FedAsync", "speedup_over_fedasync")):
            assert fifth.figure(f"{data}, Half-Normal", column) == first.figure(f"{data}, {algorithm}", "speedup")
    for size in (1, 10, 100):
        trips = second.figure(f"Sent140, K={size}", "client_trips")
        assert seventh.figure(f"Sent140, K={size}, LR-Norm", "client_updates") == trips


def test_a_target_that_was_not_reached_is_no_figure() -> None:
    table = published_table("fedbuff_table_1")
    assert table.rows["Sent140, FedAvg"]["client_trips"] == "> 600"
    assert table.figure("Sent140, FedAvg", "client_trips") is None
    assert table.interval("Sent140, FedAvg", "client_trips") is None


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ({"a": {"tim": 3}}, "rows.a.tim: no such column; name it under columns"),
        ({"a": {"time": [3, 2]}}, "rows.a.time: 3 exceeds 2; swap them"),
        ({"a": {"time": "much"}}, "rows.a.time"),
    ],
)
def test_a_table_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    content = {
        "paper": "p",
        "table": 1,
        "caption": "c",
        "columns": {"time": {"units": "s", "meaning": "m"}},
        "rows": rows,
    }
    (tmp_path / f"wrong_{len(sentence)}.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ExperimentError) as caught:
        published_table(f"wrong_{len(sentence)}")
    assert caught.value.mistakes[0].startswith(sentence)


BLOCK = {"table": "hard_table_22", "scenario": "alike", "rows": {"fedavg": "FedAvg", "over": "FedAvg + over-sel."}}


def with_published(*blocks: object) -> Callable[[dict[str, Any]], None]:
    return lambda settings: settings.update(published=list(blocks))


def test_a_comparison_changes_no_run(tiny: Callable[..., Path]) -> None:
    before = digests(tiny())
    assert digests(tiny(with_published(BLOCK))) == before
    assert load_experiment(tiny(with_published(BLOCK))).published[0].rows["over"] == "FedAvg + over-sel."


def test_an_accuracy_to_compare_at_is_a_fraction(tiny: Callable[..., Path]) -> None:
    (found,) = mistakes(tiny(with_published({**BLOCK, "at": {"total_accuracy": 1.5}})))
    assert found.startswith("published.0.at.total_accuracy: 1.5 is above 1")
    load_experiment(tiny(with_published({**BLOCK, "at": {"time": 1.5}})))


def test_relative_times_are_of_an_algorithm(tiny: Callable[..., Path]) -> None:
    rows = {"fedavg": "MNIST class, m = 5, homo, FedAvg"}
    block = {**BLOCK, "table": "fedcompass_table_1", "rows": rows, "at": {"total_accuracy": 0.9}}
    (missing,) = mistakes(tiny(with_published(block)))
    assert missing.startswith("published.0.relative_to: missing; fedcompass_table_1 holds relative times")
    (unknown,) = mistakes(tiny(with_published({**block, "relative_to": "fedbuf"})))
    assert unknown.startswith("published.0.relative_to: 'fedbuf' is unknown; did you mean 'fedbuff'?")
    load_experiment(tiny(with_published({**block, "relative_to": "fedbuff"})))


def test_every_mistake_in_a_comparison_at_once(tiny: Callable[..., Path]) -> None:
    found = mistakes(
        tiny(
            with_published(
                {**BLOCK, "table": "hard_tabel_22", "scenario": "alik", "rows": {"fedavgg": "FedAvg"}},
                {**BLOCK, "rows": {"fedavg": "FedAvgg"}},
                {**BLOCK, "table": "fedbuff_table_6", "rows": {"fedavg": "CelebA, FedAvgM"}},
            )
        )
    )
    expected = [
        "published.0.scenario: 'alik' is unknown; did you mean 'alike'?; known: alike; domain",
        "published.0.rows.fedavgg: no such algorithm; did you mean 'fedavg'?",
        "published.0.table: 'hard_tabel_22' is unknown; did you mean 'hard_table_22'?",
        "published.1.rows.fedavg: 'FedAvgg' is unknown; did you mean 'FedAvg'?",
        "published.2.at: missing; fedbuff_table_6 holds what it took to reach a target",
    ]
    assert len(found) == len(expected)
    for sentence in expected:
        assert [one for one in found if one.startswith(sentence)], (sentence, found)


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        ({**BLOCK, "tabel": 3}, "published.0.tabel: unknown key; did you mean 'table'?; published.0 has the keys"),
        ({**BLOCK, "at": {"acuracy": 0.5}}, "published.0.at.acuracy: 'acuracy' is not allowed; did you mean"),
        ({**BLOCK, "at": {}}, "published.0.at"),
        ({**BLOCK, "at": {"time": -1}}, "published.0.at.time: -1 is not allowed"),
        (3, "published.0: 3 is not allowed; it takes a block of keys: table, scenario, rows, at"),
    ],
)
def test_a_comparison_of_another_form(tiny: Callable[..., Path], block: object, sentence: str) -> None:
    (told,) = mistakes(tiny(with_published(block)))
    assert told.startswith(sentence)


def test_a_task_is_compared_at_what_it_measures(tiny: Callable[..., Path]) -> None:
    def nothing_trained(settings: dict[str, Any]) -> None:
        settings["task"] = {"kind": "null", "clients": 20, "examples": 10, "stragglers": 5}
        settings["published"] = [{**BLOCK, "at": {"total_accuracy": 0.5}}]

    def of_classes(settings: dict[str, Any]) -> None:
        settings["task"]["metrics"] = ["balanced_accuracy"]
        settings["published"] = [{**BLOCK, "at": {"balanced_accuracy": 0.5}}, {**BLOCK, "at": {"dice": 0.5}}]

    def of_voxels(settings: dict[str, Any]) -> None:
        settings["task"] = {
            "kind": "segmentation",
            "data": {"source": "flamby", "dataset": "ixi", "folder": "ixi"},
            "partition": {"kind": "by_column"},
            "model": {"name": "unet3d"},
        }
        settings["scenarios"].pop("domain")
        settings["published"] = [{**BLOCK, "at": {"dice": 0.5}}, {**BLOCK, "at": {"top5_accuracy": 0.5}}]

    def no_stragglers(settings: dict[str, Any]) -> None:
        settings["task"].pop("stragglers")
        settings["scenarios"].pop("domain")
        settings["published"] = [{**BLOCK, "at": {"straggler_accuracy": 0.5}}, {**BLOCK, "at": {"total_accuracy": 1}}]

    assert mistakes(tiny(nothing_trained)) == ["published.0.at.total_accuracy: the task measures no such thing"]
    assert mistakes(tiny(of_classes)) == ["published.1.at.dice: the task measures no such thing"]
    assert mistakes(tiny(of_voxels)) == ["published.1.at.top5_accuracy: the task measures no such thing"]
    assert mistakes(tiny(no_stragglers)) == ["published.0.at.straggler_accuracy: the task measures no such thing"]
