"""Live checks that take no time, by the ids that `preflight explain` knows. They start no program and wait for none."""

import os
import time

from gate.answer import reason
from gate.jobs import a_job_runs, runs_in_a_job

LISTEN = b"0A"  # of enum tcp_state, <net/tcp_states.h>
UP = 1  # IFF_UP, <net/if.h>
SECONDS = 0.5  # for the search through all processes: 100 of them take 4 ms
# Services of NVIDIA and Ascend, by their names in /proc: they hold devices all the time.
SERVICES = ("nvidia-persiste", "nvidia-cuda-mps", "nv-hostengine", "dcgm-exporter", "npu-exporter", "dmp_daemon")


class CheckedHost:
    """Subject of the live checks.

    `devices`    Ids of the devices that count.
    `network`    True if the network seen here is the host's.
    `processes`  True if the processes seen here are the host's.
    `root`       Folder of the host's files, for tests.
    """

    def __init__(self, policy, devices, root="/"):
        self.policy = policy
        self.devices = devices
        self.network = True
        self.processes = True
        self.root = root

    def path(self, path):
        return os.path.join(self.root, path)

    def node(self, device):
        return "dev/%s%d" % ("nvidia" if self.policy.product == "nvidia" else "davinci", device)


def reserved_ports(host):
    path = host.path("proc/sys/net/ipv4/ip_local_reserved_ports")
    try:
        with open(path) as file:
            reserved = {port for part in file.read().strip().split(",") if part for port in numbers(part)}
    except (OSError, ValueError) as error:
        return [reason("PRT101", "unknown", "the reserved ports cannot be read: %s" % error)]
    missing = [port for low, high in host.policy.reserved for port in range(low, high + 1) if port not in reserved]
    if not missing:
        return []
    port_list = ", ".join(map(str, missing[:3])) + (" and %d more" % (len(missing) - 3) if len(missing) > 3 else "")
    return [reason("PRT101", "fail", "job ports %s are not reserved" % port_list)]


def numbers(part):
    low, _, high = part.partition("-")
    return range(int(low), int(high or low) + 1)


def free_ports(host):
    """Return a reason for each job port that a process listens on.

    A port of a running job is no fault of the host; a port of any other process is. If the owner is unknown, the
    outcome is, too: such a process may be a job's.
    """
    ports_in_use = listening(host)
    if not ports_in_use:
        return []
    owners, all_seen = holders(host, {"socket:[%s]" % inode: inode for inode in ports_in_use})
    ports_still = ports_in_use if len(owners) == len(ports_in_use) else listening(host)
    reasons = []
    for inode, port in sorted(ports_still.items(), key=lambda item: item[1]):
        outcome, holder = port_holder(host, owners.get(inode), all_seen and inode in ports_in_use)
        if outcome == "fail" and a_job_runs(host.path("proc"), names(host.path("proc"))):
            outcome = "warn"  # a process that a job leaves to init belongs to the job while that runs
        reasons.append(reason("PRT103", outcome, "job port %d is in use by %s" % (port, holder)))
    return reasons


def port_holder(host, owner, all_seen):
    """Return (outcome, description) of a port's owner, which is (pid, name), or None if no process seen has it."""
    if owner is None:
        return "fail" if all_seen and host.processes else "unknown", "an unknown process"
    pid, process = owner
    outcome = "warn" if runs_in_a_job(host.path("proc"), pid) else "fail"
    return outcome, "%s (process %s)" % (process, pid)


def listening(host):
    """Return {inode: job port} of the sockets that listen on one."""
    port_of = {}
    for name in ("tcp", "tcp6"):
        for port, inode in listeners(host.path("proc/net/" + name)):
            if any(low <= port <= high for low, high in host.policy.free):
                port_of.setdefault(inode, port)
    return port_of


