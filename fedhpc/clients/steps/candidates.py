"""The ways to compute a step that are worth a measurement, by model and device."""

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import Device, StepChoice, StepWishes
from fedhpc.models.settings import (
    MLP,
    Logistic,
    Model,
    OwnModule,
    Sent140LSTM,
    ShakespeareLSTM,
    Transformer,
    keeps_running_statistics,
)

_STACKS_A_SERVER_UPDATE = 4
"""Stacks that a server update has at least, for ranks to share; not a matter of how many there are (law 3)."""

_HIGHEST_STACK = {"cpu": 32, "cuda": 64}
_STACK_BYTES = {"cpu": 1 << 26, "cuda": 1 << 33}
"""What a stack's weights may take, beside as much for their gradients."""

_STACKING = ("dense", "stacked")
_EAGER = ("channels_last", "plain")
_EAGER_ONLY = ShakespeareLSTM | Sent140LSTM | Transformer
"""Models, beside those with running statistics, that are not made of the layers that a stack can compute."""


class UnfitChoice(ValueError):
    """A step that this model, precision or device cannot take."""


def candidates(
    model: Model, client: ClientSettings, device: Device, updates: int, parameters: int, wishes: StepWishes
) -> list[StepChoice]:
    """Ways that agree with the wishes, the preferred first; at least one. ``updates`` make a server update; the model
    has so many ``parameters``.

    Raises UnfitChoice where what is wished for cannot be.
    """
    if client.precision == "tf32" and device == "cpu":
        raise UnfitChoice("client.precision: tf32 is for GPUs, and there is none; name fp32 or bf16")
    fit = max(1, _STACK_BYTES[device] // (4 * parameters))
    stack = min(_HIGHEST_STACK[device], -(-updates // _STACKS_A_SERVER_UPDATE), fit)
    known: list[dict[str, object]]
    if _has_closed_form(model, client, device):
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
    if wishes.form is not None:
        unmeasured: dict[str, object] = {"form": wishes.form, "clients": stack if wishes.form in _STACKING else 1}
        known = [way for way in known if way["form"] == wishes.form] or [unmeasured]
    ways = [StepChoice.model_validate({**way, "device": device, **wishes.given}) for way in known]
    fitting = list(dict.fromkeys(way for way in ways if mistake(way, model, client) is None))
    if not fitting:
        raise UnfitChoice(mistake(ways[0], model, client))
    return fitting


def mistake(way: StepChoice, model: Model, client: ClientSettings) -> str | None:
    """Why this way cannot be for this model, or None."""
    if way.form != "plain" and isinstance(model, OwnModule):
        return "step.form: a module of one's own trains as it is, one client at a time; name plain"
    if client.within_deadline == "coreset" and way.form in ("stacked", "compiled"):
        return f"step.form: {way.form} does not train on coresets; name channels_last or plain"
    if way.form == "dense" and not _has_closed_form(model, client, way.device):
        return "step.form: dense is for logistic and mlp in fp32 on a CPU, with coresets logistic alone; name another"
    if way.form not in _EAGER and (keeps_running_statistics(model) or isinstance(model, _EAGER_ONLY)):
        return f"step.form: {model.name} trains as torch's module, one client at a time; name channels_last or plain"
    if way.graph and (way.form != "stacked" or way.device != "cuda"):
        return "step.graph: only stacked steps on a GPU are captured; leave it out"
    if way.form not in _STACKING and way.clients > 1:
        return f"step.clients: {way.form} trains one client at a time; name dense or stacked, or 1"
    return None


def _has_closed_form(model: Model, client: ClientSettings, device: Device) -> bool:
    # A coreset's features are what a step's forward pass knows; the closed form keeps none of it. Logistic needs none.
    closed = Logistic if client.within_deadline == "coreset" else Logistic | MLP
    return isinstance(model, closed) and client.precision == "fp32" and device == "cpu"
