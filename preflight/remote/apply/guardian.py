"""Dead man's switch: the host takes changes of the live firewall back unless a new connection confirms them.

Before the first change there are two ways back that do not depend on each other. One is a guardian process in its own
session. The other is a timer of systemd, or a second guardian where systemd is missing. The first to find the deadline
passed takes the changes back. The record holds everything that they need:

    `run`, `watch`, `journal`, `lock`   As in the request of the program.
    `undo`      The changes that lead back, last first.
    `deadline`  Value of time.monotonic() at which the changes are taken back, whatever the program does.
    `seconds`   Seconds to wait for a confirmation after the program has ended, if that comes first.
    `program`   [process id, start time].
"""

import errno
import os
import select
import signal
import time

from apply.journal import Journal
from apply.kinds import kind_of
from apply.limits import unbind
from apply.lock import take_lock
from apply.revert import take_back
from apply.tools import KILL_SECONDS, MARK, GoneError, StepError, must, sentence
from apply.watch import (
    claim,
    drop,
    held,
    is_owed,
    note_guardian,
    start_time,
    stat_fields,
    timer_name,
    verdict_path,
    write_program,
    write_record,
)

WAYS = 2
TRY_SECONDS = 6 * 3600.0  # limit of the attempts to take a firewall back
LOOK_SECONDS = 0.1  # between two checks for a verdict
RUN_COPY = "import sys; sys.path.insert(0, %r); from apply.main import main; main()"


def post_guards(changes, request, journal):
    """Have `changes` taken back unless the verdict is `confirmed` in time. Raise StepError or OSError without two ways
    back.

    The deadline is absolute, so that a program that hangs does not put it off. The guardians inherit the host's lock
    and hold it until they are done.
    """
    undo = way_back(changes)
    record = {name: request[name] for name in ("run", "watch", "journal", "lock", "seconds")}
    record.update(action="revert", marker="", limit=0, undo=undo, program=[os.getpid(), start_time(os.getpid())])
    record["deadline"] = time.monotonic() + request["guarded_seconds"] + request["seconds"]
    read_end, write_end = os.pipe()  # programs that are called do not inherit these
    try:
        write_record(record)
        for _ in range(WAYS - start_timer(record)):
            start_guardian(record, read_end, write_end, journal)
    except BaseException:
        claim(record["watch"], record["run"], "called-off")
        drop(record["watch"], record["run"])
        raise
    finally:
        os.close(read_end)


def way_back(changes):
    """Return the changes that lead back from `changes`, last first. Raise StepError where a value cannot be read: a
    tool that fails now may work later, when the change is made, and nothing would lead back from it."""
    undo = []
    for change in reversed(changes):
        try:
            value = kind_of(change["kind"]).read(change["target"])
        except GoneError:
            continue  # an earlier change makes the chain and removes it again, or this change's step fails, too
        undo.append(dict(change, before=change["after"], after=value))
    return undo


def start_timer(record):
    """Have systemd take the changes back. Return False where it does not run, or refuses."""
    folder = os.path.join(record["watch"], record["run"])
    if not os.path.isdir("/run/systemd/system"):
        return False
    seconds = "--on-active=%.1fs" % max(0.1, record["deadline"] - time.monotonic())
    options = ["--unit=" + timer_name(record["run"]), seconds, "--timer-property=AccuracySec=100ms"]
    python = os.path.realpath("/proc/self/exe")
    program = ["/bin/sh", "-c", 'exec "$0" -IBc "$1" < "$2"', python, RUN_COPY % folder, os.path.join(folder, "record")]
    try:
        write_program(folder)
        must("systemd-run", *options, *program)
    except (StepError, OSError):
        return False
    return True


def start_guardian(record, read_end, write_end, journal):
    """Start a process that outlives this one and its session."""
    middle = os.fork()
    if middle:
        if os.waitpid(middle, 0)[1]:
            raise StepError(
                "the process that undoes unconfirmed changes did not start. The reason is in the host's journal"
            )
        return
    status = 1
    try:
        os.setsid()  # its own session: the end of the connection does not reach it
        if os.fork() == 0:
            os.close(write_end)
            note_guardian(record["watch"], record["run"])
            guard(record, read_end)
        status = 0
    except BaseException as error:
        journal.note("guardian failed", message=sentence(error))
    finally:
        os._exit(status)


def guard(record, read_end):
    """Wait for the verdict or for the deadline, then act."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # sshd waits for every process that holds these
        os.dup2(null, descriptor)
    unbind()
    path, deadline = verdict_path(record["watch"], record["run"]), record["deadline"]
    program = select.poll()
    program.register(read_end, select.POLLIN)
    while time.monotonic() < deadline and not os.path.islink(path):
        if program.poll(LOOK_SECONDS * 1000):  # end-of-file: the program has ended
            deadline = min(deadline, time.monotonic() + record["seconds"])
            program = select.poll()
    decide(record)


def decide(record):
    """Take the changes back, unless they are confirmed or another process has taken them back."""
    watch, run = record["watch"], record["run"]
    was_owed = is_owed(watch, run)
    try:
        verdict, is_new = claim(watch, run, "reverted")
    except OSError:  # then there is no other verdict either
        verdict, is_new = "reverted", True
    if verdict != "reverted":  # the program that confirms goes on from here, see main.py
        return
    with held(watch, run):
        if is_owed(watch, run) or (is_new and not was_owed):
            revert(record)


def revert(record):
    """Open the host again first, and write that down afterwards."""
    stop_program(record)
    result = take_back(record["undo"], time.monotonic() + TRY_SECONDS)
    if not result.left:
        drop(record["watch"], record["run"])
    try:
        result.write_to(Journal.resume(record["journal"], record["run"]))
    except (StepError, OSError):
        pass  # the journal has been removed


def revert_by_timer(record):
    """Decide as the timer of systemd, which has inherited no lock."""
    unbind()
    try:
        take_lock(record["lock"])
    except (StepError, OSError):
        pass  # a guardian has it, or a run that takes the changes back itself: see `held`
    decide(record)
    return {}


def stop_program(record):
    """Kill the run's program, even a stopped one, and the tools that it has called: they work against the revert."""
    pid, start_ticks = record["program"]
    pids = [pid] if start_ticks is not None and start_time(pid) == start_ticks else []
    for process in pids:
        os.kill(process, signal.SIGKILL)
    pids += kill_tools(record["run"])
    deadline = time.monotonic() + KILL_SECONDS
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)


def kill_tools(run):
    mark = ("%s=%s" % (MARK, run)).encode()
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as file:
                if mark in file.read().split(b"\0"):
                    os.kill(int(pid), signal.SIGKILL)
                    pids.append(int(pid))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM):
                raise
    return pids


def is_alive(pid):
    fields = stat_fields(pid)
    return fields is not None and fields[0] != "Z"
