# Sourced by the jobs before there is a Python: which site is meant, and its `setup`.
#
#   fedhpc_site_of ARGUMENTS...   the site that a command line names: --site NAME, else FEDHPC_SITE, else local
#   fedhpc_site_file HOME SITE    its file; nothing for a local site without one
#   fedhpc_site_text FILE         its setup, as YAML reads it
#   fedhpc_node_local FILE        its slurm.node_local, as YAML reads it; nothing where it says none
#   fedhpc_set_up HOME SITE       runs the setup in this shell; where that fails, says at what, and ends the job with 2.
#                                 To be called on a line of its own: behind || or if, bash tells of no failure within

fedhpc_site_of() {
    local site="${FEDHPC_SITE:-local}"
    while (($#)); do
        case "$1" in
        --site) site="${2:-}" && shift ;;
        --site=*) site="${1#--site=}" ;;
        esac
        shift || break
    done
    printf '%s\n' "$site"
}

fedhpc_site_file() {
    local file="$2"
    [[ "$2" == */* || "$2" == *.yaml || "$2" == *.yml ]] || file="$1/configs/sites/$2.yaml"
    if [[ -f "$file" ]]; then
        printf '%s\n' "$file"
    elif [[ "$2" != local ]]; then
        printf '%s\n' "site: there is no '$2'; name one of $1/configs/sites, or the path of a file" >&2
        return 1
    fi
}

# A literal block at the left margin is all that is read here; what else YAML allows is refused in words.
fedhpc_site_text() {
    awk '
        inside && /^ *$/ { blank = blank substr($0, width + 1) "\n"; next }
        inside {
            match($0, /^ */)
            if (width == 0) width = RLENGTH
            if (RLENGTH < width || RLENGTH == 0) { inside = 0; blank = "" }
            else { printf "%s%s\n", blank, substr($0, width + 1); blank = ""; next }
        }
        /^setup:[ ]*[|][ ]*(#.*)?$/ { inside = 1; width = 0; blank = ""; next }
        /^["'\'']?setup["'\'']?[ ]*:/ && !/^setup:[ ]*(""|'\'\'')?[ ]*(#.*)?$/ { other = 1 }
        END {
            if (other) { print "setup: write it as a block of lines that begins with \"setup: |\"" > "/dev/stderr"; exit 1 }
        }
    ' "$1"
}

fedhpc_node_local() {
    awk '
        /^[^ #]/ { inside = /^slurm:/ }
        inside && /^ +node_local:/ {
            sub(/^ +node_local: */, ""); sub(/(^| +)#.*$/, ""); sub(/ +$/, "")
            if (/^".*"$/ || /^'\''.*'\''$/) $0 = substr($0, 2, length($0) - 2)
            if ($0 != "null" && $0 != "~" && $0 != "") print
        }
    ' "$1"
}

fedhpc_set_up() {
    local file text
    file="$(fedhpc_site_file "$1" "$2")" || exit 2
    [[ -n "$file" ]] || return 0
    text="$(fedhpc_site_text "$file")" || exit 2
    [[ -n "$text" ]] || return 0
    if [[ "$text" == *module\ * ]] && ! command -v module >/dev/null; then
        # A job's shell is no login shell, in which the system defines it.
        for file in "${MODULESHOME:-}/init/bash" /etc/profile.d/{z00_lmod,lmod,modules}.sh; do
            [[ -f "$file" ]] && source "$file" && break
        done
    fi
    _fedhpc_failed=""
    trap '_fedhpc_failed="${_fedhpc_failed:-$BASH_COMMAND}"' ERR
    trap 'printf "%s\n" "setup of the site '"'$2'"' ended the job on $(hostname): there is an exit in it." >&2; exit 2' EXIT
    eval "$text"
    trap - ERR EXIT
    [[ -z "$_fedhpc_failed" ]] || {
        printf '%s\n' "setup of the site '$2' failed on $(hostname) at: $_fedhpc_failed" >&2
        exit 2
    }
}
