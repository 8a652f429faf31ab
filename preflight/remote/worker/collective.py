"""The calls: every operation of torch.distributed in every form, on tensors whose values are known.

What a form of an operation is called differs between versions of torch (1.11 to 2.13): names are looked for. What is
not there, or what the backend refuses, is said as such; it is no fault of a host.
"""

import re
import time

from worker.pattern import IN_PLACE, Pattern, fill

# The forms with one tensor, newest name first; torch warns of the older ones.
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

# How backends say, before anything is sent, that they do not have an operation or take a type: gloo, NCCL, torch's
# dispatcher, a device type without hooks (a stand-in), HCCL.
_REFUSAL = re.compile(
    r"does(n't| not) support|not implemented|Unsupported data type|data type is not supported|Unconvertible"
    r"|Invalid scalar type|PrivateUse1HooksInterface|\(EI0003\).*dataType",
    re.DOTALL,
)


def names(op, form):
    """What torch.distributed may call an operation in a form, best first; () for what is no collective."""
    if form == "object":
        return (_OBJECT[op],)
    if op == "send_recv":
        return ("batch_isend_irecv",) if form == "async" else ("send",)
    if form != "list" and op in _SINGLE:
        return _SINGLE[op]
    return (op,) if op in _OTHERS or op in _SINGLE else ()


def lacking(test, dist):
    """Why this torch cannot run a test; "" if it can."""
    wanted = names(test["op"], test["form"])
    if not wanted or any(hasattr(dist, name) for name in wanted):
        return ""
    return "this torch has no torch.distributed.%s" % wanted[0]


def refused(error):
    """Whether an error says that the backend does not have the operation, or does not take the type."""
    return isinstance(error, NotImplementedError) or _REFUSAL.search(str(error)) is not None


class Tensors:
    """An operation on tensors. `given` and `found` have a row for each piece; an operation in place has one tensor."""

    def __init__(self, test, spec, device):
        import torch

        self.test, self.rank, self.size, self.device = test, spec["rank"], spec["size"], device
        self.pattern = Pattern(test, self.rank, self.size)
        self.in_place = test["op"] in IN_PLACE
        rows = 1 if self.in_place else len(self.pattern.brings)
        self.found = torch.zeros(rows, self.pattern.count, dtype=self.pattern.dtype, device=device)
        self.given = self.found if self.in_place else self._empty(len(self.pattern.gives))

    def _empty(self, rows):
        import torch

        return torch.empty(rows, self.pattern.count, dtype=self.pattern.dtype, device=self.device)

    def prepare(self, turn):
        """Fresh data for an iteration. What came out of the one before is wrong in this one, so it may stay."""
        if self.pattern.gives:
            fill(self.given, self.pattern.given(turn).to(self.device))

    def call(self):
        import torch.distributed as dist

        if self.test["op"] == "send_recv":
            _send_and_receive(dist, self)
            return
        name = next(name for name in names(self.test["op"], self.test["form"]) if hasattr(dist, name))
        arguments = self._arguments(dist, name in _SINGLE.get(self.test["op"], ()))
        work = getattr(dist, name)(*arguments, async_op=self.test["form"] == "async")
        if work is not None:
            work.wait()

    def _arguments(self, dist, single):
        op, root, given, found = self.test["op"], self.test["root"], self.given, self.found
        reduction = getattr(dist.ReduceOp, _REDUCE_OP.get(self.test["reduction"], "SUM"))
        if op == "all_reduce":
            return found, reduction
        if op == "broadcast":
            return found, root
        if op == "reduce":
            return found, root, reduction
        if op == "scatter":
            return found[0], list(given) or None, root
        if op == "gather":
            return given[0], list(found) or None, root
        if op == "all_gather":
            return (found.view(-1), given.view(-1)) if single else (list(found), given[0])
        if op == "reduce_scatter":
            return (found.view(-1), given.view(-1), reduction) if single else (found[0], list(given), reduction)
        return (found.view(-1), given.view(-1)) if single else (list(found), list(given))

    def compare(self, turn):
        """On the host: a device does not vouch for its own data."""
        if not self.pattern.brings:
            return 0, "", None
        return self.pattern.compare(self.found.to("cpu"), turn)


