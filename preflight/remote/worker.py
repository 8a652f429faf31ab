"""One rank of the probe: opens its device, meets the others, runs the collectives it is told and checks every value.

The source text travels inside the agent's hello. The agent imports torch through `prepare`, forks, and the child calls
`run`; nothing but this file touches torch or torch_npu. Standard library and Python 3.6 syntax otherwise.
"""

import collections
import datetime
import os
import time


def prepare():
    """Import torch, once for all workers; nothing is computed, so that no thread exists before the forks."""
    import torch
    import torch.distributed

    if not torch.distributed.is_available():
        raise ImportError("this torch is built without torch.distributed")
    return {"torch": str(torch.__version__)}


def serve_store(address, sock):
    """Serve a TCPStore on a listening socket; returns an object to keep alive. Has a thread: only after a fork."""
    import torch.distributed as dist

    port = sock.getsockname()[1]
    timeout = datetime.timedelta(seconds=30)
    try:
        return dist.TCPStore(
            address, port, is_master=True, wait_for_workers=False, timeout=timeout, master_listen_fd=sock.detach()
        )
    except TypeError:  # an old torch binds by itself, to all addresses
        return dist.TCPStore(address, port, is_master=True, wait_for_workers=False, timeout=timeout)


# How a device is reached, per backend: load what the backend needs; open device i; where its tensors live; wait until
# it has done its work; (free, total) bytes of its memory, or None; the options of a process group, or None. What only a
# real NPU runs is in the functions named `…_npu` and `…_hccl`: docs/never-run.md.
Access = collections.namedtuple("Access", "load open place synchronise memory options")


def _load_cuda():
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("torch.cuda.is_available() is False: no driver, no device, or a torch built without CUDA")
    if not torch.distributed.is_nccl_available():
        raise RuntimeError("this torch is built without NCCL")


def _open_cuda(index):
    import torch

    torch.cuda.set_device(index)
    torch.zeros(1, device="cuda:%d" % index)


def _cuda():
    import torch

    return torch.cuda


def _memory_of_cuda(index):
    """mem_get_info is younger than some torch versions in use."""
    ask = getattr(_cuda(), "mem_get_info", None)
    return tuple(ask(index)) if ask else None


def _load_npu():
    import torch_npu  # noqa: F401  (registers torch.npu, Tensor.npu and the backend hccl)


def _open_npu(index):
    """HCCL takes the device that is current when the process group is made, so it is set before."""
    import torch

    torch.npu.set_device(index)
    torch.zeros(1).npu(index)


def _place_of_npu(index):
    """Asked of torch_npu: npu:<index>, but the tensors of a stand-in live elsewhere."""
    import torch

    return torch.zeros(1).npu(index).device


def _synchronise_npu():
    import torch

    torch.npu.synchronize()


def _memory_of_npu(index):
    import torch

    return tuple(torch.npu.mem_get_info(index))


_BUFFER = 200  # MB, what HCCL takes where nobody says anything; twice a communicator
_NAME = 31  # characters of a communicator's name in HCCL's logs


def _options_of_hccl(spec):
    """Name the communicator, so that HCCL's own logs tell which group a line is about, and take no more memory than
    the largest test can use; what the job's environment says of that comes first. torch_npu 2.1 has no such options.
    """
    import torch_npu

    options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
    if hasattr(options, "hccl_config"):
        options.hccl_config = _hccl_config(spec, os.environ)
    return options


def _hccl_config(spec, environment):
    config = {"group_name": ("preflight-" + spec["group"])[:_NAME]}
    if not environment.get("HCCL_BUFFSIZE"):
        largest = max([test["bytes"] for test in spec["tests"]] or [0])
        config["hccl_buffer_size"] = min(_BUFFER, max(16, -(-largest >> 20)))
    return config


def _nothing(*_):
    return None


ACCESS = {
    "gloo": Access(_nothing, _nothing, lambda _: "cpu", _nothing, _nothing, _nothing),
    "nccl": Access(
        _load_cuda,
        _open_cuda,
        lambda index: "cuda:%d" % index,
        lambda: _cuda().synchronize(),
        _memory_of_cuda,
        _nothing,
    ),
    "hccl": Access(_load_npu, _open_npu, _place_of_npu, _synchronise_npu, _memory_of_npu, _options_of_hccl),
}

