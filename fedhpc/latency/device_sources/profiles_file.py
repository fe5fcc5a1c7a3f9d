"""Measured devices in an HDF5 file: FedScale's capacities (AI Benchmark and MobiPerf) as arrays."""

from pathlib import Path

import numpy as np

from fedhpc.latency.damaged import DamagedFile
from fedhpc.latency.device_sources.profiles import Profiles, checked

GROUP = "fedscale_capacity"


def read_profiles(path: Path) -> Profiles:
    """The devices of the file's group ``GROUP``, in its order. Raises DamagedFile, and OSError where it cannot be
    read."""
    import h5py  # here, so that an experiment without such a file is read without it

    path.stat()
    try:
        with h5py.File(path, "r", locking=False) as file:
            arrays = [np.asarray(file[f"{GROUP}/{name}"][()], np.float64) for name in Profiles._fields]
    except KeyError:
        raise DamagedFile(f"it has no {GROUP}/computation and {GROUP}/communication") from None
    except (OSError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        raise DamagedFile(f"it is no HDF5 file of numbers, or a damaged one ({error})") from None
    shapes = [array.shape for array in arrays]
    if len(shapes[0]) != 1 or shapes[0] != shapes[1]:
        raise DamagedFile(
            f"computation and communication are of the shapes {shapes[0]} and {shapes[1]}; one each a device"
        )
    return checked(Profiles(*arrays))
