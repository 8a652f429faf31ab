#!/usr/bin/env bash
# MindSpore on Ascend 910: write the rank table from the devices' addresses, and
# start the job that reads it.
# From where ssh reaches all servers:    bash mindspore-rank-table.sh train.py
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 PROGRAM [ARGUMENT ...]" >&2; exit 2; }
trap 'echo "STOPPED with exit code $?: $BASH_COMMAND" >&2' ERR

inventory=hosts.toml
table=/etc/hccl/rank_table.json    # on every server; HCCL does not accept a link

# Set ports, firewall, and the devices' addresses, if the inventory plans them.
# Correct settings are not touched.
preflight configure --inventory "$inventory" --yes

# Find two devices with one address, or a link that is down: HCCL would refuse a
# table of such devices, or hang.
preflight check --inventory "$inventory" --idle

# Number the ranks over all servers, in the order that MindSpore needs. The table is
# read back from every server.
preflight ranktable --inventory "$inventory" --push "$table" --yes

# One process a device, with RANK_TABLE_FILE, RANK_SIZE, RANK_ID and DEVICE_ID.
# HCCL's 120 s timeout may be too short for compilation.
preflight launch --inventory "$inventory" --launcher shell --rank-table "$table" \
    --env HCCL_CONNECT_TIMEOUT=1200 -o scripts --dir start --force -- "$@"

# Start on all servers at once. This ends when all have ended, with the code of one
# that failed.
job=() failed=0
for script in start/*.sh; do
    host=$(basename "$script" .sh)
    ssh "$host" bash -s < "$script" & job+=($!)
done
for part in "${job[@]}"; do wait "$part" || failed=$?; done
[ "$failed" = 0 ] || { echo "FAIL: the job; next: preflight diagnose --fetch -i $inventory" >&2; exit "$failed"; }

echo "PASS: the servers are healthy, have one rank table, and the job ended without error"
