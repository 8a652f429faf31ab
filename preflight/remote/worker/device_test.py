"""Test of a device alone, before any network: it copies and multiplies, and every value is compared on the host.

There is one right result, whatever the order of additions. The factors are small integers, exact in every type with a
mantissa of 7 bits or more, so also where float32 is multiplied as TF32, HF32 or float16. The sums stay small wherever
they begin, because a kernel may cut them and add the parts in the result's type. So the bits of a result are the same
every time, and an intermittent error is found in the iteration in which it occurred.
"""

import time

import torch
from worker.measure import refuse
from worker.memory import room

HOST_BYTES = 1 << 18  # bytes of tensors in the host's memory: its processor does the work, and all ranks share it
SPIN = 0.3  # seconds of work on a device before the first timed run, so that its clocks are up
LONGEST = 2.0  # seconds for a test's iterations, comparison included
FEWEST = 3  # iterations that are timed in any case
COPIES = ("memory", "copy_in", "copy_out")
PROCESSOR = "processor"
_PERIOD = 7


class MemoryCopy:
    """A copy from `source` to `target`: on the device, from the host to it, or from it to the host.

    The values are integers that are all different and have every bit in use, so that no value can be misplaced
    unnoticed.
    """

    def __init__(self, op, side, device):
        on_host = is_host(device)
        self.expected = torch.arange(side * side, dtype=torch.int32) * -1640531535  # odd: it wraps around, one to one
        empty = torch.empty_like(self.expected)
        self.source = _pinned(self.expected, on_host) if op == "copy_in" else self.expected.to(device, copy=True)
        self.target = _pinned(empty, on_host) if op == "copy_out" else empty.to(device)
        self.read_back = self.target if is_host(self.target.device) else _pinned(empty, on_host)

    def run(self):
        self.target.copy_(self.source)


class MatrixProduct:
    """The product of two square matrices of -3 … 3 that repeat every seven rows and columns.

    The sign alternates along the dimension that is summed, so that 14 products in sequence cancel, and no part of a sum
    is beyond 14 × 9. The expected result is computed once on the host, in int64, from seven rows and seven columns.
    """

    def __init__(self, side, dtype, device):
        positions, seven = torch.arange(side), torch.arange(_PERIOD)
        rows = ((seven.unsqueeze(1) + 2 * positions) % _PERIOD - 3) * (1 - 2 * (positions % 2))
        columns = (positions.unsqueeze(1) ** 2 + seven) % _PERIOD - 3
        repeats = positions % _PERIOD
        type_ = getattr(torch, dtype)
        self.expected = (rows @ columns).to(type_)[repeats][:, repeats]
        self.left = rows.to(type_)[repeats].to(device)
        self.right = columns.to(type_)[:, repeats].to(device)
        self.target = torch.empty_like(self.expected).to(device)
        self.read_back = self.target if is_host(device) else _pinned(torch.empty_like(self.expected), False)

    def run(self):
        torch.mm(self.left, self.right, out=self.target)


def device_test(test, spec, access, say):
    """Warm up, then time each iteration. The target is wiped before each iteration and compared after it.

    `bytes` of the result is the size of the data: at most that of the test, and less where memory is short. `on_host`:
    the host's processor did the device's work, so the time says nothing about a device.
    """
    of_host, copies = test["op"] == PROCESSOR, test["op"] in COPIES
    if not (of_host or copies or access.multiplies(test["dtype"])):
        refuse("the device does not multiply %s" % test["dtype"])(test, spec, access, say)
        return
    device = torch.device("cpu" if of_host else access.place(spec["device"]))
    on_host = is_host(device)
    itemsize = torch.empty(0, dtype=getattr(torch, test["dtype"])).element_size()
    side = 1 << (int((_bytes(test, spec, access, on_host) // itemsize) ** 0.5).bit_length() - 1)
    work = MemoryCopy(test["op"], side, device) if copies else MatrixProduct(side, test["dtype"], device)
    begin = time.monotonic()
    while not on_host and time.monotonic() - begin < SPIN:
        work.run()
        access.synchronise()
    seconds, wrong, first = _iterate(test, work, access.synchronise, say)
    say(
        {
            "at": "result",
            "seconds": seconds,
            "wrong": wrong,
            "first": first,
            "suspect": spec["rank"] if wrong else None,
            "bytes": side * side * itemsize,
            "on_host": on_host and not of_host,
        }
    )


def _bytes(test, spec, access, on_host):
    """Return the bytes that a matrix, or a copy, may take."""
    if test["op"] == PROCESSOR:
        return test["bytes"]
    return min(test["bytes"], HOST_BYTES if on_host else room(spec, access) // 3)  # a product has three matrices


def _iterate(test, work, synchronise, say):
    """Return (seconds of each timed iteration, number of wrong values, place and value of the first)."""
    seconds, wrong, first = [], 0, ""
    begin = time.monotonic()
    for iteration in range(test["warmup"] + test["iterations"]):
        if len(seconds) >= FEWEST and time.monotonic() - begin > LONGEST:
            break
        if 0 < iteration == test["warmup"]:
            say({"at": "enter", "stage": "iteration"})
        work.target.zero_()
        synchronise()
        start = time.perf_counter()
        work.run()
        synchronise()
        if iteration >= test["warmup"]:
            seconds.append(time.perf_counter() - start)
        if not wrong:
            wrong, first = _compare(_on_host(work), work.expected)
    return seconds, wrong, first


def _on_host(work):
    """Return the result in the host's memory. A copy to pinned memory takes a twentieth of the time on an H100."""
    if work.read_back is not work.target:
        work.read_back.copy_(work.target)
    return work.read_back


def is_host(device):
    return device.type == "cpu"


def _pinned(tensor, on_host):
    """Return a copy of the tensor in memory that the device reaches by itself, where there is such memory.

    Elsewhere the host's processor copies first, and the figure is lower.
    """
    try:
        return tensor.clone() if on_host else tensor.pin_memory()
    except (RuntimeError, NotImplementedError):
        return tensor.clone()


def _compare(result, expected):
    """Return (number of wrong values, place and value of the first)."""
    if torch.equal(result, expected):
        return 0, ""
    result, expected = result.flatten(), expected.flatten()
    wrong = (result != expected).nonzero().flatten()
    place = int(wrong[0])
    text = "index %d of %d: found %s, expected %s"
    return len(wrong), text % (place, len(result), result[place].item(), expected[place].item())
