#!/bin/sh
# preflight-gate @VERSION@; preflight gate install puts it here
#
# Slurm drains a node whose Prolog fails, for whatever reason it failed. So this front ends with 0 whatever becomes of
# the program behind it. It ends with 1 only where the program says "closed" twice: by its exit code and by its last
# line. Everything else opens the node and is logged.

PROGRAM=/usr/local/lib/preflight/gate
FOLDER=/var/lib/preflight
SETTINGS=/etc/preflight/controller.json
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# Asked manually, by another scheduler, by monitoring or by an ssh key: the exit code says more than open or closed.
if [ "$#" -gt 0 ] || [ -z "${SLURM_SCRIPT_CONTEXT-}${SLURMD_NODENAME-}" ]; then
    exec "$PROGRAM" "$@"
fi

trap 'exit 0' EXIT  # also where this shell cannot fork, or cannot read on
trap '' PIPE
set +eu

case ${SLURM_SCRIPT_CONTEXT:-health} in
prolog_slurmd) role=prolog ;;
prolog_task) role=task ;;
prolog_slurmctld) role=controller ;;
epilog_slurmd) role=epilog ;;
*) role=health ;;
esac

limit=9  # seconds; the program itself ends after 8
if [ "$role" = controller ]; then
    seconds=$(sed -n 's/.*"seconds" *: *\([1-9][0-9]\{0,3\}\).*/\1/p' "$SETTINGS" 2>/dev/null)
    case $seconds in '' | *[!0-9]*) seconds=60 ;; esac
    limit=$((seconds + 45))
fi

# Log in the background: neither a hung system log nor a hung disk holds the job up for more than a second.
note() {
    logger -t preflight-gate -p daemon.err "$role: $1"
    log=$FOLDER/gate.jsonl
    if [ -d "$FOLDER" ] && [ ! -L "$log" ] && { [ -f "$log" ] || [ ! -e "$log" ]; }; then
        size=$(wc -c <"$log" 2>/dev/null)
        case ${SLURM_JOB_ID-} in *[!0-9]*) job= ;; *) job=${SLURM_JOB_ID-} ;; esac
        umask 077
        [ "${size:-0}" -lt 2097152 ] && printf '{"context": "%s", "job": "%s", "slurm": "%s", "time": %s}\n' \
            "$role" "$job" "$1" "$(date +%s)" >>"$log"
    fi
}

opened() {
    note "the node stays open: $1; preflight gate install" </dev/null >/dev/null 2>&1 &
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 "$!" 2>/dev/null || break
        sleep 0.1
    done
    exit 0
}

command -v timeout >/dev/null || opened "timeout (coreutils) is not installed"
# On a node the program has its own process group, so that nothing that it ends or that ends it reaches this shell. On the
# controller it stays in this one, and ends with it where slurmctld ends the script. The outer timeout does not wait for
# a program that even KILL does not end, as in a file system that hangs.
group=
[ "$role" = controller ] && group=--foreground
late=$((limit + 1))

bounded() {
    timeout --foreground -s KILL "$late" "$@"
}

# dd passes on what it has read also where it is ended: a process left behind may hold the program's output open.
answer=$(
    echo
    {
        # shellcheck disable=SC2086  # a word or none
        bounded timeout $group -s KILL "$limit" "$PROGRAM" </dev/null 2>&1
        echo "$?"
    } | bounded dd bs=2000 count=20 2>/dev/null
)

case $role:$answer in
*"
preflight-gate: open
0")
    code=0
    ;;
prolog:*"
preflight-gate: closed
1" | task:*"
preflight-gate: closed
1" | controller:*"
preflight-gate: closed
1")
    code=1
    ;;
*) code= ;;
esac

if [ -n "$code" ]; then
    answer=${answer%preflight-gate: *}
    # Slurm reads what a TaskProlog prints, and slurmd logs what the others do.
    if [ "$role" = task ]; then printf '%s' "${answer#?}"; else printf '%s' "${answer#?}" >&2; fi
    trap - EXIT
    exit "$code"
fi

printf '%s\n' "$answer" | tr -cd '[:print:]\n' >&2
code=${answer##*[!0-9]}
case $code in
126 | 127) opened "$PROGRAM does not start (exit code $code)" ;;
124 | 137) opened "$PROGRAM was killed, or ran for more than $limit s" ;;
*) opened "$PROGRAM gave no answer (exit code ${code:-unknown})" ;;
esac
