"""Load of this host's processors beside preflight itself, from a few samples of all processes."""

# ruff: noqa: ARG001  (the sections have one signature)

import os
import time

from collect.npu_smi import owner
from collect.own import ancestry, preflight_processes
from collect.tools import LookError, read

APART = 0.1  # seconds between two samples
FEW, MANY = 4, 16  # samples; a burst is no load, so a high demand is sampled longer
MUCH = 0.5  # of the processors
SHOWN = 5  # processes
NOTABLE = 0.1  # of a processor
KERNEL_THREAD = 0x00200000  # PF_KTHREAD, of the flags in /proc/PID/stat
TICKS = os.sysconf("SC_CLK_TCK")  # of processor time in a second
CGROUPS = "/sys/fs/cgroup"


def look_load(request, deadline):
    """Return the demand and the use of processors, in processors: 0.25 is a quarter of one."""
    if read("/proc/1/stat") is None:
        raise LookError("other users' processes are hidden (/proc has the hidepid option), and only root can see them")
    processors, limit = usable(), limited()
    much = MUCH * min(processors, limit or processors)
    watch = watched(much, deadline)
    demand = watch.demand()
    use = watch.used()
    notable_keys = [key for key in demand if demand[key] >= NOTABLE]
    busiest = sorted(notable_keys, key=lambda key: (demand[key], use[key]), reverse=True)[:SHOWN]
    return {
        "processors": processors,
        "limit": limit,
        "wanted": sum(demand.values()),
        "others": len(notable_keys),
        "seconds": watch.last - watch.first,
        "busiest": [
            {"pid": key[0], "name": watch.names[key], "user": owner(key[0]), "wanted": demand[key], "used": use[key]}
            for key in busiest
        ],
    }


def watched(much, deadline):
    """Return the samples: a few, or many while at least `much` is in demand. Raise LookError if there is no time."""
    watch = Watch()
    watch.take_sample()
    while watch.samples < FEW or (watch.samples < MANY and sum(watch.demand().values()) >= much):
        if time.monotonic() + APART >= deadline:
            break
        time.sleep(APART)
        watch.take_sample()
    if watch.samples < FEW:
        raise LookError("the number of process samples is %d, but %d are needed" % (watch.samples, FEW))
    return watch


def usable():
    """Return the number of processors that the host's first process, and so its children, may run on. A login may have
    fewer."""
    try:
        return len(os.sched_getaffinity(1))
    except OSError:
        return len(os.sched_getaffinity(0))


def limited():
    """Return the processors' worth of time that the cgroups of the first process, and so of the whole host, allow; None
    for no limit."""
    limits = []
    for line in (read("/proc/1/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            root = CGROUPS + "/cpu" if controllers else CGROUPS
            folder = os.path.normpath(root + path)
            while folder.startswith(root):
                limits.append(quota(folder))
                folder = os.path.dirname(folder)
            limits.append(quota(root))  # a container sees its own group there, despite the path
    return min((limit for limit in limits if limit), default=None)


def quota(folder):
    """Return the quota of cgroups v2 or v1 in processors; None where there is none, or no such group."""
    fields = (read(folder + "/cpu.max") or "").split()
    if not fields:
        fields = [(read(folder + name) or "").strip() for name in ("/cpu.cfs_quota_us", "/cpu.cfs_period_us")]
    is_valid = len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit() and int(fields[1])
    return int(fields[0]) / int(fields[1]) if is_valid else None


class Watch:
    """Samples of all processes but preflight's own and the kernel's. A key is (pid, start): numbers are used again."""

    def __init__(self):
        self.samples = 0
        self.names = {}
        self.runnable = {}  # key → samples in which it ran or could have run
        self.before = {}  # key → ticks of processor time in its first sample; 0 for a process that started later
        self.ticks = {}  # key → the same in its last sample
        self.of_this_run = {process["pid"] for process in preflight_processes() if process["this_run"]}
        self.kernel = set()  # pids as text: many processors have thousands of them, and they stay
        self.first = self.last = time.monotonic()

    def take_sample(self):
        self.last = time.monotonic()
        processes = {}
        parents = {}
        for number in os.listdir("/proc"):
            if number.isdigit() and number not in self.kernel:
                process = self.process(number)
                if process:
                    key, parent, state, name, ticks = process
                    processes[key] = (state, name, ticks)
                    parents[key[0]] = parent
        own_pids = own(parents) | self.of_this_run
        for key, (state, name, ticks) in processes.items():
            if key[0] not in own_pids:
                self.names[key] = name
                self.before.setdefault(key, 0 if self.samples else ticks)
                self.ticks[key] = ticks
                self.runnable[key] = self.runnable.get(key, 0) + (state == b"R")
        self.samples += 1

    def process(self, number):
        """Return (key, parent, state, name, ticks) from /proc/PID/stat; None if it has ended, or is the kernel's."""
        try:
            file = os.open("/proc/%s/stat" % number, os.O_RDONLY)
        except OSError:
            return None
        try:
            text = os.read(file, 4096)
        except OSError:
            return None
        finally:
            os.close(file)
        # A process chooses its name: only the last bracket ends it.
        head, _, tail = text.rpartition(b") ")
        fields = tail.split()
        if int(fields[6]) & KERNEL_THREAD:
            self.kernel.add(number)
            return None
        name = head.partition(b"(")[2].decode("utf-8", "replace")
        return (int(number), int(fields[19])), int(fields[1]), fields[0], name, int(fields[11]) + int(fields[12])

    def used(self):
        """Return {key: processors used} between the first sample and the last."""
        seconds = max(self.last - self.first, APART)
        return {key: (ticks - self.before[key]) / TICKS / seconds for key, ticks in self.ticks.items()}

    def demand(self):
        """Return {key: processors wanted} of the processes that want any. It is the larger of two figures. The state is
        that of a process's first thread, and shows one that waits for a processor, as under a limit or among many. The
        use shows the other threads."""
        demand = {key: max(used, self.runnable[key] / self.samples) for key, used in self.used().items()}
        return {key: wanted_share for key, wanted_share in demand.items() if wanted_share > 0}


def own(parents):
    """Return the collector, its ancestors (sshd of this login, sudo), and its descendants. `parents`: of all
    processes."""
    own_pids = ancestry(os.getpid(), lambda pid: parents.get(pid, 0))
    children = {os.getpid()}
    while children:
        children = {pid for pid, parent in parents.items() if parent in children} - own_pids
        own_pids |= children
    return own_pids
