#!/usr/bin/env bash
# A sweep: bash jobs/sweep.sh [EXPERIMENT] [options of fedhpc sweep], or the same with sbatch.
# Without an experiment it runs configs/experiments/quickstart.yaml. Started again it goes on where it was.
# With --chain N it submits itself N times instead, each job going on where the one before came to its time limit.
#
# What Slurm gives the job; on the command line, `sbatch --cpus-per-task=64 jobs/sweep.sh ...` overrides it.
#SBATCH --job-name=fedhpc
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --output=fedhpc-%j.log
#SBATCH --open-mode=append
# Slurm asks the job to end a minute early, so that the sweep can stop in order.
#SBATCH --signal=B:TERM@60
# A preempted job waits for its turn again; a job that loses one of its nodes goes on with the others.
#SBATCH --requeue
#SBATCH --no-kill

# Slurm runs a copy of this file from a folder of its own; the repository is then where the job begins (--chdir), or
# where it was submitted.
for home in "${FEDHPC_HOME:-}" "$(dirname "${BASH_SOURCE[0]}")/.." "$PWD" "${SLURM_SUBMIT_DIR:-}" "${SLURM_SUBMIT_DIR:-}/.."; do
    [[ -n "$home" && -f "$home/jobs/environment.sh" ]] && break
    home=""
done
if [[ -z "$home" ]]; then
    echo "The repository of fedhpc is not here: submit from it, or name it in FEDHPC_HOME." >&2
    exit 2
fi
home="$(cd "$home" && pwd)"
source "$home/jobs/site_setup.sh"
fedhpc_set_up "$home" "$(fedhpc_site_of "$@")"
source "$home/jobs/environment.sh" "" || exit 2

command=sweep experiment="" value_follows=""
for word in "$@"; do
    if [[ -n "$value_follows" ]]; then
        value_follows=""
        continue
    fi
    case "$word" in
    --chain | --chain=*) command=submit ;;&
    --chain | --site | --output) value_follows=yes ;;
    -*) ;;
    *) experiment="$word" ;;
    esac
done
[[ -n "$experiment" ]] || set -- "$home/configs/experiments/quickstart.yaml" "$@"
export PYTHONUNBUFFERED=1
exec "$fedhpc_python" -m workflow "$command" "$@"
