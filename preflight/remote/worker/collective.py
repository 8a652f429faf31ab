"""The operations of torch.distributed in every form, on tensors of known values.

The name of an operation in a form differs between versions of torch (1.11 to 2.13), so names are looked up. An
operation that is missing, or that the backend refuses, is reported as such; it is no fault of a host.
"""

import re
import time

import torch
import torch.distributed as dist
from worker.pattern import IN_PLACE, Pattern, fill

# The forms with one tensor, newest name first; torch warns of the older names.
_SINGLE = {
    "all_gather": ("all_gather_single", "all_gather_into_tensor", "_all_gather_base"),
    "reduce_scatter": ("reduce_scatter_single", "reduce_scatter_tensor", "_reduce_scatter_base"),
    "all_to_all": ("all_to_all_single",),
}
_OBJECT = {
    "broadcast": "broadcast_object_list",
    "all_gather": "all_gather_object",
    "gather": "gather_object",
    "scatter": "scatter_object_list",
}
_OTHERS = ("all_reduce", "broadcast", "reduce", "scatter", "gather", "barrier")  # and the list forms of _SINGLE

_REDUCE_OP = {"sum": "SUM", "max": "MAX", "min": "MIN", "prod": "PRODUCT"}

# Messages of backends that lack an operation or do not take a type, before any data is sent. They are from gloo, NCCL,
# torch's dispatcher, a device type without hooks (a stand-in), and HCCL.
_REFUSAL = re.compile(
    r"does(n't| not) support|not implemented|Unsupported data type|data type is not supported|Unconvertible"
    r"|Invalid scalar type|PrivateUse1HooksInterface|\(EI0003\).*dataType",
    re.DOTALL,
)


def names(op, form):
    """Return the possible names of an operation in a form, best first; () if it is no collective."""
    if form == "object":
        return (_OBJECT[op],)
    if op == "send_recv":
        return ("batch_isend_irecv",) if form == "async" else ("send",)
    if form != "list" and op in _SINGLE:
        return _SINGLE[op]
    return (op,) if op in _OTHERS or op in _SINGLE else ()


def lacking(test, dist):
    """Return the reason why this torch cannot run a test; "" if it can."""
    candidates = names(test["op"], test["form"])
    if not candidates or any(hasattr(dist, name) for name in candidates):
        return ""
    return "this torch has no torch.distributed.%s" % candidates[0]


def refused(error):
    """True if an error says that the backend does not have the operation, or does not take the type."""
    return isinstance(error, NotImplementedError) or _REFUSAL.search(str(error)) is not None


class Tensors:
    """An operation on tensors. `inputs` and `outputs` have a row for each piece. In place there is one tensor."""

    def __init__(self, test, spec, device):
        self.test, self.rank, self.size, self.device = test, spec["rank"], spec["size"], device
        self.pattern = Pattern(test, self.rank, self.size)
        self.in_place = test["op"] in IN_PLACE
        rows = 1 if self.in_place else len(self.pattern.received)
        self.outputs = torch.zeros(rows, self.pattern.count, dtype=self.pattern.dtype, device=device)
        self.inputs = self.outputs if self.in_place else self._empty(len(self.pattern.sent))

    def _empty(self, rows):
        return torch.empty(rows, self.pattern.count, dtype=self.pattern.dtype, device=self.device)

    def prepare(self, turn):
        """Fill in fresh data for an iteration. Results of the previous iteration are wrong in this one, so they may
        stay."""
        if self.pattern.sent:
            fill(self.inputs, self.pattern.inputs(turn).to(self.device))

    def call(self):
        if self.test["op"] == "send_recv":
            _send_and_receive(self)
            return
        name = next(name for name in names(self.test["op"], self.test["form"]) if hasattr(dist, name))
        work = getattr(dist, name)(*self._arguments(name), async_op=self.test["form"] == "async")
        if work is not None:
            work.wait()

    def _arguments(self, name):
        """Return the arguments for the function `name` of torch.distributed."""
        op = self.test["op"]
        reduction = getattr(dist.ReduceOp, _REDUCE_OP.get(self.test["reduction"], "SUM"))
        if name not in _SINGLE.get(op, ()):
            return self._list_arguments(op, self.test["root"], reduction)
        tensors = self.outputs.view(-1), self.inputs.view(-1)
        return (*tensors, reduction) if op == "reduce_scatter" else tensors

    def _list_arguments(self, op, root, reduction):
        inputs, outputs = self.inputs, self.outputs
        if op == "all_reduce":
            return outputs, reduction
        if op == "broadcast":
            return outputs, root
        if op == "reduce":
            return outputs, root, reduction
        if op == "scatter":
            return outputs[0], list(inputs) or None, root
        if op == "gather":
            return inputs[0], list(outputs) or None, root
        if op == "all_gather":
            return list(outputs), inputs[0]
        if op == "reduce_scatter":
            return outputs[0], list(inputs), reduction
        return list(outputs), list(inputs)

    def compare(self, turn):
        """Compare the result on the host: a faulty device must not check its own data."""
        if not self.pattern.received:
            return 0, "", None
        return self.pattern.compare(self.outputs.to("cpu"), turn)


