"""Lock that allows one run at a time on a host: a flock, held by the program, then by its guardian, and by each tool
that they call. It is released once all of them have ended.

Between the two parts of a guarded run, the changes and their confirmation, the lock goes from the guardian to the
program that confirms. No other run takes it then: see `being_confirmed`.
"""

import fcntl
import os
import time

from apply.journal import being_confirmed
from apply.tools import StepError

PAUSE = 0.05  # seconds between two attempts
LOOK_SECONDS = 1.0  # shortest time that a run tries: a query for the lock may hold it briefly


class AtWorkError(StepError):
    """Failure because another run holds the lock; `owner` names that run's owner."""

    def __init__(self, owner):
        self.owner = owner or "unnamed"
        StepError.__init__(self, "another run is active on this host (%s). Wait until it ends" % self.owner)


def take_lock(path, patience=0.0):
    """Hold the lock to the end of this process, and of every process that inherits it: its guardian, and tools."""
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
    """Take the lock for a new run, and write the run's owner into it."""
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
    """Return whether a run holds the lock. Queries like this one do not count."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return not try_lock(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def who_is_at_work(request):
    """Return the owner of the run that is at work on this host, empty if there is none."""
    if not is_locked(request["lock"]) and not being_confirmed(request["journal"]):
        return ""
    return owner_in(os.open(request["lock"], os.O_RDWR)) or "unnamed"
