"""Workers, groups of workers, and the kernel's view of processes."""

import ctypes
import os
import signal
import time

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36  # <linux/prctl.h>
TAIL = 2000  # bytes kept of what a worker prints
REPORT = 1 << 20  # bytes that a worker may write without a newline
_LOOKS, _PAUSE = 4, 0.05  # repeated reads of the state of a process in a driver, and seconds between them


class Worker:
    """A forked rank: its pipes and its progress."""

    def __init__(self, group, rank, pid, pipes):
        self.group, self.rank, self.pid = group, rank, pid
        self.report, self.output, self.order = pipes
        self.pipes = {self.report, self.output}  # pipes that may still have output
        for fd in self.pipes:
            os.set_blocking(fd, False)
        self.unread = b""
        self.printed = b""
        self.error = ""
        self.closed = False
        self.last = time.monotonic()  # time of its last report
        self.waiting = False  # for its group's turn, which may take any time
        self.killed = ""  # "overdue" or "stopped", if the agent killed it
        self.state = ""
        self.connecting = None  # addresses that had not answered after a long silence
        self.ended = False

    def lines_of(self, data):
        """Return the lines of the report that `data` completes."""
        *lines, self.unread = (self.unread + data).split(b"\n")
        self.unread = self.unread[-REPORT:]
        return lines

    def is_overdue(self, now):
        """Return whether the worker has reported nothing for longer than its deadline, without waiting for its turn."""
        return not (self.waiting or self.killed) and now - self.last > self.group.deadline

    def prints(self, data):
        self.printed = (self.printed + data)[-TAIL:]

    def outcome(self, info):
        """Return (end, error) of the worker. `info` is its exit as the kernel reports it."""
        if self.killed:
            return self.killed, self.error
        if self.error:
            return "error", self.error
        if self.closed:
            return "closed", ""
        if info.si_code == os.CLD_EXITED:
            return "exited", "exit code %d" % info.si_status
        return "killed", "signal %d" % info.si_status


class WorkerGroup:
    """The workers of one communicator on this host: one process group, killed as a whole."""

    def __init__(self, name, deadline, takes_turns, tests):
        self.name, self.deadline, self.takes_turns, self.tests = name, deadline, takes_turns, tests
        self.workers = []
        self.file = ""  # path of the file in which its ranks meet, if they use one

    def waits_after(self, event):
        """True if a rank that reports `event` then waits for a go: before each test, if the group takes turns."""
        before_next = event["at"] == "result" and event["test"] + 1 < self.tests
        return self.takes_turns and (before_next or event.get("stage") == "communicator")

    def alive(self):
        """Return the workers that have not ended."""
        return [worker for worker in self.workers if not worker.ended]

    @property
    def pgid(self):
        """The first worker's pid. No worker is reaped before the group is over, so the number is not used again."""
        return self.workers[0].pid if self.workers else 0

    def kill_leftovers(self):
        """Send SIGKILL to the process group: the workers and any processes that they started."""
        try:
            os.killpg(self.pgid, signal.SIGKILL)
        except OSError:
            pass  # no process is left in it


def mark(name, parent):
    """Give the process a name that `ps` shows, and let the kernel kill it when its parent dies."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent():
    """Stop the kernel from killing this process when its parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)


def adopt_orphans():
    """Become the parent, instead of init, of orphaned descendants, so that no process can fork away."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def stat_fields(pid):
    """Return the fields of /proc/PID/stat after the process's name: its state, its parent and so on; [] if it cannot be
    read."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rpartition(")")[2].split()
    except OSError:
        return []


def descendants(ancestor, spare=()):
    """Return the pids of all live descendants of `ancestor`, except for `spare` and their descendants."""
    children = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        fields = stat_fields(pid)
        if fields and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(pid)
    pids, generation = [], [ancestor]
    while generation:
        generation = [child for pid in generation for child in children.get(pid, ()) if child not in spare]
        pids += generation
    return pids


def end_descendants(ancestor, spare=()):
    """Send SIGKILL to all descendants repeatedly, for a second at most.

    Processes orphaned by it become children of `ancestor`. A process inside a driver dies when the driver lets it.
    """
    give_up = time.monotonic() + 1
    while time.monotonic() < give_up:
        pids = descendants(ancestor, spare)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # it has ended already, or runs as another user
        time.sleep(0.005)


def state_of(pid):
    """Return the letter of /proc/PID/stat: R running, S sleeping, D in a driver, T stopped; empty if it cannot be
    read."""
    return (stat_fields(pid) or [""])[0]


def lasting_state_of(pid):
    """Return the letter of /proc/PID/stat, but "D" only if the process is in a driver at every read.

    On a busy machine other processes are in that state for a moment, reading a page.
    """
    state = state_of(pid)
    for _ in range(_LOOKS):
        if state != "D":
            break
        time.sleep(_PAUSE)
        state = state_of(pid)
    return state


def exit_of(pid):
    """Return how a child has ended, without reaping it; None while it lives."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