def _send_and_receive(work):
    """Exchange data with the next rank and with the one before.

    In the blocking form ranks with an odd number receive first. So some rank always receives what another sends,
    however many ranks there are, and even if a send waits for its receiver.
    """
    after, before = (work.rank + 1) % work.size, (work.rank - 1) % work.size
    onward, back = work.inputs
    from_before, from_after = work.outputs
    if work.test["form"] == "async":
        ops = [dist.P2POp(dist.isend, onward, after), dist.P2POp(dist.isend, back, before)]
        ops += [dist.P2POp(dist.irecv, from_before, before), dist.P2POp(dist.irecv, from_after, after)]
        for request in dist.batch_isend_irecv(ops):
            request.wait()
        return
    for outgoing, target, incoming, source in ((onward, after, from_before, before), (back, before, from_after, after)):
        if work.rank % 2:
            dist.recv(incoming, source)
            dist.send(outgoing, target)
        else:
            dist.send(outgoing, target)
            dist.recv(incoming, source)


class Objects:
    """An operation on pickled objects. Each object has its source, its destination and its iteration."""

    def __init__(self, test, spec, _):
        self.test, self.rank, self.size = test, spec["rank"], spec["size"]
        self.bytes = bytes(bytearray(place % 251 for place in range(max(1, test["bytes"] // self.size))))

    def _object(self, source, lane, turn):
        return {"from": source, "to": lane, "turn": turn, "bytes": self.bytes[turn % 2 :]}

    def prepare(self, turn):
        op, root, own_object = self.test["op"], self.test["root"], self._object(self.rank, None, turn)
        if op == "broadcast":
            self.outputs, self.expected = [own_object if self.rank == root else None], [self._object(root, None, turn)]
        elif op == "scatter":
            self.inputs = [self._object(root, rank, turn) for rank in range(self.size)] if self.rank == root else None
            self.outputs, self.expected = [None], [self._object(root, self.rank, turn)]
        else:
            sources = self.size if op == "all_gather" or self.rank == root else 0
            self.inputs, self.outputs = own_object, [None] * sources
            self.expected = [self._object(rank, None, turn) for rank in range(sources)]

    def call(self):
        op, root = self.test["op"], self.test["root"]
        function = getattr(dist, _OBJECT[op])
        if op == "broadcast":
            function(self.outputs, root)
        elif op == "all_gather":
            function(self.outputs, self.inputs)
        elif op == "gather":
            function(self.inputs, self.outputs or None, root)
        else:
            function(self.outputs, self.inputs, root)

    def compare(self, _):
        wrong = [place for place, value in enumerate(self.outputs) if value != self.expected[place]]
        if not wrong:
            return 0, "", None
        sources = {self.expected[place]["from"] for place in wrong}
        value = repr(self.outputs[wrong[0]])[:100]
        text = "object of rank %d: found %s" % (self.expected[wrong[0]]["from"], value)
        return len(wrong), text, sources.pop() if len(sources) == 1 else None


class Barrier:
    """A test that a barrier waits: in the first iteration one rank is late, and sets a key in the store when it
    comes."""

    LATE = 0.02  # seconds
    count = 0  # barriers so far, the same on all ranks

    def __init__(self, test, spec, _):
        self.form, self.rank, self.store = test["form"], spec["rank"], dist.distributed_c10d._get_default_store()
        Barrier.count += 1
        self.key, self.late = "barrier/%d" % Barrier.count, Barrier.count % spec["size"]
        self.turn = 0

    def prepare(self, turn):
        self.turn = turn

    def call(self):
        if self.turn == 0 and self.rank == self.late:
            time.sleep(self.LATE)
            self.store.add(self.key, 1)
        work = dist.barrier(async_op=self.form == "async")
        if work is not None:
            work.wait()

    def compare(self, turn):
        if turn or self.store.add(self.key, 0):
            return 0, "", None
        return 1, "the barrier returned before rank %d reached it" % self.late, None


def begin(test, spec, device):
    """Return the operation of a test, ready for `prepare`."""
    kind = Barrier if test["op"] == "barrier" else Objects if test["form"] == "object" else Tensors
    return kind(test, spec, device)
