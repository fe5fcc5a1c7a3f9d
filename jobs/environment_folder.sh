# Sourced by the jobs: where the repository's environment lies. One checkout serves several kinds of nodes.

# FEDHPC_VENV, within the repository $1 or anywhere; by default .venv, on other processors than x86_64 .venv-aarch64, say.
fedhpc_environment_folder() {
    local machine name
    machine="$(uname -m)"
    name=".venv-$machine"
    [[ "$machine" == x86_64 ]] && name=.venv
    name="${FEDHPC_VENV:-$name}"
    [[ "$name" == /* ]] || name="$1/$name"
    printf '%s\n' "$name"
}
