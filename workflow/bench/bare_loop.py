"""The bare loop: the client updates of a run in plain torch, with nothing around them.

Modules, SGD and autograd as torch's own tutorials have them, fp32 and NCHW. It shares the schedule (whom to train,
for how many steps), the prepared data and the device with the run that it is compared with, and no line of the
training.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedhpc.data.federated import FederatedData
from fedhpc.experiment import Experiment, Run
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.updates import Participation
from fedhpc.optimizers import SGD
from fedhpc.task import Learning
from workflow.bench.workloads import IMAGE_SHAPE


class BareLoop:
    """One rank's share of a run's client updates, ready to be trained again and again."""

    def __init__(
        self, experiment: Experiment, cell: Run, data: FederatedData, device: str, rank: int, ranks: int
    ) -> None:
        assert isinstance(experiment.task, Learning)
        client = experiment.algorithms[cell.algorithm].client
        assert isinstance(client.optimizer, SGD)
        schedule = make_schedule(experiment.settings_of(cell), data.population)
        updates = [update for server_update in schedule.server_updates() for update in server_update.updates]
        self.updates = dealt(updates, ranks)[rank]
        self.model = plain_model(experiment.task.model.name, data).to(device)
        self._batch_size, self._rate = client.batch_size, client.optimizer.rate
        features = torch.from_numpy(data.features).to(device)
        self._features = features.unsqueeze(1) if data.shape == IMAGE_SHAPE else features
        self._labels, self._offsets = torch.from_numpy(data.labels).to(device), data.offsets.tolist()
        self._device = device

    def train(self, most: int | None = None) -> None:
        """Trains them one after the other: all, or the first few."""
        with _plain_torch():
            optimizer = torch.optim.SGD(self.model.parameters(), lr=self._rate)
            order = np.random.default_rng(0)
            for update in self.updates[:most]:
                first, last = self._offsets[update.client : update.client + 2]
                position = examples = last - first
                for _ in range(update.steps):
                    if position >= examples:
                        shuffled = torch.from_numpy(first + order.permutation(examples)).to(self._device)
                        x, y = self._features[shuffled], self._labels[shuffled]
                        position = 0
                    batch = slice(position, position + self._batch_size)
                    optimizer.zero_grad()
                    cross_entropy(self.model(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                    position += self._batch_size
            if self._device == "cuda":
                torch.cuda.synchronize()


def dealt(updates: Sequence[Participation], ranks: int) -> list[list[Participation]]:
    """Each rank's updates: equally many, and nearly equal work, so that the loop is at its best. Dealt to and fro, the
    longest first."""
    hands: list[list[Participation]] = [[] for _ in range(ranks)]
    for place, update in enumerate(sorted(updates, key=lambda update: -update.steps)):
        turn, position = divmod(place, ranks)
        hands[position if turn % 2 == 0 else ranks - 1 - position].append(update)
    return hands


def plain_model(name: str, data: FederatedData) -> nn.Module:
    """The model of that name. Takes float32 [batch, 1, 28, 28] or [batch, features], returns a score a class."""
    classes = data.classes
    match name:
        case "logistic":
            return nn.Linear(data.features[0].size, classes)
        case "emnist_cnn":
            return nn.Sequential(
                nn.Conv2d(1, 32, 3),
                nn.ReLU(),
                nn.Conv2d(32, 64, 3),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Dropout(0.25),
                nn.Flatten(),
                nn.Linear(64 * 12 * 12, 128),
                nn.ReLU(),
                nn.Dropout(0.5),
                nn.Linear(128, classes),
            )
        case "mnist_cnn":
            return nn.Sequential(
                nn.Conv2d(1, 32, 5),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 5),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(64 * 4 * 4, 512),
                nn.ReLU(),
                nn.Linear(512, classes),
            )
    raise ValueError(f"no plain model is called {name!r}")


@contextmanager
def _plain_torch() -> Iterator[None]:
    """torch as it comes, save for one thread: a run before this in the same process may have set it otherwise.
    Deterministic mode, above all, has torch write over all memory that it gets."""
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("default")
    try:
        with torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(mode)
