"""The papers' data sets: what each is, what lies where below FEDHPC_DATA, and whence it comes.

A data set is a file of ``configs/data``, whose comments say where its facts come from. Nothing here touches a network.
"""

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from fedhpc.mistakes import ExperimentError, nearest, validated
from fedhpc.settings import Settings
from fedhpc.yaml_text import read_yaml

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "data"

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SINGLE = ("gz", "lzma")


def _bytes(value: Any) -> Any:
    """A number of bytes as people write it: ``170 MB``."""
    told = re.fullmatch(r"([\d.]+) (B|kB|MB|GB|TB)", value) if isinstance(value, str) else None
    return round(float(told[1]) * _UNITS[told[2]]) if told else value


def _below(path: Path) -> Path:
    if path.is_absolute() or ".." in path.parts or path == Path():
        raise ValueError(f"'{path}' is no path below the folder of data sets; leave out a leading / and '..'")
    return path


Bytes = Annotated[int, BeforeValidator(_bytes), Field(ge=0)]
Place = Annotated[Path, Field(), BeforeValidator(lambda value: _below(Path(value)))]
"""A path below FEDHPC_DATA."""
Address = Annotated[str, Field(pattern=r"^(https?|file)://\S+$")]


class Download(Settings):
    """One file to download. ``addresses`` are tried in their order. ``to``: where it goes below FEDHPC_DATA, and where
    a person may put it. ``size``: its bytes, as published. ``sha256``, ``md5``: as published, where they are.

    An archive is ``unpack``ed: ``gives`` are the files and folders that come of it. It holds them side by side, in
    whichever of its folders, under their own names; or it is ``whole`` the one folder that it gives. It is refused
    where it comes to more than ``unpacked`` bytes.
    """

    addresses: list[Address] = Field(min_length=1)
    to: Place
    size: Bytes | None = None
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    md5: str | None = Field(None, pattern=r"^[0-9a-f]{32}$")
    unpack: Literal["tar.bz2", "tar.gz", "zip", "gz", "lzma"] | None = None
    gives: list[Place] = Field(default_factory=list)
    whole: bool = False
    unpacked: Bytes | None = None

    @model_validator(mode="after")
    def _an_archive_gives_something(self) -> Self:
        if self.unpack is None and (self.gives or self.whole or self.unpacked is not None):
            raise ValueError("unpack: missing; gives, whole and unpacked are for archives: say of which kind")
        if self.unpack is not None and (not self.gives or self.unpacked is None):
            raise ValueError("gives: missing; say what comes of the archive (gives), and of how many bytes (unpacked)")
        if (self.whole or self.unpack in _SINGLE) and len(self.gives) != 1:
            raise ValueError("gives: a compressed file, or an archive that is one folder, gives one thing")
        if len({place.name for place in self.gives}) < len(self.gives):
            raise ValueError("gives: two places have one name; an archive holds them side by side")
        return self

    @property
    def places(self) -> list[Path]:
        """What is there below FEDHPC_DATA once it is fetched."""
        return self.gives or [self.to]


class DataSet(Settings):
    """``clients``, ``training`` and ``held_out`` (examples) are as published; ``size`` is what must be downloaded.
    ``used_by``: the papers. ``by_hand``: what a person must do for ``places``, where they cannot be fetched. ``paste``:
    the block of a task that reads it. ``instead``: data sets that may stand in its place, and when."""

    title: str
    paper: str
    licence: str
    used_by: list[str]
    clients: int | None = Field(None, ge=1)
    training: int | None = Field(None, ge=1)
    held_out: int | None = Field(None, ge=1)
    size: Bytes | None = None
    files: list[Download] = Field(default_factory=list)
    places: list[Place] = Field(default_factory=list)
    by_hand: str | None = None
    paste: dict[Literal["data", "model", "devices"], dict[str, Any]] = Field(min_length=1)
    instead: dict[str, str] = Field(default_factory=dict)

    @field_validator("by_hand")
    @classmethod
    def _in_whole_lines(cls, text: str | None) -> str | None:
        return None if text is None else text.strip()

    @model_validator(mode="after")
    def _it_can_be_had(self) -> Self:
        if not self.files and not self.places:
            raise ValueError("files: missing; name files to download, or places and what to do by_hand")
        if bool(self.places) != (self.by_hand is not None):
            raise ValueError("by_hand: goes with places; say what to do for them, or leave both out")
        return self

    @property
    def all_places(self) -> list[Path]:
        """The files and folders that are there once the data set is, below FEDHPC_DATA."""
        return [*(place for file in self.files for place in file.places), *self.places]

    def missing(self, folder: Path) -> list[Path]:
        """Which of them are not there below ``folder``."""
        return [place for place in self.all_places if not (folder / place).exists()]


def data_sets() -> list[str]:
    """The names of the data sets that there are."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


@cache
def data_set(name: str) -> DataSet:
    """The data set of that name. Raises ExperimentError where there is none, or its file is not as it should be."""
    if name not in data_sets():
        known = data_sets()
        raise ExperimentError(Path("data"), [f"'{name}' is unknown{nearest(name, known)}; known: {', '.join(known)}"])
    path = FOLDER / f"{name}.yaml"
    return validated(DataSet, read_yaml(path), path)


def data_set_at(path: Path) -> str | None:
    """The data set that has a file or folder at that path below FEDHPC_DATA, within it, or around it; None where none
    has."""
    if path.is_absolute() or path == Path():
        return None
    for name in data_sets():
        for place in data_set(name).all_places:
            if path.is_relative_to(place) or place.is_relative_to(path):
                return name
    return None
