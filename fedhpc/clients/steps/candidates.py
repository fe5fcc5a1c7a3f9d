"""The ways to compute a step that are worth a measurement, by model and device."""

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import Device, StepChoice, StepWishes
from fedhpc.models.settings import MLP, Logistic, Model

_DENSE_STACKS = (32, 8, 1)


class UnfitChoice(ValueError):
    """A step that this model, precision or device cannot take."""


def candidates(model: Model, client: ClientSettings, device: Device, most: int, wishes: StepWishes) -> list[StepChoice]:
    """Ways that agree with the wishes, the preferred first; at least one. At most ``most`` clients train together.

    Raises UnfitChoice where what is wished for cannot be.
    """
    wished = wishes.given
    closed_form = isinstance(model, Logistic | MLP) and client.precision == "fp32" and device == "cpu"
    if closed_form:
        known = [{"form": "dense", "clients": min(clients, most)} for clients in _DENSE_STACKS]
    else:
        known = [{"form": "channels_last"}, {"form": "plain"}]
    ways = [StepChoice.model_validate({**way, "device": device, **wished}) for way in known]
    if "form" in wished:
        ways = [way for way in ways if way.form in {known_way["form"] for known_way in known}] or ways[:1]
    unique = list(dict.fromkeys(ways))
    for way in unique:
        if way.form == "dense" and not closed_form:
            raise UnfitChoice("form: dense is for logistic and mlp in fp32 on a CPU; name another")
        if way.form not in ("dense", "stacked") and way.clients > 1:
            raise UnfitChoice(f"clients: {way.form} trains one client at a time; name dense or stacked, or 1")
    if client.precision == "tf32" and device == "cpu":
        raise UnfitChoice("precision: tf32 is for GPUs, and there is none; name fp32 or bf16")
    return unique
