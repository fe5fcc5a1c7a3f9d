"""Other processes of this machine."""

from pathlib import Path


def is_alive(process: int) -> bool:
    """Whether a process of this machine is there and no zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
