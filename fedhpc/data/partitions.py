"""How examples are dealt to clients who share none: pure functions of labels, settings and a random stream.

All give the client of each example, int64 [examples], for ``labels``, int64 [examples]. The classes are those that
occur in ``labels``; examples that stay unused have the client -1.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.settings import IID, ClassPartition, DealtPartition, Dirichlet, DualDirichlet, TwoClasses

MOST_DRAWS = 1_000
"""Partitions drawn before it is given up that every client gets an example."""

MOST_CLASS_DRAWS = 20_000
"""Draws of the clients' classes before it is given up that every class gets a client."""


class ImpossiblePartition(ValueError):
    """These examples cannot be dealt in this way. The sentence begins with the partition's key that can mend it."""


def owners(partition: DealtPartition, labels: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """The client of each example by any partition that gives an example to one client. Raises ImpossiblePartition."""
    match partition:
        case IID():
            return iid(partition, labels, generator)
        case Dirichlet():
            return dirichlet(partition, labels, generator)
        case ClassPartition():
            return class_partition(partition, labels, generator)
        case DualDirichlet():
            return dual_dirichlet(partition, labels, generator)
        case TwoClasses():
            return two_classes(partition, labels, generator)


def iid(settings: IID, labels: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Dealt at random in equal numbers (sizes differ by at most one)."""
    owner = np.empty(len(labels), np.int64)
    owner[generator.permutation(len(labels))] = np.arange(len(labels)) % settings.clients
    return owner


def dirichlet(settings: Dirichlet, labels: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Yurochkin et al. 2019 (and Hsu et al. 2019, with the roles of class and client exchanged): for each class one
    draw of Dirichlet(concentration, ..., concentration) gives the clients' shares of its examples, which are shuffled
    and cut at the cumulative shares."""
    concentrations = np.full(settings.clients, settings.concentration)

    def draw() -> NDArray[np.int64]:
        owner = np.empty(len(labels), np.int64)
        for label in np.unique(labels):
            rows = generator.permutation(np.flatnonzero(labels == label))
            numbers = _cut(generator.dirichlet(concentrations), len(rows))
            owner[rows] = np.repeat(np.arange(settings.clients), numbers)
        return owner

    def sizes(owner: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(owner, minlength=settings.clients)

    return _drawn(draw, sizes, settings, len(labels), "raise concentration")


def class_partition(
    settings: ClassPartition, labels: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """FedCompass, Algorithm 4.

    1. Each client draws how many classes it holds, least to most, and which, until every class has a client.
    2. For each class, its clients draw normal(mean, std); one that is not above 0 is drawn again, since nobody holds
       a negative number of examples.
    3. The shuffled examples of the class are cut at the cumulative shares of these draws, so that none is left over.
    """
    _, sizes = np.unique(labels, return_counts=True)

    def draw() -> NDArray[np.int64]:
        held = classes_held(settings, len(sizes), generator)
        counts = np.zeros(held.shape, np.int64)
        for number, examples in enumerate(sizes):
            clients = np.flatnonzero(held[:, number])
            weights = _positive_normals(settings.mean, settings.std, len(clients), generator)
            counts[clients, number] = _cut(weights / weights.sum(), examples, np.rint)
        return counts

    return _dealt(_drawn(draw, _sum_of_client, settings, len(labels), "raise least_classes"), labels, generator)


def classes_held(settings: ClassPartition, classes: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Which client holds which class by ``class_partition``, bool [clients, classes]: least to most in every row, and
    some in every column. Raises ImpossiblePartition."""
    least, most, clients = settings.least_classes, settings.most_classes, settings.clients
    if most > classes:
        raise ImpossiblePartition(f"most_classes: {most} exceeds the {classes} classes of the training data; lower it")
    if clients * most < classes:
        raise ImpossiblePartition(
            f"most_classes: {clients} clients of at most {most} classes cannot hold all {classes} classes; raise it or "
            "clients"
        )
    for _ in range(MOST_CLASS_DRAWS):
        numbers = generator.integers(least, most, clients, endpoint=True)
        # Every row orders the classes at random; a client holds the first of its own order.
        places = generator.permuted(np.broadcast_to(np.arange(classes), (clients, classes)), axis=1)
        held = places < numbers[:, np.newaxis]
        if held.any(axis=0).all():
            return held
    raise ImpossiblePartition(
        f"least_classes: drawn {MOST_CLASS_DRAWS:,} times, the clients' classes never were all {classes}; raise it, "
        "most_classes or clients"
    )


def dual_dirichlet(
    settings: DualDirichlet, labels: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """FedCompass, Algorithm 5.

    Client i's weight s_i is a component of one draw of Dirichlet(size_concentration / clients, ...), and its classes'
    weights w_i are a draw of Dirichlet(class_concentration times the classes' shares of all examples). Of class c it
    gets the share s_i w_ic / sum_j s_j w_jc: that is what line 11, misprinted, must mean for the shares of a class to
    add up to 1. The shuffled examples are cut at the cumulative shares, so that none is left over.
    """
    _, sizes = np.unique(labels, return_counts=True)
    of_sizes = np.full((1, settings.clients), settings.size_concentration / settings.clients)
    of_classes = np.tile(settings.class_concentration * sizes / len(labels), (settings.clients, 1))

    def draw() -> NDArray[np.int64]:
        # In logarithms: of a small concentration, all weights of a class may be smaller than any float.
        weights = _log_dirichlet(of_sizes, generator).T + _log_dirichlet(of_classes, generator)
        shares = np.exp(weights - np.logaddexp.reduce(weights, axis=0))
        columns = zip(shares.T, sizes, strict=True)
        return np.stack([_cut(share / share.sum(), examples, np.rint) for share, examples in columns], axis=1)

    mend = "raise size_concentration or class_concentration"
    return _dealt(_drawn(draw, _sum_of_client, settings, len(labels), mend), labels, generator)


def two_classes(settings: TwoClasses, labels: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """FedProx's MNIST (Li et al. 2020; data/mnist/generate_niid.py in litian96/FedProx), which FedCore's section 6.1
    takes over, for any number of classes.

    Of n classes, client u holds u mod n and u + 1 mod n. It gets ``least`` examples of each, and of what then is left
    of a class the share of its own draw of lognormal(0, sigma) among those of all who hold the class, rounded down.
    What rounding leaves over stays unused, as there: less than one example for each client and class it holds, half of
    one on average. Examples are shuffled first; in the published code they come in the file's order. Of a client beyond
    ``most`` both classes shrink alike.

    There each client's own examples are then split into nine tenths for training and one held out. Here the data
    source holds examples out before they are dealt, and all clients are evaluated on all of them.
    """
    _, sizes = np.unique(labels, return_counts=True)
    classes, least = len(sizes), settings.least
    if classes < 2:
        raise ImpossiblePartition(f"kind: two_classes needs two classes, and the training data have {classes}")
    if settings.clients < classes - 1:
        raise ImpossiblePartition(
            f"clients: {settings.clients} clients of two neighbouring classes cannot hold all {classes} classes; raise "
            f"it to {classes - 1} or more"
        )
    clients = np.arange(settings.clients)[:, np.newaxis]
    held = (clients + np.arange(2)) % classes
    holders = np.bincount(held.ravel(), minlength=classes)
    spare = sizes - least * holders
    if (spare < 0).any():
        number = int(np.argmin(spare))
        raise ImpossiblePartition(
            f"least: {holders[number]:,} clients of {least} examples each need more than the {sizes[number]:,} "
            f"of a class (the {number + 1}. in the labels' order); lower it or clients"
        )
    drawn = generator.lognormal(0, settings.sigma, held.shape)
    total = np.bincount(held.ravel(), drawn.ravel(), classes)
    counts = np.zeros((settings.clients, classes), np.int64)
    counts[clients, held] = least + np.floor(spare[held] * drawn / total[held]).astype(np.int64)
    if settings.most is not None:
        held_by = counts.sum(1, keepdims=True)
        counts = np.where(held_by > settings.most, counts * settings.most // held_by, counts)
    return _dealt(counts, labels, generator)


def _cut(shares: NDArray[np.float64], examples: int, to_whole: np.ufunc = np.floor) -> NDArray[np.int64]:
    """How many of so many examples lie between the cumulative shares; all of them together.

    Yurochkin et al. round the cuts down, which gives the last client one of nearly every class; to the nearest, nobody
    is favoured.
    """
    cuts: NDArray[np.int64] = to_whole(np.cumsum(shares[:-1]) * examples).astype(np.int64)
    return np.diff(cuts, prepend=0, append=examples)


def _dealt(counts: NDArray[np.int64], labels: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """The client of each example where client i gets ``counts[i, c]`` of class c's, chosen at random; -1 for those
    that nobody gets. ``counts``: [clients, classes]."""
    owner = np.full(len(labels), -1)
    for number, label in enumerate(np.unique(labels)):
        rows = generator.permutation(np.flatnonzero(labels == label))
        clients = np.repeat(np.arange(len(counts)), counts[:, number])
        owner[rows[: len(clients)]] = clients
    return owner


def _drawn(
    draw: Callable[[], NDArray[np.int64]],
    sizes: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    settings: Dirichlet | ClassPartition | DualDirichlet,
    examples: int,
    mend: str,
) -> NDArray[np.int64]:
    """The first draw in which no client is empty, or the first of all where clients may be. ``sizes`` tells what each
    client gets by a draw. Raises ImpossiblePartition, with ``mend``."""
    if settings.empty_clients:
        return draw()
    if examples < settings.clients:
        raise ImpossiblePartition(
            f"clients: {settings.clients:,} clients cannot have one each of {examples:,} training examples; lower it, "
            "or set empty_clients: true"
        )
    for _ in range(MOST_DRAWS):
        drawn = draw()
        if (sizes(drawn) > 0).all():
            return drawn
    raise ImpossiblePartition(
        f"empty_clients: in {MOST_DRAWS:,} partitions drawn, there always was a client without an example; {mend}, "
        "lower clients, or set this to true"
    )


def _sum_of_client(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(counts.sum(axis=1))


def _positive_normals(mean: float, std: float, number: int, generator: np.random.Generator) -> NDArray[np.float64]:
    values = generator.normal(mean, std, number)
    while (wrong := values <= 0).any():
        values[wrong] = generator.normal(mean, std, np.count_nonzero(wrong))
    return values


def _log_dirichlet(concentrations: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """The logarithms of one Dirichlet draw a row; ``concentrations``: [rows, components].

    Of a gamma variable of shape a + 1 and a uniform U, the product with U^(1/a) is one of shape a (Stuart 1962), and
    independent gammas over their sum are a Dirichlet draw.
    """
    logs = np.log(generator.standard_gamma(concentrations + 1))
    logs -= generator.standard_exponential(concentrations.shape) / concentrations
    return np.asarray(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
