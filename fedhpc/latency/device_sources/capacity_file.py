"""FedScale's device capacities (Lai et al. 2022): a pickle of {id: {computation, communication}}."""

from pathlib import Path

import numpy as np

from fedhpc.latency.damaged import DamagedFile, shown
from fedhpc.latency.device_sources.profiles import LEAST, MOST, Profiles, checked, refused
from fedhpc.latency.plain_pickle import NotPlain, read_plain_pickle


def read_capacities(path: Path) -> Profiles:
    """The file's devices, in its order. Raises DamagedFile, and OSError where it cannot be read."""
    try:
        content = read_plain_pickle(path)
    except NotPlain as error:
        raise DamagedFile(str(error)) from None
    if not isinstance(content, dict):
        raise DamagedFile("it holds no dict of devices; FedScale's is {id: {computation, communication}}")
    rows = []
    for name, device in content.items():
        if not isinstance(device, dict):
            raise DamagedFile(f"device {shown(name)} has no dict")
        row = [device.get(key) for key in Profiles._fields]
        for key, value in zip(Profiles._fields, row, strict=True):
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise DamagedFile(f"{key} of device {shown(name)} is {shown(value)}, which is no number")
            if not LEAST <= value <= MOST:  # here, as a whole number may be too large for an array
                raise refused(key, shown(name), shown(value))
        rows.append(row)
    table = np.array(rows, np.float64).reshape(-1, 2)
    return checked(Profiles(table[:, 0].copy(), table[:, 1].copy()))
