#!/usr/bin/env bash
# The demo on one machine: a virtual cluster that is not set up is checked, configured and tested. `make demo` runs it;
# it needs root. Vendor tools and torch_npu in the lab are stand-ins, and say so.
set -uo pipefail

lab=${LAB_DIR:-.lab}
inventory=$lab/hosts.toml

bold='' plain=''
[ -t 1 ] && bold=$'\033[1m' plain=$'\033[0m'
step() { printf '\n%s== %s%s\n' "$bold" "$1" "$plain"; }
run() { printf '$ preflight %s\n' "$*"; preflight "$@"; }
expect() { # expect CODE: the last command must have ended with it
    local code=$?
    if [ "$code" != "$1" ]; then echo "demo: expected exit code $1, got $code" >&2; exit 1; fi
}
trap 'step "clean up"; run lab down --dir "$lab"' EXIT

step "start a cluster in a box: 2 hosts x 8 devices, not set up"
run lab up --hosts 2 --devices 8 --product atlas-a1 --dir "$lab"; expect 0

step "check it: everything that has to be set up fails"
run check --inventory "$inventory"; expect 1

step "show the necessary changes"
run configure --inventory "$inventory" --dry-run; expect 0

step "make them"
run configure --inventory "$inventory" -y; expect 0

step "test it: 16 ranks over the device NICs"
run check --inventory "$inventory" --save demo-report.json; expect 0
echo "the report is in demo-report.json"

step "slow down one switch port, and find it"
run lab break slow-link --host node02 --device 3 --dir "$lab"; expect 0
run check --inventory "$inventory"; expect 1

step "next"
echo "More faults to try: docs/lab.md. Your own cluster: README.md, docs/guides/."
