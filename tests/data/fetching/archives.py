"""Archives written by hand, good ones and hostile ones."""

import io
import stat
import tarfile
import zipfile
from pathlib import Path


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path: Path, *members: tuple[str, bytes, int]) -> Path:
    """``members``: name, content, kind (0, or stat's)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, kind in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = (kind | 0o644) << 16 if kind else 0
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return path


LINK, DEVICE = stat.S_IFLNK, stat.S_IFCHR
