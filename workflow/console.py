"""Where commands print."""

import sys

from rich.console import Console


def console() -> Console:
    """Standard output."""
    # A pipe has no width, and tables are not to break there.
    return Console() if sys.stdout.isatty() else Console(width=140)
