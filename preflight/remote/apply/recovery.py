"""A run that was cut off is finished or undone by the next one; and what a run did is read from its journal."""

import os
import time

from apply.files import clean_up
from apply.journal import Journal, close_run, count_damaged, open_run, record_of, records
from apply.kinds import kind_of, value_of
from apply.revert import take_back
from apply.steps import between
from apply.tools import StepError, sentence
from apply.watch import claim, drop, held, is_owed

TRY_SECONDS = 10.0  # for which a firewall is taken back that does not let itself be


def recover(directory, watch):
    """Put in order what a run left that was killed, or whose host went down; a sentence about it, empty if there was
    none. To be called by who holds the host's lock, so that no process of that run is alive.

    A step that had begun has happened, or not; one that was cut off in between is taken back. Changes of the live
    firewall that nobody confirmed are taken back, as their guardian would have done.
    """
    run = open_run(directory)
    if not run:
        return ""
    done = records(directory, run)
    if done is None:  # somebody has removed the journal
        close_run(directory)
        return ""
    journal = Journal.resume(directory, run)
    if done and done[-1]["event"] == "finish" and not journal.begun:
        journal.finish()
        return ""
    journal.optional = True  # a full disk is told at the end
    for record in list(journal.begun.values()):
        settle(record, journal)
    guarded, left = guarded_of(done), []
    with held(watch, run):  # a guardian that is at it has the time to end
        if guarded and verdict_on(done, watch, run, "reverted") == "reverted":
            # After a reboot there is nothing of the run in the live firewall, and nothing is forced upon it.
            forced = is_owed(watch, run)
            result = take_back(guarded, time.monotonic() + TRY_SECONDS * forced, forced)
            result.write_to(journal)
            left = result.left
        else:
            journal.finish()
    if not left:
        drop(watch, run)
    if journal.lost and open_run(directory) == run:
        raise StepError("%s cannot be written: %s" % (journal.path, journal.lost.strerror))
    owner = next((record["owner"] for record in done if record["event"] == "start"), run)
    damaged = count_damaged(directory, run)
    but = ", but for %d lines of %s that cannot be read" % (damaged, journal.path) if damaged else ""
    return "an earlier run (%s) was cut off here and was put in order%s" % (owner, but)


def guarded_of(done):
    """The changes that take the guarded steps of a run back, last first, from its records."""
    guarded = [record for record in done if record["event"] == "begin" and record.get("phase") == "guarded"]
    return [back(record) for record in reversed(guarded)]


def verdict_on(done, watch, run, verdict):
    """Return the verdict that holds; `verdict`, if there is none yet. A confirmation is known for good by the journal,
    the rest for as long as the host runs."""
    if any(record["event"] == "confirmed" for record in done):
        return "confirmed"
    return claim(watch, run, verdict)[0]


def back(record):
    """The change that takes a step back, from the record of its beginning."""
    return {
        "kind": record["kind"],
        "target": record["target"],
        "area": record["area"],
        "before": record["after"],
        "after": record["before"],
    }


def settle(record, journal):
    """Write the end of a step that was cut off, as the host shows it now."""
    kind, target = kind_of(record["kind"]), record["target"]
    problem, found = "", None
    try:
        if record["kind"] in ("file", "program"):
            clean_up(target)
        found = kind.read(target)
        ends = (kind.same(record["before"]), kind.same(record["after"]))
        if kind.same(found) not in ends and between(kind, found, record):
            kind.write(target, record["before"])
            found = kind.read(target)
    except (StepError, OSError) as error:
        problem = sentence(error)
    state = "done" if not problem and kind.same(found) == kind.same(record["after"]) else "failed"
    which = {key: record[key] for key in ("step", "undo", "phase", "kind", "target", "area") if key in record}
    if problem:
        which["unknown"] = True
    journal.note("end", state=state, found=found, message=problem or "cut off", others=kind.others(target), **which)


def undo_of(directory, run):
    """(changes, left): what leads back to how the host was before a run, in the order in which it is to be made, and
    the files that are not put back; (None, []) if the run was not here.

    What counts is what the run came to in the end: a change that its guardian took back needs no undoing, nor what an
    earlier rollback, finished or not, has taken back already. A file that a tool rewrote, and what a step changed
    besides, is put back after the step itself; a file of which only some lines are ours, and which somebody has changed
    since, loses these lines only. A step without an end may have happened: compare-and-set will tell.
    """
    done = records(directory, run)
    if done is None:
        return None, []
    for later in rollbacks_of(directory, run):
        done += numbered(records(directory, later), later)
    effects = {}  # (kind, target) → first and last value, in the order of first touch
    begun = {}
    for record in done:
        which = (record.get("run"), record.get("step"), record.get("undo"))
        if record["event"] == "begin":
            lines = kind_of(record["kind"]).lines
            for kind, target, value in record["others"]:
                other = effects.setdefault((kind, target), effect(record, kind, target, value, lines))
                if kind == "file" and value != other["last"]:  # what a tool writes into it now is not ours alone
                    other["frozen"] = True
            own = effects.setdefault((record["kind"], record["target"]), effect(record, value=record["before"]))
            own["last"] = record["after"]
            begun[which] = (own, record["after"])
        elif record["event"] == "end" and which in begun:
            own, wanted = begun.pop(which)
            own["last"] = wanted if record["state"] == "done" or record.get("unknown") else record["found"]
            for kind, target, value in record["others"]:
                if not effects[(kind, target)]["frozen"]:
                    effects[(kind, target)]["last"] = value
        elif record["event"] == "end" and record["state"] == "already" and "after" in record:
            own = effects.get((record["kind"], record["target"]))
            if own:  # a guardian that could not write has taken it back, or somebody else
                own["last"] = record["after"]
    undone = [found for found in reversed(list(effects.values())) if differs(found)]
    left = [found["target"] for found in undone if found["lines"] and somebodys(found)]
    return [inverse(found) for found in undone if found["target"] not in left], left


def rollbacks_of(directory, run):
    """The runs that took this one back, or took back one of those, in the order in which they were made."""
    starts = []
    for name in os.listdir(directory):
        if name.endswith(".jsonl"):
            with open(os.path.join(directory, name), "rb") as file:
                starts.append((record_of(file.readline()) or {}, name[: -len(".jsonl")]))
    undoes = {name: start.get("undoes") for start, name in starts if start.get("event") == "start"}
    family = [run]
    for member in family:  # grows meanwhile
        family += [name for name, undone in undoes.items() if undone == member and name not in family]
    return sorted(family[1:])  # a run's id begins with its time


def numbered(done, run):
    """A run's records with numbers that no other run has."""
    return [dict(record, run=run) for record in done]


def effect(record, kind=None, target=None, value=None, lines=False):
    """`lines`: the step itself takes away all of it that is ours. `frozen`: somebody has changed it since `last`."""
    return {
        "kind": kind or record["kind"],
        "target": target or record["target"],
        "area": record["area"],
        "first": value,
        "last": value,
        "lines": lines,
        "frozen": False,
    }


def inverse(found):
    return dict({name: found[name] for name in ("kind", "target", "area")}, before=found["last"], after=found["first"])


def somebodys(found):
    return value_of(found["kind"], found["target"]) not in (found["first"], found["last"])


def differs(found):
    same = kind_of(found["kind"]).same
    return same(found["first"]) != same(found["last"])
