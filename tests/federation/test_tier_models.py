"""FedAT's models by hand, on a model of two parameters."""

import numpy as np

from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.schedulers.tiered import TieredSettings
from fedhpc.federation.server_model import ServerModel
from fedhpc.federation.tier_models import TierModels
from fedhpc.federation.updates import Participation, ServerUpdate, TierStep, Totals
from fedhpc.optimizers import SGD

SGD_1 = SGD(name="sgd", rate=1.0)
START = np.array([1.0, -2.0], np.float32)


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_the_global_model_is_the_tiers_mean_by_their_shares() -> None:
    tiers = TierModels(START)
    # Until tier 1 has one, its model is the initial one.
    np.testing.assert_allclose(tiers.advance(TierStep(0, [0.25, 0.75]), vector(5, 2)), [2, -1])
    np.testing.assert_allclose(tiers.advance(TierStep(1, [0.5, 0.5]), vector(-1, 0)), [2, 1])
    np.testing.assert_allclose(tiers.advance(TierStep(0, [1.0, 0.0]), vector(7, 8)), [7, 8])


def test_what_a_checkpoint_keeps_goes_on_as_before() -> None:
    first = TierModels(START)
    first.advance(TierStep(1, [0.0, 1.0]), vector(-1, 0))
    second = TierModels(START)
    second.restore(first.state())
    step = TierStep(0, [0.5, 0.5])
    assert second.advance(step, vector(3, 3)).tobytes() == first.advance(step, vector(3, 3)).tobytes()


def update(version: int, start: int, tier: TierStep) -> ServerUpdate:
    clients = [Participation(0, client, 0, start, 1, 0.0, steps=1, arrives=1.0) for client in range(2)]
    return ServerUpdate(version, 1.0, clients, [0.5, 0.5], Totals(), [], tier=tier)


def test_a_tiers_model_is_its_clients_mean_from_the_version_that_they_started_from() -> None:
    client = ClientSettings(batch_size=1, epochs=1, optimizer=SGD_1)
    model = ServerModel(
        TieredSettings(scheduler="tiered", speed_ratio=2.0, client=client, server_optimizer=SGD_1), START
    )
    versions = {0: model.apply(ServerUpdate(0, 0.0, [], [], Totals(), []), {}, {})}
    # Tier 0's mean delta is (4, -4): its model is (-3, 2), tier 1's still (1, -2).
    first = update(1, 0, TierStep(0, [0.0, 1.0]))
    versions[1] = model.apply(first, {None: vector(4, -4)}, versions)
    np.testing.assert_allclose(versions[1], [1, -2])
    # Tier 1 started from version 0 as well: (1, -2) - (0, 2) = (1, -4). Half of each: (-1, -1).
    versions[2] = model.apply(update(2, 0, TierStep(1, [0.5, 0.5])), {None: vector(0, 2)}, versions)
    np.testing.assert_allclose(versions[2], [-1, -1])
    # Tier 0 started from version 1, which was (1, -2), and moved by (-1, 0) to (2, -2); (2 * that + tier 1's) / 3.
    versions[3] = model.apply(update(3, 1, TierStep(0, [2 / 3, 1 / 3])), {None: vector(-1, 0)}, versions)
    np.testing.assert_allclose(versions[3], [5 / 3, -8 / 3], rtol=1e-6)
    again = ServerModel(
        TieredSettings(scheduler="tiered", speed_ratio=2.0, client=client, server_optimizer=SGD_1), START
    )
    again.restore(model.state())
    last = update(4, 2, TierStep(1, [0.5, 0.5]))
    expected = model.apply(last, {None: vector(1, 1)}, versions)
    assert again.apply(last, {None: vector(1, 1)}, versions).tobytes() == expected.tobytes()


def test_a_tiers_running_statistics_are_its_clients_mean() -> None:
    client = ClientSettings(batch_size=1, epochs=1, optimizer=SGD_1)
    settings = TieredSettings(scheduler="tiered", speed_ratio=2.0, client=client, server_optimizer=SGD_1)
    model = ServerModel(settings, vector(1, 8), statistics=1)
    versions = {0: model.apply(ServerUpdate(0, 0.0, [], [], Totals(), []), {}, {})}
    # A delta of 0.5 and statistics that end at 4 on average: tier 1 is (0.5, 4), tier 0 still (1, 8).
    versions[1] = model.apply(update(1, 0, TierStep(1, [0.5, 0.5])), {None: vector(0.5, 4)}, versions)
    np.testing.assert_allclose(versions[1], [0.75, 6])
    # Tier 0 started from version 0: (1 - 2, 2). A quarter of it, the rest of tier 1's.
    versions[2] = model.apply(update(2, 0, TierStep(0, [0.25, 0.75])), {None: vector(2, 2)}, versions)
    np.testing.assert_allclose(versions[2], [0.125, 3.5])
    again = ServerModel(settings, vector(1, 8), statistics=1)
    again.restore(model.state())
    last = update(3, 2, TierStep(1, [0.5, 0.5]))
    assert (
        again.apply(last, {None: vector(1, 1)}, versions).tobytes()
        == model.apply(last, {None: vector(1, 1)}, versions).tobytes()
    )
