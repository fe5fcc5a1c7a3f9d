"""The one door by which values enter: an experiment's YAML file, read, checked and resolved.

An experiment is a task, named algorithms, named latency scenarios, trials and a budget. A run is one cell of the
sweep: (algorithm, scenario, trial). Where an algorithm is tuned, the runs that try its grid's points come first.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from fedhpc.budget import MOST_EVALUATIONS, Accuracy, Budget, Evaluation
from fedhpc.data.catalogue import data_sets
from fedhpc.data.paths import DataMissing, content_of, find_data
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import Algorithm
from fedhpc.federation.schedulers.everybody import EverybodySettings
from fedhpc.federation.wall_settings import SILENCE_SECONDS, slowdown_mistakes, wall_mistakes
from fedhpc.latency.capability import capability_mistakes, percent_mistakes
from fedhpc.latency.files import file_mistakes
from fedhpc.latency.scenario import Scenario
from fedhpc.mistakes import ExperimentError, sentences
from fedhpc.models.own_file import find_own
from fedhpc.models.settings import OwnModule
from fedhpc.normalization import normalization_mistakes
from fedhpc.overrides import Overrides, algorithm_with, override_mistakes
from fedhpc.published import Published
from fedhpc.settings import Name, Settings
from fedhpc.task import Classification, Extra, Learning, NullTask, Task
from fedhpc.task_work import work_mistakes
from fedhpc.tuning import Point, Tuning, points, tuning_mistakes
from fedhpc.yaml_text import read_yaml

RESULT_FORMAT = 3
"""Part of every run's hash: raised when the same settings begin to give other numbers."""

_ALTERNATIVES = {"client": ("epochs", "steps"), "time_limit": ("seconds", "percentile")}


MOST_TRIALS = 10**5

TUNING_TRIAL = MOST_TRIALS
"""The trial of every tuning run, which no trial of an experiment has: its clients are theirs unless each trial has a
partition of its own, its draws are not."""


Clock = Literal["virtual", "wall"]

Pair = tuple[str, str]
"""An algorithm and a scenario, by their names."""


@dataclass(frozen=True, order=True)
class Run:
    """One cell of the sweep."""

    algorithm: str
    scenario: str
    trial: int

    def __str__(self) -> str:
        return f"{self.algorithm}/{self.scenario}/trial-{self.trial}"

    def file(self, folder: Path, suffix: str) -> Path:
        """Where this run keeps the file of that suffix: ``FOLDER/<algorithm>/<scenario>/trial-<n><suffix>``."""
        return folder / self.algorithm / self.scenario / f"trial-{self.trial}{suffix}"

    @property
    def pair(self) -> Pair:
        """Its algorithm and scenario."""
        return self.algorithm, self.scenario

    def options(self) -> list[str]:
        """The words by which ``fedhpc run`` knows it."""
        return ["--algorithm", self.algorithm, "--scenario", self.scenario, "--trial", str(self.trial)]


@dataclass(frozen=True, order=True)
class TuningRun(Run):
    """A run that tries one point of an algorithm's grid. ``point`` is that point in words, and ``key`` tells all of
    the run's settings, in short."""

    point: str
    key: str

    def __str__(self) -> str:
        return f"{self.algorithm}/{self.scenario}/{self.point}"

    def file(self, folder: Path, suffix: str) -> Path:
        """``FOLDER/tuning/<algorithm>/<scenario>/<key><suffix>``."""
        return folder / "tuning" / self.algorithm / self.scenario / f"{self.key}{suffix}"

    def options(self) -> list[str]:
        return ["--algorithm", self.algorithm, "--scenario", self.scenario, "--point", self.point]


