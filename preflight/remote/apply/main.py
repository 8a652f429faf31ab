"""Applies one host's changes by compare-and-set. Runs on the host, as root; imported by nobody.

Standard library only, Python 3.6 syntax. The modules of this package are sent together. The rest of stdin is the
request, a JSON object:

    marker     word that frames the answer; banners before it and noise after it do no harm
    action     "compare", "recover", "apply", "confirm" or "undo-of"
    run        the run's id, a file name
    journal    directory of the journals, and of the verdicts on guarded runs
    lock       file whose flock makes this the only run on the host
    owner      who runs it, for the message that others see meanwhile                      (recover, apply)
    patience   seconds to wait for a run that is at work                                   (recover)
    undoes     the run that this one takes back, or ""                                     (apply)
    seconds    how long the guardian waits for the confirmation                            (apply)
    go_on      whether what somebody else moved is passed by instead of ending the run     (apply, confirm)
    plain      [{"area", "kind", "target", "before", "after"}, …] in order                 (apply, compare)
    guarded    the same: changes of the live firewall, taken back unless confirmed         (apply, compare)
    kept       the same: what makes those permanent, done once they are confirmed          (apply, confirm, compare)

The answer is `\\n<marker> <length>\\n<json>\\n`:

    compare    {"results": [{"state", "found", "message"}, …] of all three lists in that order,
                "open", "at_work": as undo-of}
    recover    {"recovered": a sentence about a run that was cut off here and is in order now, or ""}
    apply      {"results": …, "guarded": whether a confirmation is awaited; the results of `kept` come with it;
                a result may have "maybe", too (see steps.py)}
    confirm    {"verdict": "confirmed" | "reverted", "left": [targets that could not be taken back], "results": of kept}
    undo-of    {"changes": [what leads back to before the run] or null if it was not here,
                "left": [files in which only our lines are undone, since somebody has changed them],
                "open": the run that has begun here and not finished, or "",
                "at_work": the owner of the run that is at work here now, or ""}
    any        {"error": "one sentence", "at_work": where that is the reason: its owner}
"""

import json
import os
import re
import sys

from apply.guardian import claim, post_guardian, verdict_path
from apply.journal import Journal, hold_journal, open_run, records
from apply.lock import AtWorkError, is_locked, own_lock, take_lock, who_is_at_work
from apply.recovery import recover, settle, undo_of
from apply.steps import NOT_RUN, compare, failed, run_steps, stops
from apply.tools import TOOL_SECONDS, StepError, sentence

PUT_IN_ORDER = "another run has put this one in order before it could go on: run the same command again"


def look(request):
    changes = request["plain"] + request["guarded"] + request["kept"]
    return dict(under_way(request), results=[compare(change) for change in changes])


def under_way(request):
    return {"open": open_run(request["journal"]), "at_work": who_is_at_work(request)}


def apply(request):
    plain, guarded, kept = request["plain"], request["guarded"], request["kept"]
    go_on = request["go_on"]
    own_lock(request)
    recovered = recover(request["journal"])
    if recovered:
        raise StepError("%s; the plan was made before that: run the same command again" % recovered)
    about = {"owner": request["owner"], "changes": len(plain + guarded + kept), "undoes": request["undoes"]}
    journal = Journal.create(request["journal"], request["run"], **about)
    results = run_steps(plain, journal, "plain", go_on=go_on)
    stop = stops(results, go_on)
    if guarded and not stop:
        try:
            post_guardian(guarded, request["seconds"], journal)
        except (StepError, OSError) as error:  # then the firewall is left alone
            results += [failed(sentence(error))] + [NOT_RUN] * (len(guarded) - 1)
            stop = True
        else:
            results += run_steps(guarded, journal, "guarded", len(plain), go_on=go_on)
            return {"results": results, "guarded": True}
    elif guarded:
        results += [NOT_RUN] * len(guarded)
    results += [NOT_RUN] * len(kept) if stop else run_steps(kept, journal, "kept", len(plain + guarded), go_on=go_on)
    journal.finish()
    return {"results": results, "guarded": False}


def confirm(request):
    directory, run = request["journal"], request["run"]
    hold_journal(directory, run)
    # The guardian holds the lock as long as it waits. Where it is gone the host went down meanwhile: that a connection
    # comes through to the firewall of a fresh boot proves nothing about the one that was to be confirmed.
    verdict = claim(verdict_path(directory, run), "confirmed" if is_locked(request["lock"]) else "reverted")
    results = [NOT_RUN] * len(request["kept"])
    if open_run(directory) == run:
        take_lock(request["lock"], patience=2 * TOOL_SECONDS)  # the guardian has done what the verdict says
    if open_run(directory) != run:  # its guardian has finished it, or this was asked before, or another run came first
        if verdict == "confirmed":
            heard = any(record["event"] == "confirmed" for record in records(directory, run))
            results = [compare(change) if heard else failed(PUT_IN_ORDER) for change in request["kept"]]
    elif verdict == "confirmed":
        results = make_permanent(request)
    else:
        try:
            recover(directory)  # its guardian could not, or is gone
        except StepError:  # the disk is full: it is taken back all the same, and the next run writes it down
            pass
    left = [record["target"] for record in records(directory, run) if record["event"] == "left"]
    return {"verdict": verdict, "left": left, "results": results}


def make_permanent(request):
    """What follows a confirmation, or what is left of it where an earlier one was cut off."""
    journal = Journal.resume(request["journal"], request["run"])
    try:
        for record in list(journal.begun.values()):
            settle(record, journal)
        journal.note("confirmed")
    except StepError:  # the disk is full, as the first step will say
        pass
    first = sum(record["event"] == "end" for record in records(request["journal"], request["run"]))
    results = run_steps(request["kept"], journal, "kept", first, go_on=request["go_on"])
    journal.finish()
    return results


def put_in_order(request):
    own_lock(request, request["patience"])
    return {"recovered": recover(request["journal"])}


def undo(request):
    changes, left = undo_of(request["journal"], request["run"])
    return dict(under_way(request), changes=changes, left=left)


ACTIONS = {"compare": look, "recover": put_in_order, "apply": apply, "confirm": confirm, "undo-of": undo}


def answer_to(request):
    try:
        if os.geteuid() != 0:
            raise StepError('changing a host needs root; set ssh.user = "root" or ssh.sudo = true in the inventory')
        if not re.match(r"[\w.-]+$", request["run"]) or request["run"].startswith("."):
            raise StepError("%r is not the id of a run" % request["run"])
        return ACTIONS[request["action"]](request)
    except AtWorkError as other:
        return {"error": sentence(other), "at_work": other.owner}
    except (StepError, OSError) as error:
        return {"error": sentence(error)}


def main():
    os.umask(0o022)
    request = json.loads(sys.stdin.buffer.read().decode())
    text = json.dumps(answer_to(request))
    sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(text), text))
