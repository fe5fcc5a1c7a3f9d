"""What a run's noise is worth: epsilon at a delta, by Google's dp_accounting and its Renyi accountant.

One accountant for both mechanisms, so that they compare; from epsilon 6 on it asks for 4 to 6 % more noise than an
exact one would, of either; at epsilon 1 for 25 % more with sampling. Importing this takes more than a second (scipy):
import it where privacy is asked for.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    SingleEpochTreeAggregationDpEvent,
    calibrate_dp_mechanism,
)
from dp_accounting.rdp import RdpAccountant

# An order that does not converge is left out, which can only make epsilon larger; a line for each of hundreds would
# hide everything else.
logging.getLogger("absl").addFilter(lambda record: "failed to converge" not in record.getMessage())


def epsilon_of_tree(noise_multiplier: float, steps_of_trees: Sequence[int], delta: float) -> float:
    """DP-FTRL's epsilon after trees of so many steps, each client taking part at most once in each tree.

    ``noise_multiplier`` is a node's standard deviation over what one client can change. Neighbours differ in one
    client, whose updates are zero in one of them (Kairouz et al. 2021, definition 1.1), so that schedules agree.
    """
    return float(_of_trees().compose(_trees(noise_multiplier, steps_of_trees)).get_epsilon(delta))


def noise_for_tree(epsilon: float, steps_of_trees: Sequence[int], delta: float) -> float:
    """The smallest noise multiplier, to 1e-6, with which ``epsilon_of_tree`` is at most ``epsilon``.

    Raises ValueError where there is no step.
    """
    if not any(steps_of_trees):
        raise ValueError("no server update is made, so that no noise can be found for epsilon")
    return _calibrated(_of_trees, lambda noise: _trees(noise, steps_of_trees), epsilon, delta)


def epsilon_of_sampled_gaussian(
    noise_multiplier: float, sampling_probability: float, steps: int, delta: float
) -> float:
    """DP-SGD's epsilon after ``steps`` server updates, each of every client independently with that probability.

    Neighbours differ in one client that is there or not. The divisor of a server update must not be the number of
    clients drawn, which tells who is there: it is their expected number (McMahan et al. 2018, the estimator f_f).
    """
    event = _sampled_gaussian(noise_multiplier, sampling_probability, steps)
    return float(RdpAccountant().compose(event).get_epsilon(delta))


def noise_for_sampled_gaussian(epsilon: float, sampling_probability: float, steps: int, delta: float) -> float:
    """The smallest noise multiplier, to 1e-6, with which ``epsilon_of_sampled_gaussian`` is at most ``epsilon``.

    Raises ValueError where there is no step, or nobody to sample.
    """
    if not (steps and sampling_probability):
        raise ValueError("no client is ever drawn, so that no noise can be found for epsilon")
    return _calibrated(
        RdpAccountant, lambda noise: _sampled_gaussian(noise, sampling_probability, steps), epsilon, delta
    )


def _of_trees() -> RdpAccountant:
    return RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)


def _trees(noise_multiplier: float, steps_of_trees: Sequence[int]) -> DpEvent:
    # The event's own list of steps means that a client is in one of those trees only: here it may be in each.
    counts = Counter(steps for steps in steps_of_trees if steps)
    return ComposedDpEvent(
        [
            SelfComposedDpEvent(SingleEpochTreeAggregationDpEvent(noise_multiplier, steps), trees)
            for steps, trees in sorted(counts.items())
        ]
    )


def _sampled_gaussian(noise_multiplier: float, sampling_probability: float, steps: int) -> DpEvent:
    release = PoissonSampledDpEvent(sampling_probability, GaussianDpEvent(noise_multiplier))
    return SelfComposedDpEvent(release, steps) if steps else NoOpDpEvent()


def _calibrated(
    accountant: Callable[[], RdpAccountant], event: Callable[[float], DpEvent], epsilon: float, delta: float
) -> float:
    return float(calibrate_dp_mechanism(accountant, event, epsilon, delta))
