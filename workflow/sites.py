"""A site: how one machine runs jobs. A YAML file in ``configs/sites``, or a person's own.

Without a ``slurm`` block, the runs share this machine. With one, ``way`` says how the nodes come: *inside one
allocation* (the sweep's own job holds them) or as *blocks* (pilot jobs, which the sweep submits and gives back).
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from fedhpc.clients.steps.step_choice import StepWishes
from fedhpc.mistakes import ExperimentError, nearest, sentences, validated
from fedhpc.ranks.world import mpiexec
from fedhpc.settings import Settings
from fedhpc.yaml_text import read_yaml
from workflow.placement import HERE, Placement

# By its documentation, Slurm may send the signal before a job's end so much too soon.
_SIGNAL_TOO_SOON_SECONDS = 60
_SECONDS_TO_START = 30

FOLDER = Path(__file__).resolve().parent.parent / "configs" / "sites"


def _time(text: object) -> str:
    # Without quotes YAML makes a number of 04:00:00, of seconds, which Slurm would take for minutes.
    if not isinstance(text, str) or not re.fullmatch(r"(\d+-\d+(:\d{1,2}){0,2}|\d+(:\d{1,2}){0,2})", text):
        raise ValueError(f"{text!r} is no time of Slurm's; write 04:00:00 or 2-12:00:00, say, in quotes")
    return text


JobTime = Annotated[str, BeforeValidator(_time)]
"""As Slurm reads it: MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS, and so on."""


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} has a character in it that does not print, or a line break; write it in one line")
    return text


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{name!r} is no name of a variable; those have letters, digits and underscores")
    return name


Line = Annotated[str, AfterValidator(_one_line)]
Variable = Annotated[str, AfterValidator(_variable)]


class Slurm(Settings):
    """How jobs are asked for. ``nodes``: of the allocation, or of one block. ``options``: further words for sbatch.
    ``driver_options``: those of the small job in which a sweep by blocks lives, where it is submitted too.
    ``interface``: the network interface by which compute nodes reach the sweep, by default that of the host's name.
    ``signal_seconds``: how long before its time limit a job is asked to end. ``node_local``: a folder on each node's
    own disk, into which the environment is copied."""

    way: Literal["allocation", "blocks"] = "allocation"
    partition: Line | None = None
    account: Line | None = None
    qos: Line | None = None
    constraint: Line | None = None
    reservation: Line | None = None
    time: JobTime = "04:00:00"
    nodes: int = Field(1, ge=1)
    max_blocks: int = Field(1, ge=1)
    options: list[Line] = Field(default_factory=list)
    driver_options: list[Line] = Field(default_factory=list)
    interface: Line | None = None
    poll_seconds: int = Field(30, ge=1)
    signal_seconds: int = Field(60, ge=0)
    node_local: Line | None = None

    @field_validator("node_local")
    @classmethod
    def _on_every_node(cls, folder: str | None) -> str | None:
        if folder is not None and not folder.startswith(("/", "$", "~")):
            raise ValueError(f"{folder!r} is another folder wherever a job begins; write one from the root, or $TMPDIR")
        return folder

    @model_validator(mode="after")
    def _ends_before_its_time(self) -> Self:
        if self.signal_seconds >= self.seconds:
            raise ValueError(
                f"signal_seconds: a job of {self.seconds} s (time) would be asked to end {self.signal_seconds} s "
                "before; lower it or raise time"
            )
        return self

    @property
    def seconds(self) -> int:
        """``time`` in seconds."""
        days, dash, clock = self.time.rpartition("-")
        parts = [int(part) for part in clock.split(":")]
        if dash:
            hours, minutes, seconds = (*parts, 0, 0)[:3]
        elif len(parts) == 3:
            hours, minutes, seconds = parts
        else:
            hours, (minutes, seconds) = 0, (*parts, 0)[:2]
        return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds

    @property
    def seconds_of_work(self) -> int:
        """What is left of ``time`` between a job's start and the earliest moment when it may be asked to end."""
        return self.seconds - self.signal_seconds - _SIGNAL_TOO_SOON_SECONDS - _SECONDS_TO_START

    @property
    def job_options(self) -> list[str]:
        """What sbatch is told of an allocation's or a block's job."""
        return [*self._place_in_the_queue, f"--time={self.time}", f"--nodes={self.nodes}", *self.options]

    @property
    def queue_options(self) -> list[str]:
        """Of those, what the sweep's own small job takes over; the rest is in ``driver_options``."""
        return [*self._place_in_the_queue, *self.driver_options]

    @property
    def _place_in_the_queue(self) -> list[str]:
        named = ("partition", "account", "qos", "constraint", "reservation")
        return [f"--{name}={value}" for name in named if (value := getattr(self, name)) is not None]


