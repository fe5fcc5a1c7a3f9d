"""How long a client is away and how much it does meanwhile: its work (epochs, steps or a time limit) and its latency.

T = T_communication + C + T_per_example * examples + T_per_step * steps (Hard et al., section 3.1; FedCompass,
section 5.1), with factors that are drawn anew at each participation. Where the scenario gives clients a capability, an
example takes one over it more (FedCore, section 3.1); where it gives them devices, a step takes longer by the device's
computation, and the participation by its communication (RELAY, section 5.1).

A time limit (Hard et al., section 2.1) gives a client as many mini-batches as fit it under the factors of this very
participation: more than its epochs or steps where there is time and it may, never fewer than one batch, and never more
than ``client.steps`` may ask for.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.settings import MOST_STEPS, ClientSettings
from fedhpc.federation.deadline import DeadlineWork, deadline_of, work_by_deadline
from fedhpc.federation.population import Population
from fedhpc.latency.device_settings import Devices
from fedhpc.latency.devices import DeviceTimes, device_times
from fedhpc.latency.sampler import LatencySampler, capability_of
from fedhpc.latency.scenario import Scenario
from fedhpc.streams import Purpose, sequential

PERCENTILE_DRAWS = 20_000
_CLIENTS_REMEMBERED = 2**14
_WITH_OVERHEAD = "overhead_and_computation"


def device_times_of(
    devices: Devices, client: ClientSettings, population: Population, seed: int, trial: int
) -> DeviceTimes:
    """What the devices of a trial's clients take for this work. Raises as ``devices_of`` does."""
    held, of_client = np.unique(population.examples, return_inverse=True)
    steps = np.array([client.local_steps(examples) for examples in held.tolist()])[of_client]
    return device_times(devices, steps, client.batch_size, population.parameters, seed, trial)


