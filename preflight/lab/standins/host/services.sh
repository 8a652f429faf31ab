#!/bin/sh
# The first process of a lab host once its file tree stands (init.sh): loads its firewall, starts its sshd, and reaps.
#
#   $1      directory of the host, which it does not see: for those who look at the machine's processes
#
# In /run/preflight-lab/state: first-boot and every-boot, commands of its firewall; the first is gone later.
set -eu

# A restarted host keeps its network namespace and with it rules and settings, so what only sets these belongs to the
# first boot.
state=/run/preflight-lab/state
for boot in first-boot every-boot; do
    if [ -e "$state/$boot" ]; then
        # What went wrong goes to the console, and ends the host: one without its firewall would be taken for open.
        sh -e "$state/$boot" > "/var/log/$boot.log" 2>&1 || { cat "/var/log/$boot.log"; exit 1; }
    fi
done
rm -f "$state/first-boot"
# A server for training lets its users open many files; where the machine does not allow it, HST106 warns.
ulimit -n 65535 2> /dev/null || true
# STAND-IN for the devices' firmware, which remembers what their links do. It sees the files of its own host only.
if [ -e /run/preflight-lab/device/0 ]; then /usr/local/libexec/preflight-lab/watch_links & fi
if [ -d "$state/pci" ]; then /usr/local/libexec/preflight-lab/nv-fabricmanager & fi
/usr/sbin/sshd -D -E /var/log/sshd.log &

# `wait` reaps every orphan of the host; the sleep keeps it from returning when sshd has died.
sleep infinity &
while :; do wait; done
