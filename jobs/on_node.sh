#!/usr/bin/env bash
# fedhpc's Python on a compute node: bash jobs/on_node.sh SITE [PYTHON] ARGUMENTS...
# runs the site's setup, then the environment's Python with the arguments. PYTHON is that of the sweep that starts this;
# where it is the repository's own environment, or not said, that of this kind of node is taken.
#
# Nothing is installed here. With slurm.node_local, the environment's tar is unpacked once on each node, and used from there:
# hundreds of ranks that import torch at once would wait for the shared file system.

home="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
source "$home/jobs/site_setup.sh"
say() { printf '%s\n' "$*" >&2; }

if (($# < 2)); then
    say "on_node.sh: give the site, then Python's arguments: bash jobs/on_node.sh local -m workflow status results/mine"
    exit 2
fi
site="$1"
shift
python=""
[[ "$1" == -* ]] || { python="$1" && shift; }
fedhpc_set_up "$home" "$site"

source "$home/jobs/environment_folder.sh"
venv="$(fedhpc_environment_folder "$home")"
if [[ -z "$python" && "${FEDHPC_ENVIRONMENT:-}" == none ]]; then
    python="$(command -v "${FEDHPC_PYTHON:-python3}")"
elif [[ -z "$python" || "$python" == "$home"/.venv*/bin/* ]]; then
    python="$venv/bin/python"
fi
if [[ ! -x "$python" ]]; then
    say "There is no ${python:-Python} on $(hostname): on the login node, 'bash jobs/prepare.sh --site $site' makes it."
    exit 2
fi
venv="$(dirname "$(dirname "$python")")"

# Prints the folder of the environment's copy; nothing, after a sentence, where there is none.
copied() {
    local folder tar="$venv.tar" stamp copy installed
    if ! folder="$(set -u && eval "printf '%s\n' \"$1\"")" || [[ "$folder" != /* ]]; then
        say "warning: $(hostname) uses the shared $venv: slurm.node_local is '$1', which is no folder there."
        return
    fi
    if [[ ! -f "$tar" ]]; then
        say "warning: $(hostname) uses the shared $venv: there is no $tar; 'bash jobs/prepare.sh --site $site' makes it."
        return
    fi
    for installed in "$venv"/installed-*; do
        if [[ "$installed" -nt "$tar" ]]; then
            say "warning: $(hostname) uses the shared $venv: $tar is older; 'bash jobs/prepare.sh --site $site' renews it."
            return
        fi
    done
    stamp="$(stat --printf '%n %s %Y' "$tar" | sha256sum)"
    copy="$folder/fedhpc-${stamp:0:12}"
    if [[ ! -d "$copy" ]]; then
        # The disk is this node's own, so that its locks can be trusted; who waits finds the copy made.
        if ! mkdir -p "$folder" || ! (
            flock 9 || exit 1
            [[ -d "$copy" ]] && exit 0
            rm -rf "$copy".tmp.*
            mkdir "$copy.tmp.$$" && tar -xf "$tar" -C "$copy.tmp.$$" && mv -T "$copy.tmp.$$" "$copy" && exit 0
            rm -rf "$copy.tmp.$$"
            exit 1
        ) 9>"$copy.lock"; then
            say "warning: $(hostname) uses the shared $venv: it could not be copied to $folder (slurm.node_local)."
            return
        fi
    fi
    printf '%s\n' "$copy"
}

file="$(fedhpc_site_file "$home" "$site")"
node_local="$([[ -z "$file" ]] || fedhpc_node_local "$file")"
if [[ -n "$node_local" ]]; then
    copy="$(copied "$node_local")"
    [[ -z "$copy" ]] || python="$copy/bin/python"
fi
export PATH="$(dirname "$python"):$PATH"
export PYTHONPATH="$home${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONUNBUFFERED=1

# Slurm asks every process of a job to end at once. Workers that have a run let it write a checkpoint; a pool that died
# meanwhile would take them with it, so that it is deaf, and ends here when no run of it is left.
export FEDHPC_POOL="$(hostname):$$:$RANDOM"
(trap '' TERM && exec "$python" "$@") &
pool=$!
ours() { grep -lzsxF "FEDHPC_POOL=$FEDHPC_POOL" /proc/[0-9]*/environ; }
runs() { ours | xargs -r grep -lzsx 'FEDHPC_RUN=.*'; }
workers() { ours | xargs -r grep -LzsxE 'FEDHPC_RUN=.*'; }
# The signal before a time limit (--signal) comes to this process group only: workers, which are in the pool's, are told
# here, and tell their ranks. An interrupted run is given to the next free worker, which may be the same: only those that
# run now are waited for. All go with the pool, as deaf as it: while one is there, nobody else gets the node.
end_pool() {
    local process now
    now="$(runs)"
    kill -TERM $(workers | cut -d/ -f3) 2>/dev/null
    for process in $now; do
        while grep -qzsx 'FEDHPC_RUN=.*' "$process"; do sleep 0.2; done
    done
    # Python's resource trackers end by themselves, once they have removed what the others left.
    for process in $(ours); do
        grep -qs resource_tracker "${process%environ}cmdline" || kill -KILL "$(cut -d/ -f3 <<<"$process")" 2>/dev/null
    done
    sleep 0.5
}
trap end_pool TERM
status=0
while kill -0 "$pool" 2>/dev/null; do
    wait "$pool"
    status=$?
done

# With --no-kill a job outlives the node of its batch script, in which the sweep was, and would hold the other nodes to its
# time limit. Their pools end where they hear no more of the sweep; Slurm is then asked to begin the job anew.
first_is_lost() {
    read -r first nodes < <(squeue --noheader --states=RUNNING --jobs="$SLURM_JOB_ID" --format='%B %N' 2>/dev/null)
    [[ -n "$nodes" ]] && ! scontrol show hostnames "$nodes" | grep -qxF "$first"
}
if [[ -n "${SLURM_JOB_ID:-}" ]] && first_is_lost; then
    say "The job's first node, $first, is lost and the sweep with it: the job waits for its turn again."
    # Refused where the job may not be requeued, which ends it then, and where another node's pool has just asked.
    scontrol requeue "$SLURM_JOB_ID" || { first_is_lost && scancel "$SLURM_JOB_ID"; }
fi
exit "$status"
