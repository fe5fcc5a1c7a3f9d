"""Whether a scenario's files are what their sources say, told before anything runs (law 6)."""

from collections.abc import Callable

from fedhpc.latency.availability_settings import BehaviourTrace
from fedhpc.latency.availability_sources.behaviour_trace import behaviour
from fedhpc.latency.damaged import DamagedFile
from fedhpc.latency.device_settings import CapacityFile, ProfilesFile
from fedhpc.latency.device_sources import profiles_in
from fedhpc.latency.scenario import Scenario


def file_mistakes(scenario: Scenario) -> list[str]:
    """What is wrong with the files that were found: sentences that begin with the key within the scenario."""
    devices, trace = scenario.devices, scenario.availability
    told: list[str] = []
    if isinstance(devices, ProfilesFile | CapacityFile):
        told += _mistake("devices.path", lambda: profiles_in(devices), str(devices.path))
    if isinstance(trace, BehaviourTrace):
        told += _mistake("availability.path", lambda: behaviour(trace.path, 1, 0, 0), str(trace.path))
    return told


def _mistake(key: str, read: Callable[[], object], name: str) -> list[str]:
    try:
        read()
    except DamagedFile as error:
        return [f"{key}: {name} is not as it should be: {error}"]
    except OSError as error:
        return [f"{key}: {name} cannot be read: {error.strerror}"]
    return []
