"""One rank of the probe: opens its device, meets the others, runs the collectives it is told and checks every value.

The package travels as text together with the agent, which imports torch through `prepare`, forks, and calls `run` in
the child. Python 3.6 syntax, standard library and torch; what is used of torch is looked for, not concluded from its
version.
"""

import datetime
import gc
import os
import tempfile

from worker.access import ACCESS
from worker.device_test import device_test
from worker.measure import lacking_somewhere, measure, refuse
from worker.meeting import join, prepare_file
from worker.memory import fits
from worker.training import training_step

TESTS = {
    "memory": device_test,
    "copy_in": device_test,
    "copy_out": device_test,
    "matmul": device_test,
    "processor": device_test,
    "training_step": training_step,
}


def prepare(trains=False):
    """Import torch, once for all workers; nothing is computed, so that no thread exists before the forks.

    trains: a training step will be done, for which torch imports its compiler, which takes as long again; every rank
    would import it if it were not there when workers are forked.

    Nobody collects garbage meanwhile: there is none, and looking for it takes a quarter of the time. Nor do workers
    look for it among what is imported, which would make them copy all of it.
    """
    gc.disable()
    try:
        return _import_torch(trains)
    finally:
        freeze = getattr(gc, "freeze", None)  # Python 3.7
        if freeze:
            freeze()
        gc.enable()


def _import_torch(trains):
    import torch
    import torch.distributed

    if not torch.distributed.is_available():
        raise ImportError("this torch is built without torch.distributed")
    if trains:
        # Its import makes this directory, and nothing is put there; a job's own, or one that is there, is no trace.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir())
        try:
            import torch._dynamo
        except Exception:
            pass  # an old torch has none; one that is broken says so in the training step, as in a job
    return {"torch": str(torch.__version__)}


def run(spec, say, wait_for_go):
    """Be one rank: `say` takes a dict for the agent, `wait_for_go` blocks until it is this group's turn to
    run its next test.

    spec: backend, device, rank, size, group, meets (whether there is anybody to meet), init (how: store, env, tcp or
    file), store [address, port] or file (its path), deadline (seconds a step may take), tests, workers (all of this
    host).
    """
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    access = ACCESS[spec["backend"]]
    # A little less than the agent's deadline, so that the backend's own words come before the end.
    timeout = datetime.timedelta(seconds=spec["deadline"] - min(5, 0.1 * spec["deadline"]))

    def stage(name):
        say({"at": "stage", "stage": name})

    stage("torch")
    prepare_file(spec)
    access.load()
    stage("backend")
    access.open(spec["device"])
    if spec["meets"]:
        fits(spec, access)
    stage("device")
    lacking = {}
    if spec["meets"]:
        seconds = join(spec, access, timeout, say)
        lacking = lacking_somewhere(spec, access)  # an exchange, so before anybody is called connected
        say({"at": "stage", "stage": "communicator", "seconds": seconds})
    for number, test in enumerate(spec["tests"]):
        wait_for_go()
        say({"at": "enter", "test": number, "stage": "warm-up" if test["warmup"] else "iteration"})
        run_test = refuse(lacking[number]) if number in lacking else TESTS.get(test["op"], measure)
        run_test(test, spec, access, lambda result, number=number: say(dict(result, test=number)))
    if spec["meets"]:
        dist.destroy_process_group()
    stage("closed")
