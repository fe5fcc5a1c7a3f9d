"""A person's own model: the module that a function of theirs returns, made fit for federations.

torch's dropout draws from a generator that all clients share; ``KeyedDropout`` takes its place (law 2). Batch
normalisation is replaced by the one that can train on a batch of one example.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from fedhpc.mistakes import ExperimentError, nearest
from fedhpc.models.batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from fedhpc.models.dropout import KeyedDropout
from fedhpc.models.own_file import find_own, own_sources, root_of
from fedhpc.models.settings import OwnModule

_BATCH_NORMS: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: BatchNorm1d,
    nn.BatchNorm2d: BatchNorm2d,
    nn.BatchNorm3d: BatchNorm3d,
}


def build_own(settings: OwnModule, shape: tuple[int, ...], classes: int) -> nn.Module:
    """What the function returns for examples of ``shape`` and so many ``classes``; see ``OwnModule``.

    Raises ExperimentError, in one sentence, where the function is not there or raises, or returns what is no module or
    has layers that cannot be made fit. Whether the module fits the data is for ``check_own`` to find out.
    """
    file = settings.file or find_own(settings.module, Path.cwd())
    with _own_modules(settings.module, file):
        try:
            module = importlib.import_module(settings.module)
        except (Exception, SystemExit) as error:
            refuse(file, f"importing {settings.module} raises {in_words(error)}; mend the file")
        function = _function(module, settings, file)
        try:
            built = function(shape, classes, **settings.arguments)
        except (Exception, SystemExit) as error:
            refuse(
                file,
                f"{settings.callable} raises {in_words(error)}, called with the shape {shape}, {classes} classes and "
                "task.model.arguments",
            )
    if not isinstance(built, nn.Module):
        refuse(file, f"{settings.callable} returns no torch module but a {type(built).__name__}")
    with torch.no_grad():
        try:
            # Before anything else, so that lazy layers have their parameters.
            built.eval()(torch.zeros(2, *shape))
        except (Exception, SystemExit) as error:
            refuse(file, f"its module raises {in_words(error)} for a batch of 2 examples of the shape {list(shape)}")
    _replace(built, file)
    return built.train()


def refuse(file: Path, sentence: str) -> NoReturn:
    """Raises ExperimentError with a sentence on the model's function or module."""
    raise ExperimentError(file, [f"task.model.callable: {sentence}"])


def in_words(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def _own_modules(module: str, file: Path) -> Iterator[None]:
    """Within, ``module`` and its neighbours are imported from its own folder, whatever else bears their names. Outside
    they leave no trace, so that another experiment's may bear them too, and an edited file is read anew."""
    names, root = own_sources(module, file), str(root_of(module, file))
    hidden = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, root)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(root)
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


def _function(module: Any, settings: OwnModule, file: Path) -> Callable[..., Any]:
    name = settings.callable.partition(":")[2]
    function = getattr(module, name, None)
    if callable(function):
        found: Callable[..., Any] = function
        return found
    if function is not None:
        refuse(file, f"{settings.callable} is no function but a {type(function).__name__}")
    known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    refuse(file, f"{settings.module} has no {name}{nearest(name, known)}")


def _replace(module: nn.Module, file: Path) -> None:
    """Dropout by ``KeyedDropout``, and batch normalisation by ours; a layer that stands in two places still does."""
    replaced: dict[int, nn.Module] = {}
    for parent in list(module.modules()):
        for name, layer in list(parent._modules.items()):
            if isinstance(layer, _DropoutNd):
                if id(layer) not in replaced:
                    replaced[id(layer)] = _keyed(layer, file)
                parent._modules[name] = replaced[id(layer)]
    for layer in module.modules():
        ours = _BATCH_NORMS.get(type(layer))
        if ours is not None and layer.track_running_stats:
            layer.__class__ = ours


def _keyed(layer: _DropoutNd, file: Path) -> KeyedDropout:
    if type(layer) is not nn.Dropout:
        refuse(file, f"{type(layer).__name__} draws from torch's own generator; take nn.Dropout, which is replaced")
    try:
        return KeyedDropout(layer.p)
    except ValueError:
        near = min(round(256 * layer.p), 255)
        refuse(
            file,
            f"nn.Dropout({layer.p:g}) is no multiple of 1/256, by which fedhpc draws; take nn.Dropout({near} / 256)",
        )
