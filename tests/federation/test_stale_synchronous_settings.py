"""What a stale synchronous algorithm cannot be is said in words, with the key and the mend."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.budget import Budget
from fedhpc.experiment import Run, load_experiment
from fedhpc.federation.population import Population
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.schedulers.stale_synchronous import StaleSynchronousSettings
from fedhpc.federation.wall_settings import wall_mistakes
from fedhpc.mistakes import ExperimentError
from tests.federation.online import algorithm
from tests.workflow.experiments import schedules_only, write

EQUAL = {"weighting": "equal"}
RELAY = {"cohort": 5, "over_selection": 7, "stale": {"weighting": "relay"}}
SAFA = {"selection": {"kind": "everybody"}, "target_ratio": 0.1, "stale": EQUAL}
BUDGET = Budget(server_updates=10)


def told(folder: Path, **settings: Any) -> list[str]:
    content = schedules_only(algorithms={"relay": {"scheduler": "stale_synchronous", **settings}})
    with pytest.raises(ExperimentError) as caught:
        load_experiment(write(folder / "relay.yaml", content))
    return caught.value.mistakes


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "cohort: missing; selection uniform chooses as many; give it, or selection: {kind: everybody}"),
        ({"cohort": 3, "over_selection": 2}, "over_selection: 2 is below cohort 3; raise it or lower cohort"),
        ({**SAFA, "cohort": 3}, "cohort: selection everybody starts all who are online; leave it out"),
        ({**SAFA, "over_selection": 3}, "over_selection: selection everybody starts all who are online; leave it out"),
        ({**SAFA, "adaptive_target": True}, "adaptive_target: selection everybody starts all who are online; leave"),
        ({**SAFA, "target_ratio": None}, "target_ratio: missing; it is what ends a round of everybody, beside a"),
        ({"cohort": 3, "over_selection": 5, "adaptive_target": True}, "adaptive_target: counts on late updates, which"),
        ({"cohort": 3, "stale": EQUAL}, "stale: there are no late updates, every round waits for all its clients;"),
        ({**SAFA, "target_ratio": 1.0}, "stale: there are no late updates, every round waits for all its clients;"),
        ({**RELAY, "stale": {**EQUAL, "beta": 0.3}}, "stale.beta: is of equation 2, and weighting equal has none;"),
        ({**RELAY, "stale": {"weighting": "fresh"}}, "stale.weighting: 'fresh' is not allowed; allowed: equal, dynsgd"),
        ({**RELAY, "stale": {"weighting": "relay", "beta": 2}}, "stale.beta: 2 is not allowed"),
        ({**RELAY, "selection": {"kind": "oord"}}, "selection.kind: 'oord' is unknown; did you mean 'oort'?; known:"),
        ({**RELAY, "selection": {"kind": "oort", "rest": 5}}, "selection.rest: unknown key"),
        ({**RELAY, "weighting": "examples"}, "weighting: 'examples' is not allowed; allowed: uniform"),
        (
            {"cohort": 5, "client": {"within_deadline": "drop"}},
            "client.within_deadline: a deadline ends the rounds of scheduler synchronous, and this one has none",
        ),
    ],
)
def test_what_cannot_be(tmp_path: Path, settings: dict[str, Any], sentence: str) -> None:
    (found,) = told(tmp_path, **settings)
    assert found.startswith(f"algorithms.relay.{sentence}")


def population(clients: int, holders: int | None = None) -> Population:
    examples = np.array([3] * (clients if holders is None else holders) + [0] * clients)[:clients]
    return Population(examples, np.zeros(clients, bool))


def mistakes(settings: dict[str, Any], clients: Population) -> list[str]:
    return algorithm(**settings).mistakes(clients, BUDGET)


def test_clients_are_enough() -> None:
    assert mistakes(RELAY, population(7)) == []
    assert mistakes(RELAY, population(6)) == [
        "over_selection: 7 exceeds the population of 6 clients; lower it",
    ]
    assert mistakes({"cohort": 7}, population(6)) == ["cohort: 7 exceeds the population of 6 clients; lower it"]
    assert mistakes(SAFA, population(1)) == []


def test_rest_leaves_enough() -> None:
    rested = {**RELAY, "selection": {"kind": "priority"}}
    assert mistakes(rested, population(42)) == []
    assert mistakes(rested, population(41)) == [
        "selection.rest: 5 rounds of rest for each of 7 clients need 42 clients, and there are 41; lower it or "
        "over_selection"
    ]


def test_holders_of_examples_are_enough() -> None:
    by_size = {"cohort": 4, "selection": {"kind": "by_examples"}}
    assert mistakes(by_size, population(6, holders=4)) == []
    assert mistakes(by_size, population(6, holders=3)) == [
        "selection: by_examples selects clients who hold an example, and of 4 wanted there are 3; lower cohort, or "
        "name uniform"
    ]


@pytest.mark.parametrize("mechanism", ["dp_ftrl", "dp_sgd"])
def test_privacy_is_not_counted_for_it(mechanism: str) -> None:
    private = {"privacy": {"mechanism": mechanism, "noise_multiplier": 1.0, "delta": 1e-5}, "cohort": 5}
    found = mistakes(private, population(60))
    assert any(mistake.startswith("scheduler: stale_synchronous") for mistake in found)


def test_a_clock_has_no_availability() -> None:
    (found,) = wall_mistakes(algorithm(**RELAY))
    assert found.startswith("scheduler: stale_synchronous hears late clients of rounds long past, which clock: wall")


def test_only_oort_reads_losses() -> None:
    assert algorithm(**RELAY, selection={"kind": "oort"}).reads_losses
    assert not algorithm(**RELAY).reads_losses
    assert not algorithm(**SAFA).reads_losses


def test_an_experiment_makes_its_schedule(tmp_path: Path) -> None:
    phones = {"devices": {"source": "clusters", "model_kbit": 800}, "availability": {"source": "generated"}}
    chosen = {
        "relay": RELAY | {"selection": {"kind": "priority", "rest": 2}},
        "oort": {"cohort": 5, "over_selection": 7, "selection": {"kind": "oort"}},
        "safa": SAFA | {"deadline": 100},
        "safa_oracle": SAFA | {"deadline": 100, "oracle": True},
    }
    algorithms = {name: {"scheduler": "stale_synchronous", **one} for name, one in chosen.items()}
    content = schedules_only(algorithms=algorithms, scenarios={"phones": phones}, budget={"server_updates": 30})
    experiment = load_experiment(write(tmp_path / "phones.yaml", content))
    clients = Population(np.full(60, 10), np.zeros(60, bool))
    used = {}
    for name in algorithms:
        settings = experiment.settings_of(Run(name, "phones", 0))
        assert isinstance(settings.algorithm, StaleSynchronousSettings)
        assert settings.algorithm.mistakes(clients, settings.budget) == []
        server = make_schedule(settings, clients)
        *_, last = server.server_updates()
        assert last.version == 30
        assert server.availability is not None
        used[name] = last.totals.resource_used - last.totals.resource_wasted
    assert used["safa_oracle"] == pytest.approx(used["safa"])
