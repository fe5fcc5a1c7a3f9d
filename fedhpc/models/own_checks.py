"""Whether a person's own module can be trained by clients, found out before a federation begins (law 6)."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from fedhpc.models.dropout import give_noise, noise_bytes
from fedhpc.models.flat import count_statistics
from fedhpc.models.own import build_own, in_words, refuse
from fedhpc.models.own_file import find_own
from fedhpc.models.settings import OwnModule


@dataclass(frozen=True)
class OwnFound:
    """``statistics``: whether the module keeps running statistics. ``ends_linearly``: whether its logits are its last
    fully connected layer's output, as coresets need it."""

    statistics: bool
    ends_linearly: bool


def check_own(settings: OwnModule, shape: tuple[int, ...], classes: int, places: tuple[int, ...] = ()) -> OwnFound:
    """Builds the module twice, and tries it on batches of two examples and of one. ``places``: the labels of one
    example, none where it has one label. Leaves torch's generator as it was.

    Raises ExperimentError, in one sentence, where it cannot be trained, or two ranks, or two clients, could come to
    other numbers by it.
    """
    file = settings.file or find_own(settings.module, Path.cwd())
    with torch.random.fork_rng(devices=[]):
        module, again = (_seeded(settings, shape, classes) for _ in range(2))
        _refuse_parameters(module, again, file)
        _refuse_output(module, shape, (*places, classes), file)
        for batch in (2, 1):
            _refuse_training(deepcopy(module), shape, batch, file)
        return OwnFound(count_statistics(module) > 0, _ends_linearly(module, shape))


def _seeded(settings: OwnModule, shape: tuple[int, ...], classes: int) -> nn.Module:
    torch.manual_seed(0)
    return build_own(settings, shape, classes)


def _refuse_parameters(module: nn.Module, again: nn.Module, file: Path) -> None:
    named = dict(module.named_parameters())
    if not named:
        refuse(file, "its module has no parameters; return one that can learn")
    for name, parameter in named.items():
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            found = f"{parameter.dtype} on {parameter.device.type}"
            refuse(file, f"its parameter {name} is {found}; leave it torch.float32 on the CPU")
        if not parameter.requires_grad:
            refuse(file, f"its parameter {name} is frozen; register it as a buffer, or let it learn")
        if not parameter.isfinite().all():
            refuse(file, f"its parameter {name} begins as NaN or infinite; draw its initial values")
    if not all(torch.equal(*pair) for pair in zip(_numbers(module), _numbers(again), strict=True)):
        refuse(
            file,
            "two modules built after the same torch.manual_seed differ, and so would those of two ranks; draw initial "
            "weights from torch's generator alone",
        )
    for name, layer in module.named_modules():
        if isinstance(layer, _NormBase) and layer.running_mean is not None and layer.momentum is None:
            refuse(file, f"its layer {name} averages over all batches; give its normalisation a momentum")


def _numbers(module: nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _refuse_output(module: nn.Module, shape: tuple[int, ...], expected: tuple[int, ...], file: Path) -> None:
    module.eval()
    with torch.no_grad():
        output = module(torch.zeros(2, *shape))
    module.train()
    if not isinstance(output, torch.Tensor):
        refuse(file, f"its module returns no tensor but a {type(output).__name__}; return the logits")
    if tuple(output.shape) != (2, *expected) or output.dtype != torch.float32:
        refuse(
            file,
            f"for 2 examples of the shape {list(shape)} its module returns {output.dtype} of the shape "
            f"{list(output.shape)}; return logits, torch.float32 of the shape {[2, *expected]}",
        )


def _refuse_training(module: nn.Module, shape: tuple[int, ...], batch: int, file: Path) -> None:
    """A step of training on ``batch`` examples."""
    constants = [(name, buffer.clone()) for name, buffer in _constants(module).items()]
    noise = torch.full((batch, noise_bytes(module, shape)), 255, dtype=torch.uint8)
    give_noise(module, noise)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    parameters = dict(module.named_parameters())
    features = torch.zeros(batch, *shape)
    try:
        with torch.enable_grad():
            output = module(features)
        gradients = torch.autograd.grad(output.sum(), list(parameters.values()), allow_unused=True)
        give_noise(module, noise)
        again = module(features)
    except (Exception, SystemExit) as error:
        examples = "example" if batch == 1 else "examples"
        refuse(file, f"its module cannot train on a batch of {batch} {examples}: {in_words(error)}")
    if not torch.equal(torch.get_rng_state(), before):
        refuse(
            file,
            "its module draws from torch's own generator as it trains, so that a client's update would depend on which "
            "ones a rank computed before; let nn.Dropout layers be all that draws",
        )
    if features._version:
        refuse(file, "its module changes the examples that it is given, which are the clients' data; let it copy them")
    if not torch.allclose(output, again, rtol=0, atol=0, equal_nan=True):
        refuse(
            file,
            "its module gives other numbers for the same examples at its second call, so that a client's update would "
            "depend on which ones a rank computed before; let it neither count nor draw, but by nn.Dropout layers",
        )
    for name, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            refuse(file, f"its parameter {name} has no part in the result; leave it out")
    now = _constants(module)
    for name, buffer in constants:
        if not torch.equal(now[name], buffer):
            refuse(
                file,
                f"its buffer {name} changes as it trains, which only batch normalisation's running statistics may; "
                "make it a parameter, or leave it out",
            )


def _constants(module: nn.Module) -> dict[str, torch.Tensor]:
    """The buffers that are no normalisation's."""
    found = {}
    for prefix, layer in module.named_modules():
        if not isinstance(layer, _NormBase):
            for name, buffer in layer.named_buffers(recurse=False):
                found[f"{prefix}.{name}" if prefix else name] = buffer
    return found


def _ends_linearly(module: nn.Module, shape: tuple[int, ...]) -> bool:
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        return False
    seen: list[torch.Tensor] = []
    hook = layers[-1].register_forward_hook(lambda layer, inputs, output: seen.append(output))
    module.eval()
    with torch.no_grad():
        output = module(torch.randn(2, *shape))
    module.train()
    hook.remove()
    return len(seen) == 1 and torch.equal(seen[0], output)
