"""Reads of files and calls of this host's programs, bounded in time and output."""

import collections
import os
import select
import signal
import subprocess
import sys
import threading
import time

COMMAND_LIMIT = 256 * 1024  # bytes kept of one command's output
QUERY_LIMIT = 32 * 1024  # bytes of one query of a device, of which there are hundreds; the longest have 5 KiB
FILE_LIMIT = 1024 * 1024  # bytes read of one file
ENVIRONMENT = dict(os.environ, LC_ALL="C")
SEARCH = [*os.environ.get("PATH", "").split(":"), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
# Bytes of a file that are not UTF-8 (a comment in GBK or Latin-1) travel as private characters, U+10FF80 to U+10FFFF.
# The module apply/files.py turns them back, so that an edited file keeps them. JSON cannot carry lone surrogates.
KEPT = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
CHECK = 0.1  # seconds after which a silent tool is checked for its end
LEAVING = 1.0  # seconds for killed processes to be gone; one that hangs in the kernel stays
running = set()  # process groups of the tools that run now
leaving = threading.Event()  # set once no tool may be started any more


class LookError(Exception):
    """Failure to read a section, or a part of it: one sentence."""


def find(name, *places):
    """Return the path of a tool: on PATH first, then in the vendor's place; None if it is nowhere."""
    for path in [os.path.join(folder, name) for folder in SEARCH if folder] + list(places):
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def required(name, *places):
    path = find(name, *places)
    if path is None:
        raise LookError("%s is not installed, or not on PATH" % name)
    return path


def read(path, limit=FILE_LIMIT):
    """Return the text of a file, None if there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LookError("%s cannot be read: %s" % (path, error.strerror)) from None
    if len(data) > limit:
        raise LookError("%s is larger than %d KiB" % (path, limit // 1024))
    return data.decode("utf-8", "surrogateescape").translate(KEPT)


def listing(folder):
    """Return the names in a folder; none, if there is no folder."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LookError("%s cannot be listed: %s" % (folder, error.strerror)) from None


def word(path, longest=None):
    """Return the text of a kernel's file; "" where there is none, or the kernel gives none."""
    try:
        return (read(path) or "").strip()[:longest]
    except LookError:  # an empty slot of GIDs gives EINVAL
        return ""


def device_numbers(name):
    """Return the numbers of the device nodes /dev/NAME0, /dev/NAME1 …"""
    begin = len(name)
    return [int(node[begin:]) for node in listing("/dev") if node[:begin] == name and node[begin:].isdigit()]


def listed(folder, ending):
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(ending)]
    except OSError:
        return []


def texts(paths):
    """Return {path: text} of the files that exist."""
    contents = {path: read(path) for path in paths}
    return {path: text for path, text in contents.items() if text is not None}


def runs(name):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid, errors="replace") as file:
                if file.read().strip() == name:
                    return True
        except OSError:
            continue
    return False


# Start of a program: the bytes for its stdin, and its environment.
Start = collections.namedtuple("Start", "stdin environment")
Start.__new__.__defaults__ = (b"", ENVIRONMENT)
NO_INPUT = Start()


