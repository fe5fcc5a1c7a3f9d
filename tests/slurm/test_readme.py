"""The README's commands for clusters work as they are written, on a real Slurm and a copy of the repository."""

import re
from pathlib import Path

from tests.slurm.cluster import Cluster
from tests.test_readme import ROOT, clone, run
from tests.workflow.experiments import wait_until
from workflow.slurm import sweep_name

BLOCKS = re.findall(r"^```bash slurm\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)


def test_the_readmes_cluster(slurm: Cluster, tmp_path: Path) -> None:
    copy = clone(tmp_path / "clone")
    submitted, by_hand = [run("bash", block, copy, slurm.environment) for block in BLOCKS]
    assert "wrong" not in submitted
    assert "ok     2 ranks on n1 by " in submitted
    first, *chain = slurm.jobs(sweep_name(copy / "results" / "chained"))
    assert f"Submitted 3 jobs, one after the other: {first}, {chain[0]}, {chain[1]}." in submitted
    assert f"fedhpc status {copy / 'results' / 'chained'}" in submitted
    alone = int(by_hand.split()[-1])
    for log in (copy / f"results/chained/logs/slurm/sweep-{first}.log", copy / f"fedhpc-{alone}.log"):
        # The 24 runs take minutes; that they begin is enough here.
        wait_until(
            lambda log=log: log.exists() and "24 runs, 0 of them finished before" in log.read_text(), 120, log.read_text
        )
    run(
        "bash",
        f"scancel --name={sweep_name(copy / 'results' / 'chained')} && scancel {alone}",
        copy,
        slurm.environment,
    )