class RunSettings(Settings):
    """All that a run's numbers depend on, resolved, beside the data themselves."""

    task: Task
    algorithm: Algorithm
    scenario: Scenario
    budget: Budget
    evaluation: Evaluation
    seed: int
    trial: int
    clock: Clock = "virtual"
    silence: float | None = None

    def digest(self, data_fingerprint: str) -> str:
        """The hash that says whether a result is this run's: of the settings, the data's content (and not where they
        lie), the scenario's files alike, and the result format. Raises OSError where one of the scenario's files
        cannot be read."""
        files = [content_of(path) for path in self.scenario.files.values()]
        return _digest([RESULT_FORMAT, self._content(), data_fingerprint, *files])

    @property
    def key(self) -> str:
        """All of the settings in short, whatever the files hold."""
        return _digest([RESULT_FORMAT, self._content(), ""])[:16]

    def _content(self) -> dict[str, Any]:
        """The settings without the places of files."""
        paths: Any = {"scenario": {"devices": {"path"}, "availability": {"path"}}}
        if isinstance(self.task, Learning):
            paths["task"] = self.task.places_of_files
        settings = self.model_dump(mode="json", exclude=paths)
        if self.clock == "virtual":
            # Nothing of a clock's is part of a virtual run, so that its hash is what it was before there were clocks.
            del settings["clock"], settings["silence"], settings["scenario"]["slowdown"]
        return settings


