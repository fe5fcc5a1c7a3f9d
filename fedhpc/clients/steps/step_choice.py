"""How a step is computed: chosen once an experiment, kept with its results, and part of every run's numbers."""

from typing import Annotated, Literal

from pydantic import Field

from fedhpc.settings import Settings

Form = Literal["plain", "channels_last", "compiled", "dense", "stacked"]
Device = Literal["cpu", "cuda"]
Convolution = Literal["grouped", "patches"]


class NoDevice(Exception):
    """The device that the step was chosen for is not here."""


class StepChoice(Settings):
    """One way to compute the steps of local training.

    ``form``: the torch module as it is written (``plain``); with the channels last in memory (``channels_last``), and
    its whole gradient compiled by torch (``compiled``); the closed form of fully connected layers (``dense``); many
    clients' models as one batched computation (``stacked``). ``clients``: how many train together, at most.
    ``convolution``: how a stack computes convolutions. ``graph``: whether a GPU replays a captured step.
    ``deterministic``: whether only kernels are used that give the same bits every time.
    """

    form: Form
    device: Device = "cpu"
    clients: int = Field(1, ge=1, le=4096)
    convolution: Convolution = "patches"
    graph: bool = False
    deterministic: bool = True


class StepWishes(Settings):
    """What a site asks of the choice; the rest is measured. Fields as in StepChoice."""

    form: Form | None = None
    device: Device | None = None
    clients: Annotated[int, Field(ge=1, le=4096)] | None = None
    convolution: Convolution | None = None
    graph: bool | None = None
    deterministic: bool | None = None

    @property
    def given(self) -> dict[str, object]:
        """Those that are asked for."""
        return self.model_dump(exclude_none=True)
