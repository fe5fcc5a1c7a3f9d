from hypothesis import given
from hypothesis import strategies as st

from fedhpc.clients.work import NO_TEACHER, Evaluate, Member, Train, output_of, teacher_id

NUMBERS = st.lists(st.integers(0, 2**60), unique=True)


@given(versions=NUMBERS, outputs=NUMBERS, teachers=NUMBERS)
def test_no_two_vectors_share_an_id(versions: list[int], outputs: list[int], teachers: list[int]) -> None:
    ids = [NO_TEACHER, *versions, *map(output_of, outputs), *map(teacher_id, teachers)]
    assert len(set(ids)) == 1 + len(versions) + len(outputs) + len(teachers)
    assert all(-(2**63) <= number < 2**63 for number in ids)  # what a message carries


def test_the_first_ids() -> None:
    assert [output_of(version) for version in range(3)] == [-2, -4, -6]
    assert [teacher_id(number) for number in range(3)] == [-3, -5, -7]


def test_a_stack_needs_each_vector_once_and_the_newest_version_last() -> None:
    members = (
        Member(4, 0, 0, 1, 1.0, teacher_id(2)),
        Member(7, 1, 0, 1, 1.0),
        Member(4, 2, 0, 1, 1.0, 6),
        Member(6, 3, 0, 1, 1.0, teacher_id(2)),
    )
    assert Train(8, 0, members).versions == [-7, 4, 6, 7]
    assert Train(8, 0, members[1:2]).versions == [7]
    assert Evaluate(3, 0).versions == [3]
