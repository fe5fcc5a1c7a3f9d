import numpy as np
import pytest

from fedhpc.analysis.reaching import at_the_end
from fedhpc.analysis.resources import wasted_share
from tests.analysis.datasets import experiment


def test_the_share_of_learner_time_that_came_to_nothing() -> None:
    runs = experiment(
        {
            ("safa", "slow"): [
                {"time": [0.0, 1.0, 2.0], "resource_used": [0.0, 40.0, 100.0], "resource_wasted": [0.0, 30.0, 80.0]},
                {"time": [0.0, 1.0], "resource_used": [0.0, 50.0], "resource_wasted": [0.0, 0.0]},
                None,
            ]
        }
    )
    share = wasted_share(runs)
    assert share.dims == ("algorithm", "scenario", "trial", "evaluation")
    assert share.attrs["units"] == "1"
    np.testing.assert_array_equal(share.values[0, 0], [[0, 0.75, 0.8], [0, 0, np.nan], [np.nan] * 3])
    np.testing.assert_array_equal(wasted_share(at_the_end(runs)).values[0, 0], [0.8, 0, np.nan])
    one = runs.isel(algorithm=0, scenario=0, trial=0)
    assert wasted_share(one).values.tolist() == pytest.approx([0, 0.75, 0.8])
