"""FLamby's Fed-IXI (Ogier du Terrail et al. 2022): IXI Tiny, scans of brains from three hospitals and their masks.

A subject is a folder ``IXI<number>-<hospital>-<number>``, with one NIfTI file in ``T1`` and one in ``label``.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.public_settings import FLamby
from fedhpc.data.read_rows import ReadRows
from fedhpc.data.sources.idx import DENSEST
from fedhpc.data.sources.naming import mistake
from fedhpc.mistakes import ExperimentError

HOSPITALS = ("Guys", "HH", "IOP")
SHAPE = (48, 60, 48)

_SUBJECT = re.compile(r"IXI(?P<number>\d{3})-(?P<hospital>[A-Za-z]+)-\d+")
_TRAINING = 0.8
_SPLIT_SEED = 10
_SPLIT_ORDER = ("HH", "Guys", "IOP")


def load_ixi(settings: FLamby) -> Examples:
    """Scans [48, 60, 48], read when they are used, less their own mean and over their own deviation; labels
    [48, 60, 48], 1 where the voxel is brain; subjects by their number, and the hospitals are the clients.

    Scan and mask are brought to the shape by averages over boxes, as FLamby does, whose mask then keeps the voxels that
    are brain altogether. FLamby's split: 80 % of each hospital's subjects are for training, drawn by numpy's legacy
    generator with seed 10, HH first, then Guys and IOP. For the published 566 subjects it is the table
    ``metadata_tiny.csv`` of FLamby, subject by subject. Raises ExperimentError where a subject's files are not there,
    not alike, or damaged.
    """
    subjects = _subjects(settings.folder)
    hospitals = [told["hospital"] for told, _ in subjects]
    scans = [_only_file(folder, "T1") for _, folder in subjects]
    labels = np.empty((len(subjects), *SHAPE), np.int64)
    for row, (scan, (_, folder)) in enumerate(zip(scans, subjects, strict=True)):
        labels[row] = _mask(_only_file(folder, "label"), scan)
    return Examples(
        features=ReadRows([str(scan) for scan in scans], SHAPE, _scan),
        labels=labels,
        held_out=flambys_split(hospitals),
        class_names=("background", "brain"),
        clients=np.array([HOSPITALS.index(hospital) for hospital in hospitals]),
        client_names=HOSPITALS,
    )


def flambys_split(hospitals: Sequence[str]) -> NDArray[np.bool_]:
    """Which subjects are held out, bool [subjects], by their hospitals; the subjects stand by their numbers."""
    legacy = np.random.RandomState(_SPLIT_SEED)
    held_out = np.zeros(len(hospitals), bool)
    for hospital in _SPLIT_ORDER:
        own = np.flatnonzero(np.array(hospitals) == hospital)
        drawn = np.arange(len(own)) >= round(_TRAINING * len(own))
        legacy.shuffle(drawn)
        held_out[own] = drawn
    return held_out


def _subjects(folder: Path) -> list[tuple[re.Match[str], Path]]:
    """The subjects' names and folders, by number."""
    found: dict[str, tuple[re.Match[str], Path]] = {}
    for place in sorted(folder.rglob("IXI*")):
        told = _SUBJECT.fullmatch(place.name)
        if told is None or not place.is_dir():
            continue
        if told["hospital"] not in HOSPITALS:
            raise mistake(place, "folder", f"'{told['hospital']}' is no hospital of {', '.join(HOSPITALS)}")
        if told["number"] in found:
            raise mistake(place, "folder", f"the subject is there twice, also as {found[told['number']][1]}")
        found[told["number"]] = (told, place)
    if not found:
        raise mistake(folder, "folder", "the folder holds no subjects, as IXI002-Guys-0828; name the one that does")
    return [found[number] for number in sorted(found)]


def _only_file(folder: Path, part: str) -> Path:
    files = sorted((folder / part).glob("*.nii.gz"))
    if len(files) != 1:
        raise mistake(folder / part, "folder", f"there are {len(files)} files *.nii.gz; a subject has one")
    return files[0]


def _scan(file: str) -> NDArray[np.float32]:
    voxels = box_means(_voxels(Path(file)), SHAPE)
    deviation = voxels.std()
    return np.asarray((voxels - voxels.mean()) / (deviation if deviation > 0 else 1), np.float32)


def _mask(file: Path, scan: Path) -> NDArray[np.bool_]:
    voxels = _voxels(file)
    if voxels.shape != _volume(scan).shape:
        sizes = ["x".join(map(str, shape)) for shape in (voxels.shape, _volume(scan).shape)]
        raise mistake(file, "folder", f"the mask is {sizes[0]}, its scan {sizes[1]}")
    strange = voxels[(voxels != 0) & (voxels != 1)]
    if len(strange):
        raise mistake(file, "folder", f"the mask holds {strange[0]:g}; a voxel is 0, or 1 where it is brain")
    return np.asarray(box_means(1 - voxels, SHAPE) == 0)


def box_means(voxels: NDArray[np.float64], shape: Sequence[int]) -> NDArray[np.float64]:
    """A volume brought to another shape: along an axis of n voxels, voxel i of m is the mean of those from
    floor(i n / m) to before ceil((i + 1) n / m)."""
    for axis, size in enumerate(shape):
        # Not by BLAS, whose threads would make the sums depend on the machine.
        means = np.einsum("ij,j...->i...", _averages(voxels.shape[axis], size), np.moveaxis(voxels, axis, 0))
        voxels = np.moveaxis(means, 0, axis)
    return voxels


def _averages(old: int, new: int) -> NDArray[np.float64]:
    start, end = np.arange(new) * old // new, -(-np.arange(1, new + 1) * old // new)
    at = np.arange(old)
    within = (at >= start[:, np.newaxis]) & (at < end[:, np.newaxis])
    return np.asarray(within / within.sum(axis=1, keepdims=True))


def _voxels(file: Path) -> NDArray[np.float64]:
    volume = _volume(file)
    try:
        voxels: NDArray[np.float64] = volume.get_fdata(caching="unchanged")
    except Exception as error:  # a damaged file makes nibabel and gzip raise almost anything
        raise _damaged(file, error) from None
    if not np.isfinite(voxels).all():
        raise mistake(file, "folder", "some voxels are NaN or infinite; fetch the file anew")
    return voxels


def _volume(file: Path) -> Any:
    """The file with its head read."""
    # Here, since it takes a while that no one else should wait for.
    import nibabel

    try:
        volume: Any = nibabel.load(file)
    except Exception as error:  # as above
        raise _damaged(file, error) from None
    if len(volume.shape) != len(SHAPE):
        raise mistake(file, "folder", f"the file holds {len(volume.shape)} dimensions; a scan has {len(SHAPE)}")
    # The head may claim any size, so that it is believed only as far as the file could hold it.
    if math.prod(volume.shape) > DENSEST * file.stat().st_size:
        told = "x".join(map(str, volume.shape))
        raise mistake(file, "folder", f"the file is too short for the {told} voxels that its head tells of")
    return volume


def _damaged(file: Path, error: Exception) -> ExperimentError:
    told = " ".join(str(error).split())
    return mistake(file, "folder", f"the file cannot be read as NIfTI: {told}; fetch it anew")
