"""Where devices come from: one file a source."""

import numpy as np

from fedhpc.latency.device_settings import CapacityFile, ClusterDevices, Devices, ProfilesFile
from fedhpc.latency.device_sources.capacity_file import read_capacities
from fedhpc.latency.device_sources.clusters import draw_from_clusters
from fedhpc.latency.device_sources.profiles import Profiles
from fedhpc.latency.device_sources.profiles_file import read_profiles
from fedhpc.streams import Purpose, sequential


def devices_of(devices: Devices, clients: int, seed: int, trial: int) -> Profiles:
    """Each client's device in a trial. A file's path is that of one that was found. A client's depends on seed, trial
    and its number only, and not on how many clients there are.

    Raises DamagedFile where the file is not as it should be, and OSError where it cannot be read.
    """
    generator = sequential(seed, trial, Purpose.DEVICE)
    if isinstance(devices, ClusterDevices):
        return draw_from_clusters(clients, generator)
    known = profiles_in(devices)
    return known.of((generator.random(clients) * len(known.computation)).astype(np.int64))


def profiles_in(devices: CapacityFile | ProfilesFile) -> Profiles:
    """All devices of a file, in its order. Raises as ``devices_of`` does."""
    return read_capacities(devices.path) if isinstance(devices, CapacityFile) else read_profiles(devices.path)