def listeners(path):
    """Yield (port, inode) of the listening sockets; the kernel lists them before all others."""
    try:
        with open(path, "rb") as lines:
            next(lines)
            for line in lines:
                fields = line.split()
                if fields[3] != LISTEN:
                    return
                yield int(fields[1].rpartition(b":")[2], 16), fields[9].decode()
    except (OSError, StopIteration, IndexError, ValueError):
        return  # this kernel lacks the protocol


def device_nodes(host):
    """Return a reason for each missing device node. NVIDIA makes a GPU's node at its first use: until then the kernel's
    own list of GPUs counts."""
    if host.policy.product == "nvidia" and len(names(host.path("proc/driver/nvidia/gpus"))) >= len(host.policy.devices):
        return []
    missing = [device for device in sorted(host.devices) if not os.path.exists(host.path(host.node(device)))]
    return [
        reason("NPU109", "fail", "device %d: /%s does not exist" % (device, host.node(device)), device)
        for device in missing
    ]


def closed_nodes(host):
    """Return a reason for each device node that exists and that this process's user may not open."""
    present = [device for device in sorted(host.devices) if os.path.exists(host.path(host.node(device)))]
    closed = [device for device in present if not os.access(host.path(host.node(device)), os.R_OK | os.W_OK)]
    summary = "device %d: user %d has no permission to open /%s"
    return [reason("HST109", "fail", summary % (number, os.getuid(), host.node(number)), number) for number in closed]


def host_nic(host):
    nic = host.policy.nic
    folder = host.path("sys/class/net")
    if not names(folder):
        return [reason("HST103", "unknown", "%s cannot be read, so the state of %s is unknown" % (folder, nic))]
    if nic not in names(folder):
        return [reason("HST103", "fail", "host NIC %s does not exist" % nic)]
    try:
        with open("%s/%s/flags" % (folder, nic)) as file:
            if not int(file.read(), 16) & UP:
                return [reason("HST103", "fail", "host NIC %s is down" % nic)]
        with open("%s/%s/carrier" % (folder, nic)) as file:
            if file.read().strip() != "1":
                return [reason("HST103", "fail", "host NIC %s has no carrier" % nic)]
    except (OSError, ValueError) as error:
        return [reason("HST103", "unknown", "the state of host NIC %s cannot be read: %s" % (nic, error))]
    return []


def leftovers(host):
    """Return a reason for each process that holds devices of this job and belongs to no running job."""
    nodes = {"/" + host.node(device): device for device in host.devices}
    reasons = []
    for device, (pid, process) in sorted(holders(host, nodes, SERVICES)[0].items()):
        if not runs_in_a_job(host.path("proc"), pid):
            summary = "device %d is in use by %s (process %s), which does not belong to a running job" % (
                device,
                process,
                pid,
            )
            reasons.append(reason("NPU114", "warn", summary, device))
    return reasons


def holders(host, wanted, passed_over=()):
    """Return ({value: (pid, name)}, whether all processes were seen).

    Each process has a file open that `wanted` ({link in /proc/PID/fd: value}) names. Without root only the user's own
    processes are seen, and the search ends after SECONDS.
    """
    holder_of, all_seen, until = {}, True, time.monotonic() + SECONDS
    for pid in names(host.path("proc")):
        if len(holder_of) == len(wanted):
            break
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        folder = host.path("proc/" + pid)
        if time.monotonic() > until:
            all_seen = False
            break
        try:
            descriptors = os.listdir(folder + "/fd")
        except PermissionError:
            all_seen = False
            continue
        except OSError:
            continue  # the process has ended
        for value, process in held_files(folder, descriptors, wanted):
            if process not in passed_over:
                holder_of.setdefault(value, (pid, process))
    return holder_of, all_seen


def held_files(folder, descriptors, wanted):
    """Yield (value of the file, name of the process) for each wanted file that a process has open."""
    for number in descriptors:
        try:
            value = wanted.get(os.readlink("%s/fd/%s" % (folder, number)))
            if value is None:
                continue
            with open(folder + "/comm", errors="replace") as comm:
                process = comm.read().strip()
        except OSError:
            continue  # the file has been closed, or the process has ended
        yield value, process


def names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []
