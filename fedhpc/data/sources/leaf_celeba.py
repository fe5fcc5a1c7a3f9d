"""CelebA as LEAF has it: the names of pictures, and whether the person smiles."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PIL import Image

from fedhpc.data.read_rows import ReadRows
from fedhpc.data.sources.inside import found_files
from fedhpc.data.sources.leaf_json import User, of_user
from fedhpc.data.sources.pictures import resized_picture

CLASS_NAMES = ("not smiling", "smiling")


def named_pictures(user: User, key: str, images: Path) -> list[str]:
    """The paths of the user's pictures in the folder ``images``. Raises ExperimentError where a name leaves the
    folder, or there is no such picture."""
    strange = [name for name in user.x if not isinstance(name, str)]
    if strange:
        raise of_user(user, key, f"x has {strange[0]!r}; it takes names of pictures")
    return found_files(images, user.x, [f"user '{user.name}'"] * len(user.x), user.file, key)


def pictures(files: Sequence[str], side: int) -> ReadRows:
    """The pictures, read when they are used: [side, side, 3], brought to size by bicubic filtering, as Pillow does
    where LEAF leaves the filter to it, and in 0..1."""
    read = partial(resized_picture, side=side, key="images", filtering=Image.Resampling.BICUBIC)
    return ReadRows(files, (side, side, 3), read)
