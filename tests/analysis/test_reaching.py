import numpy as np
import pytest

from fedhpc.analysis.reaching import NotMeasured, at_evaluation, at_the_end, last_evaluation, reaching
from tests.analysis.datasets import experiment


def run(accuracies: list[float]) -> dict[str, list[float]]:
    """Evaluation k after 10 k seconds, 13 k trips, 5 k client updates and k server updates."""
    steps = range(len(accuracies))
    return {
        "time": [10.0 * k for k in steps],
        "client_trips": [13.0 * k for k in steps],
        "client_updates": [5.0 * k for k in steps],
        "server_updates": [1.0 * k for k in steps],
        "total_accuracy": accuracies,
    }


RUNS = experiment(
    {
        # At the target exactly; past it, and below it again; never.
        ("fedavg", "slow"): [run([0.1, 0.5, 0.75, 0.9]), run([0.1, 0.2, 0.8, 0.7]), run([0.1, 0.2, 0.3, 0.74])],
        # From the start; a short run that ends before it gets there; no run.
        ("fedbuff", "slow"): [run([0.8, 0.1, 0.1, 0.1]), run([0.1, 0.2]), None],
    }
)


def test_counts_at_the_first_evaluation_at_or_above_the_target() -> None:
    found = reaching(RUNS, "total_accuracy", 0.75).sel(scenario="slow")
    assert found["client_trips"].dims == ("algorithm", "trial")
    expected = [[2, 2, np.nan], [0, np.nan, np.nan]]
    for name, step in (("time", 10), ("client_trips", 13), ("client_updates", 5), ("server_updates", 1)):
        np.testing.assert_array_equal(found[name].values, step * np.array(expected))


def test_a_count_can_be_the_target() -> None:
    found = reaching(RUNS, "client_updates", 11)
    np.testing.assert_array_equal(found["time"].sel(algorithm="fedavg", scenario="slow"), [30, 30, 30])
    np.testing.assert_array_equal(found["time"].sel(algorithm="fedbuff", scenario="slow"), [30, np.nan, np.nan])


def test_one_run_alone() -> None:
    alone = RUNS.isel(algorithm=0, scenario=0, trial=0)
    assert reaching(alone, "total_accuracy", 0.6)["time"].item() == 20
    assert np.isnan(reaching(alone, "total_accuracy", 0.95)["time"].item())


def test_a_runs_own_last_evaluation() -> None:
    last = last_evaluation(RUNS)
    np.testing.assert_array_equal(last.sel(scenario="slow"), [[3, 3, 3], [3, 1, -1]])
    ends = at_evaluation(RUNS["total_accuracy"], last).sel(scenario="slow")
    np.testing.assert_array_equal(ends, [[0.9, 0.7, 0.74], [0.1, 0.2, np.nan]])


def test_what_is_not_measured_is_not_reached() -> None:
    with pytest.raises(NotMeasured, match="these runs have no straggler_accuracy"):
        reaching(RUNS, "straggler_accuracy", 0.5)


def test_the_end_is_each_runs_own() -> None:
    end = at_the_end(RUNS).sel(scenario="slow")
    np.testing.assert_array_equal(end.total_accuracy.sel(algorithm="fedavg"), [0.9, 0.7, 0.74])
    # The short run's last, where the others have gone on; a run that is not there has none.
    np.testing.assert_array_equal(end.total_accuracy.sel(algorithm="fedbuff"), [0.1, 0.2, np.nan])
    np.testing.assert_array_equal(end.client_trips.sel(algorithm="fedbuff"), [39, 13, np.nan])
