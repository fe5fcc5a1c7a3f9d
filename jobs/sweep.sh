#!/usr/bin/env bash
# A sweep: bash jobs/sweep.sh [EXPERIMENT] [options of fedhpc sweep], or the same with sbatch.
# Without an experiment it runs configs/experiments/quickstart.yaml. Started again it goes on where it was.
#
# What Slurm gives the job; on the command line, `sbatch --cpus-per-task=64 jobs/sweep.sh ...` overrides it.
#SBATCH --job-name=fedhpc
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --output=fedhpc-%j.log
# Slurm asks the job to end a minute early, so that the sweep can stop in order.
#SBATCH --signal=B:TERM@60

# Slurm runs a copy of this file from a folder of its own; the repository is then where the job was submitted.
for home in "${FEDHPC_HOME:-}" "$(dirname "${BASH_SOURCE[0]}")/.." "${SLURM_SUBMIT_DIR:-}" "${SLURM_SUBMIT_DIR:-}/.."; do
    [[ -n "$home" && -f "$home/jobs/environment.sh" ]] && break
    home=""
done
if [[ -z "$home" ]]; then
    echo "The repository of fedhpc is not here: submit from it, or name it in FEDHPC_HOME." >&2
    exit 2
fi
home="$(cd "$home" && pwd)"
source "$home/jobs/environment.sh" "" || exit 2

if [[ $# -eq 0 || "$1" == -* ]]; then
    set -- "$home/configs/experiments/quickstart.yaml" "$@"
fi
export PYTHONUNBUFFERED=1
exec "$fedhpc_python" -m workflow sweep "$@"
