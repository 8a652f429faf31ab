"""Applies one host's changes by compare-and-set. Runs on the host, as root; imported by nobody.

Standard library only, Python 3.6 syntax. The modules of this package are sent together. The rest of stdin is the
request, a JSON object:

    marker     word that frames the answer; banners before it and noise after it do no harm
    action     "compare", "recover", "apply", "confirm" or "undo-of"
    run        the run's id, a file name
    journal    directory of the journals, and of the verdicts on guarded runs
    lock       file whose flock makes this the only run on the host
    owner      who runs it, for the message that others see meanwhile                      (recover, apply)
    patience   seconds to wait for a run that is at work                                   (recover, apply)
    undoes     the run that this one takes back, or ""                                     (apply)
    seconds    how long the guardian waits for the confirmation                            (apply)
    go_on      whether what somebody else moved is passed by instead of ending the run     (apply, confirm)
    plain      [{"area", "kind", "target", "before", "after"}, …] in order                 (apply, compare)
    guarded    the same: changes of the live firewall, taken back unless confirmed         (apply, compare)
    kept       the same: what makes those permanent, done once they are confirmed          (apply, confirm, compare)

The answer is `\\n<marker> <length>\\n<json>\\n`:

    compare    {"results": [{"state", "found", "message"}, …] of all three lists in that order, "open": as undo-of}
    recover    {"recovered": a sentence about a run that was cut off here and is in order now, or ""}
    apply      {"results": …, "guarded": whether a confirmation is awaited; the results of `kept` come with it,
                "recovered": the same; a result may have "maybe", too (see steps.py)}
    confirm    {"verdict": "confirmed" | "reverted", "left": [targets that could not be taken back], "results": of kept}
    undo-of    {"changes": [what leads back to before the run] or null if it was not here,
                "open": the run that has begun here and not finished, or ""}
    any        {"error": "one sentence"}
"""

import fcntl
import json
import os
import re
import sys
import time

from apply.guardian import claim, post_guardian, verdict_path
from apply.journal import Journal, open_run, records
from apply.recovery import recover, undo_of
from apply.steps import NOT_RUN, compare, failed, run_steps, stops
from apply.tools import TOOL_SECONDS, StepError, sentence


def take_lock(path, patience=0.0):
    """The lock's descriptor; it is free again when every process that inherited it has ended."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if time.monotonic() >= deadline:
                owner = os.read(handle, 200).decode("utf-8", "replace").strip()
                os.close(handle)
                message = "another run is at work on this host (%s); wait until it is done"
                raise StepError(message % (owner or "unnamed")) from None
            time.sleep(0.05)


def is_locked(path):
    try:
        os.close(take_lock(path))
    except StepError:
        return True
    return False


def own_lock(request, patience=0.0):
    lock = take_lock(request["lock"], patience)
    os.ftruncate(lock, 0)
    os.write(lock, request["owner"].encode()[:200])


def look(request):
    changes = request["plain"] + request["guarded"] + request["kept"]
    return {"results": [compare(change) for change in changes], "open": open_run(request["journal"])}


def apply(request):
    plain, guarded, kept = request["plain"], request["guarded"], request["kept"]
    go_on = request["go_on"]
    own_lock(request, request["patience"])
    recovered = recover(request["journal"])
    journal = Journal.create(request["journal"], request["run"])
    journal.note("start", owner=request["owner"], changes=len(plain + guarded + kept), undoes=request["undoes"])
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
            return {"results": results, "guarded": True, "recovered": recovered}
    elif guarded:
        results += [NOT_RUN] * len(guarded)
    results += [NOT_RUN] * len(kept) if stop else run_steps(kept, journal, "kept", len(plain + guarded), go_on=go_on)
    journal.finish()
    return {"results": results, "guarded": False, "recovered": recovered}


def confirm(request):
    directory, run = request["journal"], request["run"]
    # The guardian holds the lock as long as it waits. Where it is gone the host went down meanwhile: that a connection
    # comes through to the firewall of a fresh boot proves nothing about the one that was to be confirmed.
    verdict = claim(verdict_path(directory, run), "confirmed" if is_locked(request["lock"]) else "reverted")
    lock = take_lock(request["lock"], patience=2 * TOOL_SECONDS)  # the guardian has done what the verdict says
    if verdict == "reverted":
        recover(directory)  # unless the guardian did
    journal = Journal.resume(directory, run)
    done = records(directory, run)
    left = [record["target"] for record in done if record["event"] == "left"]
    results = [NOT_RUN] * len(request["kept"])
    if verdict == "confirmed" and any(record["event"] == "confirmed" for record in done):
        results = [compare(change) for change in request["kept"]]  # this was asked before, and the answer got lost
    elif verdict == "confirmed":  # also where another run came first, and took this one for one that was cut off
        journal.note("confirmed")
        first = sum(record["event"] == "end" for record in done)
        results = run_steps(request["kept"], journal, "kept", first, go_on=request["go_on"])
        journal.finish()
    os.close(lock)
    return {"verdict": verdict, "left": left, "results": results}


def put_in_order(request):
    own_lock(request, request["patience"])
    return {"recovered": recover(request["journal"])}


def undo(request):
    return {"changes": undo_of(request["journal"], request["run"]), "open": open_run(request["journal"])}


ACTIONS = {"compare": look, "recover": put_in_order, "apply": apply, "confirm": confirm, "undo-of": undo}


def answer_to(request):
    try:
        if os.geteuid() != 0:
            raise StepError('changing a host needs root; set ssh.user = "root" or ssh.sudo = true in the inventory')
        if not re.match(r"[\w.-]+$", request["run"]) or request["run"].startswith("."):
            raise StepError("%r is not the id of a run" % request["run"])
        return ACTIONS[request["action"]](request)
    except (StepError, OSError) as error:
        return {"error": sentence(error)}


def main():
    os.umask(0o022)
    request = json.loads(sys.stdin.buffer.read().decode())
    text = json.dumps(answer_to(request))
    sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(text), text))
