"""The choice of a step as a file in the results folder: made once for an algorithm, then used by all of its runs."""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import StepChoice, StepWishes
from fedhpc.models.settings import Model
from fedhpc.store.replacing import sync, temporary_beside

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


class OtherChoice(Exception):
    """The folder's choice is not what is wished for now."""


def choice_file(folder: Path, model: Model, client: ClientSettings, shape: tuple[int, ...], classes: int) -> Path:
    """Where an algorithm's folder keeps the choice: its name tells what a step's speed depends on."""
    settings = model.model_dump(mode="json", exclude=model.path_fields())
    subject = [settings, _shape_of_work(client), shape, classes]
    return folder / f"step.{hashlib.sha256(json.dumps(subject, sort_keys=True).encode()).hexdigest()[:16]}.json"


def _shape_of_work(client: ClientSettings) -> dict[str, Any]:
    """The client's settings but for numbers that a step merely multiplies by, of which it matters that they are there:
    a tuning's many rates are measured once."""
    settings = client.model_dump(mode="json", exclude={"time_limit"})
    settings |= {name: bool(settings[name]) for name in ("proximal", "distillation", "clip")}
    optimizer = settings["optimizer"]
    changes = {name: bool(optimizer[name]) for name in ("momentum", "weight_decay") if name in optimizer}
    return settings | {"optimizer": {"name": optimizer["name"], **changes}}


def kept_choice(
    file: Path, wishes: StepWishes, measure: Callable[[], Sequence[tuple[StepChoice, float]]]
) -> StepChoice:
    """The choice that ``file`` keeps, or else the first of ``measure()``'s, which the file then keeps with the seconds
    that a client's step took. Of processes that measure at the same time the first one's choice holds for all.

    Raises OtherChoice where the kept choice does not agree with ``wishes``.
    """
    if not file.exists():
        measured = [{"choice": choice.model_dump(), "seconds_per_step": seconds} for choice, seconds in measure()]
        _keep(file, {"choice": measured[0]["choice"], "measured": measured})
    refuse_other_choice(file, wishes)
    return _kept(file)


def refuse_other_choice(file: Path, wishes: StepWishes) -> None:
    """Raises OtherChoice where there is such a file and what it keeps does not agree with ``wishes``."""
    if not file.exists():
        return
    kept = _kept(file)
    differing = {name: value for name, value in wishes.given.items() if getattr(kept, name) != value}
    if differing:
        raise OtherChoice(
            f"step: {differing} is asked for, but {file} keeps {kept.model_dump()}; results of one algorithm are "
            "computed in one way: ask for nothing else, or give another --output"
        )


def _kept(file: Path) -> StepChoice:
    try:
        return StepChoice.model_validate(json.loads(file.read_text())["choice"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OtherChoice(
            f"step: {file} cannot be understood ({type(error).__name__}); put it back as it was: its results are "
            "computed as it says. Without any result, remove it"
        ) from None


def _keep(file: Path, content: dict[str, Any]) -> None:
    """Writes the file, to outlast a power cut, unless it is there already."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(file)
    try:
        temporary.write_text(json.dumps(content, indent=1))
        sync(temporary)
        with contextlib.suppress(FileExistsError):
            try:
                os.link(temporary, file)  # unlike a rename, it leaves a file that is there
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                os.replace(temporary, file)
        sync(file.parent)
    finally:
        temporary.unlink(missing_ok=True)
