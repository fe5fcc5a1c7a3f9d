"""How long a client is away and how much it does meanwhile: its work (epochs, steps or a time limit) and its latency.

T = T_communication + C + T_per_example * examples + T_per_step * steps (Hard et al., section 3.1; FedCompass,
section 5.1), with factors that are drawn anew at each participation.

A time limit (Hard et al., section 2.1) gives a client as many mini-batches as fit it under the factors of this very
participation: more than one pass over its examples where there is time, never fewer than one batch, and never more
than ``client.steps`` may ask for.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import cache

import numpy as np

from fedhpc.clients.settings import MOST_STEPS, ClientSettings
from fedhpc.federation.population import Population
from fedhpc.latency.sampler import LatencySampler
from fedhpc.latency.scenario import Scenario
from fedhpc.streams import Purpose, sequential

PERCENTILE_DRAWS = 20_000


class ClientTime:
    """The work and the time of every participation of a run.

    ``limit`` is the time limit in virtual seconds, or None. A percentile is estimated once a trial, over about
    ``PERCENTILE_DRAWS`` draws: the same number of each client, or, of a larger population, one of each of so many
    clients drawn uniformly. They have streams of their own, and the clients the parameters that they have in this
    trial. Clients without an example have no work and are left out.
    """

    def __init__(
        self, client: ClientSettings, scenario: Scenario, population: Population, seed: int, trial: int
    ) -> None:
        self._client = client
        self._work = cache(self._ordinary_work)
        self._factors = LatencySampler(scenario, population, seed, trial).factors
        self.limit: float | None = None
        self._overhead_counts = False
        if client.time_limit is not None:
            self._overhead_counts = client.time_limit.of == "overhead_and_computation"
            self.limit = client.time_limit.seconds
            if client.time_limit.percentile is not None:
                latency = LatencySampler(scenario, population, seed, trial, Purpose.TIME_LIMIT)
                clients = sequential(seed, trial, Purpose.TIME_LIMIT)
                times = [*self._ordinary_times(population, latency, clients)]
                self.limit = float(np.percentile(times, client.time_limit.percentile)) if times else 0.0

    def of(self, client: int, participation: int, examples: int) -> tuple[int, float]:
        """The mini-batches that a client with so many examples takes, and virtual seconds from download to upload."""
        communication, overhead, per_example, per_step = self._factors(client, participation)
        if self.limit is None:
            steps, processed = self._work(examples)
        else:
            spent = overhead if self._overhead_counts else 0.0
            steps, processed = self._work_within(self.limit, examples, spent, per_example, per_step)
        return steps, communication + overhead + per_example * processed + per_step * steps

    def _ordinary_work(self, examples: int) -> tuple[int, int]:
        """Mini-batches and the examples in them, as the epochs or steps say."""
        steps = self._client.local_steps(examples)
        return steps, self._client.examples_processed(examples, steps)

    def _work_within(
        self, limit: float, examples: int, spent: float, per_example: float, per_step: float
    ) -> tuple[int, int]:
        """Mini-batches and the examples in them: the most that end by the limit, but one at least."""
        if examples == 0:
            return 0, 0
        processed = self._client.examples_processed

        def time(steps: int) -> float:
            return spent + per_example * processed(examples, steps) + per_step * steps

        steps = max(1, bisect_right(range(1, MOST_STEPS + 1), limit, key=time))
        return steps, processed(examples, steps)

    def _ordinary_times(
        self, population: Population, latency: LatencySampler, generator: np.random.Generator
    ) -> Iterator[float]:
        """What the limit counts, in virtual seconds, for the ordinary work of clients from all over the population."""
        size = len(population)
        each = PERCENTILE_DRAWS // size
        clients = generator.integers(size, size=PERCENTILE_DRAWS).tolist() if each == 0 else [*range(size)] * each
        for draw, client in enumerate(clients):
            steps, processed = self._work(population.examples.item(client))
            if steps:
                _, overhead, per_example, per_step = latency.factors(client, draw)
                spent = overhead if self._overhead_counts else 0.0
                yield spent + per_example * processed + per_step * steps
