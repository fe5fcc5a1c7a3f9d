#!/usr/bin/env bash
# All that needs the internet, on the login node: bash jobs/prepare.sh [--site SITE] [EXPERIMENT...]
# makes the environment (and, where the site has a slurm.node_local, the tar of it that nodes unpack), checks that each
# experiment and its data are there, and says what to type next. Given again, it does what is still to be done.

home="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
source "$home/jobs/site_setup.sh"
site="$(fedhpc_site_of "$@")"
experiments=()
while (($#)); do
    case "$1" in
    --site) shift ;;
    --site=*) ;;
    -*)
        echo "prepare.sh: $1 is unknown; it takes --site SITE and experiments' files." >&2
        exit 2
        ;;
    *) experiments+=("$1") ;;
    esac
    shift
done
fedhpc_set_up "$home" "$site"
source "$home/jobs/environment.sh" "" || exit 2

# Written beside the one that nodes may be reading, and put in its place whole.
pack() {
    local venv="$1" started=$SECONDS installed newer=""
    for installed in "$venv"/pyvenv.cfg "$venv"/installed-*; do
        [[ "$installed" -nt "$venv.tar" ]] && newer=yes
    done
    [[ -n "$newer" ]] || return 0
    tar -cf "$venv.tar.tmp.$$" -C "$venv" . && mv -T "$venv.tar.tmp.$$" "$venv.tar" || {
        rm -f "$venv.tar.tmp.$$"
        echo "$venv could not be packed as $venv.tar for slurm.node_local." >&2
        return 1
    }
    echo "Packed $venv.tar for the nodes' own disks ($(du -h "$venv.tar" | cut -f 1), $((SECONDS - started)) s)."
}

file="$(fedhpc_site_file "$home" "$site")"
if [[ -n "$file" && -n "$(fedhpc_node_local "$file")" ]]; then
    venv="$(dirname "$(dirname "$fedhpc_python")")"
    if [[ -f "$venv/pyvenv.cfg" ]]; then
        pack "$venv" || exit 2
    else
        echo "slurm.node_local: $fedhpc_python is of no virtual environment, so that nodes use it where it is."
    fi
fi

status=0
for experiment in "${experiments[@]}"; do
    "$fedhpc_python" -m workflow plan "$experiment" --site "$site" || status=2
done
((status == 0)) || exit "$status"

experiment="${experiments[0]:-EXPERIMENT}"
if [[ -n "$file" ]] && grep -q '^slurm:' "$file"; then
    [[ "${FEDHPC_ENVIRONMENT:-pip}" == none ]] || echo "Next:  source $(dirname "$fedhpc_python")/activate"
    echo "Next:  fedhpc site check --site $site"
    echo "then:  fedhpc submit $experiment --site $site"
else
    echo "Next:  bash jobs/sweep.sh $experiment --site $site"
fi
