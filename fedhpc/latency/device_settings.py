"""How fast clients compute and transfer: an experiment's ``devices`` (RELAY: Abdelmoniem et al. 2021, section 5.1)."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from fedhpc.settings import Settings


class _Devices(Settings):
    """``model_kbit`` is what a client downloads and uploads, in kilobits each; by default 32 bits for each of the
    parameters of the task's model. ``faster_percent``: the fastest so many percent of the clients' devices need half
    the time, for computation and for communication. RELAY's hardware scenarios HS1 to HS4 (section 5.4) are 0, 25, 75
    and 100. The paper writes there that completion times are "doubled"; as it speaks of faster hardware, halved is
    meant.
    """

    model_kbit: float | None = Field(None, gt=0, le=1e15)
    faster_percent: float = Field(0.0, ge=0, le=100)


class ProfilesFile(_Devices):
    """An HDF5 file of measured devices, one of which each client is given at random: its group ``fedscale_capacity``
    holds ``computation``, milliseconds an example, and ``communication``, kilobits a second."""

    source: Literal["file"]
    path: Path


class CapacityFile(_Devices):
    """FedScale's device capacities, a pickle of {id: {computation: milliseconds an example, communication: kilobits a
    second}}, one of which each client is given at random."""

    source: Literal["fedscale"]
    path: Path


class ClusterDevices(_Devices):
    """Six generated groups of devices (section C, Figure 13), which are no measurements."""

    source: Literal["clusters"]


Devices = Annotated[ProfilesFile | CapacityFile | ClusterDevices, Field(discriminator="source")]
