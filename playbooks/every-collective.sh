#!/usr/bin/env bash
# Every collective of torch.distributed over all devices, with each rendezvous
# method of init_process_group.
# The hosts have to be yours and idle:    bash every-collective.sh
set -euo pipefail
trap 'echo "STOPPED with exit code $?: $BASH_COMMAND" >&2' ERR

inventory=hosts.toml    # with [probe] python, and shared_dir: a folder that all hosts share
sizes=8,1M,16M          # bytes to time; every type and form is also compared in small tensors

for init in env tcp file; do    # MASTER_ADDR and MASTER_PORT, tcp://ADDRESS:PORT, file://SHARED_DIR/…
    echo "== init_process_group by $init"
    preflight probe --inventory "$inventory" --idle --init "$init" --scope all --sizes "$sizes" --all
done

echo "PASS: every collective returned exact values, with every rendezvous method"
