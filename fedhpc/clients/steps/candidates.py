"""The ways to compute a step that are worth a measurement, by model and device."""

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import Device, StepChoice, StepWishes
from fedhpc.models.settings import MLP, Logistic, Model

_STACKS_A_SERVER_UPDATE = 4
"""Stacks that a server update has at least, for ranks to share; not a matter of how many there are (law 3)."""

_HIGHEST_STACK = {"cpu": 32, "cuda": 64}


class UnfitChoice(ValueError):
    """A step that this model, precision or device cannot take."""


def candidates(
    model: Model, client: ClientSettings, device: Device, updates: int, wishes: StepWishes
) -> list[StepChoice]:
    """Ways that agree with the wishes, the preferred first; at least one. ``updates`` make a server update.

    Raises UnfitChoice where what is wished for cannot be.
    """
    wished = wishes.given
    closed_form = isinstance(model, Logistic | MLP) and client.precision == "fp32" and device == "cpu"
    stack = min(_HIGHEST_STACK[device], -(-updates // _STACKS_A_SERVER_UPDATE))
    known: list[dict[str, object]]
    if closed_form:
        known = [{"form": "dense", "clients": clients} for clients in (stack, 1)]
    elif device == "cuda":
        known = [
            {"form": "stacked", "clients": clients, "convolution": convolution, "graph": True}
            for clients in (stack, 1)
            for convolution in ("patches", "grouped")
        ]
        known += [{"form": "channels_last"}, {"form": "plain"}]
    else:
        known = [{"form": "channels_last"}, {"form": "plain"}]
    ways = [StepChoice.model_validate({**way, "device": device, **wished}) for way in known]
    if "form" in wished:
        ways = [way for way in ways if way.form in {known_way["form"] for known_way in known}] or ways[:1]
    unique = list(dict.fromkeys(ways))
    for way in unique:
        if way.form == "dense" and not closed_form:
            raise UnfitChoice("step.form: dense is for logistic and mlp in fp32 on a CPU; name another")
        if way.graph and (way.form != "stacked" or way.device != "cuda"):
            raise UnfitChoice("step.graph: only stacked steps on a GPU are captured; leave it out")
        if way.form not in ("dense", "stacked") and way.clients > 1:
            raise UnfitChoice(f"step.clients: {way.form} trains one client at a time; name dense or stacked, or 1")
    if client.precision == "tf32" and device == "cpu":
        raise UnfitChoice("client.precision: tf32 is for GPUs, and there is none; name fp32 or bf16")
    return unique
