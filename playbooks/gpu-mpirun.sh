#!/usr/bin/env bash
# GPU servers, mpirun (AIACC-Training, Horovod, torch): from a host file to a job on
# all GPUs.
# From where ssh reaches all servers:    bash gpu-mpirun.sh train.py --batch-size 64
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 PROGRAM [ARGUMENT ...]" >&2; exit 2; }
trap 'echo "STOPPED with exit code $?: $BASH_COMMAND" >&2' ERR

hosts=mpi_host.txt      # an address a line
devices=8               # GPUs of a server: -npernode
user=root               # who logs in there, and starts the job
jobs=jobs.toml          # what a host file cannot say: host NIC, the jobs' Python, launcher = "mpirun"

# The inventory is made anew each time, so that it follows the host file.
preflight inventory import "$hosts" --product nvidia --devices "$devices" --user "$user" -o hosts.toml --force
cat "$jobs" >> hosts.toml

# Ports and firewall: mpirun's daemons and NCCL listen where the kernel chooses.
# What is so already is left alone.
preflight configure --yes

# GPUs, driver, ssh from the first server to the others, every collective. What is
# wrong is named here.
preflight check --idle

# The whole mpirun command, with -np, -x and the rest: nothing is pasted, so no dash
# of it was turned into a long one. It starts the ranks of all servers.
preflight launch --launcher mpirun --env NCCL_DEBUG=INFO -o scripts --dir start --force -- "$@"
first=$(basename start/*.sh .sh)
ssh "$user@$first" bash -s < "start/$first.sh"

echo "PASS: the servers are proven, and the job ended well"
