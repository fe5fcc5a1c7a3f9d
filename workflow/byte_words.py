"""Numbers of bytes for people."""


def in_bytes(size: float) -> str:
    """``170 MB``: three figures, in powers of a thousand."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
