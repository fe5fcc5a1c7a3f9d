"""Messages arrive as they were sent: every field, in order, whatever their size."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.clients.work import Member, ShardCounts
from fedhpc.ranks.messages import Kind, Message
from tests.mpi import mpi

INTEGERS = st.integers(0, 2**63 - 1)
NUMBERS = st.floats(allow_nan=False)
VECTORS = st.integers(-(2**63), 2**63 - 1)
MEMBERS = st.builds(Member, INTEGERS, INTEGERS, INTEGERS, INTEGERS, NUMBERS, VECTORS, INTEGERS, INTEGERS)


def received(message: Message) -> Message:
    """The message as an inbox makes it: a header first, then a body of the size that the header tells."""
    copy = Message.empty()
    copy.header[:] = message.header
    assert copy.lacks_body == (message.body.size > 0)
    copy.make_room()
    copy.body[:] = message.body
    assert not copy.lacks_body
    return copy


@given(INTEGERS, INTEGERS, st.lists(MEMBERS, min_size=1, max_size=50))
def test_a_stack_arrives_as_it_was_sent(makes: int, place: int, members: list[Member]) -> None:
    message = received(Message.to_train(makes, place, members))
    assert message.kind is Kind.TRAIN
    assert message.fields(2) == [makes, place]
    assert message.members == members


@given(st.lists(INTEGERS, min_size=5, max_size=5), NUMBERS, st.lists(INTEGERS, max_size=20))
def test_counts_arrive_as_they_were_sent(fields: list[int], number: float, of_classes: list[int]) -> None:
    version, shard, correct, straggler_correct, top5 = fields
    counts = ShardCounts(correct, straggler_correct, number, top5, tuple(of_classes))
    message = received(Message.of_counts(version, shard, counts))
    assert (message.kind, message.fields(2), message.counts) == (Kind.COUNTS, [version, shard], counts)
    assert message.body.size == 8 * len(of_classes)


def test_weights_are_sent_as_they_lie() -> None:
    weights = np.arange(5, dtype=np.float32)
    message = Message.of(Kind.VERSION, 3, vector=weights)
    assert np.shares_memory(message.body, weights)
    assert received(message).vector.tolist() == [0, 1, 2, 3, 4]


@given(INTEGERS, INTEGERS, st.floats(), st.integers(0, 7), st.lists(st.floats(), max_size=4))
def test_an_update_and_its_losses_arrive_bit_by_bit(
    makes: int, place: int, error: float, parameters: int, losses: list[float]
) -> None:
    update = np.arange(parameters, dtype=np.float32) / 3
    message = received(Message.of_update(makes, place, update, error, losses))
    assert (message.kind, message.fields(2)) == (Kind.UPDATE, [makes, place])
    assert np.float64(message.number).tobytes() == np.float64(error).tobytes()
    assert message.vector.tobytes() == update.tobytes()
    assert np.array(message.losses).tobytes() == np.array(losses).tobytes()
    np.add(message.vector, 1, out=message.vector)  # rank 0 adds others to it


def test_an_update_without_losses_is_sent_as_it_lies() -> None:
    update = np.arange(5, dtype=np.float32)
    assert np.shares_memory(Message.of_update(1, 2, update, 0.0, []).body, update)


# Rank 0 sends all at once and keeps nothing; the others have them one after the other.
MANY = """
import numpy as np
from mpi4py import MPI
from fedhpc.clients.work import Member
from fedhpc.ranks.mailbox import Inbox, Outbox, Rest
from fedhpc.ranks.messages import Kind, Message
world = MPI.COMM_WORLD
SIZES = [1, 1_206_590, 7, 11_000_000, 1]

def vector(place):
    return np.random.default_rng(place).standard_normal(SIZES[place], np.float32)

def stack(size):
    return [Member(number, 2 * number, 3 * number, 4 * number, number / size, -number) for number in range(size)]

if world.rank == 0:
    outbox = Outbox(world)
    for number in range(500):
        for rank in range(1, world.size):
            outbox.send(Message.of(Kind.EVALUATE, number, rank), rank)
    for place in range(len(SIZES)):
        for rank in range(1, world.size):
            outbox.send(Message.of(Kind.VERSION, place, vector=vector(place)), rank)
            outbox.send(Message.to_train(place, rank, stack(4096)), rank)
    outbox.flush()
else:
    inbox, rest = Inbox(world, 0), Rest()

    def following():
        while (message := inbox.receive()) is None:
            rest.a_moment()
        rest.over()
        return message

    assert [following().fields(2) for _ in range(500)] == [[number, world.rank] for number in range(500)]
    for place in range(len(SIZES)):
        version, train = following(), following()
        assert (version.kind, version.fields(1)) == (Kind.VERSION, [place])
        assert np.array_equal(version.vector, vector(place))
        assert (train.kind, train.fields(2)) == (Kind.TRAIN, [place, world.rank])
        assert train.members == stack(4096)
    assert inbox.receive() is None
    print("all of them")
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_many_messages_arrive_whole_and_in_order(ranks: int) -> None:
    finished = mpi(ranks, [sys.executable, "-c", MANY])
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split("\n")[:-1] == ["all of them"] * (ranks - 1)
