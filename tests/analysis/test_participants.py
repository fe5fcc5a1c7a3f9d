from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.analysis.participants import participants_examples
from fedhpc.store import open_experiment
from fedhpc.store.run_file import write_run
from tests.store.records import record, run_path


def one_run(examples: list[int], counts: list[int]) -> xr.Dataset:
    return xr.Dataset({"examples": ("client", examples), "updates_aggregated_of_client": ("client", counts)})


def test_each_client_counts_as_often_as_it_was_aggregated() -> None:
    # Updates from clients with 1, 1, 1, 1, 1, 5, 5, 9 examples; nobody with 7 was ever aggregated.
    found = participants_examples(one_run([5, 1, 9, 1, 7], [2, 4, 1, 1, 0]), (0, 0.5, 0.625, 0.626, 0.875, 1))
    assert found["examples"].values.tolist() == [1, 5, 7, 9]
    assert found["share"].values.tolist() == [0.625, 0.25, 0, 0.125]
    assert found["quantile_examples"].values.tolist() == [1, 1, 1, 5, 5, 9]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=12),
    st.lists(st.integers(0, 100).map(lambda percent: percent / 100), min_size=1, max_size=5),
)
def test_quantiles_are_those_of_the_updates_one_by_one(clients: list[tuple[int, int]], levels: list[float]) -> None:
    examples, counts = (list(column) for column in zip(*clients, strict=True))
    found = participants_examples(one_run(examples, counts), levels)["quantile_examples"].values
    updates = np.repeat(examples, counts)
    if updates.size:
        np.testing.assert_array_equal(found, np.quantile(updates, levels, method="inverted_cdf"))
    else:
        assert np.isnan(found).all()


def test_an_experiment_has_a_distribution_a_run(tmp_path: Path) -> None:
    # The small record's clients hold 4, 0, 7 and 9 examples; the straggler's were never aggregated.
    runs = [
        record("fedavg", "slow", 0),
        record("fedbuff", "slow", 0, clients={"updates_aggregated_of_client": [0, 0, 1, 3]}),
        record("fedavg", "slow", 1),
    ]
    for run in runs:
        write_run(run_path(tmp_path, run), run)
    found = participants_examples(open_experiment(tmp_path), [0.5, 0.9]).sel(scenario="slow")
    assert found["share"].dims == ("algorithm", "trial", "examples")
    np.testing.assert_array_equal(found["share"].sel(algorithm="fedavg", trial=1), [0.35, 0.4, 0.25, 0])
    np.testing.assert_array_equal(found["quantile_examples"].sel(algorithm="fedavg", trial=0), [4, 7])
    np.testing.assert_array_equal(found["quantile_examples"].sel(algorithm="fedbuff", trial=0), [9, 9])
    assert np.isnan(found["share"].sel(algorithm="fedbuff", trial=1)).all()


def test_a_quantile_is_a_fraction() -> None:
    with pytest.raises(ValueError, match="not all within"):
        participants_examples(one_run([1], [1]), [50])
