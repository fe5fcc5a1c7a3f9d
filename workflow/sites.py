"""A site: how one machine runs jobs. A YAML file in ``configs/sites``, or a person's own."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import Field, ValidationError

from fedhpc.clients.steps.step_choice import StepWishes
from fedhpc.mistakes import ExperimentError, nearest, sentences
from fedhpc.ranks.world import mpiexec
from fedhpc.settings import Settings
from fedhpc.yaml_text import read_yaml

if TYPE_CHECKING:
    from parsl.config import Config

FOLDER = Path(__file__).resolve().parent.parent / "configs" / "sites"


class Site(Settings):
    """One machine, without a queue. ``cores`` of None are all that this process may use; ``launcher`` is the command
    up to ``-n``, by default the mpiexec that belongs to the Python in use. ``step`` says how clients' steps are to be
    computed, where that is not left to a measurement."""

    ranks_per_run: int = Field(2, ge=1)
    cores: int | None = Field(None, ge=1)
    retries: int = Field(1, ge=0)
    checkpoint_seconds: float = Field(30.0, gt=0)
    launcher: str | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    step: StepWishes = StepWishes()

    @property
    def runs_at_a_time(self) -> int:
        """As many as the cores hold, and at least one."""
        return max(1, self._cores // self.ranks_per_run)

    @property
    def _cores(self) -> int:
        return self.cores if self.cores is not None else len(os.sched_getaffinity(0))

    @property
    def warning(self) -> str:
        """What is to be feared of a run here; nothing, mostly."""
        return ""

    def launch(self) -> list[str]:
        """What stands before a rank's own command; nothing for a single rank.

        Raises ExperimentError where the site's launcher does not exist, LauncherError where it names none and there
        is no mpiexec.
        """
        if self.ranks_per_run == 1:
            return []
        try:
            words = shlex.split(self.launcher or "") or [mpiexec()]
        except ValueError as error:
            raise ExperimentError(Path("site"), [f"launcher: {self.launcher!r} is no command: {error}"]) from None
        program = shutil.which(words[0])
        if program is None:
            raise ExperimentError(Path("site"), [f"launcher: there is no {words[0]}; name a program that exists"])
        return [program, *words[1:], "-n", str(self.ranks_per_run)]


class SiloSite(Site):
    """A site for runs under a clock: each has a rank for every client and one for the server, and outlives silos."""

    @classmethod
    def of(cls, site: Site, clients: int) -> "SiloSite":
        """The site, whatever its ``ranks_per_run``."""
        return cls.model_validate({**site.model_dump(), "ranks_per_run": clients + 1})

    def launch(self) -> list[str]:
        """As ever; hydra, where it is no choice of the site's, is told to let the others live when a rank ends."""
        program, *rest = super().launch()
        spares = (
            self.launcher is None and b"HYDRA" in subprocess.run([program, "--version"], capture_output=True).stdout
        )
        return [program, *(["-disable-auto-cleanup"] if spares else []), *rest]

    @property
    def warning(self) -> str:
        if self.ranks_per_run <= self._cores:
            return ""
        return (
            f"warning: a run's {self.ranks_per_run} ranks share {self._cores} cores, so that silos slow each other "
            "down; their speeds are measured all the same"
        )


def load_site(name: str | None = None) -> Site:
    """The site of that name in ``configs/sites``, or of that file; by default FEDHPC_SITE, else ``local``.

    Raises ExperimentError with every mistake in words.
    """
    chosen = name or os.environ.get("FEDHPC_SITE") or "local"
    path = Path(chosen) if chosen.endswith((".yaml", ".yml")) or "/" in chosen else FOLDER / f"{chosen}.yaml"
    if path.parent == FOLDER and not path.exists():
        if chosen == "local":
            return Site.model_validate({})
        known = sorted(file.stem for file in FOLDER.glob("*.yaml"))
        meant, all_known = nearest(chosen, known), ", ".join(known) or "local"
        raise ExperimentError(
            Path("site"), [f"{chosen!r} is unknown{meant}; known: {all_known}, or the path of a file"]
        )
    raw = read_yaml(path)
    try:
        return Site.model_validate({} if raw is None else raw)
    except ValidationError as error:
        raise ExperimentError(path, sentences(error, Site, raw, raw)) from None


def step_wishes(text: str) -> StepWishes:
    """A site's ``step`` from YAML text. Raises ExperimentError with every mistake in words."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError:
        raw = text
    if not isinstance(raw, dict):
        raise ExperimentError(Path("--step"), [f"{text!r} is no block of settings; write '{{form: plain}}', say"])
    try:
        return StepWishes.model_validate(raw)
    except ValidationError as error:
        raise ExperimentError(Path("--step"), sentences(error, StepWishes, raw, raw)) from None


def parsl_config(site: Site, run_dir: Path) -> "Config":
    """Parsl on this machine: one worker for each run at a time. The result files say what is done, so that nothing is
    memoised."""
    from parsl.config import Config
    from parsl.executors import HighThroughputExecutor
    from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD
    from parsl.jobs.error_handlers import windowed_error_handler
    from parsl.providers import LocalProvider

    executor = HighThroughputExecutor(
        label="runs",
        address="127.0.0.1",
        max_workers_per_node=site.runs_at_a_time,
        # A run's cores are counted by the site; Parsl, which would count the machine's, is not to cap them.
        cores_per_worker=1e-6,
        # A lost worker is noticed after a period, a lost pool or driver after the threshold (seconds).
        heartbeat_period=5,
        heartbeat_threshold=30,
        # Parsl's programs are run by this Python: the scripts on PATH may belong to one that lacks fedhpc.
        launch_cmd=DEFAULT_LAUNCH_CMD.replace("process_worker_pool.py", shlex.join(_module("process_worker_pool")), 1),
        # The interchange ends with the driver, and what hangs on it after the threshold.
        interchange_launch_cmd=[sys.executable, "-m", "workflow.parent_death", *_module("interchange")],
        block_error_handler=windowed_error_handler,
        provider=LocalProvider(init_blocks=1, min_blocks=1, max_blocks=1),  # type: ignore[no-untyped-call]
    )
    return Config(
        executors=[executor],
        retries=site.retries,
        run_dir=str(run_dir),
        strategy_period=0.5,
        usage_tracking=0,
        exit_mode="cleanup",
    )


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"parsl.executors.high_throughput.{name}"]
