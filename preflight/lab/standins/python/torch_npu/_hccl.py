"""STAND-IN for the hccl backend: gloo between the devices' own network interfaces."""

from datetime import timedelta

import torch
import torch.distributed as dist

from torch_npu import _errors, _fibres, _lab, _rendezvous, npu

# Operation of a process group → the same on gloo's backend. torch 2.13 has renamed the single-tensor ones.
_REDUCES = {
    "allreduce": "allreduce",
    "allreduce_coalesced": "allreduce_coalesced",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_single": "_reduce_scatter_base",
    "_reduce_scatter_base": "_reduce_scatter_base",
}
# These only move data and take more types.
_MOVES = {
    "broadcast": "broadcast",
    "allgather": "allgather",
    "all_gather_single": "_allgather_base",
    "_allgather_base": "_allgather_base",
    "gather": "gather",
    "scatter": "scatter",
    "alltoall": "alltoall",
    "all_to_all_single": "alltoall_base",
    "alltoall_base": "alltoall_base",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv_anysource",
}
_BETWEEN_TWO = ("send", "recv")
_OF_A1 = {torch.int8, torch.int32, torch.int64, torch.float16, torch.float32}
_OF_A2 = _OF_A1 | {torch.int16, torch.bfloat16}
_NO_PRODUCT = {torch.int16, torch.bfloat16}
# HCCL turns a bool into a uint8 on the way.
_REDUCIBLE = {"atlas-a1": _OF_A1 | {torch.bool}, "atlas-a2": _OF_A2 | {torch.bool}, "atlas-a3": _OF_A2 | {torch.bool}}

_LARGE = 1 << 16  # bytes from which a faulty device shows that it is

_endpoint = None


def create(backend_options, options):
    """What `init_process_group("hccl")` and `new_group` call. No rank is contacted before the first collective."""
    store, rank, size = backend_options.store, backend_options.group_rank, backend_options.group_size
    options = options or ProcessGroupHCCL.Options()
    options._check()
    return ProcessGroupHCCL(store, rank, size, backend_options.timeout)


class ProcessGroupHCCL(dist.ProcessGroup):
    """One communicator."""

    class Options:
        """What `pg_options` may carry; it changes nothing here, but wrong types are refused as by the real one."""

        def __init__(self):
            self.hccl_config = {}

        def _check(self):
            """Raise for a value of another type than the real one takes."""
            for key, value in self.hccl_config.items():
                wanted, word = (str, "string") if key == "group_name" else (int, "int")
                if not isinstance(value, wanted):
                    raise RuntimeError(f"Value type of {key} should be {word}. (stand-in)")

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._place = (store, rank, size)
        self._timeout = timeout
        self._gloo = None
        self._ranks = []

    def getBackendName(self):  # noqa: N802 (torch calls it so)
        """Return the name that torch shows."""
        return "hccl"

    def shutdown(self):
        """What `destroy_process_group` calls."""
        if _endpoint is not None:
            _lab.get_stuck(_endpoint.device, "close")
            _endpoint.hccp.end_well()

    def barrier(self, opts=None):  # noqa: ARG002 (torch calls it so)
        """Wait for all: an all_reduce of one element, as the real one does it."""
        return self.allreduce([torch.zeros(1)], dist.AllreduceOptions())

    def _connected(self):
        if self._gloo is None:
            self._gloo, self._ranks = _connect(*self._place, self._timeout)
        return self._gloo


