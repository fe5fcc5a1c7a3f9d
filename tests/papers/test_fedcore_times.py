"""FedCore, Table 2: the mean training time of a round on Synthetic, normalised; with nothing trained.

What fits: the mean over 100 rounds of the slowest of the round's clients, over the deadline, with clients drawn
uniformly (by their examples FedAvg would have 1.75 and 6.15). The released code seeds numpy's generator with the
round's number, from 1, and draws ten of thirty; with those draws all figures are the paper's. Over all draws they are
1.37 and 4.80 (FedAvg), 0.73 and 0.78 (DS), 0.87 and 0.95 (Prox), 0.93 and 1.00 (Core): 0.69 is that one draw's.
"""

from math import comb
from pathlib import Path

import numpy as np
import pytest

from fedhpc.data.preparation import population_of, prepare
from fedhpc.experiment import Run, load_experiment
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.selection import FreeClients
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.task import Classification

FOLDER = Path(__file__).parents[2] / "configs/experiments/fedcore"
PAPER = {"fedavg": (1.37, 4.80), "fedavg_ds": (0.69, 0.79), "fedprox": (0.86, 0.95), "fedcore": (0.93, 0.99)}
CELLS = [(algorithm, scenario) for algorithm in PAPER for scenario in ("stragglers_10", "stragglers_30")]


class ReleasedDraws(FreeClients):
    """Every round's clients as the released code draws them."""

    rounds = 0

    def take(self, count: int) -> list[int]:
        self.rounds += 1
        return list(map(int, np.random.RandomState(self.rounds).choice(range(30), count, replace=False)))

    def give_back(self, clients: object) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("synthetic")


def schedule(folder: Path, algorithm: str, scenario: str, trial: int = 0) -> VirtualServer:
    experiment = load_experiment(FOLDER / "synthetic_1_1.yaml")
    assert isinstance(experiment.task, Classification)
    population = population_of(experiment.task, prepare(experiment.task, experiment.seed, folder, folder))
    return make_schedule(experiment.settings_of(Run(algorithm, scenario, trial)), population)


def mean_round(played: VirtualServer) -> float:
    *_, last = played.server_updates()
    assert played.client_time.deadline is not None
    return last.time / last.version / played.client_time.deadline


@pytest.mark.parametrize(("algorithm", "scenario"), CELLS)
def test_with_the_released_draws_the_times_are_the_papers(folder: Path, algorithm: str, scenario: str) -> None:
    played = schedule(folder, algorithm, scenario)
    played.free = ReleasedDraws(30, np.random.default_rng(0))
    paper = PAPER[algorithm][scenario == "stragglers_30"]
    # Rounded to a hundredth in the paper; FedCore's 0.9994 seems to be cut off.
    assert mean_round(played) == pytest.approx(paper, abs=0.0095 if algorithm == "fedcore" else 0.0051)


@pytest.mark.parametrize(("algorithm", "scenario"), CELLS)
def test_over_many_draws_the_times_are_those_of_the_slowest_of_ten(folder: Path, algorithm: str, scenario: str) -> None:
    played = schedule(folder, algorithm, scenario)
    examples, time = played.population.examples, played.client_time
    work = time.work_by_deadline
    seconds = np.array(
        [
            -1.0 if work is not None and work(one) is None else time.of(one, 0, examples.item(one))[1]
            for one in range(30)
        ]
    )
    # The k-th quickest (from 0) is a round's slowest where the nine others come from those before it.
    slowest = np.array([comb(place, 9) for place in range(30)]) / comb(30, 10)
    expected = float(np.sort(seconds) @ slowest) / (time.deadline or np.nan)
    error = float(np.sqrt(np.sort(seconds) ** 2 @ slowest - (np.sort(seconds) @ slowest) ** 2))
    error /= (time.deadline or np.nan) * np.sqrt(100 * 20)
    trials = [mean_round(schedule(folder, algorithm, scenario, trial)) for trial in range(20)]
    assert np.mean(trials) == pytest.approx(expected, abs=4 * error)
    paper = PAPER[algorithm][scenario == "stragglers_30"]
    assert expected == pytest.approx(paper, abs=0.045 if algorithm == "fedavg_ds" else 0.0151)


@pytest.mark.parametrize("name", ["synthetic_1_1", "synthetic_05_05", "synthetic_0_0"])
def test_the_three_experiments_differ_in_their_data_alone(name: str) -> None:
    first, other = load_experiment(FOLDER / "synthetic_1_1.yaml"), load_experiment(FOLDER / f"{name}.yaml")
    assert isinstance(other.task, Classification)
    assert set(other.algorithms) == set(PAPER)
    assert other.algorithms == first.algorithms
    assert other.scenarios == first.scenarios
    assert (other.budget, other.evaluation, other.trials) == (first.budget, first.evaluation, first.trials)
    alpha, beta = (getattr(other.task.data, name) for name in ("alpha", "beta"))
    assert name == "synthetic_" + "_".join(f"{value:g}".replace(".", "") for value in (alpha, beta))
