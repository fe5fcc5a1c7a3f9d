from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from fedhpc.analysis.latency_draws import Latencies, draw_latencies, population_in
from fedhpc.analysis.latency_figure import latency_drawing, percentile_rows, percentiles_laid
from fedhpc.experiment import Experiment, load_experiment
from fedhpc.federation.population import Population
from fedhpc.store import open_experiment
from fedhpc.store.run_file import write_run
from tests.store.records import null_record, run_path


def constant(seconds: float) -> dict[str, Any]:
    return {"distribution": "constant", "value": seconds}


def written(folder: Path, **changes: Any) -> Experiment:
    slow = {"stragglers": {"overhead": constant(100.0)}}
    content = {
        "trials": 1,
        "task": {"kind": "null", "clients": 8, "examples": 20, "stragglers": 2},
        "client": {"batch_size": 10, "epochs": 2, "optimizer": {"name": "sgd", "rate": 0.1}},
        "server_optimizer": {"name": "sgd", "rate": 1.0},
        "algorithms": {"fedavg": {"scheduler": "synchronous", "cohort": 2}},
        "scenarios": {
            "even": {"per_example": constant(0.5)},
            "apart": {"per_example": constant(0.5), "overhead": constant(10.0), **slow},
        },
        "budget": {"client_updates": 4},
        "evaluation": {"every": 2},
        **changes,
    }
    (folder / "experiment.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return load_experiment(folder / "experiment.yaml")


def drawn(folder: Path, **changes: Any) -> Latencies:
    experiment = written(folder, **changes)
    population = population_in(experiment, folder, None)
    assert population is not None
    latencies = draw_latencies(experiment, population)
    assert latencies is not None
    return latencies


def test_each_group_takes_what_its_work_takes(tmp_path: Path) -> None:
    latencies = drawn(tmp_path)
    # Two epochs of 20 examples at half a second each, and the overhead.
    expected = {
        ("even", "standard"): 20.0,
        ("even", "straggler"): 20.0,
        ("apart", "standard"): 30.0,
        ("apart", "straggler"): 120.0,
    }
    for cell, seconds in expected.items():
        np.testing.assert_allclose(latencies[cell], seconds)
        assert len(latencies[cell]) == pytest.approx(10_000, rel=0.01)
    assert latencies.shares == {"standard": 0.75, "straggler": 0.25}
    drawing = latency_drawing(latencies)
    shares = {
        (row["scenario"], row["clients"]): float(str(row["share_of_all_updates"]))
        for row in drawing.rows
        if float(str(row["share_of_all_updates"]))
    }
    assert shares == {cell: latencies.shares[cell[1]] for cell in expected}


def test_percentiles_of_a_lognormal_are_those_of_its_formula(tmp_path: Path) -> None:
    latencies = drawn(tmp_path, scenarios={"one": {"overhead": {"distribution": "lognormal", "mu": 3.0, "sigma": 0.5}}})
    row = percentile_rows(latencies)[0]
    # exp(mu + sigma z), z the normal's quantiles.
    for level, z in ((50, 0.0), (95, 1.644854), (99, 2.326348)):
        assert row[f"percentile_{level}_s"] == pytest.approx(np.exp(3 + 0.5 * z), rel=0.04)
    assert percentiles_laid(latencies).headings[2:] == [f"{level}th percentile s" for level in (50, 95, 99)]


def test_clients_are_those_of_a_run_that_is_there(tmp_path: Path) -> None:
    run = null_record()
    write_run(run_path(tmp_path, run), run)
    dataset = open_experiment(tmp_path)
    data = {"source": "digits"}
    learning = {
        "kind": "classification",
        "data": data,
        "partition": {"kind": "iid", "clients": 4},
        "stragglers": {"classes": [0], "clients": 1},
        "model": {"name": "logistic"},
    }
    experiment = written(tmp_path, task=learning)
    population = population_in(experiment, tmp_path, dataset)
    assert population is not None
    assert population.examples.tolist() == [4, 0, 7, 9]
    assert population.stragglers.tolist() == [False, False, False, True]
    assert population_in(experiment, tmp_path, None) is None  # nothing is prepared either
    latencies = draw_latencies(experiment, population)
    assert latencies is not None
    # Clients 0 and 2 alike, two epochs each; client 1 holds nothing and takes no part.
    assert set(latencies["even", "standard"]) == {4.0, 7.0}


def test_where_nobody_holds_an_example_nothing_is_drawn(tmp_path: Path) -> None:
    nobody = Population(np.zeros(3, np.int64), np.zeros(3, bool))
    assert draw_latencies(written(tmp_path), nobody) is None


def test_six_scenarios_stand_in_two_rows(tmp_path: Path) -> None:
    even = {"per_example": {"distribution": "exponential", "mean": 1.0}}
    figure = latency_drawing(drawn(tmp_path, scenarios={f"s{n}": even for n in range(5)})).figure
    assert [panel.get_title() for panel in figure.axes if panel.get_title()] == [f"s{n}" for n in range(5)]
    assert len(figure.axes) == 10
    assert {panel.get_xscale() for panel in figure.axes} == {"log"}


def test_without_straggler_clients_nobody_is_called_standard(tmp_path: Path) -> None:
    nobody = {"kind": "null", "clients": 8, "examples": 20}
    slow = {"stragglers_30": {"per_example": constant(0.5), "overhead": {"distribution": "exponential", "mean": 9.0}}}
    latencies = drawn(tmp_path, task=nobody, scenarios=slow)
    assert latencies.shares == {"all": 1.0}
    assert percentiles_laid(latencies).lines[0][:2] == ["stragglers_30", "all"]
    drawing = latency_drawing(latencies)
    assert "no straggler clients" in drawing.caption
    assert [text.get_text() for text in drawing.figure.legends[0].get_texts()] == ["all clients"]


def test_both_panels_are_in_percent_and_the_legend_has_both_ways_of_drawing(tmp_path: Path) -> None:
    figure = latency_drawing(drawn(tmp_path)).figure
    density, _, distribution, _ = figure.axes
    assert (density.get_ylabel(), distribution.get_ylabel()) == ("client updates (%)", "shorter than this (%)")
    assert distribution.get_ylim() == (0, 100)
    assert {line.get_ydata()[-1] for line in distribution.get_lines()} == {100}
    legend = figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["standard clients", "straggler clients"]
    (solid, dashed), (blue, orange) = (legend.findobj(kind) for kind in (Line2D, Rectangle))
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    assert blue.get_facecolor()[:3] != orange.get_facecolor()[:3]
