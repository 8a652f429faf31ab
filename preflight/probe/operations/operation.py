"""Operation that a group runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """One operation, in the form that is sent to workers.

    `bytes` as in TestResult. `iterations` are timed, after `warmup` ones, and all are compared. Its names are
    torch.distributed's, without the part that says the form.

    op: all_reduce | broadcast | reduce | all_gather | reduce_scatter | scatter | gather | all_to_all | send_recv |
    barrier, or one of a device alone, or the training step (`probe/operations/local_tests.py`).

    form: "tensor", "list" of tensors, "async" (async_op, then wait), "object" (pickled; `bytes` of its payload).
    """

    op: str
    dtype: str
    bytes: int
    root: int | None = None  # also the receiver of reduce and gather
    reduction: str = ""  # sum | max | min | prod
    form: str = "tensor"
    iterations: int = 1
    warmup: int = 0
