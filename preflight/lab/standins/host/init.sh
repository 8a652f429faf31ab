#!/bin/sh
# The first process of a lab host. preflight.lab.host starts it in the host's network namespace and in fresh mount, UTS,
# PID and IPC namespaces. It builds the host's own file tree, loads its firewall, starts its sshd and then reaps.
#
#   $1      directory of the host: etc, var-lib, usr, usr-local, opt, root (uppers of overlays), home, log, state, run (a
#           mount point), devices (lines "INDEX NAMESPACE")
#   $2      directory of the stand-ins that all hosts share: usr-local, usr
#   $3      the lab's directory, hidden from the host in the end
#   $4 ...  directories that must stay visible where they are (the Python that runs the lab, preflight)
set -eu
host=$1 directory_of_host=$1 standins=$2 lab=$3
shift 3

# Read through the outer /proc: this process as the rest of the machine knows it.
read -r stat < /proc/self/stat
printf '%s\n' "$stat" > "$host/process"

hostname "$(cat "$host/etc/hostname")"

# ---- What the host shares with the machine is read-only. What it may write is its own directory, by a mount of its own.
mount --bind "$host" "$host"
read_only() {
    mount -o remount,bind,ro "$1" || { [ "$1" != / ] && umount -l "$1"; }
}
mounts=$(cat /proc/self/mountinfo)
while read -r _ _ _ root place options _; do
    place=$(printf '%b' "$place") # a blank in a name stands there as \040
    case $root:$place:$options in
    *:\[*) ;; # a namespace, which is no tree of files
    *:"$host":*) ;;
    *:rw | *:rw,*) read_only "$place" ;;
    esac
done << END
$mounts
END

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
mkdir "$run/preflight-lab/host"
mount --bind "$host" "$run/preflight-lab/host"
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
usr=/usr local=$run/preflight-lab/keep/usr-local
mkdir "$local"
mount --bind /usr/local "$local" # which the overlay of /usr covers where it is a file system of its own
machine_local=$local
if [ -d "$standins/usr-local" ]; then usr=$standins/usr:$usr local=$standins/usr-local:$local; fi
mount -t overlay -o "lowerdir=$usr,upperdir=$host/usr,workdir=$host/overlay/usr" overlay /usr
mount -t overlay -o "lowerdir=$local,upperdir=$host/usr-local,workdir=$host/overlay/usr-local" overlay /usr/local
umount "$machine_local"
for name in opt root; do # an overlay cannot have its upper part in its lower one
    if [ -d "/$name" ] && [ "${host#/"$name"/}" = "$host" ]; then
        mount -t overlay -o "lowerdir=/$name,upperdir=$host/$name,workdir=$host/overlay/$name" overlay "/$name"
    fi
done
mount -n --move "$run" /run
host=/run/preflight-lab/host # the way to it that nothing covers
mount --bind "$host/log" /var/log
mount --bind "$host/home" /home
for name in opt root; do
    if [ "${lab#/"$name"/}" != "$lab" ]; then mount --bind "$host/$name" "/$name"; fi
done
umount "$host"
rmdir "$host"
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /var/tmp

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
for file in irq bus fs acpi scsi asound mtrr sysrq-trigger dynamic_debug latency_stats pressure; do
    if [ -e "/proc/$file" ]; then
        mount --bind "/proc/$file" "/proc/$file"
        mount -o remount,bind,ro "/proc/$file"
    fi
done
# A host may look at what its cgroup leaves it, as any host may; the groups are the machine's, and their paths fit.
mkdir /run/preflight-lab/cgroup
mount --rbind /sys/fs/cgroup /run/preflight-lab/cgroup
mount -t sysfs -o ro sysfs /sys
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

# No process of the host has the rights to reach the machine past its files: device nodes, modules, the clock, the
# kernel's log. `reboot` would end the host and nothing else, but kexec needs the same right.
exec setpriv --bounding-set=-mknod,-sys_module,-sys_rawio,-sys_time,-sys_boot,-syslog,-wake_alarm,-block_suspend \
    -- /bin/sh "${0%/*}/services.sh" "$directory_of_host"