class Experiment(Settings):
    """An experiment file. ``client`` and ``server_optimizer`` at the top are defaults for every algorithm; ``name`` is
    the file's stem unless it is given. ``overrides``: what an algorithm has otherwise in one scenario. ``published`` is
    for the report: no run depends on it.

    ``clock``: whether time is virtual, or each client is a silo with a rank of its own and time passes by itself; then
    a silo that is silent for ``silence`` seconds is given up."""

    name: str = Field(pattern=r"^[^/]*[^/.][^/]*$")
    title: str = ""
    seed: int = Field(0, ge=0, lt=2**63)
    trials: int = Field(1, ge=1, le=MOST_TRIALS)
    clock: Clock = "virtual"
    silence: float | None = Field(None, gt=0, le=1e6, validate_default=True)
    task: Task
    client: dict[str, Any] = Field(default_factory=dict)
    server_optimizer: dict[str, Any] = Field(default_factory=dict)
    algorithms: dict[Name, Algorithm] = Field(min_length=1)
    scenarios: dict[Name, Scenario] = Field(min_length=1)
    budget: Budget
    evaluation: Evaluation
    overrides: Overrides = Field(default_factory=dict)
    tuning: Tuning | None = None
    published: list[Published] = Field(default_factory=list)
    _file: Path = PrivateAttr(Path("experiment.yaml"))
    _points: dict[str, dict[str, Point]] = PrivateAttr(default_factory=dict)
    _in_scenario: dict[Pair, Algorithm] = PrivateAttr(default_factory=dict)

    @property
    def file(self) -> Path:
        """The file that it was read from; data paths resolve against its folder."""
        return self._file

    @field_validator("name", "title")
    @classmethod
    def _fits_a_file(cls, text: str) -> str:
        if not text.isprintable():
            raise ValueError("holds characters that cannot be printed; leave them out")
        return text

    @field_validator("silence")
    @classmethod
    def _silos_may_be_silent(cls, silence: float | None, others: ValidationInfo) -> float | None:
        if others.data.get("clock") == "wall":
            return SILENCE_SECONDS if silence is None else silence
        if silence is not None:
            raise ValueError("virtual clients are never silent; remove it, or give clock: wall")
        return None

    @field_validator("task")
    @classmethod
    def _silos_train(cls, task: Task, others: ValidationInfo) -> Task:
        if others.data.get("clock") == "wall" and isinstance(task, NullTask):
            raise ValueError("kind: the null task trains nothing, so that a clock has nothing to measure; take another")
        return task

    @field_validator("budget")
    @classmethod
    def _target_can_be_measured(cls, budget: Budget, others: ValidationInfo) -> Budget:
        task = others.data.get("task")
        if budget.target is None or task is None:
            return budget
        if isinstance(task, NullTask):
            raise ValueError("target: the null task trains nothing and has no accuracy; remove it")
        if budget.target.metric == "straggler_accuracy" and not task.has_stragglers:
            raise ValueError("target.metric: no straggler classes; name total_accuracy, or add task.stragglers")
        if budget.target.metric not in task.accuracies:
            raise ValueError(f"target.metric: {_not_measured(budget.target.metric, task)}")
        return budget

    @field_validator("evaluation")
    @classmethod
    def _evaluations_can_be_counted(cls, evaluation: Evaluation, others: ValidationInfo) -> Evaluation:
        budget = getattr(others.data.get("budget"), evaluation.unit, None)
        if budget is not None and budget / evaluation.every > MOST_EVALUATIONS:
            raise ValueError(
                f"every: {evaluation.every:g} gives {budget / evaluation.every:,.0f} evaluations; raise it, "
                f"{MOST_EVALUATIONS:,} are the most"
            )
        return evaluation

    @field_validator("scenarios")
    @classmethod
    def _straggler_latency_needs_stragglers(
        cls, scenarios: dict[str, Scenario], others: ValidationInfo
    ) -> dict[str, Scenario]:
        for name, scenario in scenarios.items():
            if scenario.stragglers is not None and "task" in others.data and not others.data["task"].has_stragglers:
                raise ValueError(
                    f"scenarios.{name}.stragglers: the task has no straggler clients; "
                    "add task.stragglers or remove this block"
                )
        return scenarios

    @field_validator("scenarios")
    @classmethod
    def _scenarios_fit_the_clock(cls, scenarios: dict[str, Scenario], others: ValidationInfo) -> dict[str, Scenario]:
        wall = others.data.get("clock") == "wall"
        for name, scenario in scenarios.items():
            if wall and scenario.latencies:
                raise ValueError(
                    f"scenarios.{name}.{scenario.latencies[0]}: under clock: wall silos take the time that they take; "
                    "give slowdown in its place, or take clock: virtual"
                )
            if not wall and scenario.slowdown is not None:
                raise ValueError(
                    f"scenarios.{name}.slowdown: slows real steps, and under clock: virtual nothing waits for those; "
                    "give latencies, or clock: wall"
                )
        return scenarios

    @field_validator("scenarios")
    @classmethod
    def _devices_know_how_large_the_model_is(
        cls, scenarios: dict[str, Scenario], others: ValidationInfo
    ) -> dict[str, Scenario]:
        for name, scenario in scenarios.items():
            devices = scenario.devices
            if devices is not None and devices.model_kbit is None and isinstance(others.data.get("task"), NullTask):
                raise ValueError(
                    f"scenarios.{name}.devices.model_kbit: missing; the null task has no model whose size could be "
                    "taken; give the kilobits that clients download and upload, 32 for each thousand parameters"
                )
        return scenarios

    @field_validator("scenarios")
    @classmethod
    def _who_comes_and_goes_is_followed(
        cls, scenarios: dict[str, Scenario], others: ValidationInfo
    ) -> dict[str, Scenario]:
        algorithms = others.data.get("algorithms", {}).items()
        unaware = [name for name, one in algorithms if not one.FOLLOWS_AVAILABILITY]
        for name, scenario in scenarios.items():
            if scenario.availability is not None and unaware:
                raise ValueError(
                    f"scenarios.{name}.availability: clients who come and go are for scheduler stale_synchronous, and "
                    f"{', '.join(unaware)} would start them whether they are online or not; take stale_synchronous, "
                    "which without `stale` is FedAvg in rounds, or leave availability out"
                )
        return scenarios

    @field_validator("scenarios")
    @classmethod
    def _work_takes_time_where_that_matters(
        cls, scenarios: dict[str, Scenario], others: ValidationInfo
    ) -> dict[str, Scenario]:
        algorithms = others.data.get("algorithms", {}).items()
        limited = [name for name, one in algorithms if one.client.time_limit is not None]
        measured = [name for name, one in algorithms if isinstance(one, EverybodySettings)]
        told = []
        if limited:
            told.append(f"the time_limit of {', '.join(limited)} would never end it")
        if measured:
            told.append(f"{', '.join(measured)} would count on seconds a step that say nothing")
        for name, scenario in scenarios.items():
            if told and scenario.slowdown is None and not scenario.work_takes_time:
                raise ValueError(
                    f"scenarios.{name}: no time passes with the work of all clients, so that {' and '.join(told)}; "
                    "give the scenario a per_example or per_step above 0"
                )
        return scenarios

    @field_validator("tuning")
    @classmethod
    def _there_is_something_to_tune(cls, tuning: Tuning | None, others: ValidationInfo) -> Tuning | None:
        task = others.data.get("task")
        if tuning is None or task is None:
            return tuning
        if not isinstance(task, Learning):
            raise ValueError("the null task trains nothing, so that there is nothing to tune; remove this block")
        if tuning.metric == "straggler_accuracy" and not task.has_stragglers:
            raise ValueError(
                "metric: straggler_accuracy, but the task has no straggler clients; take total_accuracy or add "
                "task.stragglers"
            )
        if tuning.metric != "loss" and tuning.metric not in task.accuracies:
            raise ValueError(f"metric: {_not_measured(tuning.metric, task)}")
        return tuning

    @field_validator("published")
    @classmethod
    def _published_rows_are_here_and_there(cls, published: list[Published], others: ValidationInfo) -> list[Published]:
        algorithms, scenarios = list(others.data.get("algorithms", ())), list(others.data.get("scenarios", ()))
        unmeasured = _unmeasured(others.data["task"]) if "task" in others.data else []
        errors = [
            InitErrorDetails(
                type=PydanticCustomError("value_error", "{error}", {"error": mistake}),
                loc=(index, *key.split(".")),
                input=block,
            )
            for index, block in enumerate(published)
            for key, mistake in block.mistakes(algorithms, scenarios, unmeasured)
        ]
        if errors:
            # Not a ValueError, which could tell of one of them only.
            raise ValidationError.from_exception_data("published", errors)
        return published

    def runs(self) -> Iterator[Run]:
        """Every cell of the sweep; all of trial 0 first, so that a sweep shows something of everything early."""
        for trial in range(self.trials):
            for algorithm in self.algorithms:
                for scenario in self.scenarios:
                    yield Run(algorithm, scenario, trial)

    def trials_of(self, pair: Pair) -> list[Run]:
        """The pair's cells."""
        return [Run(*pair, trial) for trial in range(self.trials)]

    def pairs(self) -> Iterator[Pair]:
        """The algorithms that are tuned, each in every scenario."""
        for algorithm in self.tuning.grid if self.tuning else ():
            for scenario in self.scenarios:
                yield algorithm, scenario

    def tuning_runs(self, pair: Pair) -> Iterator[TuningRun]:
        """One run for every point of the pair's grid, in the grid's order."""
        algorithm, scenario = pair
        for text, tried in self.points(algorithm).items():
            there = algorithm_with(self.algorithm_in(pair), tried.values)
            key = self._settings(there, self.scenarios[scenario], self._tuning_budget, TUNING_TRIAL).key
            yield TuningRun(algorithm, scenario, TUNING_TRIAL, text, key)

    def algorithm_in(self, pair: Pair) -> Algorithm:
        """An algorithm as it is in a scenario."""
        name, scenario = pair
        values = self.overrides.get(scenario, {}).get(name)
        if values is None:
            return self.algorithms[name]
        if pair not in self._in_scenario:
            self._in_scenario[pair] = algorithm_with(self.algorithms[name], values)
        return self._in_scenario[pair]

    def points(self, algorithm: str) -> dict[str, Point]:
        """The points of an algorithm's grid, by their words, in the grid's order; none where it is not tuned."""
        if self.tuning is None or algorithm not in self.tuning.grid:
            return {}
        if algorithm not in self._points:
            tried = points(self.algorithms[algorithm], self.tuning.grid[algorithm])
            self._points[algorithm] = {str(each): each for each in tried}
        return self._points[algorithm]

    def tried(self) -> Iterator[tuple[str, Algorithm]]:
        """Every algorithm that is run, by its name: as it is in each scenario, and as each point of its grid has it
        there. What scenarios have in common comes once."""
        for name in self.algorithms:
            there: list[Algorithm] = []
            for scenario in self.scenarios:
                own = self.algorithm_in((name, scenario))
                grid = [algorithm_with(own, each.values) for each in self.points(name).values()]
                there += [each for each in [own, *grid] if each not in there]
            for each in there:
                yield name, each

    def mistakes_of(self, algorithm: Algorithm, population: Population) -> list[str]:
        """What of an algorithm cannot work with these clients, within the budget and under the clock: sentences that
        begin with the key within the algorithm."""
        found = algorithm.mistakes(population, self.budget)
        return [*wall_mistakes(algorithm), *found] if self.clock == "wall" else found

    def scenario_mistakes(self, population: Population) -> list[str]:
        """What of the scenarios cannot be with these clients, or with the files that they name: sentences that begin
        with the key. Raises DataMissing where one is not there."""
        return [
            f"scenarios.{name}.{mistake}"
            for name, scenario in self.scenarios.items()
            for mistake in (
                *slowdown_mistakes(scenario, population),
                *capability_mistakes(scenario.capability, population),
                *percent_mistakes(scenario.straggler_percent, population),
                *file_mistakes(self.located(name)),
            )
        ]

    def grid_digest(self, pair: Pair) -> str:
        """The hash of all that the choice among the pair's points depends on, beside the data themselves."""
        assert self.tuning is not None
        return _digest([self.tuning.metric, [run.key for run in self.tuning_runs(pair)]])

    def settings_of(self, run: Run, chosen: Mapping[str, Any] | None = None) -> RunSettings:
        """The resolved settings of one run. ``chosen`` are the values that tuning found for a trial's pair; without
        them a trial has its algorithm as it is written. Paths of the scenario are those of the files that were found.

        Raises ValidationError where the values do not fit the algorithm, DataMissing where a file is not there."""
        scenario = self.located(run.scenario)
        algorithm = self.algorithm_in((run.algorithm, run.scenario))
        if isinstance(run, TuningRun):
            tried = algorithm_with(algorithm, self.points(run.algorithm)[run.point].values)
            return self._settings(tried, scenario, self._tuning_budget, run.trial)
        if chosen is not None:
            algorithm = algorithm_with(algorithm, chosen)
        return self._settings(algorithm, scenario, self.budget, run.trial)

    def located(self, scenario: str) -> Scenario:
        """A scenario with the paths of its files as they were found. Raises DataMissing where one is not there, and
        ExperimentError where one cannot be read."""
        settings, found, missing, unreadable = self.scenarios[scenario], {}, [], []
        for key, path in settings.files.items():
            place = f"scenarios.{scenario}.{key}"
            try:
                found[key] = find_data(path, self._file.parent, place).resolve()
                content_of(found[key])
            except DataMissing as error:
                missing += error.mistakes
            except OSError as error:
                unreadable.append(f"{place}: {found[key]} cannot be read: {error.strerror}")
        if unreadable:
            raise ExperimentError(self._file, [*missing, *unreadable])
        if missing:
            raise DataMissing(self._file, missing)
        return settings.with_files(found) if found else settings

    @property
    def _tuning_budget(self) -> Budget:
        """The experiment's own, ended earlier by what ``tuning.budget`` gives."""
        if self.tuning is None or self.tuning.budget is None:
            return self.budget
        return self.budget.model_copy(update=self.tuning.budget.model_dump(exclude_none=True))

    def _settings(self, algorithm: Algorithm, scenario: Scenario, budget: Budget, trial: int) -> RunSettings:
        return RunSettings.model_construct(
            task=self.task,
            algorithm=algorithm,
            scenario=scenario,
            budget=budget,
            evaluation=self.evaluation,
            seed=self.seed,
            trial=trial,
            clock=self.clock,
            silence=self.silence,
        )


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _unmeasured(task: Task) -> list[str]:
    """The accuracies that this task's runs lack."""
    return [name for name in get_args(Accuracy) if name not in task.accuracies]