class ClientTime:
    """The work and the time of every participation of a run.

    ``limit`` is the time limit in virtual seconds, or None. A percentile is estimated once a trial, over about
    ``PERCENTILE_DRAWS`` draws: the same number of each client, or, of a larger population, one of each of so many
    clients drawn uniformly. They have streams of their own, and the clients the parameters that they have in this
    trial. Clients without an example have no work and are left out.

    ``deadline`` is what the scenario's straggler_percent makes of the client's epochs, in virtual seconds, or None.
    ``work_by_deadline`` says what a client does by it, None being nothing; it is None itself where the deadline is
    nothing to clients. ``convex``: whether the model is, so that its coresets are known before training.
    """

    def __init__(
        self,
        client: ClientSettings,
        scenario: Scenario,
        population: Population,
        seed: int,
        trial: int,
        *,
        convex: bool = False,
    ) -> None:
        self._client = client
        self._work = cache(self._ordinary_work)
        latency = LatencySampler(scenario, population, seed, trial)
        self._duration, self._factors = latency.duration, latency.factors
        self._population = population
        self._profiler = LatencySampler(scenario, population, seed, trial, Purpose.PROFILE)
        self.limit: float | None = None
        self._overhead_counts = False
        self._capability: Callable[[int], float] | None = None
        if scenario.capability is not None:
            self._capability = capability_of(scenario.capability, population, seed, trial)
        self._devices: DeviceTimes | None = None
        if scenario.devices is not None:
            self._devices = device_times_of(scenario.devices, client, population, seed, trial)
        self.deadline: float | None = None
        self.work_by_deadline: Callable[[int], DeadlineWork | None] | None = None
        if self._capability is not None and scenario.straggler_percent is not None and client.epochs is not None:
            everybody = np.array([self._capability(one) for one in range(len(population))])
            self.deadline = deadline_of(client.epochs, population.examples, everybody, scenario.straggler_percent)
            if client.within_deadline is not None:
                self.work_by_deadline = self._by_deadline(self.deadline, population, convex)
        if client.time_limit is not None:
            self._overhead_counts = client.time_limit.of == _WITH_OVERHEAD
            self.limit = client.time_limit.seconds
            if client.time_limit.percentile is not None:
                times = [*self._ordinary_times(scenario, population, seed, trial)]
                self.limit = float(np.percentile(times, client.time_limit.percentile)) if times else 0.0

        self._is_ordinary = self.limit is None and self._capability is None and self._devices is None

    def of(self, client: int, participation: int, examples: int, steps: int | None = None) -> tuple[int, float]:
        """The mini-batches that a client with so many examples takes, and virtual seconds from download to upload.

        ``steps``: as many as the scheduler asks for, where it is not the client's settings that say so.
        """
        if steps is None and self._is_ordinary:
            steps, processed = self._work(examples)
            return steps, self._duration(client, participation, processed, steps)
        if steps is None and self.limit is not None:
            return self._of_limited(self.limit, client, participation, examples)
        if steps is not None:
            steps = steps if examples else 0
            processed = self._client.examples_processed(examples, steps)
        elif self.work_by_deadline is not None:
            work = self.work_by_deadline(client)
            assert work is not None  # who takes no part is never asked
            steps, processed = work.steps, work.processed
        else:
            steps, processed = self._work(examples)
        seconds = self._duration(client, participation, processed, steps)
        if self._capability is not None:
            seconds += processed / self._capability(client)
        if self._devices is not None:
            seconds += self._devices.seconds(client, steps)
        return steps, seconds

    def _of_limited(self, limit: float, client: int, participation: int, examples: int) -> tuple[int, float]:
        communication, overhead, per_example, per_step = self._factors(client, participation)
        per_example += self._by_capability(client)
        per_step += self._step_by_device(client)
        communication += 0.0 if self._devices is None else self._devices.seconds(client, 0)
        spent = overhead if self._overhead_counts else 0.0
        steps, processed = self._work_within(limit, examples, spent, per_example, per_step)
        return steps, communication + overhead + per_example * processed + per_step * steps

    def profile(self) -> list[float]:
        """Virtual seconds a mini-batch of every client: the time of one participation, drawn for this alone and before
        any speed changed, over its mini-batches. Every client holds an example."""
        found = []
        for client, examples in enumerate(self._population.examples.tolist()):
            steps, processed = self._work(examples)
            seconds = self._profiler.duration(client, 0, processed, steps) + self._by_capability(client) * processed
            seconds += 0.0 if self._devices is None else self._devices.seconds(client, steps)
            found.append(seconds / steps)
        return found

    def durations(self) -> NDArray[np.float64]:
        """Virtual seconds from download to upload of every client's work, float64 [clients]: those of one
        participation, drawn for this alone and before any speed changed."""
        foretold = copy(self)
        foretold._duration, foretold._factors = self._profiler.duration, self._profiler.factors
        examples = self._population.examples.tolist()
        return np.array([foretold.of(client, 0, held)[1] for client, held in enumerate(examples)])

    def _by_capability(self, client: int) -> float:
        """Virtual seconds that an example takes the client by its capability."""
        return 0.0 if self._capability is None else 1 / self._capability(client)

    def _step_by_device(self, client: int) -> float:
        """Virtual seconds that a mini-batch takes the client by its device."""
        return 0.0 if self._devices is None else self._devices.per_step.item(client)

    def _by_deadline(
        self, deadline: float, population: Population, convex: bool
    ) -> Callable[[int], DeadlineWork | None]:
        capability, examples = self._capability, population.examples.item
        assert capability is not None

        @lru_cache(_CLIENTS_REMEMBERED)
        def work(client: int) -> DeadlineWork | None:
            return work_by_deadline(self._client, examples(client), capability(client), deadline, convex=convex)

        return work

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

        assert self._client.time_limit is not None
        ordinary = self._work(examples)
        if not self._client.time_limit.beyond and time(ordinary[0]) <= limit:
            return ordinary
        too_many = 2
        while too_many <= MOST_STEPS and time(too_many) <= limit:
            too_many *= 2
        fit = range(too_many // 2, min(too_many, MOST_STEPS + 1))
        steps = fit[max(0, bisect_right(fit, limit, key=time) - 1)]
        return steps, processed(examples, steps)

    def _ordinary_times(self, scenario: Scenario, population: Population, seed: int, trial: int) -> Iterator[float]:
        """What the limit counts, in virtual seconds, for the ordinary work of clients from all over the population."""
        size = len(population)
        each = PERCENTILE_DRAWS // size
        anybody = sequential(seed, trial, Purpose.TIME_LIMIT).integers
        clients = [*range(size)] * each if each else anybody(size, size=PERCENTILE_DRAWS).tolist()
        factors = LatencySampler(scenario, population, seed, trial, Purpose.TIME_LIMIT).factors
        assert self._client.time_limit is not None
        overhead_counts = (self._client.time_limit.percentile_of or self._client.time_limit.of) == _WITH_OVERHEAD
        # From 1 on: (client 0, draw 0) is the stream that chose the clients.
        for draw, client in enumerate(clients, 1):
            steps, processed = self._work(population.examples.item(client))
            if steps:
                _, overhead, per_example, per_step = factors(client, draw)
                per_example += self._by_capability(client)
                per_step += self._step_by_device(client)
                spent = overhead if overhead_counts else 0.0
                yield spent + per_example * processed + per_step * steps
