#!/usr/bin/env bash
# Every collective of torch.distributed over all devices, by each way in which
# init_process_group lets ranks meet.
# The hosts have to be yours and idle:    bash every-collective.sh
set -euo pipefail
trap 'echo "STOPPED with exit code $?: $BASH_COMMAND" >&2' ERR

inventory=hosts.toml    # [probe] names python, and shared_dir: a folder that is the same one on all hosts
sizes=8,1M,16M          # bytes that are timed; every type and form is compared in small tensors, too

for init in env tcp file; do    # MASTER_ADDR and MASTER_PORT, tcp://ADDRESS:PORT, file://SHARED_DIR/…
    echo "== init_process_group by $init"
    preflight probe --inventory "$inventory" --idle --init "$init" --scope all --sizes "$sizes"
done

echo "PASS: every collective brought exact values, however the ranks met"
