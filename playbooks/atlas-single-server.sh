#!/usr/bin/env bash
# One Atlas server, PyTorch: reserve HCCL's ports, test every NPU, start the job on
# all of them.
# On the server, as root:    bash atlas-single-server.sh train.py --epochs 3
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 PROGRAM [ARGUMENT ...]" >&2; exit 2; }
trap 'echo "STOPPED with exit code $?: $BASH_COMMAND" >&2' ERR

inventory=hosts.toml    # begin with examples/single-server.toml
launcher=torchrun       # or torch.distributed.launch, shell, spawn, torch_npu_run

# Reserve the ports of HCCL and of the job, now and after a boot. Correct settings
# are not touched.
preflight configure --inventory "$inventory" --yes

# Check settings and devices, and run every collective. A fault shows here, before a
# job can hang on it.
preflight check --inventory "$inventory" --idle

# Write start/: one process a device, with the environment that HCCL needs.
preflight launch --inventory "$inventory" --launcher "$launcher" -o scripts --dir start --force -- "$@"
bash start/*.sh

echo "PASS: the server is healthy, and the job ended without error"