def _not_measured(metric: Accuracy, task: Learning) -> str:
    """Why such an accuracy cannot be asked for, and the mend."""
    named = isinstance(task, Classification) and metric in get_args(Extra)
    return (
        f"the task does not measure {metric}; name {' or '.join(task.accuracies)}"
        f"{f', or add {metric} to task.metrics' if named else ''}"
    )


def _with_defaults(raw: dict[str, Any]) -> dict[str, Any]:
    """Algorithms with the file's ``client`` and ``server_optimizer`` defaults filled in, block by block; a default that
    is no block is filled in too, so that it is refused as such and not told as missing."""
    if not isinstance(raw.get("algorithms"), dict):
        return raw
    defaults = {key: raw[key] for key in ("client", "server_optimizer") if raw.get(key) is not None}
    filled = {
        name: _merged(defaults, algorithm) if isinstance(algorithm, dict) else algorithm
        for name, algorithm in raw["algorithms"].items()
    }
    return {**raw, "algorithms": filled}


def _merged(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """``own`` over ``defaults``. An optimiser of another name takes nothing from the default one, and one measure of
    work (epochs or steps) or of a time limit replaces the other."""
    merged = dict(defaults)
    for key, value in own.items():
        default = merged.get(key)
        if isinstance(value, dict) and isinstance(default, dict):
            if "name" in value and value["name"] != default.get("name"):
                merged[key] = value
                continue
            either = _ALTERNATIVES.get(key, ())
            if any(name in value for name in either):
                default = {name: entry for name, entry in default.items() if name not in either}
            merged[key] = _merged(default, value)
        else:
            merged[key] = value
    return merged


def load_experiment(path: Path) -> Experiment:
    """Reads and checks an experiment file.

    Raises ExperimentError with every mistake at once: each with its key's path, the offending value, what is allowed
    and the nearest known name.
    """
    if path.is_dir() or not path.exists():
        raise ExperimentError(path, [_no_file(path)])
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise ExperimentError(path, ["the file holds no settings; see configs/experiments/quickstart.yaml"])
    filled = {"name": path.stem, **_with_defaults(raw)}
    told = [*override_mistakes(filled), *tuning_mistakes(filled)]
    try:
        experiment = Experiment.model_validate(filled)
    except ValidationError as error:
        raise ExperimentError(path, [*sentences(error, Experiment, raw, filled), *told]) from None
    if not told and isinstance(experiment.task, Learning):
        told = [
            *normalization_mistakes(experiment.task.model, experiment.tried()),
            *work_mistakes(experiment.task, experiment.tried()),
        ]
    if told:
        raise ExperimentError(path, told)
    if told := [*_without_deadline(experiment)]:
        raise ExperimentError(path, told)
    experiment = _with_own_module_found(experiment, path)
    experiment._file = path.resolve()
    return experiment


def _no_file(path: Path) -> str:
    """What stands in the place of an experiment's file, and the mend."""
    if (path / "experiment.yaml").is_file():
        return f"this is a results folder, and an experiment's file is asked for; its own is {path / 'experiment.yaml'}"
    if path.is_dir():
        return "this is a folder, and an experiment's file is asked for; name one in it"
    if str(path) in data_sets():
        return (
            "this is a data set of the catalogue, and an experiment's file is asked for; `fedhpc data list` tells of "
            f"data sets, and `fedhpc data fetch {path}` brings this one"
        )
    return "there is no such file" + ("" if path.is_absolute() else f"; looked from {Path.cwd()}")


def _with_own_module_found(experiment: Experiment, path: Path) -> Experiment:
    """Where the model is a module of one's own, the same with the place of its file, which is kept from here on."""
    task = experiment.task
    if not isinstance(task, Learning) or not isinstance(task.model, OwnModule) or task.model.file is not None:
        return experiment
    try:
        found = find_own(task.model.module, path.resolve().parent)
    except ExperimentError as error:
        raise ExperimentError(path, error.mistakes) from None
    return experiment.model_copy(update={"task": task.with_files({"model.file": found})})


def _without_deadline(experiment: Experiment) -> Iterator[str]:
    """Algorithms that are to keep a deadline in scenarios that have none: a sentence each."""
    for name in experiment.algorithms:
        for scenario, settings in experiment.scenarios.items():
            own = experiment.algorithm_in((name, scenario))
            if own.client.within_deadline and experiment.clock == "wall":
                continue  # it is refused for that
            tried = [point.values.get("client.within_deadline") for point in experiment.points(name).values()]
            if settings.straggler_percent is None and any([own.client.within_deadline, *tried]):
                yield (
                    f"scenarios.{scenario}: there is no deadline, which {name}'s client.within_deadline asks for; give "
                    "the scenario a straggler_percent and a capability, or leave within_deadline out"
                )


def dump_experiment(experiment: Experiment) -> str:
    """The resolved experiment as YAML."""
    return yaml.safe_dump(experiment.model_dump(mode="json"), sort_keys=False)
