"""One run at a time a host: a flock, held by the program, by its guardian after it and by each tool that they call, and
given up by the ends of all of them.

Between the two parts of a guarded run, the changes and their confirmation, the lock goes from the guardian to the
program that confirms. Nobody else takes it then: see `being_confirmed`.
"""

import fcntl
import os
import time

from apply.journal import being_confirmed
from apply.tools import StepError

PAUSE = 0.05  # seconds between two attempts
LOOK_SECONDS = 1.0  # for which even a run without patience tries: others may be asking whether the lock is held


class AtWorkError(StepError):
    """Another run holds the lock; `owner` says whose it is."""

    def __init__(self, owner):
        self.owner = owner or "unnamed"
        StepError.__init__(self, "another run is at work on this host (%s); wait until it is done" % self.owner)


def take_lock(path, patience=0.0):
    """Hold the lock to the end of this process, and of every other that inherits it: its guardian, and tools."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(handle, True)
    deadline = time.monotonic() + patience
    while not try_lock(handle, fcntl.LOCK_EX):
        if time.monotonic() >= deadline:
            raise AtWorkError(owner_in(handle))
        time.sleep(PAUSE)
    return handle


def try_lock(handle, how):
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def owner_in(handle):
    owner = os.pread(handle, 200, 0).decode("utf-8", "replace").strip()
    os.close(handle)
    return owner


def own_lock(request, patience=LOOK_SECONDS):
    """Take the lock for a run of its own, and name its owner there."""
    deadline = time.monotonic() + patience
    while True:
        lock = take_lock(request["lock"], deadline - time.monotonic())
        if not being_confirmed(request["journal"]):
            break
        if time.monotonic() >= deadline:
            raise AtWorkError(owner_in(lock))
        os.close(lock)
        time.sleep(PAUSE)
    os.ftruncate(lock, 0)
    os.write(lock, request["owner"].encode()[:200])


def is_locked(path):
    """Whether somebody holds the lock; those who only ask do not."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return not try_lock(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def who_is_at_work(request):
    """The owner of the run that is at work on this host, empty if there is none."""
    if not is_locked(request["lock"]) and not being_confirmed(request["journal"]):
        return ""
    return owner_in(os.open(request["lock"], os.O_RDWR)) or "unnamed"
