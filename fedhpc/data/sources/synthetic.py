"""Synthetic(alpha, beta) of FedProx (Li et al. 2020, section 5.1), with FedCore's 30 clients and seed 0.

The draws come in the order of FedProx's published generator, so that a seed gives the published data: all clients'
sizes, u, B and mean features first, then client by client W, b and the features. As there, alpha and beta are
standard deviations.
"""

import numpy as np

from fedhpc.data.examples import Examples
from fedhpc.data.settings import Synthetic

_FEATURES = 60
_CLASSES = 10


def generate_synthetic(settings: Synthetic) -> Examples:
    """Logistic data of one model a client; features [60], ten classes. A client's last examples are held out: they
    are independent draws, so that which ones are held out makes no difference."""
    legacy = np.random.RandomState(settings.seed)
    clients = settings.clients
    sizes = legacy.lognormal(4, 2, clients).astype(int) + 50
    u = legacy.normal(0, settings.alpha, clients)
    feature_level = legacy.normal(0, settings.beta, clients)
    means = legacy.normal(feature_level[:, np.newaxis], 1, (clients, _FEATURES))
    deviations = np.sqrt(np.arange(1, _FEATURES + 1) ** -1.2)
    features, labels, held_out = [], [], []
    for client, size in enumerate(sizes):
        weights = legacy.normal(u[client], 1, (_FEATURES, _CLASSES))
        bias = legacy.normal(u[client], 1, _CLASSES)
        x = means[client] + deviations * legacy.standard_normal((size, _FEATURES))
        features.append(x.astype(np.float32))
        labels.append(np.argmax(x @ weights + bias, axis=1))
        held_out.append(np.arange(size) >= int((1 - settings.held_out) * size))
    return Examples(
        features=np.concatenate(features),
        labels=np.concatenate(labels),
        held_out=np.concatenate(held_out),
        class_names=tuple("0123456789"),
        clients=np.repeat(np.arange(clients), sizes),
        client_names=tuple(str(client) for client in range(clients)),
    )
