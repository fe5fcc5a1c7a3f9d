"""The registry of schedulers. A new one is a file here and a line in each of the two tables."""

from typing import Annotated

from pydantic import Field

from fedhpc.federation.schedulers.buffered import Buffered, BufferedSettings
from fedhpc.federation.schedulers.synchronous import Synchronous, SynchronousSettings
from fedhpc.federation.virtual_server import Scheduler

Algorithm = Annotated[SynchronousSettings | BufferedSettings, Field(discriminator="scheduler")]


def make_scheduler(algorithm: SynchronousSettings | BufferedSettings) -> Scheduler:
    """The scheduler that these settings ask for, at the start of a federation."""
    match algorithm:
        case SynchronousSettings():
            return Synchronous(algorithm)
        case BufferedSettings():
            return Buffered(algorithm)
