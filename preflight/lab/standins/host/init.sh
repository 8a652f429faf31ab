#!/bin/sh
# The first process of a lab host. preflight.lab.host starts it in the host's network namespace and in fresh mount, UTS,
# PID and IPC namespaces. It builds the host's own file tree, loads its firewall, starts its sshd and then reaps.
#
#   $1      directory of the host: etc, var-lib, usr-local (uppers of overlays), home, log, state, run (a mount point),
#           devices (lines "INDEX NAMESPACE"); in state: first-boot and every-boot (commands; the first is gone later)
#   $2      directory of the stand-ins that all hosts share: usr-local, usr-bin
#   $3      the lab's directory, hidden from the host in the end
#   $4 ...  directories that must stay visible where they are (the Python that runs the lab, preflight)
set -eu
host=$1 standins=$2 lab=$3
shift 3

# Read through the outer /proc: this process as the rest of the machine knows it.
read -r stat < /proc/self/stat
printf '%s\n' "$stat" > "$host/process"

hostname "$(cat "$host/etc/hostname")"

# ---- /run first, below the host's directory, while everything outside can still be seen
run=$host/run
mount -t tmpfs -o mode=755 tmpfs "$run"
mkdir -p "$run/sshd" "$run/lock" "$run/preflight-lab/device" "$run/preflight-lab/state" "$run/preflight-lab/process" \
    "$run/preflight-lab/hccp" "$run/preflight-lab/link" "$run/preflight-lab/keep"
while read -r index netns; do
    : > "$run/preflight-lab/device/$index"
    mount --bind "/run/netns/$netns" "$run/preflight-lab/device/$index"
    mkdir "$run/preflight-lab/process/$index"
    : > "$run/preflight-lab/hccp/$index"
done < "$host/devices"
chmod 1777 "$run/preflight-lab/process/"* "$run/lock" 2> /dev/null || true
mount --bind "$host/state" "$run/preflight-lab/state"
for name in product superpod; do
    if [ -e "$host/$name" ]; then cp "$host/$name" "$run/preflight-lab/$name"; fi
done
number=0
for directory in "$@"; do
    mkdir "$run/preflight-lab/keep/$number"
    mount --bind "$directory" "$run/preflight-lab/keep/$number"
    number=$((number + 1))
done

# ---- the host's own files
mount -t overlay -o "lowerdir=/etc,upperdir=$host/etc,workdir=$host/overlay/etc" overlay /etc
mount -t overlay -o "lowerdir=/var/lib,upperdir=$host/var-lib,workdir=$host/overlay/var-lib" overlay /var/lib
local=/usr/local
if [ -d "$standins/usr-local" ]; then
    local=$standins/usr-local:$local
    mount -t overlay -o "lowerdir=$standins/usr-bin:/usr/bin" overlay /usr/bin
fi
mount -t overlay -o "lowerdir=$local,upperdir=$host/usr-local,workdir=$host/overlay/usr-local" overlay /usr/local
mount --bind "$host/log" /var/log
mount --bind "$host/home" /home
mount -n --move "$run" /run
mount -t tmpfs -o mode=1777 tmpfs /tmp

# ---- what is to stay visible, where one of these mounts has covered it
number=0
for directory in "$@"; do
    if [ ! -e "$directory" ]; then
        mkdir -p "$directory"
        mount --bind "/run/preflight-lab/keep/$number" "$directory"
    fi
    umount "/run/preflight-lab/keep/$number"
    number=$((number + 1))
done
if [ -d "$lab" ]; then mount -t tmpfs -o size=4k,ro tmpfs "$lab"; fi

# ---- kernel file systems of these namespaces
mount -t proc proc /proc
# Of the kernel's settings only the network's are the host's own; the others are the machine's and not to be touched.
mount --bind /proc/sys /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,ro /proc/sys
# A host may look at what its cgroup leaves it, as any host may; the groups are the machine's, and their paths fit.
mkdir /run/preflight-lab/cgroup
mount --rbind /sys/fs/cgroup /run/preflight-lab/cgroup
mount -t sysfs sysfs /sys
mount --rbind /run/preflight-lab/cgroup /sys/fs/cgroup
cat /proc/sys/kernel/random/uuid > /run/preflight-lab/boot_id
mount --bind /run/preflight-lab/boot_id /proc/sys/kernel/random/boot_id
mount -t tmpfs -o mode=755 tmpfs /dev
mkdir /dev/pts /dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ln -s pts/ptmx /dev/ptmx
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
mknod -m 666 /dev/null c 1 3
mknod -m 666 /dev/zero c 1 5
mknod -m 666 /dev/full c 1 7
mknod -m 666 /dev/random c 1 8
mknod -m 666 /dev/urandom c 1 9
mknod -m 666 /dev/tty c 5 0
# STAND-INS: the names, owner and mode of the driver's nodes; behind them is /dev/null.
if [ -e /run/preflight-lab/device/0 ]; then
    for node in davinci_manager devmm_svm hisi_hdc $(sed 's/^\([0-9]*\) .*/davinci\1/' /run/preflight-lab/state/devices)
    do
        mknod -m 660 "/dev/$node" c 1 3
        chown HwHiAiUser:HwHiAiUser "/dev/$node"
    done
fi
# STAND-INS: what the kernel and the driver would show of GPUs.
state=/run/preflight-lab/state
if [ -d "$state/pci" ]; then
    mount --bind "$state/pci" /sys/bus/pci/devices
    mount --bind "$state/driver" /proc/driver
    ln -s "$state/kmsg" /dev/kmsg
fi

# ---- services. A restarted host keeps its network namespace and with it rules and settings, so what only sets these
# belongs to the first boot.
for boot in first-boot every-boot; do
    if [ -e "/run/preflight-lab/state/$boot" ]; then
        # What went wrong goes to the console, and ends the host: one without its firewall would be taken for open.
        sh -e "/run/preflight-lab/state/$boot" > "/var/log/$boot.log" 2>&1 || { cat "/var/log/$boot.log"; exit 1; }
    fi
done
rm -f /run/preflight-lab/state/first-boot
# A server for training lets its users open many files; where the machine does not allow it, HST106 warns.
ulimit -n 65535 2> /dev/null || true
# STAND-IN for the devices' firmware, which remembers what their links do. It sees the files of its own host only.
if [ -e /run/preflight-lab/device/0 ]; then /usr/local/libexec/preflight-lab/watch_links & fi
if [ -d "$state/pci" ]; then /usr/local/libexec/preflight-lab/nv-fabricmanager & fi
/usr/sbin/sshd -D -E /var/log/sshd.log &

# `wait` reaps every orphan of the host; the sleep keeps it from returning when sshd has died.
sleep infinity &
while :; do wait; done
