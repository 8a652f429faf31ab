"""The dead man's switch: changes of the live firewall take themselves back unless somebody gets in and confirms them.

The verdict on a guarded run is a symbolic link, because making one is atomic and fails where there is one already:
either the confirmation or the guardian comes first, never both.
"""

import os
import signal
import time

from apply.journal import Journal
from apply.kinds import kind_of
from apply.steps import WELL, step
from apply.tools import StepError, sentence


def verdict_path(directory, run):
    return os.path.join(directory, run + ".verdict")


def claim(path, verdict):
    """Set the verdict if there is none yet; the one that holds."""
    try:
        os.symlink(verdict, path)
    except FileExistsError:
        pass
    return os.readlink(path)


def post_guardian(changes, seconds, journal):
    """Start a process that outlives this one and takes `changes` back unless the verdict says `confirmed` in time.

    The countdown begins when the last writer of a pipe is gone, which is this process: so it begins at its end, however
    it ends, and the guardian never works against it. The guardian inherits the lock and holds it until it is done.
    """
    undo = []
    for change in reversed(changes):
        try:
            found = kind_of(change["kind"]).read(change["target"])
        except (StepError, OSError):
            continue  # its step will fail on the same, before it writes
        undo.append(dict(change, before=change["after"], after=found))
    read_end, write_end = os.pipe()  # programs that are called do not inherit these
    middle = os.fork()
    if middle:
        os.close(read_end)
        if os.waitpid(middle, 0)[1]:
            raise StepError("the guardian could not be started; the host's journal says why")
        return
    status = 1
    try:
        os.setsid()  # a session of its own: the end of the connection does not reach it
        if os.fork() == 0:
            os.close(write_end)
            guard(undo, read_end, seconds, journal)
        status = 0
    except BaseException as error:
        journal.note("guardian failed", message=sentence(error))
    finally:
        os._exit(status)


def guard(undo, read_end, seconds, journal):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # sshd waits for everybody who holds these
        os.dup2(null, descriptor)
    os.read(read_end, 1)  # comes back at end-of-file
    path = verdict_path(journal.directory, journal.run)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not os.path.islink(path):
        time.sleep(0.1)
    try:
        verdict = claim(path, "reverted")
    except OSError:  # then nobody else's verdict is there either
        verdict = "reverted"
    if verdict == "reverted":  # else the one who confirms goes on from here, see main.py
        take_back(undo, as_it_is(journal))


def as_it_is(journal):
    """The journal with what was written since the guardian was started."""
    try:
        return Journal.resume(journal.directory, journal.run)
    except (StepError, OSError):  # somebody has removed it
        return journal


def take_back(undo, journal):
    """The live firewall as it was: every change of it, even where one before it failed."""
    journal.optional = True  # a full disk must not keep a host locked out
    journal.note("reverted")
    for number, change in enumerate(undo):
        if step(change, journal, partly=True, undo=number)["state"] not in WELL:
            journal.note("left", target=change["target"])
    journal.finish()