# Largest magnitude up to which every integer is exact: sums that stay below do not depend on the order of addition.
EXACT = {
    "int8": 2**7 - 1,
    "int16": 2**15 - 1,
    "int32": 2**31 - 1,
    "int64": 2**63 - 1,
    "bfloat16": 2**8,
    "float16": 2**11,
    "float32": 2**24,
    "float64": 2**53,
}
_PRIMES = (1021, 251, 127, 61, 31, 13, 7, 5, 3, 2)


def _period(limit):
    """The length of the repeating factor 1, 2, 3 … that stays within `limit`; prime, so that it is out of step with
    chunk sizes and rank counts. 0 if not even 1, 2 fits."""
    return next((prime for prime in _PRIMES if prime <= limit), 0)


class Pattern:
    """What each rank puts in and what must come out, element by element: a block that is repeated over the tensor.

    all_reduce SUM: rank r contributes (r + 1) * factor[i], so the sum is n (n + 1) / 2 * factor[i]. Where that leaves
    the type's exact range, element i comes from rank i mod n alone, and the others add 0.
    broadcast: the root sends a factor that starts elsewhere for every root; the others hold 0.
    """

    def __init__(self, test, rank, size):
        import torch

        self.dtype = getattr(torch, test["dtype"])
        self.count = max(1, test["bytes"] // torch.empty(0, dtype=self.dtype).element_size())
        self.size = size
        limit, total = EXACT[test["dtype"]], size * (size + 1) // 2
        self.shared = test["op"] == "all_reduce" and _period(limit // total) > 0
        self.alone = test["op"] == "all_reduce" and not self.shared
        period = _period(limit // total if self.shared else limit)
        length = period * size * -(-8192 // (period * size))  # whole periods of both; not too short to copy fast
        self.factor = ((torch.arange(length) + (test["root"] or 0)) % period + 1).to(self.dtype)
        self.expected = self.factor * total if self.shared else self.factor
        if self.shared:
            self.given = self.factor * (rank + 1)
        elif self.alone:
            self.given = torch.where(torch.arange(length) % size == rank, self.factor, torch.zeros_like(self.factor))
        else:
            self.given = self.factor if rank == test["root"] else torch.zeros_like(self.factor)

    def fill(self, tensor, given):
        """Put `given`, the block on the tensor's device, all over the tensor."""
        for part, block in _parts(tensor, given):
            part.copy_(block)

    def compare(self, found):
        """(wrong values, where and what the first is, the rank whose part is missing or counted twice, or None)."""
        import torch

        if all(torch.equal(part, block.expand_as(part)) for part, block in _parts(found, self.expected)):
            return 0, "", None
        expected = self._whole(self.expected)
        wrong = (found != expected).nonzero().flatten()
        first = int(wrong[0])
        text = "index %d of %d: found %s, expected %s" % (
            first, self.count, found[first].item(), expected[first].item(),
        )  # fmt: skip
        return len(wrong), text, self._suspect(found, expected, wrong)

    def _whole(self, block):
        return block.repeat(-(-self.count // len(block)))[: self.count]

    def _suspect(self, found, expected, wrong):
        """Only a difference that is exactly one rank's part, at places with different factors, names that rank."""
        import torch

        if self.alone:
            ranks = set((wrong % self.size).tolist())
            return ranks.pop() if len(ranks) == 1 and len(wrong) > 1 else None
        if not self.shared:
            return None
        exact = torch.float64 if self.dtype.is_floating_point else torch.int64
        factor = self._whole(self.factor)[wrong].to(exact)
        difference = found[wrong].to(exact) - expected[wrong].to(exact)
        share = float(difference[0]) / float(factor[0])
        if factor.min() == factor.max() or share != share // 1 or not 1 <= abs(share) <= self.size:
            return None
        return int(abs(share)) - 1 if torch.equal(difference, factor * int(share)) else None


def _parts(tensor, block):
    """The tensor as whole blocks and a rest, each with what of the block it is to hold."""
    whole = len(tensor) // len(block) * len(block)
    if whole:
        yield tensor[:whole].view(-1, len(block)), block
    if whole < len(tensor):
        yield tensor[whole:], block[: len(tensor) - whole]


def _collective(test, tensor):
    import torch.distributed as dist

    if test["op"] == "all_reduce":
        dist.all_reduce(tensor)
    elif test["op"] == "broadcast":
        dist.broadcast(tensor, test["root"])
    else:
        raise ValueError("unknown op %r" % (test["op"],))


def _measure(test, spec, access, say):
    """Warm up, then time each iteration on fresh data, aligned by a small all_reduce; every iteration is compared."""
    import torch
    import torch.distributed as dist

    device = access.place(spec["device"])
    pattern = Pattern(test, spec["rank"], spec["size"])
    given = pattern.given.to(device)
    tensor = torch.empty(pattern.count, dtype=pattern.dtype, device=device)
    line_up = torch.zeros(1, device=device)
    seconds = []
    wrong, first, suspect = 0, "", None
    for iteration in range(test["warmup"] + test["iterations"]):
        pattern.fill(tensor, given)
        if test["iterations"] > 1:
            dist.all_reduce(line_up)
        access.synchronise()
        begin = time.perf_counter()
        _collective(test, tensor)
        access.synchronise()
        if iteration >= test["warmup"]:
            seconds.append(time.perf_counter() - begin)
        if not wrong:  # compared on the host: a device does not vouch for its own data
            wrong, first, suspect = pattern.compare(tensor.to("cpu"))
    say({"at": "result", "seconds": seconds, "wrong": wrong, "first": first, "suspect": suspect})


def _fits(spec, access):
    """Twice the largest tensor must fit, on the device and, for all ranks of the host at once, in the host's memory.

    An allocator that runs out later would look like a fault, and a host that runs out kills whom it likes.
    """
    memory = access.memory(spec["device"])
    need = 2 * max([test["bytes"] for test in spec["tests"]] or [0])
    if memory and memory[0] < need:
        raise RuntimeError("%d MiB of memory are free on the device, %d are needed" % (memory[0] >> 20, need >> 20))
    ranks = len(spec["workers"])
    free = _host_memory()
    if free is not None and free < need * ranks:
        raise RuntimeError(
            "%d MiB of the host's memory are free, its %d ranks need %d" % (free >> 20, ranks, need * ranks >> 20)
        )


def _host_memory():
    """Bytes that can be had without swapping, None if the kernel does not say."""
    with open("/proc/meminfo") as lines:
        kibibytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kibibytes[0] << 10 if kibibytes else None


def run(spec, say, wait_for_go):
    """Be one rank: `say` takes a dict for the agent, `wait_for_go` blocks until it is this group's turn to
    run its next test.

    spec: backend, device, rank, size, group, store [address, port], deadline (seconds a step may take), tests, workers
    (all of this host).
    """
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank, size = spec["rank"], spec["size"]
    access = ACCESS[spec["backend"]]
    # A little less than the agent's deadline, so that the backend's own words come before the end.
    timeout = datetime.timedelta(seconds=spec["deadline"] - min(5, 0.1 * spec["deadline"]))

    def stage(name):
        say({"at": "stage", "stage": name})

    stage("torch")
    access.load()
    stage("backend")
    access.open(spec["device"])
    _fits(spec, access)
    stage("device")
    address, port = spec["store"]
    server = dist.TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=timeout)
    store = dist.PrefixStore(spec["group"], server)
    stage("store")
    store.set("here/%d" % rank, "1")
    store.wait(["here/%d" % other for other in range(size)], timeout)
    stage("peers")
    begin = time.perf_counter()
    options = access.options(spec)
    dist.init_process_group(
        spec["backend"], store=store, rank=rank, world_size=size, timeout=timeout, pg_options=options
    )
    # The first exchange makes the connections where the backend is lazy. Not barrier(): it asks for hooks of the
    # device type that a stand-in does not have.
    first = torch.ones(1, device=access.place(spec["device"]))
    dist.all_reduce(first)
    access.synchronise()
    if first.item() != size:
        raise RuntimeError("the first all_reduce gave %s instead of %d" % (first.item(), size))
    say({"at": "stage", "stage": "communicator", "seconds": time.perf_counter() - begin})
    for number, test in enumerate(spec["tests"]):
        wait_for_go()
        say({"at": "enter", "test": number})
        _measure(test, spec, access, lambda result, number=number: say(dict(result, test=number)))
    dist.destroy_process_group()
    stage("closed")
