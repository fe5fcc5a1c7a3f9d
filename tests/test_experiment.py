"""The one door: what an experiment file may say, and how its mistakes are told."""

import pickle
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedhpc.clients.settings import TimeLimit
from fedhpc.data.preparation import prepared_data
from fedhpc.experiment import Experiment, Run, dump_experiment, load_experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.optimizers import SGD, Adam
from fedhpc.task import NullTask

QUICKSTART = Path(__file__).parents[1] / "configs/experiments/quickstart.yaml"


def mistakes(file: Path) -> list[str]:
    with pytest.raises(ExperimentError) as caught:
        load_experiment(file)
    assert str(caught.value).startswith(f"{file}:\n  ")
    return caught.value.mistakes


def written(folder: Path, text: str) -> Path:
    file = folder / "experiment.yaml"
    file.write_text(textwrap.dedent(text))
    return file


def test_the_quickstart_is_24_runs() -> None:
    experiment = load_experiment(QUICKSTART)
    runs = list(experiment.runs())
    assert experiment.name == "quickstart"
    assert len(runs) == 24
    assert set(experiment.algorithms) == {"fedavg", "fedavg_over_selection", "fedprox", "fedbuff"}
    assert set(experiment.scenarios) == {"per_example", "per_domain"}
    assert [run.trial for run in runs[:9]] == [0] * 8 + [1]


