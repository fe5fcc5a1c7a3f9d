import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.data.stragglers import kept_examples, straggler_clients


def test_the_richest_clients_are_the_stragglers_and_the_others_lose_those_classes():
    # Examples of classes 0 and 1 a client: client 0 has 1, client 1 has 3, client 2 has 0, client 3 has 2.
    owner = np.array([0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3])
    labels = np.array([0, 2, 0, 1, 1, 2, 2, 3, 0, 0, 3])
    stragglers = straggler_clients(labels, owner, 4, [0, 1], 2)
    assert stragglers.tolist() == [False, True, False, True]
    kept = kept_examples(labels, owner, stragglers, [0, 1])
    assert labels[kept].tolist() == [2, 0, 1, 1, 2, 2, 3, 0, 0, 3]
    assert owner[~kept].tolist() == [0]


def test_of_equally_rich_clients_the_lower_index_is_the_straggler():
    owner, labels = np.array([3, 1, 2, 0, 0]), np.array([0, 0, 0, 1, 1])
    assert straggler_clients(labels, owner, 5, [0], 2).tolist() == [False, True, True, False, False]
    assert straggler_clients(labels, owner, 5, [0], 4).tolist() == [True, True, True, True, False]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1),
    st.integers(1, 6),
    st.sets(st.integers(0, 3), min_size=1),
)
def test_straggler_classes_live_on_straggler_clients_only_and_nothing_else_is_lost(examples, count, classes):
    owner, labels = map(np.array, zip(*examples, strict=True))
    stragglers = straggler_clients(labels, owner, 6, sorted(classes), count)
    kept = kept_examples(labels, owner, stragglers, sorted(classes))
    assert stragglers.sum() == count
    of_classes = np.isin(labels, sorted(classes))
    assert stragglers[owner[kept & of_classes]].all()
    assert kept[~of_classes].all()
    assert kept[stragglers[owner]].all()
