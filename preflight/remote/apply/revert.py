"""The live firewall as it was before a run: every change of it is taken back, again and again until it reads so."""

import time

from apply.kinds import kind_of
from apply.steps import WELL, step
from apply.tools import GoneError, StepError

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0  # seconds between two attempts; each is twice the one before


class Reverted:
    """What came of it: `left` are the targets that are not as they were. It stands in for the journal meanwhile, since
    a disk that is full or frozen must not keep a host shut; of many attempts it keeps the first begin and last end."""

    def __init__(self):
        self.left = []
        self.loaded = set()  # numbers of the changes whose kind has loaded what its files say
        self.upset = {}
        self.notes = {}  # (undo, event) → the rest of the line, in the order in which they are to be written

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
    """Make the changes of `undo`, even where one before them fails, until each reads back as made or it is `until`.

    `forced`: what is ours is put back whatever else another program has changed meanwhile.
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
    """Make one change, and where it is forced see that it is live; whether it is made."""
    try:
        if step(change, result, partly=True, forced=forced, undo=number)["state"] not in WELL:
            return False
        if forced and number not in result.loaded:
            kind_of(change["kind"]).load(change["target"])
            result.loaded.add(number)
        return True
    except Exception:  # whatever a tool has printed: the next attempt may succeed, and other changes have their turn
        return False


def still_changed(changes):
    """Return the targets of those `changes`, which lead back, that are not made."""
    return list(dict.fromkeys(change["target"] for change in changes if not is_back(change)))


def is_back(change):
    kind = kind_of(change["kind"])
    try:
        found = kind.read(change["target"])
    except GoneError:
        return True
    except (StepError, OSError):
        return False
    return kind.same(found) == kind.same(kind.aim(found, change))
