"""What scenarios are told in, by hand."""

from fedhpc.latency.in_words import deadline_line


def test_deadlines_are_told_by_those_who_share_them() -> None:
    shared = {"a": (14191.27, 1), "b": (147.7555, 6), "c": (14191.27, 1)}
    assert deadline_line(30, shared, 20) == (
        "straggler_percent 30: the deadline is 14,191 virtual seconds, which 1 of 20 clients misses with all their "
        "epochs in a, c; 147.8 virtual seconds, which 6 of 20 clients miss with all their epochs in b"
    )
