"""Client updates a second of the quickstart's task: whole runs, and the same SGD steps in a bare torch loop.

Run it as an MPI job. In turn, and in the same processes, the ranks live a run through (engine, messages, aggregation,
evaluation, result file) and then train the same client updates in a plain loop, half of them each, with nothing
around it: a torch module, torch's SGD, the client's batches in a random order.
"""

import shutil
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from mpi4py import MPI
from torch.nn.functional import cross_entropy

from fedhpc.data.federated import FederatedData, open_prepared
from fedhpc.data.preparation import prepare
from fedhpc.experiment import Experiment, Run, load_experiment
from fedhpc.federation.schedule import make_schedule
from fedhpc.models.architectures import build_model
from fedhpc.optimizers import SGD
from fedhpc.run import run
from fedhpc.task import Classification

QUICKSTART = Path("configs/experiments/quickstart.yaml")
WORLD = MPI.COMM_WORLD


def whole_run(experiment: Experiment, cell: Run, folder: Path) -> float:
    """Wall seconds of one run, its data being prepared."""
    WORLD.Barrier()
    start = time.perf_counter()
    run(experiment, cell, folder, lease=None, checkpoint_seconds=30)
    WORLD.Barrier()
    seconds = time.perf_counter() - start
    if WORLD.rank == 0:
        shutil.rmtree(folder / cell.algorithm)
    WORLD.Barrier()
    return seconds


def bare_loop(experiment: Experiment, cell: Run, data: FederatedData) -> float:
    """Wall seconds of the same client updates, every second one on each of two ranks."""
    task, client = experiment.task, experiment.algorithms[cell.algorithm].client
    assert isinstance(task, Classification)
    assert isinstance(client.optimizer, SGD)
    schedule = make_schedule(experiment.settings_of(cell), data.population)
    updates = [update for server_update in schedule.server_updates() for update in server_update.updates]
    model = build_model(task.model, data.shape, data.classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=client.optimizer.rate)
    features, labels = torch.from_numpy(data.features), torch.from_numpy(data.labels)
    order = np.random.default_rng(0)
    WORLD.Barrier()
    start = time.perf_counter()
    for update in updates[WORLD.rank :: WORLD.size]:
        first, last = data.offsets[update.client : update.client + 2]
        shuffled = torch.from_numpy(first + order.permutation(last - first))
        x, y = features[shuffled], labels[shuffled]
        for position in range(0, len(y), client.batch_size):
            batch = slice(position, position + client.batch_size)
            optimizer.zero_grad()
            cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    WORLD.Barrier()
    return time.perf_counter() - start


def main(folder: Path, repeats: int) -> None:
    torch.set_num_threads(1)
    experiment = load_experiment(QUICKSTART)
    assert isinstance(experiment.task, Classification)
    if WORLD.rank == 0:
        prepare(experiment.task, experiment.seed, QUICKSTART.parent, folder / "data")
    WORLD.Barrier()
    data = open_prepared(prepare(experiment.task, experiment.seed, QUICKSTART.parent, folder / "data"))
    updates = experiment.budget.client_updates
    assert updates is not None
    for algorithm in ("fedavg", "fedbuff"):
        cell = Run(algorithm, "per_domain", 0)
        whole_run(experiment, cell, folder)  # warm-up of both
        bare_loop(experiment, cell, data)
        whole = [updates / whole_run(experiment, cell, folder) for _ in range(repeats)]
        bare = [updates / bare_loop(experiment, cell, data) for _ in range(repeats)]
        ratio = [ours / theirs for ours, theirs in zip(whole, bare, strict=True)]
        if WORLD.rank == 0:
            for name, values in (("whole run", whole), ("bare loop", bare), ("ratio", ratio)):
                print(
                    f"{f'{algorithm}, client updates/s, {name}':60s} "
                    f"{min(values):10.2f} {median(values):10.2f} {max(values):10.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
