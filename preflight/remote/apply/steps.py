"""Steps: one change after the other, each by compare-and-set."""

import select
import sys
import time
from functools import partial

from apply.kinds import kind_of
from apply.tools import GoneError, StepError, sentence

WELL = ("done", "already")
NOT_RUN = {"state": "not-run", "found": None, "message": ""}


def failed(message):
    return {"state": "failed", "found": None, "message": message}


def end(note, state, found=None, message="", **more):
    """Write a step's result down, and return it."""
    result = {"state": state, "found": found, "message": message}
    note("end", sync=False, **dict(more, **result))
    return result


def step(change, journal, partly=False, forced=False, **number):
    """Make one change. Return {"state", "found", "message"}, and "maybe" where it was begun and is not made: true if it
    may have changed the host.

    `number` is `step` and `phase`, or `undo`, for the journal. `partly`: a state that an interrupted writer may have
    left counts as `before`. `forced`: any state of the live firewall counts as `before`.
    """
    kind, target, after = kind_of(change["kind"]), change["target"], change["after"]
    note = partial(journal.note, kind=change["kind"], target=target, area=change["area"], **number)
    try:
        value = kind.read(target)
    except GoneError as error:
        if not forced:
            return end(note, "failed", message="cannot read the current value: " + sentence(error))
        return end(note, "already", after=after, message="nothing is left to undo: " + sentence(error))
    except (StepError, OSError) as error:
        return end(note, "failed", message="cannot read the current value: " + sentence(error))
    forced = forced and kind.merge is not None
    after = kind.aim(value, change) if forced else after
    if kind.same(value) == kind.same(after):
        return end(note, "already", after=after)
    if not forced and is_moved(kind, value, change, journal, partly):
        return end(note, "moved", value)
    return write(kind, target, value, after, note)


def write(kind, target, value, after, note):
    """Write `after` over `value`, read it back, and return the result."""
    first_state = (kind.same(value), kind.others(target))
    note("begin", before=value, after=after, others=first_state[1])
    problem, is_unknown = "", False
    try:
        kind.write(target, after)
    except (StepError, OSError) as error:
        problem = sentence(error)
    try:
        value = read_back(kind, target, after, settle=0 if problem else kind.settle)
    except (StepError, OSError) as error:
        is_unknown, problem = True, problem or "cannot read the new value: " + sentence(error)
    side_effects = kind.others(target)
    if is_unknown:
        return dict(end(note, "failed", None, problem, others=side_effects, unknown=True), maybe=True)
    if kind.same(value) == kind.same(after):  # the state of the host counts, not the tool's message
        return end(note, "done", message=problem, others=side_effects)
    result = end(note, "failed" if problem else "did-not-stick", value, problem, others=side_effects)
    return dict(result, maybe=(kind.same(value), side_effects) != first_state)


def is_moved(kind, value, change, journal, partly):
    """Return whether the target has another value than the change expects."""
    is_expected = kind.same(value) == kind.same(expected(change, journal))
    return not is_expected and not (partly and between(kind, value, change))


def expected(change, journal):
    """Return the value that the change expects. Earlier steps of this run may have changed the target besides. Then it
    is the value that they left, if the value before them was the expected one."""
    value_before, value_after = journal.upset.get((change["kind"], change["target"]), (None, change["before"]))
    return value_after if value_before == change["before"] else change["before"]


def between(kind, value, change):
    """Return whether a writer that was cut off between `before` and `after`, in either direction, may have left
    `value`."""
    ends = set((change["before"] or "").splitlines()) | set((change["after"] or "").splitlines())
    return kind.lines and set((value or "").splitlines()) <= ends


def read_back(kind, target, after, settle):
    deadline = time.monotonic() + settle
    while True:
        value = kind.read(target)
        if kind.same(value) == kind.same(after) or time.monotonic() >= deadline:
            return value
        time.sleep(0.2)


def compare(change):
    """Return the result that a step would have, without writing: its state is `pending` where it would write."""
    kind, target = kind_of(change["kind"]), change["target"]
    try:
        value = kind.read(target)
    except (StepError, OSError) as error:
        return failed("cannot read the current value: " + sentence(error))
    if kind.same(value) == kind.same(change["after"]):
        return {"state": "already", "found": None, "message": ""}
    is_unchanged = kind.same(value) == kind.same(change["before"])
    return {"state": "pending" if is_unchanged else "moved", "found": None if is_unchanged else value, "message": ""}


def abandoned():
    """Return whether the answer has no reader any more: the person pressed Ctrl-C, or the connection broke."""
    reader = select.poll()
    reader.register(sys.stdout, 0)  # poll reports a closed reader without being asked to
    return bool(reader.poll(0))


def stops(results, go_on):
    """Return whether no further step may begin after these. With `go_on`, a target that another program has changed
    does not stop the run."""
    good_states = (*WELL, "moved") if go_on else WELL
    return any(result["state"] not in good_states for result in results)


def run_steps(changes, journal, phase, first=0, go_on=False):
    """Make the changes in order, up to the first that fails. With `go_on`, skip those that another program has changed.
    Begin none after the reader of the answer is gone."""
    results = []
    for number, change in enumerate(changes, first):
        if stops(results[-1:], go_on):
            break
        try:
            if abandoned():
                journal.note("abandoned", step=number)
                break
            results.append(step(change, journal, step=number, phase=phase))
        except StepError as error:  # raised by the journal: the results of earlier steps are still reported
            results.append(dict(failed(sentence(error)), maybe=True))
    return results + [NOT_RUN] * (len(changes) - len(results))