def command(argv, deadline, limit=COMMAND_LIMIT, called="", start=NO_INPUT):
    """Run a program to its end and return {"out", "err", "code"}. Raise LookError past the deadline and past the limit.

    Its children are ended with it, and are not waited for, though they may hold the output open. `called`: its name in
    sentences, for arguments that must not be shown.
    """
    name, line = labels(argv, called)
    if leaving.is_set() or time.monotonic() >= deadline:
        raise LookError("%s was not started because the time was up" % line)
    process = started(argv, called or argv[0], start)
    running.add(process.pid)
    try:
        exchange = Exchange(process, start.stdin)
        while exchange.open:
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                raise LookError("%s did not finish in time" % line)
            has_ended = ends(process.pid, 0)
            if not exchange.step(min(seconds_left, CHECK)) and has_ended:
                break  # a process that it has left behind holds its output open
            if exchange.longest() > limit:
                raise LookError("%s printed more than %d KiB" % (name, limit // 1024))
        if not ends(process.pid, max(time.monotonic() + 0.1, deadline)):
            raise LookError("%s closed its output but did not exit" % name)
        kill(process.pid)  # processes that it has left behind; until the wait, the number is that of its group
        code = process.wait()
        return dict(exchange.texts(), code=code)
    finally:
        finish(process)


def labels(argv, called):
    """Return a program's name in sentences, and the same with its first arguments."""
    if called:
        return called, called
    name = os.path.basename(argv[0])
    return name, " ".join([name, *first_arguments(argv)])


def started(argv, label, start):
    """Return the process of a program, in its own session. Raise LookError if it does not start."""
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if start.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=start.environment,
            start_new_session=True,
        )
    except OSError as error:
        raise LookError("%s does not start: %s" % (label, error.strerror)) from None


def finish(process):
    """Kill the process's group, unless the process was waited for, and close its pipes."""
    if process.returncode is None:
        kill(process.pid)
        process.poll()
    running.discard(process.pid)
    for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
        try:
            stream.close()
        except OSError:
            pass


class Exchange:
    """Input to a program on stdin, and its output so far."""

    def __init__(self, process, data):
        self.process, self.data = process, data
        self.printed = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
        self.open = set(self.printed)
        self.waiting = select.poll()
        for descriptor in self.printed:
            self.waiting.register(descriptor, select.POLLIN)
        if data:
            self.waiting.register(process.stdin.fileno(), select.POLLOUT)

    def step(self, seconds):
        """Write and read once, and return whether the program was ready within the seconds."""
        ready = self.waiting.poll(seconds * 1000)
        for descriptor, _ in ready:
            if descriptor in self.printed:
                self.take(descriptor)
            else:
                self.give(descriptor)
        return bool(ready)

    def take(self, descriptor):
        data = os.read(descriptor, 65536)
        self.printed[descriptor] += data
        if not data:
            self.waiting.unregister(descriptor)
            self.open.discard(descriptor)

    def give(self, descriptor):
        """Write the next PIPE_BUF bytes, which a pipe that is ready takes without blocking."""
        try:
            self.data = self.data[os.write(descriptor, self.data[: select.PIPE_BUF]) :]
        except OSError:
            self.data = b""  # it ended without reading: its exit code and output say why
        if not self.data:
            self.waiting.unregister(descriptor)
            self.process.stdin.close()

    def longest(self):
        return max(map(len, self.printed.values()))

    def texts(self):
        out, err = (self.printed[stream.fileno()] for stream in (self.process.stdout, self.process.stderr))
        return {"out": out.decode("utf-8", "replace"), "err": err.decode("utf-8", "replace")}


def ends(pid, until):
    """Return whether a child ends by then. It is not waited for."""
    pause = 0.0005
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() >= until:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return True


def as_user(account, argv):
    """Return the command as another user, with this environment; only root can run it."""
    if account.pw_uid == os.geteuid():
        return argv
    return [required("runuser"), "-u", account.pw_name, "--", *argv]


def first_arguments(argv):
    """Return the arguments of a tool in a few words: `-i 0 -link`, `info -t health`."""
    words = argv[1:5]
    return words[:3] if len(words) == 4 and words[3].startswith("-") else words


def attempt(argv, deadline, limit=QUERY_LIMIT):
    """Run one of many queries and return its answer, or {"trouble": why it could not be run to its end}."""
    try:
        return command(argv, deadline, limit=limit)
    except LookError as error:
        return {"out": "", "err": "", "code": -1, "trouble": str(error)}


def each(things, work, deadline, at_once=None):
    """Return {item as text: work(item)} of the items done by the deadline, with `at_once` of them in parallel, or
    all."""
    todo = list(things)[::-1]
    results = {}

    def run():
        while todo:
            try:
                item = todo.pop()
            except IndexError:
                return
            results[str(item)] = work(item)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(min(at_once or len(todo), len(todo)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, deadline + 0.5 - time.monotonic()))
    return dict(results)


def kill(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # the group ended by itself in between


def adopt_orphans():
    """Become the parent of processes that tools leave behind, so that `leave` can also end those outside their tool's
    session."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass  # a Python without ctypes: processes in their tool's session are ended all the same


def children(pid):
    """Return the pids of a process's children, zombies as well."""
    pids = []
    for task in listing("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/children" % (pid, task)) as file:
                pids += map(int, file.read().split())
        except OSError:
            continue  # it has just ended
    return pids


def end_descendants():
    """Kill all descendants of this process. Orphans of the killed come back to this process."""
    give_up = time.monotonic() + LEAVING
    while time.monotonic() < give_up:
        descendants = children(os.getpid())
        if not descendants:
            return
        for pid in descendants:  # the list grows meanwhile
            descendants += children(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # it has ended, or runs as another user
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except OSError:
            return  # no child remains
        time.sleep(0.005)


def leave(code=0):
    """End now, with every tool: a thread that hangs in the kernel must not hold the connection."""
    leaving.set()
    for group in tuple(running):
        kill(group)
    try:
        end_descendants()
    finally:
        os._exit(code)


def leave_on_signals():
    """Leave on a signal to end, with all tools. Call it in the main thread."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, _: leave(128 + number))


def leave_with_the_connection():
    """Leave once the reader of stdout is gone, by Ctrl-C or a lost connection: the answer has no reader any more."""
    reader = select.poll()
    reader.register(sys.stdout, 0)  # poll reports a closed reader without being asked to
    reader.poll()
    leave()
