#!/usr/bin/env bash
# MindSpore on Ascend 910: write the rank table from what the devices have, and
# start the job that reads it.
# From where ssh reaches all servers:    bash mindspore-rank-table.sh train.py
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 PROGRAM [ARGUMENT ...]" >&2; exit 2; }
trap 'echo "STOPPED with exit code $?: $BASH_COMMAND" >&2' ERR

inventory=hosts.toml
table=/etc/hccl/rank_table.json    # on every server; a file: HCCL takes no link

# Ports and firewall; and the devices' addresses, if the inventory plans them. What
# is so already is left alone.
preflight configure --inventory "$inventory" --yes

# Two devices with one address, a link that is down: named here. A table of such
# devices would be refused, or hang.
preflight check --inventory "$inventory" --idle

# Ranks count on over all servers, in the order that MindSpore wants. The bytes are
# read back from every server.
preflight ranktable --inventory "$inventory" --push "$table" --yes

# A process a device, told RANK_TABLE_FILE, RANK_SIZE, RANK_ID, DEVICE_ID. HCCL's
# 120 s may be short for compiling.
preflight launch --inventory "$inventory" --launcher shell --rank-table "$table" \
    --env HCCL_CONNECT_TIMEOUT=1200 -o scripts --dir start --force -- "$@"

# On all servers at once. It ends when all have ended, with the code of one that
# failed.
job=() failed=0
for script in start/*.sh; do
    host=$(basename "$script" .sh)
    ssh "$host" bash -s < "$script" & job+=($!)
done
for part in "${job[@]}"; do wait "$part" || failed=$?; done
[ "$failed" = 0 ] || { echo "FAIL: the job; next: preflight diagnose --fetch -i $inventory" >&2; exit "$failed"; }

echo "PASS: the servers are proven, have one rank table, and the job ended well"
