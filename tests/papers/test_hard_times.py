"""Hard et al., Tables 22 and 23: how long every algorithm takes on CIFAR-100, with nothing trained."""

from pathlib import Path

import pytest

from fedhpc.data.preparation import population_of
from fedhpc.experiment import Run, load_experiment
from fedhpc.federation.schedule import make_schedule

FILE = Path(__file__).parents[2] / "configs/experiments/stragglers/cifar100_time.yaml"
PAPER = {
    "fedavg": (638_038, 1_004_752),
    "fedavg_over_selection": (343_386, 443_618),
    "fedavg_time_limit": (263_174, 372_209),
    "fedadam": (638_146, 1_006_330),
    "fedadam_over_selection": (343_556, 442_894),
    "fedbuff": (107_582, 127_208),
    "fedbuff_ema": (107_582, 127_448),
    "fedbuff_kd": (107_530, 127_375),
    "fedbuff_l2": (107_456, 127_336),
    "feast": (286_516, 370_547),
    "faredust": (343_502, 443_452),
}
"""The Time columns, in seconds: per_example, per_domain."""


def test_every_row_of_the_tables_is_an_algorithm() -> None:
    assert set(load_experiment(FILE).algorithms) == set(PAPER)


@pytest.mark.parametrize("scenario", ["per_example", "per_domain"])
@pytest.mark.parametrize("algorithm", PAPER)
def test_the_time_of_80000_client_updates_is_the_papers_to_2_percent(algorithm: str, scenario: str) -> None:
    experiment = load_experiment(FILE)
    settings = experiment.settings_of(Run(algorithm, scenario, 1))
    *_, last = make_schedule(settings, population_of(experiment.task, None)).server_updates()
    paper = PAPER[algorithm][scenario == "per_domain"]
    # The medians of ten trials in the paper, one of ours: over trials ours differ by less than 1 %.
    assert last.time == pytest.approx(paper, rel=0.02)
    # FeAST counts late updates too, and may pass the budget by a round.
    assert 80_000 <= last.totals.client_updates < 80_000 + 24
