"""Which client updates are computed together: a matter of the schedule alone (law 3)."""

from collections.abc import Iterator

from fedhpc.clients.work import Member, Train
from fedhpc.federation.virtual_server import ServerUpdate


def stacks_of(update: ServerUpdate, most: int) -> list[Train]:
    """The client updates that make a server update, in stacks of at most ``most``, as equal in number as can be.

    Those that start from the version just before it, which exists last, are kept apart from the others, which can be
    computed ahead. Among each, the longest are together, so that a stack's clients end together. Clients without
    examples train nothing and are left out.
    """
    early: list[Member] = []
    late: list[Member] = []
    for participation, weight in zip(update.updates, update.weights, strict=True):
        if participation.steps:
            member = Member(
                participation.version, participation.client, participation.participation, participation.steps, weight
            )
            (late if participation.version == update.version - 1 else early).append(member)
    pieces = [*_even_pieces(early, most), *_even_pieces(late, most)]
    return [Train(update.version, place, members) for place, members in enumerate(pieces)]


def _even_pieces(members: list[Member], most: int) -> Iterator[tuple[Member, ...]]:
    members.sort(key=lambda member: -member.steps)
    pieces = -(-len(members) // most)
    for piece in range(pieces):
        yield tuple(members[len(members) * piece // pieces : len(members) * (piece + 1) // pieces])
