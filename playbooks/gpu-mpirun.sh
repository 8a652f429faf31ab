#!/usr/bin/env bash
# GPU servers, mpirun (AIACC-Training, Horovod, torch): from a host file to a job on
# all GPUs.
# From where ssh reaches all servers:    bash gpu-mpirun.sh train.py --batch-size 64
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 PROGRAM [ARGUMENT ...]" >&2; exit 2; }
trap 'echo "STOPPED with exit code $?: $BASH_COMMAND" >&2' ERR

hosts=mpi_host.txt      # an address a line
devices=8               # GPUs of a server: -npernode
user=root               # the login there, which starts the job
jobs=jobs.toml          # the rest of the inventory: host NIC, the jobs' Python, launcher = "mpirun"

# Write the inventory each time, so that it follows the host file.
preflight inventory import "$hosts" --product nvidia --devices "$devices" --user "$user" -o hosts.toml --force
cat "$jobs" >> hosts.toml

# Set ports and firewall: mpirun's daemons and NCCL listen on ports that the kernel
# chooses. Correct settings are not touched.
preflight configure --yes

# Check GPUs, driver, and ssh from the first server to the others, and run every
# collective.
preflight check --idle

# Write the whole mpirun command, with -np and -x. Nothing is pasted, so no dash can
# be a long one. It starts the ranks of all servers.
preflight launch --launcher mpirun --env NCCL_DEBUG=INFO -o scripts --dir start --force -- "$@"
first=$(basename start/*.sh .sh)
ssh "$user@$first" bash -s < "start/$first.sh"

echo "PASS: the servers are healthy, and the job ended without error"
