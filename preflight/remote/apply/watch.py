"""State of a guarded run, in a directory under /run: gone after a reboot, and on no disk that fills or freezes.

`RUN.verdict`    A link to `confirmed` or `reverted`. Making one is atomic and fails where there is one already,
                 so that either the confirmation or a reverter comes first, never both.
`RUN/record`     Data for a reverter, see guardian.py. It exists until the changes are confirmed or taken back.
`RUN/apply/`     A copy of this program, for systemd's timer.
`RUN/guardians`  "PID START_TIME" a line: the guardian processes.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import time

from apply.tools import StepError, call

PAUSE = 0.1  # seconds between two attempts to become the reverter
HOLD_SECONDS = 60.0  # longest wait for a reverter that does not end
START_TIME = 19  # index of the field in /proc/PID/stat after the program's name


def verdict_path(watch, run):
    return os.path.join(watch, run + ".verdict")


def record_path(watch, run):
    return os.path.join(watch, run, "record")


def claim(watch, run, verdict):
    """Set the verdict if there is none yet. Return the verdict that holds, and whether it is new."""
    path = verdict_path(watch, run)
    os.makedirs(watch, 0o700, exist_ok=True)
    try:
        os.symlink(verdict, path)
    except FileExistsError:
        return os.readlink(path), False
    return verdict, True


def write_program(folder):
    """Write this program's modules, which came as one text, to `folder`/apply."""
    os.makedirs(os.path.join(folder, "apply"), 0o700)
    for name, text in sys.modules["__main__"].TEXTS.items():
        package, _, module = name.partition(".")
        with open(os.path.join(folder, package, (module or "__init__") + ".py"), "w", encoding="utf-8") as file:
            file.write(text)


def write_record(record):
    os.makedirs(record["watch"], 0o700, exist_ok=True)
    os.makedirs(os.path.join(record["watch"], record["run"]), 0o700, exist_ok=True)
    handle = os.open(record_path(record["watch"], record["run"]), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(record, file)


def read_record(watch, run):
    """Return the record of a run that is neither confirmed nor taken back, None where there is none."""
    try:
        with open(record_path(watch, run), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def is_owed(watch, run):
    return os.path.exists(record_path(watch, run))


def note_guardian(watch, run):
    """Write down that this process is a guardian of the run."""
    with open(os.path.join(watch, run, "guardians"), "a", encoding="ascii") as file:
        file.write("%d %d\n" % (os.getpid(), start_time(os.getpid())))


def end_guardians(watch, run):
    """Kill the run's guardians but for this process: one that is stopped or hangs would hold the host's lock."""
    try:
        with open(os.path.join(watch, run, "guardians"), encoding="ascii") as file:
            guardians = [tuple(map(int, line.split())) for line in file]
    except OSError:
        return
    for pid, start_ticks in guardians:
        if pid != os.getpid() and start_time(pid) == start_ticks:
            with contextlib.suppress(OSError):  # the guardian has ended meanwhile
                os.kill(pid, signal.SIGKILL)


def drop(watch, run):
    """Record that nothing is owed to the run any more, and end its guardians and its timer."""
    end_guardians(watch, run)
    record = read_record(watch, run)
    if record and os.path.isdir("/run/systemd/system"):
        try:
            call("systemctl", "stop", timer_name(run) + ".timer")
        except (StepError, OSError):
            pass  # the timer will find the verdict
    shutil.rmtree(os.path.join(watch, run), ignore_errors=True)


def timer_name(run):
    return "preflight-guard-" + run


@contextlib.contextmanager
def held(watch, run):
    """Let one process at a time take the run's changes back. A reverter that hangs does not block the next one."""
    try:
        handle = os.open(record_path(watch, run), os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        deadline = time.monotonic() + HOLD_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(PAUSE)
        yield
    finally:
        os.close(handle)


def stat_fields(pid):
    """Return the fields of /proc/PID/stat after the program's name, None where the process is gone."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def start_time(pid):
    """Return a process's start time in the kernel's ticks, None where it is gone. With the id it identifies a
    process."""
    fields = stat_fields(pid)
    return fields and int(fields[START_TIME])
