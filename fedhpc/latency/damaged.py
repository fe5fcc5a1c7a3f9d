"""What is wrong with a trace or a file of device profiles."""


class DamagedFile(Exception):
    """A file that is not as its source says; the text says why, without its name."""
