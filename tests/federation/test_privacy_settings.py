"""A privacy block says one mechanism and one measure of noise, and what an algorithm may not do beside it."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from fedhpc.federation.privacy_settings import PrivacySettings

TREE = PrivacySettings(mechanism="dp_ftrl", delta=1e-7, epsilon=6)
SAMPLING = PrivacySettings(mechanism="dp_sgd", delta=1e-7, noise_multiplier=1)

ROUNDS: dict[str, Any] = {
    "scheduler": "synchronous",
    "weighting": "uniform",
    "clip": 1.0,
    "over_selection": None,
    "deadline": None,
}
BUFFER = ROUNDS | {"scheduler": "buffered"}


def keys(privacy: PrivacySettings, algorithm: dict[str, Any]) -> list[str]:
    return [mistake.partition(": ")[0] for mistake in privacy.mistakes(**algorithm)]


@pytest.mark.parametrize("noise", [{}, {"epsilon": 6, "noise_multiplier": 1}])
def test_either_epsilon_or_the_noise_is_given(noise: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="give either epsilon or noise_multiplier, one of them and not both"):
        PrivacySettings.model_validate({"mechanism": "dp_ftrl", "delta": 1e-7, **noise})


@pytest.mark.parametrize(
    ("key", "value"),
    [("mechanism", "dp_magic"), ("delta", 0), ("delta", 1), ("epsilon", 0), ("epsilon", float("inf"))],
)
def test_values_that_promise_nothing_are_refused(key: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        PrivacySettings.model_validate({"mechanism": "dp_sgd", "delta": 1e-7, "epsilon": 6, key: value})
    assert [error["loc"] for error in refused.value.errors()] == [(key,)]


def test_a_wrong_noise_multiplier_is_one_mistake() -> None:
    with pytest.raises(ValidationError) as refused:
        PrivacySettings.model_validate({"mechanism": "dp_sgd", "delta": 1e-7, "noise_multiplier": 0})
    assert [error["loc"] for error in refused.value.errors()] == [("noise_multiplier",)]


def test_trees_suit_rounds_and_buffers_and_sampling_rounds() -> None:
    assert keys(TREE, ROUNDS) == keys(TREE, BUFFER) == keys(SAMPLING, ROUNDS) == []
    # Whoever is told to stop is in no server update, and a tree counts on no chance.
    assert keys(TREE, ROUNDS | {"over_selection": 13}) == []


@pytest.mark.parametrize("privacy", [TREE, SAMPLING])
def test_no_mechanism_without_a_bound_on_what_one_client_can_change(privacy: PrivacySettings) -> None:
    assert keys(privacy, ROUNDS | {"clip": None}) == ["client.clip"]
    assert keys(privacy, ROUNDS | {"weighting": "examples"}) == ["weighting"]
    assert keys(privacy, ROUNDS | {"deadline": 60.0}) == ["deadline"]


def test_amplification_needs_every_client_drawn_by_chance_alone() -> None:
    assert keys(SAMPLING, BUFFER) == ["scheduler"]
    assert keys(SAMPLING, ROUNDS | {"over_selection": 13, "deadline": 60.0}) == ["over_selection", "deadline"]


@pytest.mark.parametrize("privacy", [TREE, SAMPLING])
def test_a_scheduler_that_nobody_has_thought_through_is_refused(privacy: PrivacySettings) -> None:
    assert keys(privacy, ROUNDS | {"scheduler": "tiered"}) == ["scheduler"]


def test_a_mistake_says_why_and_what_to_do() -> None:
    assert SAMPLING.mistakes(**BUFFER) == [
        "scheduler: buffered does not draw every client anew for every server update, each by itself with a known "
        "probability, which dp_sgd counts on; give scheduler: synchronous, or privacy.mechanism: dp_ftrl"
    ]


def test_reading_settings_imports_neither_torch_nor_an_accountant() -> None:
    code = "import sys, fedhpc.federation.privacy_settings; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "fedhpc.federation.privacy_settings" in loaded
    assert not {"torch", "mpi4py", "dp_accounting", "scipy"} & {*loaded}
