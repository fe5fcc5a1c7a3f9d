"""Rates and ratios, by hand."""

from workflow.bench.figures import against_bare_loop, of_scaling, of_the_slowest, of_waiting
from workflow.bench.measuring import Measurement


def measured(ours: float, bare: float | None = None, processor: float = 0.0) -> Measurement:
    """Twelve client updates in so many seconds."""
    return Measurement(ours, processor, bare, client_updates=12, unique_clients=5, step={"form": "plain"})


def test_ratios_are_those_of_pairs() -> None:
    # Rates 12, 4, 3 against 6, 6, 4: the ratio of medians would be 4 / 6.
    figures = against_bare_loop([measured(1.0, 2.0), measured(3.0, 2.0), measured(4.0, 3.0)])
    assert figures["ratio_to_bare_loop"] == {"min": 2 / 3, "median": 3 / 4, "max": 2.0}
    assert figures["client_updates_per_s"] == {"min": 3.0, "median": 4.0, "max": 12.0}
    assert figures["bare_client_updates_per_s"] == {"min": 4.0, "median": 6.0, "max": 6.0}
    assert figures["step"] == {"form": "plain"}
    assert figures["seconds"] == {"ours": [1.0, 3.0, 4.0], "bare": [2.0, 2.0, 3.0]}


def test_the_slowest_algorithm_speaks_for_the_engine() -> None:
    # By its median, though another has the slowest single repeat.
    figures = of_the_slowest(
        {
            "quick": [measured(1.0), measured(1.0), measured(12.0)],
            "slow": [measured(3.0), measured(4.0), measured(6.0)],
        }
    )
    assert figures["slowest"] == "slow"
    assert figures["client_updates_per_s"] == {"min": 2.0, "median": 3.0, "max": 4.0}
    assert figures["algorithms"]["quick"]["client_updates_per_s"] == {"min": 1.0, "median": 12.0, "max": 12.0}


def test_scaling_is_two_ranks_over_one() -> None:
    figures = of_scaling([measured(4.0), measured(6.0)], [measured(2.0), measured(4.0)])
    assert figures["ratio_of_two_ranks_to_one"] == {"min": 1.5, "median": 1.75, "max": 2.0}
    assert figures["one_rank"]["client_updates_per_s"] == {"min": 2.0, "median": 2.5, "max": 3.0}


def test_waiting_costs_what_more_of_it_costs() -> None:
    # Start and end cost 1 s of processor time in both; 8 s more of waiting cost 0.4 s.
    figures = of_waiting([measured(3.0, processor=1.0)], [measured(11.0, processor=1.4)])
    assert abs(figures["share_of_a_core"]["median"] - 0.05) < 1e-12
