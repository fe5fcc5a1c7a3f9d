"""FedBuff, appendix A: staleness with a buffer of K against K = 1."""

from pathlib import Path

import numpy as np
import pytest

from fedhpc.data.preparation import population_of
from fedhpc.experiment import Run as Cell
from fedhpc.experiment import load_experiment
from fedhpc.federation.schedule import make_schedule

FILE = Path(__file__).parents[2] / "configs/experiments/fedbuff/staleness.yaml"
UPDATES = 20_000


@pytest.mark.parametrize("scenario", ["half_normal", "exponential"])
def test_the_bounds_of_the_appendix(scenario: str) -> None:
    experiment = load_experiment(FILE)
    means = {}
    for algorithm in experiment.algorithms:
        settings = experiment.settings_of(Cell(algorithm, scenario, 0))
        budget = settings.budget.model_copy(update={"client_updates": UPDATES})
        schedule = make_schedule(settings.model_copy(update={"budget": budget}), population_of(experiment.task, None))
        pairs = [(update.version, one) for update in schedule.server_updates() for one in update.updates]
        staleness = np.array([version - 1 - one.version for version, one in pairs])
        # tau with K = 1, by its definition: what arrives between the client's download and its upload.
        arrivals = np.array([one.arrives for _, one in pairs])
        assert (np.diff(arrivals) > 0).all()
        with_1 = np.arange(UPDATES) - np.searchsorted(arrivals, [one.started for _, one in pairs])
        assert with_1.max() > 1000  # a thousand clients train at any moment, and some of them for long
        size = int(algorithm.removeprefix("k"))
        assert (staleness <= np.ceil(with_1 / size)).all()
        if size == 1:
            assert (staleness == with_1).all()
        means[size] = staleness.mean()
    # A thousand are at work once the first have come: as many arrive, on average, while one is.
    assert 800 < means[1] < 1000
    for size in (10, 100):
        assert means[size] == pytest.approx(means[1] / size, rel=0.1)
    assert means[1000] <= means[1] / 1000 + 0.1
