"""Client updates a second of schedules alone: whole runs of the null task, from settings to result file."""

import tempfile
import time
from pathlib import Path

import yaml

from fedhpc.experiment import Run, load_experiment
from fedhpc.run import run

UPDATES = 200_000


def main(repeats: int) -> None:
    from tests.benchmarks.__main__ import print_spread

    settings = yaml.safe_load(Path("configs/experiments/quickstart.yaml").read_text())
    settings |= {
        "task": {"kind": "null", "clients": 1000, "examples": 100, "stragglers": 250},
        "budget": {"client_updates": UPDATES},
        "evaluation": {"every": 10_000},
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "null.yaml"
        file.write_text(yaml.safe_dump(settings))
        experiment = load_experiment(file)
        for algorithm in ("fedavg", "fedavg_over_selection", "fedbuff"):
            rates = []
            for repeat in range(repeats):
                start = time.perf_counter()
                cell = Run(algorithm, "per_domain", 0)
                run(experiment, cell, Path(folder) / str(repeat), lease=None, checkpoint_seconds=30)
                rates.append(UPDATES / (time.perf_counter() - start))
            print_spread(f"null task, {algorithm}, client updates/s", rates)
