"""A small sweep that was really run, for what looks at a whole results folder."""

from pathlib import Path

import pytest
import yaml

from fedhpc.experiment import load_experiment
from fedhpc.run import run
from tests.conftest import tiny_settings, write_blobs
from workflow.results_folder import write_experiment


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two algorithms under two scenarios, two trials of each, and a third trial that was never begun."""
    folder = tmp_path_factory.mktemp("swept")
    write_blobs(folder)
    settings = tiny_settings()
    settings["algorithms"] = {name: settings["algorithms"][name] for name in ("over", "fedbuff")}
    (folder / "small.yaml").write_text(yaml.safe_dump({**settings, "trials": 3}, sort_keys=False))
    experiment = load_experiment(folder / "small.yaml")
    results = folder / "results"
    results.mkdir()
    write_experiment(experiment, results)
    for cell in experiment.runs():
        if cell.trial < 2:
            assert run(experiment, cell, results, lease=None, checkpoint_seconds=1e6)
    return results
