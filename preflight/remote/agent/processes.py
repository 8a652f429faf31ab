"""Workers and groups of them, and what the kernel tells of processes."""

import ctypes
import os
import signal
import time

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36  # <linux/prctl.h>
TAIL = 2000  # bytes kept of what a worker prints
REPORT = 1 << 20  # bytes that it may write without a newline
_LOOKS, _PAUSE = 4, 0.05  # times, and seconds between them, that a process in a driver is looked at again


class Worker:
    """A forked rank: its pipes, and how far it has come."""

    def __init__(self, group, rank, pid, report, output, order):
        self.group, self.rank, self.pid = group, rank, pid
        self.report, self.output, self.order = report, output, order
        self.pipes = {report, output}  # on which it may still say something
        for fd in self.pipes:
            os.set_blocking(fd, False)
        self.unread = b""
        self.printed = b""
        self.error = ""
        self.closed = False
        self.last = time.monotonic()  # of its last report
        self.waiting = False  # for its group's turn: not late however long that takes
        self.killed = ""  # "overdue" or "stopped", if it was us
        self.state = ""
        self.connecting = None  # addresses that had not answered when it had been silent for long
        self.ended = False

    def lines_of(self, data):
        """The lines of its report that `data` completes."""
        *lines, self.unread = (self.unread + data).split(b"\n")
        self.unread = self.unread[-REPORT:]
        return lines

    def prints(self, data):
        self.printed = (self.printed + data)[-TAIL:]

    def outcome(self, info):
        """(end, error): how it has ended; `info` as the kernel tells it."""
        if self.killed:
            return self.killed, self.error
        if self.error:
            return "error", self.error
        if self.closed:
            return "closed", ""
        if info.si_code == os.CLD_EXITED:
            return "exited", "exit code %d" % info.si_status
        return "killed", "signal %d" % info.si_status


class Group:
    """The workers of one communicator on this host: one process group, killed as one."""

    def __init__(self, name, deadline, takes_turns, tests):
        self.name, self.deadline, self.takes_turns, self.tests = name, deadline, takes_turns, tests
        self.workers = []
        self.file = ""  # in which its ranks meet, if they meet in one

    def waits_after(self, event):
        """Whether a rank that says `event` then waits for a go: before each test, if the group takes turns."""
        before_next = event["at"] == "result" and event["test"] + 1 < self.tests
        return self.takes_turns and (before_next or event.get("stage") == "communicator")

    @property
    def pgid(self):
        """The first worker's pid; nobody is reaped before the group is over, so the number stays ours."""
        return self.workers[0].pid if self.workers else 0

    def kill_leftovers(self):
        """SIGKILL for the process group: the workers and what they may have started."""
        try:
            os.killpg(self.pgid, signal.SIGKILL)
        except OSError:
            pass  # nobody is left in it


def mark(name, parent):
    """Give the process a name that `ps` shows; let the kernel kill it when its parent dies."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent():
    """Take back that the kernel kills this process when its parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)


def adopt_orphans():
    """Become, in the place of init, the parent of descendants whose parent has died: nobody can fork away."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(ancestor, spare=()):
    """pids of all that live and descend from `ancestor`, but for `spare` and what descends from those."""
    children = {}
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%d/stat" % int(name)) as stat:
                state, parent = stat.read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # no process, or gone
        if state != "Z":
            children.setdefault(int(parent), []).append(int(name))
    found, new = [], [ancestor]
    while new:
        new = [child for pid in new for child in children.get(pid, ()) if child not in spare]
        found += new
    return found


def end_descendants(ancestor, spare=()):
    """SIGKILL for them, again and again, since those orphaned by it come back to `ancestor`; for a second at most: a
    process inside a driver dies when the driver lets it."""
    give_up = time.monotonic() + 1
    while time.monotonic() < give_up:
        left = descendants(ancestor, spare)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # it was faster, or it runs as somebody else
        time.sleep(0.005)


def state_of(pid):
    """The letter of /proc/PID/stat: R running, S sleeping, D in a driver, T stopped; empty if it cannot be read."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def lasting_state_of(pid):
    """The same; "D" only of a process that is in a driver every time that it is looked at: on a busy machine others are
    there for a moment, reading a page."""
    state = state_of(pid)
    for _ in range(_LOOKS):
        if state != "D":
            break
        time.sleep(_PAUSE)
        state = state_of(pid)
    return state


def exit_of(pid):
    """How a child has ended, without reaping it; None while it lives."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
