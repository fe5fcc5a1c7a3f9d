"""Which client updates are computed together: a matter of the schedule alone (law 3)."""

from collections.abc import Iterator

from fedhpc.clients.work import Alone, Member, Part, Train
from fedhpc.federation.updates import Participation, ServerUpdate


def stacks_of(update: ServerUpdate, most: int) -> list[Train]:
    """The client updates that a server update waits for, in stacks of at most ``most``, as equal in number as can be.

    Those that start from the version just before it, which exists last, are kept apart from the others, which can be
    computed ahead. Late updates are together with those of their own round. Among each, the longest are together, so
    that a stack's clients end together. A client with a coreset is alone in its stack. Clients without examples train
    nothing and are left out.

    Where stale updates are boosted, what each weighs is known when all have come: each is alone, weighs 1 and is kept
    apart.
    """
    early: list[Member] = []
    late: list[Member] = []
    apart: list[tuple[Part, Member]] = []
    for place, (participation, weight) in enumerate(zip(update.updates, update.weights, strict=True)):
        if not participation.steps:
            continue
        if update.boost is not None and participation.staleness:
            apart.append((Alone(place), _member(participation, 1.0)))
        else:
            (late if participation.version == update.version - 1 else early).append(_member(participation, weight))
    of_rounds: dict[int, list[Member]] = {}
    for participation in update.late:
        if participation.steps:
            of_rounds.setdefault(participation.version, []).append(_member(participation, 1.0))
    pieces: list[tuple[tuple[Member, ...], Part]] = [((member,), part) for part, member in apart]
    for members in (early, late):
        pieces += [(piece, None) for piece in _even_pieces(members, most)]
    for start, members in of_rounds.items():
        pieces += [(piece, start) for piece in _even_pieces(members, most)]
    return [Train(update.version, place, members, part) for place, (members, part) in enumerate(pieces)]


def _member(update: Participation, weight: float) -> Member:
    return Member(
        update.version,
        update.client,
        update.participation,
        update.steps,
        weight,
        update.teacher,
        update.coreset,
        update.whole_epochs,
    )


def _even_pieces(members: list[Member], most: int) -> Iterator[tuple[Member, ...]]:
    members.sort(key=lambda member: -member.steps)
    yield from ((member,) for member in members if member.coreset)
    members = [member for member in members if not member.coreset]
    pieces = -(-len(members) // most)
    for piece in range(pieces):
        yield tuple(members[len(members) * piece // pieces : len(members) * (piece + 1) // pieces])
