"""Prints every benchmark's figures: minimum, median and maximum over the repeats."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from fedhpc.ranks.world import mpiexec
from tests.benchmarks import null_engine
from tests.mpi import mpi

REPEATS = 5


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        throughput = mpi(2, [sys.executable, "-m", "tests.benchmarks.throughput", folder, str(REPEATS)], timeout=1200)
    print(throughput.stdout, end="")
    if throughput.returncode:
        raise SystemExit(throughput.stderr)
    null_engine.main(REPEATS)
    command = [str(Path(mpiexec()).parent / "fedhpc"), "--help"]
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    print_spread("fedhpc --help, seconds", seconds)


def print_spread(name: str, values: list[float]) -> None:
    """One line: the name, then minimum, median and maximum."""
    low, middle, high = min(values), median(values), max(values)
    print(f"{name:60s} {low:10.2f} {middle:10.2f} {high:10.2f}", flush=True)


if __name__ == "__main__":
    print(f"{'':60s} {'min':>10s} {'median':>10s} {'max':>10s}", flush=True)
    main()
