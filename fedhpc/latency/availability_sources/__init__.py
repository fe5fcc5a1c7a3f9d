"""Where clients' intervals come from: one file a source."""

from fedhpc.latency.availability import Availability
from fedhpc.latency.availability_settings import AvailabilitySettings, GeneratedAvailability
from fedhpc.latency.availability_sources.behaviour_trace import behaviour
from fedhpc.latency.availability_sources.generated import generate


def availability_of(settings: AvailabilitySettings, clients: int, seed: int, trial: int) -> Availability:
    """The clients' availability of a trial, at virtual second 0. A trace's path is that of a file that was found.

    Raises DamagedFile where the trace is not as it should be, and OSError where it cannot be read.
    """
    if isinstance(settings, GeneratedAvailability):
        return Availability(*generate(clients, seed, trial))
    return Availability(*behaviour(settings.path, clients, seed, trial))
