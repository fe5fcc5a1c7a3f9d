# Sourced by the jobs, with the extras that they need beyond MPI ("dev", or nothing): a Python with all that fedhpc
# imports. It is made once, in FEDHPC_VENV; later calls only look at its stamps. Sets fedhpc_python and PATH.
#
#   FEDHPC_VENV          the environment's folder, by default .venv (on aarch64 .venv-aarch64)
#   FEDHPC_PYTHON        the Python (3.11 or newer) to build on, where it is not found by itself
#   FEDHPC_ENVIRONMENT   unset: everything from pip, MPI included
#                        site:  what the Python already has (a cluster's torch, mpi4py, ...) is used, the rest is added
#                        none:  the Python is used as it is

source "$(dirname "${BASH_SOURCE[0]}")/environment_folder.sh"

_fedhpc_say() { printf '%s\n' "$*" >&2; }

_fedhpc_is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

_fedhpc_find_python() {
    local candidate
    if [[ -n "${FEDHPC_PYTHON:-}" ]]; then
        command -v "$FEDHPC_PYTHON" >/dev/null || { _fedhpc_say "FEDHPC_PYTHON: there is no $FEDHPC_PYTHON."; return 1; }
        _fedhpc_is_new_enough "$FEDHPC_PYTHON" ||
            { _fedhpc_say "FEDHPC_PYTHON: $FEDHPC_PYTHON is older than Python 3.11, which fedhpc needs."; return 1; }
        command -v "$FEDHPC_PYTHON"
        return
    fi
    # Not the environment's own Python, where that is active: an environment is not built on itself.
    local PATH=":$PATH:"
    PATH="${PATH//":$1/bin:"/:}"
    for candidate in python3 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && _fedhpc_is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    _fedhpc_say "fedhpc needs Python 3.11 or newer and found none; install one, or name it in FEDHPC_PYTHON."
    return 1
}

