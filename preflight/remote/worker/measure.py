"""One test of a group: warm up, time each iteration on fresh data, compare every value."""

import datetime
import time

import torch
import torch.distributed as dist
from worker.collective import begin, lacking, refused

AGREE = 20.0  # seconds at most for all ranks to report that their backend refuses an operation


def lacking_somewhere(spec, access):
    """Return {number of a test that cannot be run: reason}. Other ranks must not wait for a test that one rank's torch
    lacks."""
    reasons = [lacking(test, dist) for test in spec["tests"]]
    able = torch.tensor([not reason for reason in reasons], dtype=torch.int32, device=access.place(spec["device"]))
    if reasons:
        dist.all_reduce(able, op=dist.ReduceOp.MIN)
    unable = (able == 0).nonzero().flatten().tolist()
    return {number: reasons[number] or "another rank's torch does not have it" for number in unable}


def refuse(why):
    """Return the replacement of a test that is not run, because torch or the backend does not have what it needs."""

    def say_so(test, spec, access, say):  # noqa: ARG001
        say({"at": "result", "seconds": [], "wrong": 0, "first": "", "suspect": None, "refused": why[:500]})

    return say_so


def measure(test, spec, access, say):
    """Warm up, then time each iteration, aligned by a small all_reduce. The values of warm-up iterations are compared,
    too."""
    device = access.place(spec["device"])
    work = begin(test, spec, device)
    alignment = torch.zeros(1, device=device)
    seconds = []
    wrong, first, suspect = 0, "", None
    for turn in range(test["warmup"] + test["iterations"]):
        if turn == test["warmup"] > 0:
            say({"at": "enter", "stage": "iteration"})
        work.prepare(turn)
        if test["iterations"] > 1:
            dist.all_reduce(alignment)
        access.synchronise()
        start = time.perf_counter()
        try:
            work.call()
        except Exception as error:
            if turn or not refused(error):
                raise
            all_refuse(spec, error)
            refuse(str(error))(test, spec, access, say)
            return
        access.synchronise()
        if turn >= test["warmup"]:
            seconds.append(time.perf_counter() - start)
        if not wrong:
            wrong, first, suspect = work.compare(turn)
    on_host = alignment.device.type == "cpu"
    say({"at": "result", "seconds": seconds, "wrong": wrong, "first": first, "suspect": suspect, "on_host": on_host})


_refusals = 0


def all_refuse(spec, error):
    """Wait until every rank has refused the operation.

    Raise the error if not all ranks refuse it, well before the deadline: some are in the operation then, and wait.
    """
    global _refusals
    _refusals += 1
    store, key = dist.distributed_c10d._get_default_store(), "refused/%d" % _refusals
    if store.add(key, 1) == spec["size"]:
        store.set(key + "/all", "1")
    try:
        store.wait([key + "/all"], datetime.timedelta(seconds=min(AGREE, 0.5 * spec["deadline"])))
    except RuntimeError:
        raise error from None
