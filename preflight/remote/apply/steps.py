"""One change after the other, each by compare-and-set."""

import select
import sys
import time

from apply.kinds import kind_of
from apply.tools import GoneError, StepError, sentence

WELL = ("done", "already")
NOT_RUN = {"state": "not-run", "found": None, "message": ""}


def failed(message):
    return {"state": "failed", "found": None, "message": message}


def step(change, journal, partly=False, forced=False, **number):
    """One change: {"state", "found", "message"}, and "maybe" where it was begun and is not made: whether it may have
    changed something. `number` is `step` and `phase`, or `undo`, for the journal. `partly`: what a writer that was cut
    off may have left is as good as `before`. `forced`: so is whatever is found of the live firewall."""
    kind, target, after = kind_of(change["kind"]), change["target"], change["after"]
    which = dict(number, kind=change["kind"], target=target, area=change["area"])

    def ended(state, found=None, message="", **more):
        result = {"state": state, "found": found, "message": message}
        journal.note("end", sync=False, **dict(which, **dict(more, **result)))
        return result

    try:
        found = kind.read(target)
    except GoneError as error:
        if not forced:
            return ended("failed", message="could not be read: " + sentence(error))
        return ended("already", after=after, message="nothing is left to take back: " + sentence(error))
    except (StepError, OSError) as error:
        return ended("failed", message="could not be read: " + sentence(error))
    forced = forced and kind.merge is not None
    after = kind.aim(found, change) if forced else after
    if kind.same(found) == kind.same(after):
        return ended("already", after=after)
    if not forced and is_moved(kind, found, change, journal, partly):
        return ended("moved", found)
    were = (kind.same(found), kind.others(target))
    journal.note("begin", before=found, after=after, others=were[1], **which)
    problem, unknown = "", False
    try:
        kind.write(target, after)
    except (StepError, OSError) as error:
        problem = sentence(error)
    try:
        found = read_back(kind, target, after, settle=0 if problem else kind.settle)
    except (StepError, OSError) as error:
        unknown, problem = True, problem or "could not be read back: " + sentence(error)
    others = kind.others(target)
    if unknown:
        return dict(ended("failed", None, problem, others=others, unknown=True), maybe=True)
    if kind.same(found) == kind.same(after):  # what the host shows counts, not what the tool said
        return ended("done", message=problem, others=others)
    result = ended("failed" if problem else "did-not-stick", found, problem, others=others)
    return dict(result, maybe=(kind.same(found), others) != were)


def is_moved(kind, found, change, journal, partly):
    """Whether something else is there than what the change hopes to find."""
    hoped = kind.same(found) == kind.same(expected(change, journal))
    return not hoped and not (partly and between(kind, found, change))


def expected(change, journal):
    """What the change hopes to find. Steps of this very run may have changed it besides on the way: it is as it was
    hoped for where it was so before them and is as they left it."""
    first, last = journal.upset.get((change["kind"], change["target"]), (None, change["before"]))
    return last if first == change["before"] else change["before"]


def between(kind, found, change):
    """Whether a writer that was cut off on its way from `before` to `after`, or back, may have left `found`."""
    ends = set((change["before"] or "").splitlines()) | set((change["after"] or "").splitlines())
    return kind.lines and set((found or "").splitlines()) <= ends


def read_back(kind, target, after, settle):
    deadline = time.monotonic() + settle
    while True:
        found = kind.read(target)
        if kind.same(found) == kind.same(after) or time.monotonic() >= deadline:
            return found
        time.sleep(0.2)


def compare(change):
    """What a step would meet, with nothing written: its state is `pending` where it would write."""
    kind, target = kind_of(change["kind"]), change["target"]
    try:
        found = kind.read(target)
    except (StepError, OSError) as error:
        return failed("could not be read: " + sentence(error))
    if kind.same(found) == kind.same(change["after"]):
        return {"state": "already", "found": None, "message": ""}
    as_seen = kind.same(found) == kind.same(change["before"])
    return {"state": "pending" if as_seen else "moved", "found": None if as_seen else found, "message": ""}


def abandoned():
    """Whether nobody will read the answer: its reader pressed Ctrl-C, or the connection broke."""
    reader = select.poll()
    reader.register(sys.stdout, 0)  # that the other end is gone is reported unasked
    return bool(reader.poll(0))


def stops(results, go_on):
    """Whether nothing else is begun after these; with `go_on`, what somebody else moved is passed by."""
    fine = (*WELL, "moved") if go_on else WELL
    return any(result["state"] not in fine for result in results)


def run_steps(changes, journal, phase, first=0, go_on=False):
    """The changes in order, up to the first that does not end well; with `go_on` past those that somebody else moved.
    None is begun that nobody waits for."""
    results = []
    for number, change in enumerate(changes, first):
        if stops(results[-1:], go_on):
            break
        try:
            if abandoned():
                journal.note("abandoned", step=number)
                break
            results.append(step(change, journal, step=number, phase=phase))
        except StepError as error:  # of the journal: what was done before is told nevertheless
            results.append(dict(failed(sentence(error)), maybe=True))
    return results + [NOT_RUN] * (len(changes) - len(results))