# Modules of $2... that the Python $1 cannot import, in one line.
_fedhpc_missing() {
    local python="$1"
    shift
    "$python" - "$@" 2>/dev/null <<'PYTHON'
import importlib
import sys

def lacks(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return True
    return False

print(", ".join(filter(lacks, sys.argv[1:])))
PYTHON
}

# The constraints without the packages that the Python $1 already has: those are used as they are.
_fedhpc_site_constraints() {
    "$1" - "$2" <<'PYTHON'
import re
import sys
from importlib.metadata import distributions

def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()

present = {plain(found.metadata["Name"]) for found in distributions() if found.metadata["Name"]}
for line in open(sys.argv[1]):
    if plain(line.partition("==")[0].strip()) not in present:
        print(line, end="")
PYTHON
}

# One installation at a time: a symbolic link appears whole or not, and names its owner.
_fedhpc_lock() {
    local link="$1" me owner told=""
    me="$(hostname):$$"
    until ln -s "$me" "$link" 2>/dev/null; do
        owner="$(readlink "$link")" || continue
        if [[ "${owner%:*}" == "$(hostname)" ]] && ! kill -0 "${owner##*:}" 2>/dev/null; then
            # Moved aside under a name of its own, so that of several that find it stale one removes it.
            mv -T "$link" "$link.$$" 2>/dev/null && rm -f "$link.$$"
            continue
        fi
        [[ -n "$told" ]] || _fedhpc_say "Waiting for an installation by process ${owner##*:} on ${owner%:*}" \
            "(if it is gone, remove $link) ..."
        told=yes
        sleep 1
    done
}

_fedhpc_install() {
    local home="$1" venv="$2" python="$3" extras="$4" stamp="$5" base="$6" mode="$7"
    local log="$venv/pip.log" constraints="$home/constraints.txt" status ticker started=$SECONDS
    local version package patience=(env)
    # Where the internet cannot be reached, as from most compute nodes, pip is not to try for many minutes. By variables,
    # since it starts others of itself.
    [[ -n "${SLURM_JOB_ID:-}" ]] && patience=(env PIP_RETRIES=1 PIP_TIMEOUT=10)
    if [[ -e "$venv/installing" || "$(cat "$venv/base" 2>/dev/null)" != "$base" ]]; then
        rm -rf "$venv"
    fi
    if [[ ! -x "$venv/bin/python" ]]; then
        if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            version="$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')"
            package="$version-venv"
            [[ "$python" == /usr/bin/python3 ]] && package=python3-venv
            _fedhpc_say "$python cannot make an environment: install its package with 'apt-get install $package'."
            return 1
        fi
        mkdir -p "$venv" && touch "$venv/installing"
        "$python" -m venv $([[ "$mode" == site ]] && printf %s --system-site-packages) "$venv" >"$log" 2>&1 ||
            { tail -n 5 "$log" >&2; _fedhpc_say "$python could not make $venv."; return 1; }
        printf '%s\n' "$base" >"$venv/base"
    fi
    touch "$venv/installing"
    if [[ "$mode" == site ]]; then
        # An environment made on another one sees only the Python beneath both; this names the packages between.
        "$python" -c 'import sys; sys.prefix != sys.base_prefix and print(*(p for p in sys.path if "-packages" in p), sep="\n")' \
            >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/site_environment.pth"
        _fedhpc_site_constraints "$python" "$constraints" >"$venv/constraints.txt"
        constraints="$venv/constraints.txt"
    fi
    _fedhpc_say "Installing fedhpc's environment in ${venv#"$home/"}: a few minutes the first time" \
        "(pip's log: ${log#"$home/"}) ..."
    while sleep 20 && kill -0 $$ 2>/dev/null; do
        _fedhpc_say "  $((SECONDS - started)) s: $(grep -oE '(Collecting|Downloading|Building) [^ ]+|Installing collected packages' "$log" | tail -n 1)"
    done &
    ticker=$!
    # pip dies with this shell (prctl's PR_SET_PDEATHSIG), so that it never writes where the next one installs.
    "${patience[@]}" "$venv/bin/python" -c 'import ctypes, runpy; ctypes.CDLL(None).prctl(1, 9); runpy.run_module("pip", run_name="__main__", alter_sys=True)' \
        install --disable-pip-version-check --no-input --progress-bar off \
        --constraint "$constraints" --editable "$home${extras:+[$extras]}" >>"$log" 2>&1
    status=$?
    kill "$ticker" 2>/dev/null
    wait "$ticker" 2>/dev/null
    if ((status)); then
        tail -n 15 "$log" >&2
        if [[ -n "${SLURM_JOB_ID:-}" ]]; then
            _fedhpc_say "The installation failed on $(hostname); the lines above are the end of $log. Where compute nodes" \
                "do not reach the internet, 'bash jobs/prepare.sh' on the login node makes the environment."
        else
            _fedhpc_say "The installation failed; the lines above are the end of $log. The same command tries again."
        fi
        return 1
    fi
    printf '%s\n' "$stamp" >"$venv/installed-${extras:-bare}"
    rm -f "$venv/installing"
    _fedhpc_say "Installed in $((SECONDS - started)) s."
}

_fedhpc_environment() {
    local home="$1" wanted="$2" mode="${FEDHPC_ENVIRONMENT:-pip}" venv python extras base stamp missing installed status
    venv="$(fedhpc_environment_folder "$home")"
    python="$(_fedhpc_find_python "$([[ "$mode" == none ]] || printf %s "$venv")")" || return 1
    case "$mode" in
    none)
        export PYTHONPATH="$home${PYTHONPATH:+:$PYTHONPATH}"
        missing="$(_fedhpc_missing "$python" workflow fedhpc mpi4py torch parsl h5py xarray pydantic typer rich \
            ${wanted:+pytest})"
        if [[ -n "$missing" ]]; then
            _fedhpc_say "FEDHPC_ENVIRONMENT=none takes $python as it is, and it cannot import $missing:" \
                "install that, or let FEDHPC_ENVIRONMENT=site add it."
            return 1
        fi
        ;;
    pip | site)
        extras=mpich
        if [[ "$mode" == site && -z "$(_fedhpc_missing "$python" mpi4py)" ]]; then
            extras=""
        fi
        [[ -n "$wanted" ]] && extras="${extras:+$extras,}$wanted"
        base="$mode $home $("$python" -c 'import sys; print(sys.version_info[:3], sys.base_prefix, sys.prefix)')"
        stamp="$(cat "$home/constraints.txt" "$home/setup.cfg" "$home/pyproject.toml" | sha256sum)"
        _fedhpc_ready() {
            [[ ! -e "$venv/installing" && "$(cat "$venv/base" 2>/dev/null)" == "$base" ]] || return 1
            for installed in "${extras:-bare}" "${extras:+$extras,}dev"; do
                [[ "$(cat "$venv/installed-$installed" 2>/dev/null)" == "$stamp" ]] && return
            done
            return 1
        }
        if ! _fedhpc_ready; then
            mkdir -p "$(dirname "$venv")"
            _fedhpc_lock "$venv.lock"
            trap "rm -f '$venv.lock'" EXIT
            trap 'exit 130' INT TERM
            status=0
            _fedhpc_ready || _fedhpc_install "$home" "$venv" "$python" "$extras" "$stamp" "$base" "$mode" || status=1
            rm -f "$venv.lock"
            trap - EXIT INT TERM
            ((status == 0)) || return 1
        fi
        python="$venv/bin/python"
        ;;
    *)
        _fedhpc_say "FEDHPC_ENVIRONMENT: '$mode' is unknown; leave it unset, or say site or none."
        return 1
        ;;
    esac
    fedhpc_python="$python"
    export PATH="$(dirname "$python"):$PATH"
}

_fedhpc_environment "$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)" "${1:-}"
