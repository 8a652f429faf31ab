"""Revert of the live firewall to its state before a run: every change is taken back, repeatedly until it reads so."""

import time

from apply.kinds import kind_of
from apply.steps import WELL, step
from apply.tools import GoneError, StepError

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0  # seconds between two attempts; each is twice the one before


class Reverted:
    """Result of a revert. `left` holds the targets that differ from before.

    It replaces the journal meanwhile, since a disk that is full or frozen must not keep a host shut. It keeps the first
    begin and the last end of many attempts.
    """

    def __init__(self):
        self.left = []
        self.loaded = set()  # numbers of the changes that are loaded from their files
        self.upset = {}
        self.notes = {}  # (undo, event) → the other fields of the line, in writing order

    def note(self, event, undo=None, **more):
        more.pop("sync", None)  # nothing is written yet
        if event == "end":
            self.notes.pop((undo, event), None)
        self.notes.setdefault((undo, event), more)

    def write_to(self, journal):
        journal.optional = True
        journal.note("reverted")
        for undo, event in self.notes:
            journal.note(event, undo=undo, **self.notes[undo, event])
        for target in self.left:
            journal.note("left", target=target)
        journal.finish()


def take_back(undo, until, forced=True):
    """Make the changes of `undo`, even where an earlier one fails, until each reads back as made or the time is
    `until`.

    `forced`: our part is put back even if another program has changed the target meanwhile.
    """
    result, pause = Reverted(), FIRST_PAUSE
    while True:
        result.left = [
            change["target"] for number, change in enumerate(undo) if not back(change, number, result, forced)
        ]
        if not result.left or time.monotonic() >= until:
            return result
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def back(change, number, result, forced):
    """Make one change, and check that a forced one is live. Return whether it is made."""
    try:
        if step(change, result, partly=True, forced=forced, undo=number)["state"] not in WELL:
            return False
        if forced and number not in result.loaded:
            kind_of(change["kind"]).load(change["target"])
            result.loaded.add(number)
        return True
    except Exception:  # a tool may print anything: the next attempt may succeed, and the other changes go on
        return False


def still_changed(changes):
    """Return the targets of those `changes`, which lead back, that are not made."""
    return list(dict.fromkeys(change["target"] for change in changes if not is_back(change)))


def is_back(change):
    kind = kind_of(change["kind"])
    try:
        value = kind.read(change["target"])
    except GoneError:
        return True
    except (StepError, OSError):
        return False
    return kind.same(value) == kind.same(kind.aim(value, change))
