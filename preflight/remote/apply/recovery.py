"""Recovery of a run that was cut off, by the next run, and the effects of a run as its journal shows them."""

import os
import time

from apply.files import clean_up
from apply.journal import Journal, close_run, count_damaged, open_run, record_of, records
from apply.kinds import kind_of, value_of
from apply.revert import take_back
from apply.steps import between
from apply.tools import StepError, sentence
from apply.watch import claim, drop, held, is_owed

TRY_SECONDS = 10.0  # limit of the attempts to take a firewall back


def recover(directory, watch):
    """Put in order the state left by a run that was killed, or that ended with its host. Return a sentence about it, or
    an empty text if there was none. The caller must hold the host's lock, so that no process of that run is alive.

    A step that had begun has happened, or not; one that was cut off in between is taken back. Unconfirmed changes of
    the live firewall are taken back, as their guardian would have done.
    """
    run = open_run(directory)
    if not run:
        return ""
    run_records = records(directory, run)
    if run_records is None:  # the journal has been removed
        close_run(directory)
        return ""
    journal = Journal.resume(directory, run)
    if run_records and run_records[-1]["event"] == "finish" and not journal.begun:
        journal.finish()
        return ""
    journal.optional = True  # a full disk is reported at the end
    for record in list(journal.begun.values()):
        settle(record, journal)
    guarded, targets_left = guarded_of(run_records), []
    with held(watch, run):  # a guardian at work has time to end
        if guarded and verdict_on(run_records, watch, run, "reverted") == "reverted":
            # After a reboot there is nothing of the run in the live firewall, and nothing is forced upon it.
            forced = is_owed(watch, run)
            result = take_back(guarded, time.monotonic() + TRY_SECONDS * forced, forced)
            result.write_to(journal)
            targets_left = result.left
        else:
            journal.finish()
    if not targets_left:
        drop(watch, run)
    if journal.lost and open_run(directory) == run:
        raise StepError("%s cannot be written: %s" % (journal.path, journal.lost.strerror))
    owner = next((record["owner"] for record in run_records if record["event"] == "start"), run)
    damaged = count_damaged(directory, run)
    exception = ", but for %d lines of %s that cannot be read" % (damaged, journal.path) if damaged else ""
    return "an earlier run (%s) was cut off here and was put in order%s" % (owner, exception)


def guarded_of(done):
    """Return the changes that take the guarded steps of a run back, last first, from its records."""
    guarded = [record for record in done if record["event"] == "begin" and record.get("phase") == "guarded"]
    return [back(record) for record in reversed(guarded)]


def verdict_on(done, watch, run, verdict):
    """Return the verdict that holds; `verdict`, if there is none yet. The journal keeps a confirmation for good, any
    other verdict lasts as long as the host runs."""
    if any(record["event"] == "confirmed" for record in done):
        return "confirmed"
    return claim(watch, run, verdict)[0]


def back(record):
    """Return the change that takes a step back, from its `begin` record."""
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
    problem, value = "", None
    try:
        if record["kind"] in ("file", "program"):
            clean_up(target)
        value = kind.read(target)
        ends = (kind.same(record["before"]), kind.same(record["after"]))
        if kind.same(value) not in ends and between(kind, value, record):
            kind.write(target, record["before"])
            value = kind.read(target)
    except (StepError, OSError) as error:
        problem = sentence(error)
    state = "done" if not problem and kind.same(value) == kind.same(record["after"]) else "failed"
    fields = {key: record[key] for key in ("step", "undo", "phase", "kind", "target", "area") if key in record}
    if problem:
        fields["unknown"] = True
    journal.note("end", state=state, found=value, message=problem or "cut off", others=kind.others(target), **fields)


def undo_of(directory, run):
    """Return (changes, files not put back): the changes lead back to the state before a run, in the order to make them.
    Return (None, []) if the run was not here.

    Only the final effect of the run counts. A change that its guardian or an earlier rollback, even an unfinished one,
    has taken back needs no undoing. A file that a tool rewrote, and a target that a step changed besides, is put back
    after the step itself. A file that has only some lines of ours, and that another program has changed since, loses
    these lines only. A step without an end may have happened: compare-and-set will show.
    """
    run_records = records(directory, run)
    if run_records is None:
        return None, []
    for rollback in rollbacks_of(directory, run):
        run_records += numbered(records(directory, rollback), rollback)
    effects = {}  # (kind, target) → first and last value, in the order of first touch
    begun_steps = {}
    for record in run_records:
        step_key = (record.get("run"), record.get("step"), record.get("undo"))
        if record["event"] == "begin":
            lines = kind_of(record["kind"]).lines
            for kind, target, value in record["others"]:
                side_effect = effects.setdefault((kind, target), effect(record, kind, target, value, lines))
                if kind == "file" and value != side_effect["last"]:  # later writes by a tool are not ours alone
                    side_effect["frozen"] = True
            own_effect = effects.setdefault((record["kind"], record["target"]), effect(record, value=record["before"]))
            own_effect["last"] = record["after"]
            begun_steps[step_key] = (own_effect, record["after"])
        elif record["event"] == "end" and step_key in begun_steps:
            own_effect, new_value = begun_steps.pop(step_key)
            own_effect["last"] = new_value if record["state"] == "done" or record.get("unknown") else record["found"]
            for kind, target, value in record["others"]:
                if not effects[(kind, target)]["frozen"]:
                    effects[(kind, target)]["last"] = value
        elif record["event"] == "end" and record["state"] == "already" and "after" in record:
            own_effect = effects.get((record["kind"], record["target"]))
            if own_effect:  # taken back by a guardian that could not write, or by another program
                own_effect["last"] = record["after"]
    effective_changes = [change for change in reversed(list(effects.values())) if differs(change)]
    files_left = [change["target"] for change in effective_changes if change["lines"] and somebodys(change)]
    return [inverse(change) for change in effective_changes if change["target"] not in files_left], files_left


def rollbacks_of(directory, run):
    """Return the runs that took this run back, or took back one of its rollbacks, in the order in which they were
    made."""
    starts = []
    for name in os.listdir(directory):
        if name.endswith(".jsonl"):
            with open(os.path.join(directory, name), "rb") as file:
                starts.append((record_of(file.readline()) or {}, name[: -len(".jsonl")]))
    undoes = {name: start.get("undoes") for start, name in starts if start.get("event") == "start"}
    family = [run]
    for member in family:  # grows meanwhile
        family += [name for name, reverted_run in undoes.items() if reverted_run == member and name not in family]
    return sorted(family[1:])  # a run's id begins with its time


def numbered(done, run):
    """Return a run's records with numbers that no other run has."""
    return [dict(record, run=run) for record in done]


def effect(record, kind=None, target=None, value=None, lines=False):
    """Return the first and last value of a target. `lines`: the step itself removes all of our lines. `frozen`: another
    program has changed the target since `last`."""
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
    comparable = kind_of(found["kind"]).same
    return comparable(found["first"]) != comparable(found["last"])