def test_every_mistake_at_once(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        tital: x
        trials: 0
        task:
          kind: classification
          data: {source: digts}
          partition: {kind: dirichlet, clients: 60, concentraton: 0.5}
          model: {name: mlp}
        client: {batch_size: 0, epochs: 1, optimizer: {name: sgd, rate: -1, momentun: 3}}
        server_optimizer: {name: sgd, rate: 1.0}
        algorithms:
          fedavg: {scheduler: synchronous, cohort: ten}
          fedbuff: {scheduler: buffered, buffer_size: 200, concurrency: 100}
          over: {scheduler: synchronous, cohort: 10, over_selection: 9}
          Bad Name: {scheduler: synchronuos}
          as_papers_say: {scheduler: fedasync}
          nameless: {cohort: 3}
          relay: {scheduler: stale_synchronous, cohort: 3, selection: priority}
        scenarios:
          a: {communication: {distribution: lognormal, mu: 1}, per_example: {distribution: lognormol}, overhead: 3}
        budget: {}
        evaluation: {every: 10, unit: rounds}
        """,
    )
    found = mistakes(file)
    expected = [
        "tital: unknown key; did you mean 'title'?",
        "trials: 0 is not allowed",
        "task.data.source: 'digts' is unknown; did you mean 'digits'?",
        "task.partition.concentration: missing; it takes a number",
        "task.partition.concentraton: unknown key; did you mean 'concentration'?",
        "client.batch_size: 0 is not allowed",
        "client.optimizer.rate: -1 is not allowed",
        "client.optimizer.momentun: unknown key; did you mean 'momentum'?",
        "algorithms.fedavg.cohort: 'ten' is not allowed",
        "algorithms.fedbuff.buffer_size: 200 exceeds concurrency 100; lower it or raise concurrency",
        "algorithms.over.over_selection: 9 is below cohort 10; raise it or lower cohort",
        "algorithms.Bad Name: a name is lower-case letters, digits and underscores",
        "algorithms.Bad Name.scheduler: 'synchronuos' is unknown; did you mean 'synchronous'?",
        "algorithms.as_papers_say.scheduler: 'fedasync' is unknown; did you mean 'asynchronous'?",
        "algorithms.nameless.scheduler: missing; known: asynchronous, buffered, compass, fare_dust, feast, "
        "stale_synchronous, synchronous, tiered",
        "algorithms.relay.selection: 'priority' is not allowed; write {kind: priority}",
        "scenarios.a.communication.sigma: missing; it takes a number",
        "scenarios.a.per_example.distribution: 'lognormol' is unknown; did you mean 'lognormal'?",
        "scenarios.a.overhead: 3 is not allowed; it takes a block of keys: distribution",
        "budget: give client_updates, client_trips, server_updates or virtual_seconds",
        "evaluation.unit: 'rounds' is not allowed; did you mean 'server_updates'?; allowed: ",
    ]
    for sentence in expected:
        assert [one for one in found if one.startswith(sentence)], (sentence, found)
    assert len(found) == len(expected)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the file holds no settings"),
        ("- a\n- b\n", "the file holds no settings"),
        ("a: [1, 2\n", "line 2, column 1"),
        ("trials: 1\ntrials: 2\n", "line 2, column 1: the key 'trials' is given twice"),
    ],
)
def test_text_that_is_no_experiment(tmp_path: Path, text: str, sentence: str) -> None:
    assert mistakes(written(tmp_path, text))[0].startswith(sentence)


def test_mistakes_travel_between_processes(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError) as caught:
        load_experiment(tmp_path / "nowhere.yaml")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.path, again.mistakes, str(again)) == (caught.value.path, caught.value.mistakes, str(caught.value))


def test_a_missing_file(tmp_path: Path) -> None:
    assert mistakes(tmp_path / "nowhere.yaml") == ["there is no such file"]


def test_what_is_no_experiments_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert mistakes(Path("plants.yaml")) == [f"there is no such file; looked from {tmp_path}"]
    assert mistakes(Path("mnist"))[0].startswith(
        "this is a data set of the catalogue, and an experiment's file is asked"
    )
    assert mistakes(tmp_path)[0].startswith("this is a folder")
    written(tmp_path, "")
    (tmp_path / "experiment.yaml").write_text("")
    assert mistakes(tmp_path)[0].startswith("this is a results folder")


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda settings: settings["client"].update(steps=3),
            "client.epochs: give either epochs or steps, one of them and not both",
        ),
        (
            lambda settings: settings["client"].update(
                rate_normalization=True, optimizer={"name": "sgd", "rate": 0.1, "momentum": 0.5}
            ),
            "client.rate_normalization: scales the steps of plain sgd only, which keep nothing of the steps before; "
            "leave it out, or make the client's optimizer sgd without momentum",
        ),
        (
            lambda settings: settings["client"].update(rate_normalization=True, optimizer={"name": "adam", "rate": 1}),
            "client.rate_normalization: scales the steps of plain sgd only",
        ),
        (lambda settings: settings["client"].update(distillation=-0.5), "client.distillation: -0.5 is not allowed"),
        (lambda settings: settings["client"].update(clip=0), "client.clip: 0 is not allowed"),
        (
            lambda settings: (
                settings["task"]["partition"].update(kind="by_column") or settings["task"]["data"].pop("client")
            ),
            "task.data.client: missing; partition.kind by_column needs the column that names the client",
        ),
        (
            lambda settings: settings["task"].pop("stragglers"),
            "scenarios.domain.stragglers: the task has no straggler clients; add task.stragglers or remove this block",
        ),
        (
            lambda settings: settings["task"].update(partition={"kind": "iid", "clients": 2}),
            "task.stragglers.clients: 3 exceeds partition.clients 2; lower it",
        ),
        (
            lambda settings: settings["algorithms"].clear(),
            "algorithms: dict of 0 is not allowed: dictionary should have at least 1 item",
        ),
        (
            lambda settings: settings["algorithms"]["fedavg"].update(client={"batch_size": "many"}),
            "algorithms.fedavg.client.batch_size: 'many' is not allowed",
        ),
        (
            lambda settings: settings["scenarios"].update(none={}),
            "scenarios.none: give at least one of communication, overhead, per_example and per_step, or a capability",
        ),
        (
            lambda settings: (
                settings["client"].update(time_limit={"seconds": 3})
                or settings["scenarios"].update(idle={"overhead": {"distribution": "constant", "value": 3}})
            ),
            "scenarios.idle: no time passes with the work of all clients, so that the time_limit of fedavg, ",
        ),
        (
            lambda settings: settings["client"].update(time_limit={"seconds": 3, "percentile": 75}),
            "client.time_limit.seconds: give either seconds or percentile, one of them and not both",
        ),
        (lambda settings: settings["budget"].update(client_updates=None), "budget: give client_updates"),
        (lambda settings: settings.update(evaluation={"every": float("nan")}), "evaluation.every: nan is not allowed"),
        (lambda settings: settings.update(seed=2**63), f"seed: {2**63} is not allowed"),
    ],
)
def test_mistakes_that_concern_several_keys(tiny: Callable[..., Path], change: Change, sentence: str) -> None:
    found = mistakes(tiny(change))
    assert [one for one in found if one.startswith(sentence)], found
    assert len(found) == 1


def test_defaults_and_an_algorithms_own(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings["client"] = {"batch_size": 5, "epochs": 2, "optimizer": {"name": "sgd", "rate": 0.1, "momentum": 0.5}}
        settings["algorithms"] = {
            "plain": {"scheduler": "synchronous", "cohort": 2},
            "rate": {"scheduler": "synchronous", "cohort": 2, "client": {"optimizer": {"rate": 0.2}}},
            "other": {
                "scheduler": "synchronous",
                "cohort": 2,
                "client": {"steps": 7, "optimizer": {"name": "adam", "rate": 0.3}},
                "server_optimizer": {"rate": 3.0},
            },
        }

    found = load_experiment(tiny(change)).algorithms
    assert found["plain"].client.optimizer == SGD(name="sgd", rate=0.1, momentum=0.5)
    assert found["rate"].client.optimizer == SGD(name="sgd", rate=0.2, momentum=0.5)
    # Another optimiser takes nothing from the default one, and steps replace epochs.
    assert found["other"].client.optimizer == Adam(name="adam", rate=0.3)
    assert (found["other"].client.epochs, found["other"].client.steps, found["other"].client.batch_size) == (None, 7, 5)
    assert found["other"].server_optimizer == SGD(name="sgd", rate=3.0)


def test_an_algorithms_own_time_limit_replaces_the_default_one(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings["client"]["time_limit"] = {"seconds": 3, "of": "overhead_and_computation"}
        settings["algorithms"] = {
            "plain": {"scheduler": "synchronous", "cohort": 2},
            "other": {"scheduler": "synchronous", "cohort": 2, "client": {"time_limit": {"percentile": 75}}},
            "none": {"scheduler": "synchronous", "cohort": 2, "client": {"time_limit": None}},
        }

    found = load_experiment(tiny(change)).algorithms
    assert found["plain"].client.time_limit == TimeLimit(seconds=3, of="overhead_and_computation")
    assert found["other"].client.time_limit == TimeLimit(percentile=75, of="overhead_and_computation")
    assert found["none"].client.time_limit is None


def test_a_null_task_may_be_written_bare(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings["task"] = {"kind": None, "clients": 20, "examples": 10, "stragglers": 5}

    task = load_experiment(tiny(change)).task
    assert isinstance(task, NullTask)
    assert task.clients == 20


def test_a_dumped_experiment_is_the_same_experiment(tiny: Callable[..., Path], tmp_path: Path) -> None:
    experiment = load_experiment(tiny())
    again = written(tmp_path, dump_experiment(experiment))
    assert load_experiment(again).model_dump() == experiment.model_dump()


def digests(file: Path) -> dict[Run, str]:
    experiment: Experiment = load_experiment(file)
    return {run: experiment.settings_of(run).digest("content") for run in experiment.runs()}


@pytest.mark.parametrize(
    "change",
    [
        lambda settings: settings.update(trials=5),
        lambda settings: settings.update(title="Another title"),
        lambda settings: settings["algorithms"].update(new={"scheduler": "synchronous", "cohort": 2}),
        lambda settings: settings["task"]["data"].update(path="elsewhere/blobs.npz"),
    ],
)
def test_adding_to_an_experiment_leaves_its_runs_as_they_are(tiny: Callable[..., Path], change: Change) -> None:
    before = digests(tiny())
    after = digests(tiny(change))
    assert {run: after[run] for run in before} == before


def test_the_quickstarts_data_are_called_as_before(tmp_path: Path) -> None:
    """The name was computed before partitions had ``each_trial`` and ``empty_clients``. Where it changes, what was
    prepared before is prepared again: that takes a higher FORMAT, and a reason."""
    prepared = prepared_data(load_experiment(QUICKSTART), tmp_path)
    assert prepared is not None
    assert prepared.stem == "a4d5f326e19e75d92ae06694474208a100cd6a76d4ca7aafeaa2f9369bda8a70"


def test_a_partition_for_each_trial_is_another_experiment(tiny: Callable[..., Path]) -> None:
    def dealt(**keys: bool) -> dict[Run, str]:
        partition = {"kind": "iid", "clients": 12, **keys}
        return digests(tiny(lambda settings: settings["task"].update(partition=partition)))

    shared = dealt()
    assert dealt(each_trial=False) == shared
    assert not set(dealt(each_trial=True).values()) & set(shared.values())


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        (lambda settings: settings.update(seed=1), {"fedavg", "over", "prox", "fedbuff"}),
        (lambda settings: settings["client"].update(batch_size=4), {"fedavg", "over", "prox", "fedbuff"}),
        (lambda settings: settings["algorithms"]["over"].update(over_selection=7), {"over"}),
        (lambda settings: settings["algorithms"]["fedbuff"].update(concurrency=7), {"fedbuff"}),
    ],
)
def test_a_changed_setting_changes_the_runs_that_depend_on_it(
    tiny: Callable[..., Path], change: Change, touched: set[str]
) -> None:
    before, after = digests(tiny()), digests(tiny(change))
    assert {run.algorithm for run in before if before[run] != after[run]} == touched
    assert len(set(before.values())) == len(before)


def test_other_data_make_other_results(tiny: Callable[..., Path]) -> None:
    experiment = load_experiment(tiny())
    settings = experiment.settings_of(Run("fedavg", "alike", 0))
    assert settings.digest("content") != settings.digest("other content")


def test_yaml_merges_and_plain_exponents(tiny: Callable[..., Path], tmp_path: Path) -> None:
    settings = yaml.safe_load(tiny().read_text())
    algorithms = settings.pop("algorithms")
    text = yaml.safe_dump(settings) + "algorithms:\n  fedavg: &base {scheduler: synchronous, cohort: 4}\n"
    text += "  slow: {<<: *base, cohort: 3, server_optimizer: {name: sgd, rate: 1e-3}}\n"
    found = load_experiment(written(tmp_path, text)).algorithms
    assert found["slow"].server_optimizer.rate == 0.001
    assert (found["slow"].cohort, found["fedavg"].cohort) == (3, algorithms["fedavg"]["cohort"])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "? [1, 2]\n: 3\n",
        "title: 2001-13-45\n",
        "title: !!int xyz\n",
        "seed: " + "9" * 5000 + "\n",
        "title: " + "[" * 3000 + "]" * 3000 + "\n",
    ],
)
def test_text_that_trips_the_parser_is_told_in_words(tmp_path: Path, text: str) -> None:
    assert len(mistakes(written(tmp_path, text))) >= 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda settings: settings.update(title="a\0b"), "title: holds characters that cannot be printed"),
        (lambda settings: settings.update(name="a\nb"), "name: holds characters that cannot be printed"),
        (lambda settings: settings.update(name="../up"), "name: "),
        (lambda settings: settings["client"]["optimizer"].update(rate=1e39), "client.optimizer.rate: 1e+39"),
        (lambda settings: settings["client"].update(epochs=10**30), "client.epochs: "),
        (
            lambda settings: settings["scenarios"]["alike"]["overhead"].update(mu=1000),
            "scenarios.alike.overhead.mu: 1000",
        ),
        (lambda settings: settings["evaluation"].update(every=1e-9), "evaluation.every: 1e-09 gives 60,000,000,000"),
        (lambda settings: settings.update(trials=10**9), "trials: 1000000000 is not allowed"),
        (
            lambda settings: settings["task"]["model"].update(hidden=[10**12]),
            "task.model.hidden.0: 1000000000000 is not allowed",
        ),
    ],
)
def test_numbers_and_words_that_no_run_could_use(tiny: Callable[..., Path], change: Change, sentence: str) -> None:
    found = mistakes(tiny(change))
    assert [one for one in found if one.startswith(sentence)], found


def tune(**grid: Any) -> Change:
    return lambda settings: settings.update(tuning={"metric": "loss", "grid": grid})


RATES = {"client.optimizer.rate": [0.1, 0.2]}


def test_every_mistake_of_a_tuning_at_once(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings["algorithms"]["over"]["over_selection"] = 3
        settings["tuning"] = {
            "metric": "straggler_acuracy",
            "budgett": 3,
            "budget": {"client_updates": 61, "server_updates": 0},
            "grid": {
                "fedbuf": RATES,
                "fedbuff": {
                    "server_optimizer.rat": [1, 2],
                    "clint.batch_size": [3],
                    "client.optimizer.rate": [-1, 0.1, "x"],
                    "concurrency": [8, 2],
                },
                "fedavg": {"client.optimizer": [{"name": "sgd", "rate": 1}], "deadline": [None, 1.0]},
                "over": {"over_selection": [3, "six"]},
                "prox": {"server_optimizer.rate": [1, 1.0]},
            },
        }

    found = mistakes(tiny(change))
    expected = [
        "algorithms.over.over_selection: 3 is below cohort 4",
        "tuning.metric: 'straggler_acuracy' is not allowed; did you mean 'straggler_accuracy'?",
        "tuning.budgett: unknown key; did you mean 'budget'?; tuning has the keys metric, grid, budget",
        "tuning.budget.server_updates: 0 is not allowed",
        "tuning.budget.client_updates: 61 exceeds the experiment's own 60; lower it or leave it out",
        "tuning.grid.fedbuf: unknown algorithm; did you mean 'fedbuff'?; known: fedavg, over, prox, fedbuff",
        "tuning.grid.fedbuff.server_optimizer.rat: unknown key; did you mean 'rate'?",
        "tuning.grid.fedbuff.clint.batch_size: unknown key; did you mean 'client'?",
        "tuning.grid.fedbuff.client.optimizer.rate: -1 is not allowed",
        "tuning.grid.fedbuff.client.optimizer.rate: 'x' is not allowed",
        "tuning.grid.fedbuff: with client.optimizer.rate=-1,clint.batch_size=3,concurrency=2,server_optimizer.rat=1, "
        "buffer_size: 3 exceeds concurrency 2",
        "tuning.grid.fedavg.client.optimizer: a grid's values are no blocks; name a key within",
        "tuning.grid.over.over_selection: 'six' is not allowed",
        "tuning.grid.prox: server_optimizer.rate=1.0 is given twice; leave one out",
    ]
    for sentence in expected:
        assert [one for one in found if one.startswith(sentence)], (sentence, found)
    assert len(found) == len(expected), found


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda settings: (
                settings.update(task={"kind": "null", "clients": 20, "examples": 10, "stragglers": 5})
                or tune(fedavg=RATES)(settings)
            ),
            "tuning: the null task trains nothing, so that there is nothing to tune; remove this block",
        ),
        (
            lambda settings: (
                settings["task"].pop("stragglers")
                and settings["scenarios"].pop("domain")
                and settings.update(tuning={"metric": "straggler_accuracy", "grid": {"fedavg": RATES}})
            ),
            "tuning.metric: straggler_accuracy, but the task has no straggler clients; take total_accuracy",
        ),
        (tune(fedavg={"cohort": 3}), "tuning.grid.fedavg.cohort: 3 is not allowed; write a list: [3]"),
        (tune(fedavg={"cohort": []}), "tuning.grid.fedavg.cohort: list of 0 is not allowed"),
        (tune(fedavg={}), "tuning.grid.fedavg: dict of 0 is not allowed"),
        (tune(), "tuning.grid: dict of 0 is not allowed"),
        (tune(fedavg={"cohort.size": [3]}), "tuning.grid.fedavg.cohort.size: "),
        (
            tune(fedavg={"cohort": list(range(1, 102)), "deadline": list(range(1, 101))}),
            "tuning.grid.fedavg: 10,100 points; 10,000 are the most",
        ),
        (
            lambda settings: (
                settings["algorithms"].update(tuning={"scheduler": "synchronous", "cohort": 2})
                or tune(tuning=RATES)(settings)
            ),
            "algorithms.tuning: this name is taken by the folder of the tuning runs; give another",
        ),
    ],
)
def test_a_tuning_that_cannot_be(tiny: Callable[..., Path], change: Change, sentence: str) -> None:
    found = mistakes(tiny(change))
    assert [one for one in found if one.startswith(sentence)], found
    assert len(found) == 1


def test_tuning_runs_are_none_of_the_trials_and_leave_them_as_they_are(tiny: Callable[..., Path]) -> None:
    before = digests(tiny())

    def change(settings: dict[str, Any]) -> None:
        tune(fedbuff={**RATES, "server_optimizer.rate": [1, 3]})(settings)
        settings["tuning"]["budget"] = {"client_updates": 30, "server_updates": 5}

    file = tiny(change)
    assert digests(file) == before
    experiment = load_experiment(file)
    assert list(experiment.pairs()) == [("fedbuff", "alike"), ("fedbuff", "domain")]
    runs = [run for pair in experiment.pairs() for run in experiment.tuning_runs(pair)]
    assert len(runs) == len({run.key for run in runs}) == 8
    assert [run.point for run in runs[:2]] == [
        f"client.optimizer.rate=0.1,server_optimizer.rate={rate}" for rate in ("1.0", "3.0")
    ]
    settings = experiment.settings_of(runs[3])
    assert (settings.trial, settings.seed) == (100_000, experiment.seed)
    assert settings.algorithm.client.optimizer.rate == 0.2
    assert settings.algorithm.server_optimizer.rate == 3.0
    assert settings.budget.model_dump(exclude_none=True) == {"client_updates": 30, "server_updates": 5}
    # A trial with the chosen values is the trial of a plain experiment with these values.
    chosen = experiment.settings_of(Run("fedbuff", "domain", 1), experiment.points("fedbuff")[runs[3].point].values)
    plain = load_experiment(
        tiny(
            lambda settings: settings["algorithms"]["fedbuff"].update(
                client={"optimizer": {"rate": 0.2}}, server_optimizer={"rate": 3}
            )
        )
    )
    assert chosen.digest("content") == plain.settings_of(Run("fedbuff", "domain", 1)).digest("content")


def test_a_tuning_is_dumped_and_read_again(tiny: Callable[..., Path], tmp_path: Path) -> None:
    experiment = load_experiment(tiny(tune(fedbuff={"concurrency": [8, 9], "client.optimizer.rate": [1, "2e-1"]})))
    again = load_experiment(written(tmp_path, dump_experiment(experiment)))
    for pair in experiment.pairs():
        assert list(again.tuning_runs(pair)) == list(experiment.tuning_runs(pair))
        assert again.grid_digest(pair) == experiment.grid_digest(pair)


def with_deadline(settings: dict[str, Any], within: str = "coreset") -> None:
    settings["scenarios"] = {
        name: {"capability": {"distribution": "by_examples"}, "straggler_percent": 10} for name in ("alike", "domain")
    }
    settings["algorithms"] = {"core": {"scheduler": "synchronous", "cohort": 4, "client": {"within_deadline": within}}}


def test_deadlines_load(tiny: Callable[..., Path]) -> None:
    experiment = load_experiment(tiny(with_deadline))
    assert experiment.algorithms["core"].client.within_deadline == "coreset"
    assert experiment.scenarios["domain"].straggler_percent == 10
    again = load_experiment(tiny(lambda settings: settings.update(yaml.safe_load(dump_experiment(experiment)))))
    assert again.scenarios == experiment.scenarios


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"epochs": None, "steps": 3}, "within_deadline: a deadline is for clients that take epochs"),
        ({"time_limit": {"seconds": 3}}, "within_deadline: either a deadline or a time_limit"),
        ({"distillation": 0.1}, "within_deadline: coresets are not for distillation"),
        ({"within_deadline": "drop", "record_coreset_error": True}, "record_coreset_error: there are no coresets"),
        ({"within_deadline": "dropp"}, "within_deadline: 'dropp' is not allowed; did you mean 'drop'?"),
    ],
)
def test_what_does_not_go_with_a_deadline_is_told(
    tiny: Callable[..., Path], changes: dict[str, Any], told: str
) -> None:
    def change(settings: dict[str, Any]) -> None:
        with_deadline(settings)
        settings["algorithms"]["core"]["client"] |= changes

    (mistake,) = mistakes(tiny(change))
    assert mistake.startswith(f"algorithms.core.client.{told}")


@pytest.mark.parametrize(
    "algorithm",
    [
        {"scheduler": "buffered", "buffer_size": 2, "concurrency": 4},
        {"scheduler": "asynchronous", "concurrency": 4, "mixing": 0.5},
        {"scheduler": "fare_dust", "cohort": 4, "histories": 2},
        {"scheduler": "feast", "cohort": 4, "over_selection": 5, "decay": 0.9, "kappa": 1, "tau_max": 9},
    ],
    ids=lambda algorithm: str(algorithm["scheduler"]),
)
def test_deadlines_are_for_rounds(tiny: Callable[..., Path], algorithm: dict[str, Any]) -> None:
    def change(settings: dict[str, Any]) -> None:
        with_deadline(settings)
        settings["algorithms"]["core"] = {**algorithm, "client": {"within_deadline": "drop"}}

    (mistake,) = mistakes(tiny(change))
    assert mistake.startswith("algorithms.core.client.within_deadline: a deadline ends the rounds of scheduler synchro")


def test_privacy_goes_with_neither_a_deadline_nor_selection_by_examples(tiny: Callable[..., Path]) -> None:
    private = {"weighting": "uniform", "privacy": {"mechanism": "dp_sgd", "noise_multiplier": 1.0, "delta": 1e-5}}

    def change(settings: dict[str, Any]) -> None:
        with_deadline(settings)
        core = settings["algorithms"]["core"]
        core |= private
        core["client"]["clip"] = 1.0
        settings["algorithms"]["drawn"] = {**core, "selection": "by_examples", "client": {"clip": 1.0}}

    first, second = mistakes(tiny(change))
    assert first.startswith("algorithms.core.privacy: client.within_deadline leaves out clients by their speed")
    assert second.startswith("algorithms.drawn.selection: by_examples is not what privacy is counted for")


def test_a_scenario_without_a_deadline_is_told_even_where_only_an_override_or_a_tuning_asks_for_one(
    tiny: Callable[..., Path],
) -> None:
    def change(settings: dict[str, Any]) -> None:
        with_deadline(settings)
        del settings["scenarios"]["alike"]["straggler_percent"]

    expected = "scenarios.alike: there is no deadline, which core's client.within_deadline asks for; give the scenario"
    (mistake,) = mistakes(tiny(change))
    assert mistake.startswith(expected)

    def overridden(settings: dict[str, Any]) -> None:
        change(settings)
        del settings["algorithms"]["core"]["client"]["within_deadline"]
        settings["overrides"] = {name: {"core": {"client.within_deadline": "drop"}} for name in ("alike", "domain")}

    (mistake,) = mistakes(tiny(overridden))
    assert mistake.startswith(expected)

    def tuned(settings: dict[str, Any]) -> None:
        change(settings)
        del settings["algorithms"]["core"]["client"]["within_deadline"]
        settings["tuning"] = {"metric": "loss", "grid": {"core": {"client.within_deadline": [None, "drop"]}}}

    (mistake,) = mistakes(tiny(tuned))
    assert mistake.startswith(expected)


def test_a_mistake_of_one_algorithms_own_optimizer_is_told_there(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings["algorithms"]["prox"]["server_optimizer"] = {"name": "adam", "lr": 0.01}

    missing, unknown = mistakes(tiny(change))
    assert missing == "algorithms.prox.server_optimizer.rate: missing; it takes a number"
    assert unknown.startswith("algorithms.prox.server_optimizer.lr: unknown key; did you mean 'rate'?")


def test_what_a_default_lacks_is_told_once(tiny: Callable[..., Path]) -> None:
    assert mistakes(tiny(lambda settings: settings["server_optimizer"].pop("rate"))) == [
        "server_optimizer.rate: missing; it takes a number"
    ]


def test_a_default_that_one_algorithm_cannot_have_is_told_of_it(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings["server_optimizer"] = {"name": "adam", "rate": 0.1}
        settings["algorithms"]["fedat"] = {"scheduler": "tiered", "speed_ratio": 2.0}

    (mistake,) = mistakes(tiny(change))
    assert mistake.startswith("algorithms.fedat.server_optimizer.name: FedAT's global model")
    assert mistake.endswith(
        "; it has this from the default server_optimizer, which may stay: give it otherwise in "
        "algorithms.fedat.server_optimizer"
    )


def test_a_default_that_fits_one_algorithm_alone_names_the_others(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        with_deadline(settings)
        settings["algorithms"] |= {name: {"scheduler": "synchronous", "cohort": 4} for name in ("fedavg", "wide")}
        settings["client"]["record_coreset_error"] = True

    assert mistakes(tiny(change)) == [
        "client.record_coreset_error: there are no coresets whose error could be kept; give within_deadline: coreset, "
        "or move client.record_coreset_error from the default to algorithms.core.client: it is a mistake in fedavg, "
        "wide"
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda settings: settings["task"].update(
                partition={"kind": "dirichlet", "clients": 3, "concentration": 1, "alpha": 1}
            ),
            "task.partition.alpha: unknown key; did you mean 'concentration'?",
        ),
        (lambda settings: settings["client"].update(mu=1), "client.mu: unknown key; did you mean 'proximal'?"),
        (lambda settings: settings["client"].update(lr=1), "client.lr: unknown key; did you mean 'optimizer.rate'?"),
        (lambda settings: settings["budget"].update(rounds=1), "budget.rounds: unknown key; did you mean 'server_upd"),
        (
            lambda settings: settings["evaluation"].update(unit="rounds"),
            "evaluation.unit: 'rounds' is not allowed; did you mean 'server_updates'?",
        ),
        (
            lambda settings: settings["task"].pop("partition"),
            "task.partition: missing; give {kind: by_column}, or a block with another kind: class_partition, "
            "dirichlet, dual_dirichlet, fedscale, iid, label_limited, two_classes",
        ),
        (
            lambda settings: settings["task"]["partition"].update(clients=16),
            "task.partition.clients: by_column has the clients of the data, who say how many; leave it out",
        ),
        (
            lambda settings: settings["algorithms"]["over"].update(over_selection=float("inf")),
            "algorithms.over.over_selection: inf is not allowed",
        ),
        (
            lambda settings: settings["algorithms"]["over"].update(over_selection=1.3),
            "algorithms.over.over_selection: 1.3 is no number of clients; say how many are started: 6 for 1.3 times "
            "cohort 4",
        ),
        (
            lambda settings: settings["task"]["stragglers"].update(clients=["a", "b"]),
            "task.stragglers.clients: list of 2 is not allowed; it takes a whole number: how many, not which ones",
        ),
    ],
)
def test_the_fields_words_are_understood(tiny: Callable[..., Path], change: Change, sentence: str) -> None:
    (mistake,) = mistakes(tiny(change))
    assert mistake.startswith(sentence)


def test_a_default_that_is_no_block_is_not_missing_in_the_algorithms(tmp_path: Path) -> None:
    text = """
        task: {kind: null, clients: 20, examples: 10}
        client: {batch_size: 5, epochs: 1, optimizer: {name: sgd, rate: 0.1}}
        server_optimizer: adam
        algorithms: {fedavg: {scheduler: synchronous, cohort: 4}}
        scenarios: {a: {per_example: {distribution: constant, value: 1}}}
        budget: {client_updates: 20}
        evaluation: {every: 10}
        """
    assert mistakes(written(tmp_path, text)) == [
        "server_optimizer: 'adam' is not allowed; it takes a block of keys",
        "server_optimizer: 'adam' is not allowed; write {name: adam}",
    ]
