#!/usr/bin/env bash
# Style, types and tests: bash jobs/test.sh [arguments of pytest].
home="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
source "$home/jobs/environment.sh" dev || exit 2
cd "$home" || exit 2
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

# All four run, so that one look shows every mistake; pytest last, so that its closing line is the last.
status=0
"$fedhpc_python" -m ruff check fedhpc workflow tests || status=1
"$fedhpc_python" -m ruff format --check fedhpc workflow tests || status=1
"$fedhpc_python" -m mypy || status=1
"$fedhpc_python" -m pytest -n 2 --dist loadgroup --durations=25 "$@" || status=1
exit "$status"
