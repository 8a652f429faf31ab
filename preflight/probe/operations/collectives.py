"""Operations that a group runs: every collective with small tensors for their values, some with large ones for time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from preflight.model.cluster import Product
from preflight.probe.operations.operation import Operation
from preflight.probe.request import Request

REDUCTIONS = ("sum", "max", "min", "prod")
_A1 = ("float32", "int32", "float16", "int8", "int64")
_ALL = (*_A1, "bfloat16")
# Types that a product's collective library reduces. HCCL's "comm_ops_support_list" says that Atlas A1 has neither
# bfloat16 nor int16.
_REDUCED: dict[Product, tuple[str, ...]] = {
    Product.ATLAS_A1: _A1,
    Product.ATLAS_A2: (*_ALL, "int16"),
    Product.ATLAS_A3: (*_ALL, "int16"),
    Product.NVIDIA: _ALL,
    Product.CPU: _ALL,
}
_MOVED_TOO = ("uint8", "float64")
_NO_PROD = ("int16", "bfloat16")  # HCCL, everywhere
_ONLY_HCCL = ("int16",)  # gloo and NCCL have no such type
_QUICK = ("float32", "int32")  # types of every product
_WIDTH = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}  # bytes, else 1

# The forms of an operation. The first is run with every type, the others once.
_FORMS = {
    "all_reduce": ("tensor", "async"),
    "reduce": ("tensor", "async"),
    "reduce_scatter": ("tensor", "list", "async"),
    "broadcast": ("tensor", "async", "object"),
    "all_gather": ("tensor", "list", "async", "object"),
    "gather": ("list", "async", "object"),
    "scatter": ("list", "async", "object"),
    "all_to_all": ("tensor", "list", "async"),
    "send_recv": ("tensor", "async"),
    "barrier": ("tensor", "async"),
}
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_SPLIT = ("all_gather", "reduce_scatter", "scatter", "gather", "all_to_all")  # a piece is the ranks-th part of `bytes`
_MEASURED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
_REDUCING = ("all_reduce", "reduce", "reduce_scatter")
# Ranks up to which gloo runs reduce_scatter of a list. It is a reduction for each, and soon takes longer than the rest.
_RANKS_IN_LISTS = 8
_FEW = 3  # types: as many as there are reductions beside the sum
_CROWDED_BYTES = 1 << 20
_PIECE = 16  # elements that are moved where only values count


def collectives(product: Product, request: Request, ranks: int, *, crowded: bool = False) -> tuple[Operation, ...]:
    """Return the tests of a group of `ranks`: values first, in small tensors, then times, in the request's sizes.

    Every operation is run in every form and with every type of the product, every reduction with every type by one of
    the operations that reduce. Every rank is root at least once. A timed test has its values compared, too. So an
    operation is not run small if it is timed in a size that is large enough to tell which rank's part is wrong. The
    list grows with the ranks only if there are more of them than rooted tests. Over gloo only sums are tried with every
    type, and many ranks do without reduce_scatter of a list. Sizes are rounded up to a multiple that divides among the
    ranks.

    A quick request gets two types, one form, not every root. `crowded`: ranks share cores, so that times say more about
    the hosts than about the network, and only all_reduce is timed in the large sizes.
    """
    timed = _timed(request, ranks, crowded)
    values = _quick() if request.quick else _values(product, request.backend)
    roots = count()
    tests = [
        _small(test, ranks, next(roots) if test.op in _ROOTED else None)
        for test in values
        if _is_applicable(test, request.backend, ranks) and not _is_covered(test, timed, ranks)
    ]
    if not request.quick:
        rooted = Operation("broadcast", "float32", 0)
        tests += [_small(rooted, ranks, root) for root in range(next(roots), ranks)]
    return (*tests, *timed)


def _timed(request: Request, ranks: int, crowded: bool) -> list[Operation]:
    iterations, warmup = (1, 0) if crowded else (5, 1)
    return [
        Operation(
            op,
            "float32",
            _whole(op, "float32", size, ranks),
            root=0 if op in _ROOTED else None,
            reduction=_sum(op),
            iterations=iterations,
            warmup=warmup,
        )
        for op in _MEASURED
        for size in sorted(request.sizes)
        if not crowded or op == "all_reduce" or size <= _CROWDED_BYTES
    ]


def _is_applicable(test: Operation, backend: str, ranks: int) -> bool:
    if test.op == "send_recv":
        return ranks > 1  # a single rank has no rank to send to, and is its own partner in all other tests
    if (test.op, test.form) == ("reduce_scatter", "list"):
        return backend != "gloo" or ranks <= _RANKS_IN_LISTS
    return True


def _is_covered(test: Operation, timed: Iterable[Operation], ranks: int) -> bool:
    """Return whether a small test tells nothing beside a timed one. Rooted tests do, since they have other roots."""
    return test.op not in _ROOTED and any(
        replace(timed_test, bytes=0, iterations=1, warmup=0) == test
        and timed_test.bytes >= _small(test, ranks, None).bytes
        for timed_test in timed
    )


def _sum(op: str) -> str:
    return "sum" if op in _REDUCING else ""


def _quick() -> Iterator[Operation]:
    for op, (form, *_) in _FORMS.items():
        for dtype in ("",) if op == "barrier" else _QUICK:
            yield Operation(op, dtype, 0, reduction=_sum(op), form=form)


def _values(product: Product, backend: str) -> Iterator[Operation]:
    types = [dtype for dtype in _REDUCED[product] if backend == "hccl" or dtype not in _ONLY_HCCL]
    yield from (Operation("all_reduce", dtype, 0, reduction="sum") for dtype in types)
    if backend == "gloo":  # no device computes, and types make no difference to the network
        yield from _other_reductions(types[:_FEW])
        yield from _forms(_QUICK)
    else:
        yield from _other_reductions(types)
        yield from _forms((*types, *_MOVED_TOO))


def _other_reductions(types: Sequence[str]) -> Iterator[Operation]:
    """Yield the reductions other than sums. A type that one operation does not combine with one, the next does."""
    for place, op in enumerate(_REDUCING):
        for number, dtype in enumerate(types):
            reductions = [r for r in REDUCTIONS[1:] if not (r == "prod" and dtype in _NO_PROD)]
            yield Operation(op, dtype, 0, reduction=reductions[(number + place) % len(reductions)])


def _forms(types: Sequence[str]) -> Iterator[Operation]:
    """Yield the first form of operations that move data, with all types, and the other forms of all operations."""
    for op, (form, *other_forms) in _FORMS.items():
        if op not in _REDUCING:
            yield from (Operation(op, dtype, 0, form=form) for dtype in (("",) if op == "barrier" else types))
        for other_form in other_forms:
            dtype = "" if other_form == "object" or op == "barrier" else "float32"
            yield Operation(op, dtype, 0, reduction=_sum(op), form=other_form)


def _small(test: Operation, ranks: int, root: int | None) -> Operation:
    """Return the test with a small tensor.

    A reduction may take each element from one rank alone (see Pattern). There each rank has two elements, so that a
    rank with a wrong part can be told from an accident.
    """
    elements = _PIECE
    if test.op in _REDUCING:
        elements = max(_PIECE, 2 * ranks if test.op not in _SPLIT else min(2 * ranks, 8 * _PIECE))
    size = 0 if test.op == "barrier" else _WIDTH.get(test.dtype, 1) * elements * (ranks if test.op in _SPLIT else 1)
    chosen_root = None if root is None else root % ranks
    late = test.op == "barrier"  # in its warm-up one rank is late
    return Operation(test.op, test.dtype, size, chosen_root, test.reduction, test.form, warmup=int(late))


def _whole(op: str, dtype: str, size: int, ranks: int) -> int:
    """Return the bytes, rounded up to whole elements for all ranks."""
    unit = _WIDTH.get(dtype, 1) * (ranks if op in _SPLIT else 1)
    return max(1, -(-size // unit)) * unit