class Site(Settings):
    """One machine. ``cores`` and ``gpus`` are those of a node that runs may use: of None cores, all that this process
    may use. A run has ``ranks_per_run`` ranks of ``cores_per_rank`` cores and ``gpus_per_rank`` GPUs each; as many runs
    share a node as it holds, or ``runs_per_node``; with more than one of ``nodes_per_run``, a run has whole nodes.

    ``launcher`` is the command up to ``-n``, by default the mpiexec that belongs to the Python in use. ``setup`` is
    bash, sourced before anything else wherever fedhpc starts: modules, caches, the Python. ``step`` says how clients'
    steps are to be computed, where that is not left to a measurement."""

    ranks_per_run: int = Field(2, ge=1)
    cores_per_rank: int = Field(1, ge=1)
    gpus_per_rank: int = Field(0, ge=0)
    runs_per_node: int | None = Field(None, ge=1)
    nodes_per_run: int = Field(1, ge=1)
    cores: int | None = Field(None, ge=1)
    gpus: int = Field(0, ge=0)
    retries: int = Field(1, ge=0)
    checkpoint_seconds: float = Field(30.0, gt=0)
    launcher: Line | None = None
    setup: str = ""
    environment: dict[Variable, Line] = Field(default_factory=dict)
    step: StepWishes = StepWishes()
    slurm: Slurm | None = None
    _file: Path | None = PrivateAttr(None)

    @property
    def file(self) -> Path | None:
        """Where it was read from."""
        return self._file

    @model_validator(mode="after")
    def _must_fit(self) -> Self:
        runs, ranks = self.runs_per_node, self.ranks_per_run
        if self.nodes_per_run > 1:
            if runs is not None:
                raise ValueError("runs_per_node: a run of several nodes_per_run has them alone; leave it out")
            if self.slurm is None or Path((self.launcher or "").split(" ")[0]).name != "srun":
                raise ValueError(
                    "nodes_per_run: ranks on several nodes are started by Slurm; say 'launcher: srun --mpi=pmi2' "
                    "(or what the site's MPI needs) and add a slurm block"
                )
            if ranks % self.nodes_per_run:
                raise ValueError(
                    f"ranks_per_run: {ranks} ranks do not divide among {self.nodes_per_run} nodes_per_run; take a "
                    f"multiple of {self.nodes_per_run}"
                )
            if self.slurm.nodes % self.nodes_per_run:
                raise ValueError(
                    f"slurm.nodes: {self.slurm.nodes} nodes hold no whole number of runs on {self.nodes_per_run} "
                    f"nodes each; take a multiple of {self.nodes_per_run}"
                )
        for each, key, there in ((self.cores_per_rank, "cores", self.cores), (self.gpus_per_rank, "gpus", self.gpus)):
            wanted = (runs or 0) * ranks * each
            if there is not None and wanted > there and runs is not None:
                raise ValueError(
                    f"runs_per_node: {runs} runs of {ranks} ranks take {wanted} {key} of a node, and {key} says "
                    f"{there}; lower it"
                )
        on_a_node = ranks // self.nodes_per_run * self.gpus_per_rank
        if on_a_node > self.gpus:
            raise ValueError(
                f"gpus_per_rank: a run takes {on_a_node} GPUs of a node, and gpus says {self.gpus}; lower it or say "
                "how many a node has"
            )
        cores = ranks // self.nodes_per_run * self.cores_per_rank
        if self.slurm is not None and self.cores is not None and cores > self.cores and not self._outlives_ranks:
            raise ValueError(
                f"cores_per_rank: the {ranks // self.nodes_per_run} ranks of a run take {cores} cores of a node, and "
                f"cores says {self.cores}; lower it or ranks_per_run"
            )
        if self.slurm is not None and self.slurm.way == "blocks" and self.cores is None:
            raise ValueError("cores: missing; blocks are asked for before their nodes can be counted, so say how many")
        return self

    @property
    def runs_at_a_time(self) -> int:
        """As many as the nodes hold, and at least one."""
        if self.slurm is None:
            return self.runs_on_a_node
        blocks = self.slurm.max_blocks if self.slurm.way == "blocks" else 1
        return blocks * self.runs_in_a_block

    @property
    def runs_in_a_block(self) -> int:
        """As many as a block, or the allocation, holds at a time."""
        nodes = self._nodes
        return max(1, nodes // self.nodes_per_run) if self.nodes_per_run > 1 else nodes * self.runs_on_a_node

    @property
    def runs_on_a_node(self) -> int:
        """As many as its cores and GPUs hold, and at least one; ``runs_per_node`` where that is said."""
        if self.runs_per_node is not None:
            return self.runs_per_node
        runs = self.cores_of_a_node // (self.ranks_per_run * self.cores_per_rank)
        if self.gpus_per_rank:
            runs = min(runs, self.gpus // (self.ranks_per_run * self.gpus_per_rank))
        return max(1, runs)

    @property
    def cores_of_a_node(self) -> int:
        """As the site says; else as the allocation or this process has."""
        if self.cores is not None:
            return self.cores
        counted = os.environ.get("SLURM_CPUS_ON_NODE", "") if self.slurm is not None else ""
        return int(counted) if counted.isdigit() else len(os.sched_getaffinity(0))

    @property
    def _nodes(self) -> int:
        assert self.slurm is not None
        counted = os.environ.get("SLURM_JOB_NUM_NODES", "") if self.slurm.way == "allocation" else ""
        return int(counted) if counted.isdigit() else self.slurm.nodes

    @property
    def warning(self) -> str:
        """What is to be feared of a run here; nothing, mostly."""
        if self.slurm is not None and self.slurm.seconds_of_work <= 0:
            return (
                f"warning: a job of {self.slurm.seconds} s (slurm.time) may be asked to end before it has begun to "
                f"work: Slurm does so up to {_SIGNAL_TOO_SOON_SECONDS} s sooner than signal_seconds says"
            )
        held = os.environ.get("SLURM_JOB_NUM_NODES", "1")
        if self.slurm is None and held != "1":
            return f"warning: this job holds {held} nodes, and a site without a slurm block uses the first alone"
        return ""

    def refuse_elsewhere(self) -> None:
        """Raises ExperimentError where a sweep cannot have its nodes from here."""
        if self.slurm is None or self.slurm.way == "blocks":
            return
        if "SLURM_JOB_ID" not in os.environ:
            raise ExperimentError(
                Path("site"),
                [
                    "slurm.way: allocation, and this is no Slurm job; submit one with `sbatch jobs/sweep.sh` or `bash "
                    "jobs/sweep.sh --chain 1`, or say 'way: blocks' and sweep from here"
                ],
            )
        if self._nodes < self.nodes_per_run:
            raise ExperimentError(
                Path("site"),
                [f"nodes_per_run: a run takes {self.nodes_per_run} nodes, the job holds {self._nodes}; ask for more"],
            )

    def launch(self, placement: Placement = HERE) -> list[str]:
        """What stands before a rank's own command; nothing for a single rank without nodes of its own.

        Raises ExperimentError where the site's launcher does not exist, LauncherError where it names none and there
        is no mpiexec.
        """
        if self.ranks_per_run == 1 and self.nodes_per_run == 1:
            return []
        try:
            words = shlex.split(self.launcher or "") or [mpiexec(), *placement.mpiexec_options()]
        except ValueError as error:
            raise ExperimentError(Path("site"), [f"launcher: {self.launcher!r} is no command: {error}"]) from None
        program = shutil.which(words[0])
        if program is None:
            raise ExperimentError(Path("site"), [f"launcher: there is no {words[0]}; name a program that exists"])
        if Path(program).name == "srun":
            words += placement.srun_options(self.ranks_per_run, self._outlives_ranks)
        return [program, *words[1:], "-n", str(self.ranks_per_run)]

    @property
    def _outlives_ranks(self) -> bool:
        """Whether a run goes on where a rank dies."""
        return False


class SiloSite(Site):
    """A site for runs under a clock: each has a rank for every client and one for the server, and outlives silos."""

    @classmethod
    def of(cls, site: Site, clients: int) -> "SiloSite":
        """The site, whatever its ``ranks_per_run`` and however many of its runs share a node.

        Raises ExperimentError where so many ranks do not fit it."""
        asked = {**site.model_dump(), "ranks_per_run": clients + 1, "runs_per_node": None}
        try:
            found = cls.model_validate(asked)
        except ValidationError as error:
            why = f"under clock: wall a run has a rank for each of {clients} clients and one more"
            told = sentences(error, cls, asked, asked)
            raise ExperimentError(site.file or Path("site"), [f"{sentence} ({why})" for sentence in told]) from None
        found._file = site.file
        return found

    def launch(self, placement: Placement = HERE) -> list[str]:
        """As ever; hydra, where it is no choice of the site's, is told to let the others live when a rank ends."""
        program, *rest = super().launch(placement)
        spares = (
            self.launcher is None and b"HYDRA" in subprocess.run([program, "--version"], capture_output=True).stdout
        )
        return [program, *(["-disable-auto-cleanup"] if spares else []), *rest]

    @property
    def _outlives_ranks(self) -> bool:
        return True

    @property
    def warning(self) -> str:
        there = self.cores_of_a_node * self.nodes_per_run
        if self.ranks_per_run <= there:
            return ""
        return (
            f"warning: a run's {self.ranks_per_run} ranks share {there} cores, so that silos slow each other "
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
    site = validated(Site, {} if raw is None else raw, path)
    site._file = path.resolve()
    return site


def step_wishes(text: str) -> StepWishes:
    """A site's ``step`` from YAML text. Raises ExperimentError with every mistake in words."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError:
        raw = text
    if not isinstance(raw, dict):
        raise ExperimentError(Path("--step"), [f"{text!r} is no block of settings; write '{{form: plain}}', say"])
    return validated(StepWishes, raw, Path("--step"))
