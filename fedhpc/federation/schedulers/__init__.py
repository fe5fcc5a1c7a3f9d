"""The registry of schedulers. A new one is a file here and a line in each of the two tables."""

from typing import Annotated

from pydantic import Field

from fedhpc.federation.schedulers.asynchronous import Asynchronous, AsynchronousSettings
from fedhpc.federation.schedulers.buffered import Buffered, BufferedSettings
from fedhpc.federation.schedulers.compass import Compass, CompassSettings
from fedhpc.federation.schedulers.fare_dust import FareDust, FareDustSettings
from fedhpc.federation.schedulers.feast import Feast, FeastSettings
from fedhpc.federation.schedulers.stale_synchronous import StaleSynchronous, StaleSynchronousSettings
from fedhpc.federation.schedulers.synchronous import Synchronous, SynchronousSettings
from fedhpc.federation.schedulers.tiered import Tiered, TieredSettings
from fedhpc.federation.server import Scheduler

AnyAlgorithm = (
    SynchronousSettings
    | BufferedSettings
    | AsynchronousSettings
    | FareDustSettings
    | FeastSettings
    | CompassSettings
    | TieredSettings
    | StaleSynchronousSettings
)
Algorithm = Annotated[AnyAlgorithm, Field(discriminator="scheduler")]


def make_scheduler(algorithm: AnyAlgorithm) -> Scheduler:
    """The scheduler that these settings ask for, at the start of a federation."""
    match algorithm:
        case SynchronousSettings():
            return Synchronous(algorithm)
        case BufferedSettings():
            return Buffered(algorithm)
        case AsynchronousSettings():
            return Asynchronous(algorithm)
        case FareDustSettings():
            return FareDust(algorithm)
        case FeastSettings():
            return Feast(algorithm)
        case CompassSettings():
            return Compass(algorithm)
        case TieredSettings():
            return Tiered(algorithm)
        case StaleSynchronousSettings():
            return StaleSynchronous(algorithm)