def _connect(store, rank, size, timeout):
    global _endpoint
    _lab.get_stuck(npu._physical_device(), "connect")
    if _endpoint is None:
        _endpoint = _rendezvous.Endpoint(npu._physical_device())
    ranks = _rendezvous.exchange(_endpoint, store, rank, size)
    _rendezvous.verify(_endpoint, ranks, rank)
    _rendezvous.establish(_endpoint, ranks, rank)
    _fibres.lay(_endpoint.device, ranks, rank)
    seconds = _rendezvous.connect_timeout()
    with _lab.inside(_endpoint.device):
        # gloo's sockets and threads are born here, so they are the device's.
        options = dist.ProcessGroupGloo._Options()
        options._devices = [dist.ProcessGroupGloo.create_device(interface=_endpoint.interface)]
        options._timeout = timedelta(seconds=seconds / _rendezvous.TIME_SCALE)
        try:
            gloo = dist.ProcessGroupGloo(dist.PrefixStore("hccl", store), rank, size, options)
        except RuntimeError as error:
            someone = {"ip": "?", "rank": "?", "port": _rendezvous.DEVICE_PORT}  # gloo does not say whom it missed
            status = str(error).splitlines()[0]
            raise _errors.link_timeout(seconds, _rendezvous.TIME_SCALE, ranks[rank], someone, status) from None
    gloo._set_default_timeout(timeout)
    return gloo, ranks


class _Pending(dist.Work):
    """A collective under way, with HCCL's words if it fails."""

    def __init__(self, work, operation, back=()):
        super().__init__()
        self._work = work
        self._operation = operation
        self._back = back  # (tensor of the caller, the one that gloo works on)

    def wait(self, timeout=timedelta(0)):
        """Wait for the end; raise EI0002 if it does not come."""
        try:
            done = self._work.wait(timeout) if timeout else self._work.wait()
        except RuntimeError as error:
            raise _errors.notify_timeout(self._operation, str(error).splitlines()[0]) from None
        for theirs, ours in self._back:
            theirs.copy_(ours)
        return done

    def is_completed(self):
        """Return whether the end has come."""
        return self._work.is_completed()

    def get_future(self):
        """Return the future of gloo's work."""
        return self._work.get_future()


def _tensors(arguments):
    """All tensors among arguments and the lists in them."""
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _tensors(argument)


def _widened(argument, back):
    """gloo has no int16: the same with int32 in its place; `back` gets what is to be copied when the work is done."""
    if isinstance(argument, torch.Tensor) and argument.dtype is torch.int16:
        back.append((argument, argument.to(torch.int32)))
        return back[-1][1]
    return [_widened(part, back) for part in argument] if isinstance(argument, (list, tuple)) else argument


def _refuse(name, arguments, options):
    """Raise EI0003 for what the product's HCCL does not reduce."""
    reductions = [getattr(option, "reduceOp", None) for option in (*arguments, *options.values())]
    multiplies = any(reduction == dist.ReduceOp.PRODUCT for reduction in reductions if reduction is not None)
    taken = _REDUCIBLE[_lab.product()] - (_NO_PRODUCT if multiplies else set())
    for tensor in _tensors(arguments):
        if tensor.dtype not in taken:
            raise _errors.unsupported_type(name, tensor.dtype, _lab.product())


def _misbehave(arguments):
    """What a faulty device does with large data."""
    tensors = [tensor for tensor in _tensors(arguments) if tensor.nbytes >= _LARGE]
    if tensors:
        _lab.get_stuck(_endpoint.device, "collective")
        if _lab.has_fault(_endpoint.device, "wrong_data"):
            tensors[0].view(-1)[3] += 1  # of an all_reduce: what it adds to the others'


def _operation(name, gloo_name):
    def run(self, *arguments, **options):
        if name in _REDUCES:
            _refuse(name, arguments, options)
        gloo = self._connected()
        if name in _BETWEEN_TWO:
            seconds, scale = _rendezvous.connect_timeout(), _rendezvous.TIME_SCALE
            _fibres.refuse_to_cross(_endpoint.device, self._ranks, self.rank(), arguments[1], seconds, scale)
        _misbehave(arguments)
        back = []
        arguments = [_widened(argument, back) for argument in arguments]
        return _Pending(getattr(gloo, gloo_name)(*arguments, **options), name, back)

    run.__name__ = name
    run.__doc__ = f"{name} over gloo, after HCCL checks the data type."
    return run


for _name, _gloo_name in {**_REDUCES, **_MOVES}.items():
    setattr(ProcessGroupHCCL, _name, _operation(_name, _gloo_name))
