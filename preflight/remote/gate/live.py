"""What can be looked at in no time, by the ids that `preflight explain` knows. Nothing is started, nothing waits."""

import os

from gate.answer import reason
from gate.jobs import a_job_runs, runs_in_a_job

LISTEN = b"0A"  # of enum tcp_state, <net/tcp_states.h>
UP = 1  # IFF_UP, <net/if.h>
SECONDS = 0.5  # for looking through all processes: 100 of them take 4 ms
# Of NVIDIA and Ascend, as /proc has their names: they hold devices all the time.
SERVICES = ("nvidia-persiste", "nvidia-cuda-mps", "nv-hostengine", "dcgm-exporter", "npu-exporter", "dmp_daemon")


class Host:
    """What the live checks are about. `devices`: ids of those that count; `network` and `processes`: whether what is
    seen here are the host's. `root` is for tests."""

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
            held = {port for part in file.read().strip().split(",") if part for port in numbers(part)}
    except (OSError, ValueError) as error:
        return [reason("PRT101", "unknown", "the reserved ports cannot be read: %s" % error)]
    missing = [port for low, high in host.policy.reserved for port in range(low, high + 1) if port not in held]
    if not missing:
        return []
    words = ", ".join(map(str, missing[:3])) + (" and %d more" % (len(missing) - 3) if len(missing) > 3 else "")
    return [reason("PRT101", "fail", "job ports %s are not reserved" % words)]


def numbers(part):
    low, _, high = part.partition("-")
    return range(int(low), int(high or low) + 1)


def free_ports(host):
    """A port of a job that runs here is no fault of the host, one of anybody else is. Who has one may be not to be
    told: a process of that kind may be a job's."""
    taken = listening(host)
    if not taken:
        return []
    owners, all_seen = holders(host, {"socket:[%s]" % inode: inode for inode in taken})
    still = taken if len(owners) == len(taken) else listening(host)
    found = []
    for inode, port in sorted(still.items(), key=lambda one: one[1]):
        if inode in owners:
            pid, process = owners[inode]
            outcome = "warn" if runs_in_a_job(host.path("proc"), pid) else "fail"
            who = "%s (process %s)" % (process, pid)
        else:
            sure = all_seen and host.processes and inode in taken
            outcome, who = "fail" if sure else "unknown", "a process that is not seen"
        if outcome == "fail" and a_job_runs(host.path("proc"), names(host.path("proc"))):
            outcome = "warn"  # what a job leaves to init is its own for as long as it runs
        found.append(reason("PRT103", outcome, "job port %d is taken by %s" % (port, who)))
    return found


def listening(host):
    """{inode: job port} of the sockets that listen on one."""
    taken = {}
    for name in ("tcp", "tcp6"):
        for port, inode in listeners(host.path("proc/net/" + name)):
            if any(low <= port <= high for low, high in host.policy.free):
                taken.setdefault(inode, port)
    return taken


def listeners(path):
    """(port, inode) of the sockets that listen; the kernel lists them before all others."""
    try:
        with open(path, "rb") as lines:
            next(lines)
            for line in lines:
                words = line.split()
                if words[3] != LISTEN:
                    return
                yield int(words[1].rpartition(b":")[2], 16), words[9].decode()
    except (OSError, StopIteration, IndexError, ValueError):
        return  # no such protocol in this kernel


def device_nodes(host):
    """NVIDIA makes a GPU's node when it is first used: until then the kernel's own list of GPUs has it."""
    if host.policy.product == "nvidia" and len(names(host.path("proc/driver/nvidia/gpus"))) >= len(host.policy.devices):
        return []
    gone = [device for device in sorted(host.devices) if not os.path.exists(host.path(host.node(device)))]
    return [reason("NPU109", "fail", "device %d: there is no /%s" % (one, host.node(one)), one) for one in gone]


def closed_nodes(host):
    """Device nodes that are there, and that this process's user may not open."""
    there = [device for device in sorted(host.devices) if os.path.exists(host.path(host.node(device)))]
    closed = [device for device in there if not os.access(host.path(host.node(device)), os.R_OK | os.W_OK)]
    words = "device %d: user %d may not open /%s"
    return [reason("HST109", "fail", words % (one, os.getuid(), host.node(one)), one) for one in closed]


def host_nic(host):
    nic = host.policy.nic
    folder = host.path("sys/class/net")
    if not names(folder):
        return [reason("HST103", "unknown", "%s cannot be read: whether %s is up is not known" % (folder, nic))]
    if nic not in names(folder):
        return [reason("HST103", "fail", "there is no host NIC %s" % nic)]
    try:
        with open("%s/%s/flags" % (folder, nic)) as file:
            if not int(file.read(), 16) & UP:
                return [reason("HST103", "fail", "host NIC %s is switched off" % nic)]
        with open("%s/%s/carrier" % (folder, nic)) as file:
            if file.read().strip() != "1":
                return [reason("HST103", "fail", "host NIC %s has no carrier" % nic)]
    except (OSError, ValueError) as error:
        return [reason("HST103", "unknown", "whether host NIC %s is up cannot be read: %s" % (nic, error))]
    return []


def leftovers(host):
    """Processes that hold devices of this job and are of no job that runs."""
    nodes = {"/" + host.node(device): device for device in host.devices}
    found = []
    for device, (pid, process) in sorted(holders(host, nodes, SERVICES)[0].items()):
        if not runs_in_a_job(host.path("proc"), pid):
            words = "device %d is held by %s (process %s), which is of no job that runs" % (device, process, pid)
            found.append(reason("NPU114", "warn", words, device))
    return found


def holders(host, wanted, passed_over=()):
    """{value: (pid, name)} of a process that has open what `wanted` ({link in /proc/PID/fd: value}) names, and whether
    all processes were seen: without root, one's own only; and not where there is too much to look through."""
    import time

    found, all_seen, until = {}, True, time.monotonic() + SECONDS
    for pid in names(host.path("proc")):
        if len(found) == len(wanted):
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
            continue  # it has ended
        for number in descriptors:
            try:
                value = wanted.get(os.readlink("%s/fd/%s" % (folder, number)))
                if value is None or value in found:
                    continue
                with open(folder + "/comm", errors="replace") as comm:
                    process = comm.read().strip()
            except OSError:
                continue  # it has been closed, or has ended
            if process not in passed_over:
                found[value] = (pid, process)
    return found, all_seen


def names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []
