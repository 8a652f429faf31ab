"""Program that applies one host's changes by compare-and-set.

It runs on the host, as root, and the controller never imports it. Standard library only, Python 3.6 syntax. The modules
of this package are sent together. The rest of stdin is the request, a JSON object:

    `marker`    Word that frames the answer. Banners before it and noise after it do no harm.
    `action`    "compare", "recover", "apply", "confirm" or "undo-of". "revert" is systemd's timer, see guardian.py.
    `limit`     Seconds after which the program ends itself.
    `run`       The run's id, a file name.
    `journal`   Directory of the journals.
    `watch`     Directory under /run for the guardians' records and for the verdicts on guarded runs.
    `lock`      File with the flock that makes this the only run on the host.
    `owner`     Name of the person running it, for the message of other runs meanwhile (recover, apply).
    `patience`  Seconds to wait for a run that is at work (recover, confirm).
    `undoes`    The run that this one takes back, or "" (apply).
    `seconds`   Seconds that the guardian waits for the confirmation (apply).
    `guarded_seconds`  Seconds that the guarded changes may take (apply).
    `caller`    Network of the machine that asks, see network.py. "" if unknown (apply).
    `person`    True if a person there can log in anew and say that it works (apply).
    `heard`     True if the changes are confirmed. If not, they are taken back at once (confirm).
    `go_on`     True if a target that another program has changed is skipped instead of ending the run (apply, confirm).
    `plain`     [{"area", "kind", "target", "before", "after"}, …] in order (apply, compare).
    `guarded`   The same: changes of the live firewall, taken back unless confirmed (apply, compare).
    `kept`      The same: changes that make those permanent, done once they are confirmed (apply, confirm, compare).
                Changes of the firewall in another list are moved, see phases.py. Results are in the new order.
    `named`     Files that the operator has named, beside those that this program knows.

The answer is `\\n<marker> <length>\\n<json>\\n`.

    `compare`   {"results", "open", "at_work"}.
                "results": [{"state", "found", "message"}, …] of all three lists in that order.
                "open", "at_work": as in undo-of.
    `recover`   {"recovered": a sentence about a run that was cut off here and is in order now, or ""}.
    `apply`     {"results", "guarded", "own"}.
                "results": as in compare. A result may have "maybe", too (see steps.py).
                "guarded": true if a confirmation is awaited. The results of `kept` come with it.
                "own": true if this host itself sends the request.
    `confirm`   {"verdict", "results", "left", "trying"}.
                "verdict": "confirmed" or "reverted".
                "results": those of `kept`.
                "left": [targets of guarded changes that were to be taken back and are still there].
                "trying": true if the host still tries to take them back.
    `undo-of`   {"changes", "left", "damaged", "open", "at_work"}.
                "changes": [changes that lead back to before the run] or null if it was not here.
                "left": [files in which only our lines are undone, since another program has changed them].
                "damaged": number of unreadable lines of its journal, so that a step may be missing.
                "open": the run that has begun here and not finished, or "".
                "at_work": the owner of the run that is at work here now, or "".
    `any`       {"error": "one sentence", "at_work": its owner, where another run is the reason}.
"""

import json
import os
import re
import sys
import time

from apply.allowed import refuse_strange
from apply.guardian import post_guards, revert_by_timer
from apply.journal import Journal, count_damaged, hold_journal, open_run, records
from apply.limits import MEMORY, bind
from apply.lock import AtWorkError, own_lock, take_lock, who_is_at_work
from apply.network import is_own, require_person
from apply.phases import by_phase
from apply.recovery import guarded_of, recover, settle, verdict_on
from apply.revert import still_changed
from apply.steps import NOT_RUN, compare, failed, run_steps, stops
from apply.tools import ENVIRONMENT, MARK, StepError, sentence
from apply.undo import undo_of
from apply.watch import drop, is_owed, read_record

START_SECONDS = 60.0  # for the request to arrive
PUT_IN_ORDER = "another run undid this run before it could continue. Run the same command again"


def compare_changes(request):
    changes = request["plain"] + request["guarded"] + request["kept"]
    return dict(under_way(request), results=[compare(change) for change in changes])


def under_way(request):
    return {"open": open_run(request["journal"]), "at_work": who_is_at_work(request)}


def apply(request):
    plain, guarded, kept = request["plain"], request["guarded"], request["kept"]
    go_on = request["go_on"]
    own_lock(request)
    recovered = recover(request["journal"], request["watch"])
    if recovered:
        raise StepError("%s. The plan is older than that, so run the same command again" % recovered)
    start_fields = {"owner": request["owner"], "changes": len(plain + guarded + kept), "undoes": request["undoes"]}
    journal = Journal.create(request["journal"], request["run"], **start_fields)
    results = run_steps(plain, journal, "plain", go_on=go_on)
    stop = stops(results, go_on)
    if guarded and not stop:
        try:
            require_person(request)
            post_guards(guarded, request, journal)
        except (StepError, OSError) as error:  # then the firewall is left alone
            results += [failed(sentence(error))] + [NOT_RUN] * (len(guarded) - 1)
            stop = True
        else:
            bind(request["guarded_seconds"])
            results += run_steps(guarded, journal, "guarded", len(plain), go_on=go_on)
            return {"results": results, "guarded": True, "own": is_own(request)}
    elif guarded:
        results += [NOT_RUN] * len(guarded)
    results += [NOT_RUN] * len(kept) if stop else run_steps(kept, journal, "kept", len(plain + guarded), go_on=go_on)
    journal.finish()
    return {"results": results, "guarded": False}


def confirm(request):
    directory, watch, run = request["journal"], request["watch"], request["run"]
    hold_journal(directory, run)
    # A missing record means that the host went down meanwhile. A connection that passes the firewall of a fresh boot
    # proves nothing about the firewall that was to be confirmed.
    guard = read_record(watch, run)
    in_time = request["heard"] and guard is not None and time.monotonic() < guard["deadline"]
    verdict = verdict_on(records(directory, run), watch, run, "confirmed" if in_time else "reverted")
    if verdict == "confirmed":
        drop(watch, run)
    still_trying = open_run(directory) == run and not take_over(request, verdict)
    results = [NOT_RUN] * len(request["kept"]) if still_trying else follow(request, verdict)
    targets_left = left_of(request) if verdict == "reverted" else []
    return {"verdict": verdict, "left": targets_left, "trying": still_trying and bool(targets_left), "results": results}


def left_of(request):
    """Return the targets of the run's guarded changes that differ from before; return all of them while a guardian
    still works and they only read as restored."""
    undo = guarded_of(records(request["journal"], request["run"]))
    is_trying = is_owed(request["watch"], request["run"])
    return still_changed(undo) or list(dict.fromkeys(change["target"] for change in undo if is_trying))


def take_over(request, verdict):
    """Return whether the guardians have carried out the verdict, so that this program holds the lock now."""
    try:
        take_lock(request["lock"], request["patience"])
    except AtWorkError:
        if verdict == "confirmed":
            raise
        return False
    return True


def follow(request, verdict):
    """Carry out the part of the verdict that is left to this program, and return the results of `kept`."""
    directory, run = request["journal"], request["run"]
    is_open = open_run(directory) == run
    if verdict != "confirmed":
        try:
            if is_open:
                recover(directory, request["watch"])  # its guardians failed, or are gone
        except (
            StepError
        ):  # the disk is full: the changes are taken back all the same, and the next run writes that down
            pass
        return [NOT_RUN] * len(request["kept"])
    if is_open:
        return make_permanent(request)
    # The same request came before, or another run came first.
    heard = any(record["event"] == "confirmed" for record in records(directory, run))
    return [compare(change) if heard else failed(PUT_IN_ORDER) for change in request["kept"]]


def make_permanent(request):
    """Make confirmed changes permanent, or finish that where an earlier confirmation was cut off."""
    journal = Journal.resume(request["journal"], request["run"])
    try:
        for record in list(journal.begun.values()):
            settle(record, journal)
        journal.note("confirmed")
    except StepError:  # the disk is full, as the first step will say
        pass
    first_number = sum(record["event"] == "end" for record in records(request["journal"], request["run"]))
    results = run_steps(request["kept"], journal, "kept", first_number, go_on=request["go_on"])
    journal.finish()
    return results


def put_in_order(request):
    own_lock(request, request["patience"])
    return {"recovered": recover(request["journal"], request["watch"])}


def undo(request):
    directory, run = request["journal"], request["run"]
    changes, files_left = undo_of(directory, run)
    return dict(under_way(request), changes=changes, left=files_left, damaged=count_damaged(directory, run))


ACTIONS = {
    "compare": compare_changes,
    "recover": put_in_order,
    "apply": apply,
    "confirm": confirm,
    "undo-of": undo,
    "revert": revert_by_timer,
}


def answer_to(request):
    try:
        if os.geteuid() != 0:
            raise StepError('changing a host needs root. Set ssh.user = "root" or ssh.sudo = true in the inventory')
        if not re.match(r"[\w.-]+$", request["run"]) or request["run"].startswith("."):
            raise StepError("%r is not a run id" % request["run"])
        refuse_strange(request)
        ENVIRONMENT[MARK] = request["run"]
        return ACTIONS[request["action"]](by_phase(request))
    except AtWorkError as at_work:
        return {"error": sentence(at_work), "at_work": at_work.owner}
    except (StepError, OSError) as error:
        return {"error": sentence(error)}


def main():
    os.umask(0o022)
    bind(START_SECONDS)
    try:
        request = json.loads(sys.stdin.buffer.read().decode())
        bind(request["limit"] or START_SECONDS)
        text = json.dumps(answer_to(request))
    except MemoryError:
        sys.exit("the program on the host needed more than %d MiB of memory, so it stopped" % (MEMORY >> 20))
    sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(text), text))
