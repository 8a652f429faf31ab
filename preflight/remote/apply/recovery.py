"""Recovery of a run that was cut off, by the next run."""

import time

from apply.files import clean_up
from apply.journal import Journal, close_run, count_damaged, open_run, records
from apply.kinds import kind_of
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
    if not take_back_guarded(run_records, watch, journal):
        drop(watch, run)
    if journal.lost and open_run(directory) == run:
        raise StepError("%s cannot be written: %s" % (journal.path, journal.lost.strerror))
    return recovery_note(run_records, journal)


def take_back_guarded(run_records, watch, journal):
    """Take the guarded steps back, unless they were confirmed, and end the journal. Return the targets left as they
    are."""
    guarded = guarded_of(run_records)
    with held(watch, journal.run):  # a guardian at work has time to end
        if not guarded or verdict_on(run_records, watch, journal.run, "reverted") != "reverted":
            journal.finish()
            return []
        # After a reboot there is nothing of the run in the live firewall, and nothing is forced upon it.
        forced = is_owed(watch, journal.run)
        result = take_back(guarded, time.monotonic() + TRY_SECONDS * forced, forced)
        result.write_to(journal)
        return result.left


def recovery_note(run_records, journal):
    owner = next((record["owner"] for record in run_records if record["event"] == "start"), journal.run)
    damaged = count_damaged(journal.directory, journal.run)
    exception = ", except for %d unreadable lines in %s" % (damaged, journal.path) if damaged else ""
    return "an earlier run (%s) was interrupted on this host and has been cleaned up%s" % (owner, exception)


def guarded_of(run_records):
    """Return the changes that take the guarded steps of a run back, last first, from its records."""
    guarded = [record for record in run_records if record["event"] == "begin" and record.get("phase") == "guarded"]
    return [back(record) for record in reversed(guarded)]


def verdict_on(run_records, watch, run, verdict):
    """Return the verdict that holds; `verdict`, if there is none yet. The journal keeps a confirmation for good, any
    other verdict lasts as long as the host runs."""
    if any(record["event"] == "confirmed" for record in run_records):
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
    fields = step_fields(record)
    if problem:
        fields["unknown"] = True
    journal.note("end", state=state, found=value, message=problem or "cut off", others=kind.others(target), **fields)


def step_fields(record):
    """Return the fields by which a record tells its step."""
    return {key: record[key] for key in ("step", "undo", "phase", "kind", "target", "area") if key in record}