def _send_and_receive(dist, work):
    """To the next rank and to the one before, and from both. One by one, ranks with an odd number receive first: so
    somebody always listens to whom the others can send, however many they are and even if sending waits for that."""
    after, before = (work.rank + 1) % work.size, (work.rank - 1) % work.size
    onward, back = work.given
    from_before, from_after = work.found
    if work.test["form"] == "async":
        ops = [dist.P2POp(dist.isend, onward, after), dist.P2POp(dist.isend, back, before)]
        ops += [dist.P2POp(dist.irecv, from_before, before), dist.P2POp(dist.irecv, from_after, after)]
        for pending in dist.batch_isend_irecv(ops):
            pending.wait()
        return
    for gift, to, catch, source in ((onward, after, from_before, before), (back, before, from_after, after)):
        if work.rank % 2:
            dist.recv(catch, source)
            dist.send(gift, to)
        else:
            dist.send(gift, to)
            dist.recv(catch, source)


class Objects:
    """An operation on pickled objects: each says where it comes from, where it belongs, and in which iteration."""

    def __init__(self, test, spec, _):
        self.test, self.rank, self.size = test, spec["rank"], spec["size"]
        self.bytes = bytes(bytearray(place % 251 for place in range(max(1, test["bytes"] // self.size))))

    def _object(self, source, lane, turn):
        return {"from": source, "to": lane, "turn": turn, "bytes": self.bytes[turn % 2 :]}

    def prepare(self, turn):
        op, root, mine = self.test["op"], self.test["root"], self._object(self.rank, None, turn)
        if op == "broadcast":
            self.found, self.expected = [mine if self.rank == root else None], [self._object(root, None, turn)]
        elif op == "scatter":
            self.given = [self._object(root, rank, turn) for rank in range(self.size)] if self.rank == root else None
            self.found, self.expected = [None], [self._object(root, self.rank, turn)]
        else:
            sources = self.size if op == "all_gather" or self.rank == root else 0
            self.given, self.found = mine, [None] * sources
            self.expected = [self._object(rank, None, turn) for rank in range(sources)]

    def call(self):
        import torch.distributed as dist

        op, root = self.test["op"], self.test["root"]
        function = getattr(dist, _OBJECT[op])
        if op == "broadcast":
            function(self.found, root)
        elif op == "all_gather":
            function(self.found, self.given)
        elif op == "gather":
            function(self.given, self.found or None, root)
        else:
            function(self.found, self.given, root)

    def compare(self, _):
        wrong = [place for place, found in enumerate(self.found) if found != self.expected[place]]
        if not wrong:
            return 0, "", None
        sources = {self.expected[place]["from"] for place in wrong}
        found = repr(self.found[wrong[0]])[:100]
        text = "object of rank %d: found %s" % (self.expected[wrong[0]]["from"], found)
        return len(wrong), text, sources.pop() if len(sources) == 1 else None


class Barrier:
    """Whether a barrier waits: in the first iteration one rank is late, and leaves word when it comes."""

    LATE = 0.02  # seconds
    count = 0  # barriers so far, the same on all ranks

    def __init__(self, test, spec, _):
        from torch.distributed.distributed_c10d import _get_default_store

        self.form, self.rank, self.store = test["form"], spec["rank"], _get_default_store()
        Barrier.count += 1
        self.key, self.late = "barrier/%d" % Barrier.count, Barrier.count % spec["size"]
        self.turn = 0

    def prepare(self, turn):
        self.turn = turn

    def call(self):
        import torch.distributed as dist

        if self.turn == 0 and self.rank == self.late:
            time.sleep(self.LATE)
            self.store.add(self.key, 1)
        work = dist.barrier(async_op=self.form == "async")
        if work is not None:
            work.wait()

    def compare(self, turn):
        if turn or self.store.add(self.key, 0):
            return 0, "", None
        return 1, "the barrier let go before rank %d had come" % self.late, None


def begin(test, spec, device):
    """The operation of a test, ready to be prepared."""
    kind = Barrier if test["op"] == "barrier" else Objects if test["form"] == "object" else Tensors
    return kind(test, spec, device)
