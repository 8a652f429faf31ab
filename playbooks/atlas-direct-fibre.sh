#!/usr/bin/env bash
# Two Atlas servers joined by fibre, device by device: set addresses and firewall,
# test every fibre, start one job on both.
# From where ssh reaches both:    bash atlas-direct-fibre.sh main.py
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 PROGRAM [ARGUMENT ...]" >&2; exit 2; }
trap 'echo "STOPPED with exit code $?: $BASH_COMMAND" >&2' ERR

inventory=hosts.toml    # begin with examples/two-servers-direct.toml: fabric = "direct"
launcher=torch.distributed.launch

# Set device addresses (partners share a subnet), ports, and a firewall that lets the
# other server in, and stays on.
preflight configure --inventory "$inventory" --yes

# Compare the settings of both servers, ping along each fibre, and run every
# collective.
preflight check --inventory "$inventory" --idle

# Write one script a server. HCCL_IF_IP and node_rank differ, the master is the same
# on both.
preflight launch --inventory "$inventory" --launcher "$launcher" --env HCCL_CONNECT_TIMEOUT=1200 \
    -o scripts --dir start --force -- "$@"

# Start both at once. This ends when both have ended, with the code of one that failed.
job=() failed=0
for script in start/*.sh; do
    host=$(basename "$script" .sh)
    ssh "$host" bash -s < "$script" & job+=($!)
done
for part in "${job[@]}"; do wait "$part" || failed=$?; done
[ "$failed" = 0 ] || { echo "FAIL: the job; next: preflight diagnose --fetch -i $inventory" >&2; exit "$failed"; }

echo "PASS: both servers and all fibres are healthy, and the job ended without error"
