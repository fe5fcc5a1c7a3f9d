"""What is wrong with a trace or a file of device profiles."""

_LONGEST = 40
_MOST_BITS = 100


class DamagedFile(Exception):
    """A file that is not as its source says; the text says why, without its name."""


def shown(value: object) -> str:
    """A value of a file that is not trusted, in short: containers and long numbers by what they are, as they may be
    written in a few bytes and be endless to print."""
    if isinstance(value, str | bytes):
        return repr(value[:_LONGEST])
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "a number of many digits"
    if value is None or isinstance(value, int | float):
        return repr(value)
    return f"a {type(value).__name__}"
