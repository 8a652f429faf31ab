"""One rank of the probe. It opens its device, meets the others, runs its collectives and checks every value.

The package travels as text together with the agent, which imports torch (torch_import.py) and this module, forks, and
calls `run` in the child. Python 3.6 syntax, standard library and torch. Features of torch are looked up, not concluded
from its version. torch_npu is imported in the child, and replaces some of torch's functions: so these are looked up in
their modules with each call.
"""

import datetime

import torch
import torch.distributed as dist
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


def run(spec, say, wait_for_go):
    """Run as one rank: `say` sends a dict to the agent, `wait_for_go` blocks until it is this group's turn to run its
    next test.

    Keys of `spec`:

    - backend, device, rank, size, group
    - meets: whether there are other ranks to meet
    - init: how ranks meet (store, env, tcp or file)
    - store: [address, port], or file: its path
    - deadline: seconds that a step may take
    - tests
    - workers: all workers of this host
    """
    torch.set_num_threads(1)
    access = ACCESS[spec["backend"]]
    # A little less than the agent's deadline, so that the backend's own error message comes before the end.
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
        lacking = lacking_somewhere(spec, access)  # exchanges data, so before the report of the connection
        say({"at": "stage", "stage": "communicator", "seconds": seconds})
    for number, test in enumerate(spec["tests"]):
        wait_for_go()
        say({"at": "enter", "test": number, "stage": "warm-up" if test["warmup"] else "iteration"})
        run_test = refuse(lacking[number]) if number in lacking else TESTS.get(test["op"], measure)
        run_test(test, spec, access, lambda result, number=number: say(dict(result, test=number)))
    if spec["meets"]:
        dist.destroy_process_group()
    stage("closed")
