"""Patterns against the operations done by hand, in the type itself, one part after the other as a ring does it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from worker.pattern import EXACT, REDUCING, Pattern, fill

MOVING = ("broadcast", "all_gather", "gather", "scatter", "all_to_all", "send_recv")
FOLD: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add, "max": torch.maximum, "min": torch.minimum, "prod": torch.mul,
}  # fmt: skip
REDUCED = tuple(dtype for dtype in EXACT if dtype != "uint8")
TURN = 3
Rows = torch.Tensor


class World:
    """One operation of `size` ranks: what they give, and what comes out where."""

    def __init__(
        self, op: str, size: int, dtype: str = "float32", *, reduction: str = "", count: int = 300, root: int = 0
    ) -> None:
        pieces = 1 if op in ("all_reduce", "reduce", "broadcast") else 2 if op == "send_recv" else size
        width = torch.empty(0, dtype=getattr(torch, dtype)).element_size()
        size_of_all = count * pieces * width
        test = {"op": op, "dtype": dtype, "bytes": size_of_all, "root": root, "reduction": reduction}
        self.op, self.reduction, self.root, self.size = op, reduction, root, size
        self.ranks = [Pattern(test, rank, size) for rank in range(size)]
        self.gifts = [self._full(rank) for rank in self.ranks]

    @staticmethod
    def _full(rank: Any) -> Rows:
        rows = torch.zeros(len(rank.sent), rank.count, dtype=rank.dtype)
        if rank.sent:
            fill(rows, rank.inputs(TURN))
        return rows

    def result(self, rank: int, order: Sequence[int] | None = None) -> Rows:
        """What comes out at a rank, `order` being that in which parts are reduced."""
        gifts, everybody = self.gifts, range(self.size)
        piece = rank if self.op == "reduce_scatter" else 0
        if self.op in REDUCING:
            total = torch.zeros_like(gifts[0][0])
            for number, source in enumerate(order or everybody):
                part = gifts[source][piece]
                total = FOLD[self.reduction](total, part) if number else part.clone()
            return total[None]
        if self.op == "broadcast":
            return gifts[self.root].clone()
        if self.op == "scatter":
            return gifts[self.root][rank : rank + 1]
        if self.op == "send_recv":
            return torch.stack([gifts[rank - 1][0], gifts[(rank + 1) % self.size][1]])
        piece = rank if self.op == "all_to_all" else 0
        return torch.stack([gifts[source][piece] for source in everybody])

    def compare(self, rank: int, rows: Rows | None = None) -> tuple[int, str, int | None]:
        found: tuple[int, str, int | None] = self.ranks[rank].compare(self.result(rank) if rows is None else rows, TURN)
        return found

    @property
    def receivers(self) -> list[int]:
        """First, second and last: the ones in between are no different, and many."""
        return [self.root] if self.op in ("reduce", "gather") else sorted({0, 1 % self.size, self.size - 1})


@pytest.mark.parametrize("reduction", FOLD)
@pytest.mark.parametrize("dtype", REDUCED)
def test_reductions_are_exact_in_every_type_for_any_number_of_ranks(dtype: str, reduction: str) -> None:
    for size in (1, 2, 3, 16, 130):
        for count in (1, 5, 9001 if size < 16 else 261):
            world = World("all_reduce", size, dtype, reduction=reduction, count=count)
            for order in (range(size), range(size)[::-1]):
                assert world.compare(0, world.result(0, order)) == (0, "", None), (size, count)


@pytest.mark.parametrize("op", MOVING)
@pytest.mark.parametrize("dtype", EXACT)
def test_what_is_moved_is_known_in_every_type_for_any_number_of_ranks(dtype: str, op: str) -> None:
    for size in (1, 2, 3, 16, 130):
        for count in (1, 2, 9001 if size < 16 else 5):
            world = World(op, size, dtype, count=count, root=size // 2)
            assert [world.compare(rank) for rank in world.receivers] == [(0, "", None)] * len(world.receivers)


@pytest.mark.parametrize("op", ["reduce", "reduce_scatter"])
@pytest.mark.parametrize("size", [1, 2, 16])
def test_other_reductions_come_out_where_they_belong(op: str, size: int) -> None:
    for reduction in FOLD:
        world = World(op, size, "int8", reduction=reduction, count=40, root=size - 1)
        assert {world.compare(rank) for rank in world.receivers} == {(0, "", None)}


@pytest.mark.parametrize("reduction", FOLD)
@pytest.mark.parametrize("op", REDUCING)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_part_that_is_missing_names_its_rank(dtype: str, op: str, reduction: str) -> None:
    for size in (2, 3, 16):
        for bad in {0, 1, size - 1}:
            world = World(op, size, dtype, reduction=reduction, count=64)
            others = [rank for rank in range(size) if rank != bad]
            for rank in world.receivers:
                wrong, _, suspect = world.compare(rank, world.result(rank, others))
                assert (wrong > 0, suspect) == (True, bad)


@pytest.mark.parametrize(
    ("dtype", "reduction"), [("float32", "sum"), ("bfloat16", "sum"), ("int8", "max"), ("float16", "min")]
)
@pytest.mark.parametrize("op", REDUCING)
def test_a_part_that_is_twice_what_it_should_be_names_its_rank(dtype: str, reduction: str, op: str) -> None:
    for size in (2, 3, 16):
        for bad in {0, size - 1}:
            world = World(op, size, dtype, reduction=reduction, count=64)
            world.gifts[bad] *= 2
            assert {world.compare(rank)[2] for rank in world.receivers} == {bad}


@pytest.mark.parametrize(("dtype", "reduction"), [("int32", "prod"), ("int8", "prod"), ("float32", "sum")])
def test_a_part_that_is_counted_twice_names_its_rank(dtype: str, reduction: str) -> None:
    for bad in range(5):
        world = World("all_reduce", 5, dtype, reduction=reduction)
        assert world.compare(0, world.result(0, [*range(5), bad]))[2] == bad


# How one rank's part may be wrong: its own part and another rank's → what it gives.
FAULTS: dict[str, Callable[[Rows, Rows], Rows]] = {
    "half": lambda own, _: (own / 2).to(own.dtype),
    "negative": lambda own, _: -own,
    "three times": lambda own, _: own * 3,
    "another's": lambda _, other: other.clone(),
    "missing": lambda own, _: own * 0,
    "doubled": lambda own, _: own * 2,
    "shifted": lambda own, _: own.roll(1),
}


def blamed(reduction: str, dtype: str, size: int, fault: str) -> dict[int, set[int | None]]:
    """Whom rank 0 suspects, for every rank that gives what it should not: rank → suspects."""
    found: dict[int, set[int | None]] = {}
    for bad in range(size):
        found[bad] = set()
        for other in {0, bad - 1, (bad + 1) % size, size - 1} if fault == "another's" else {0}:
            world = World("all_reduce", size, dtype, reduction=reduction, count=max(16, 2 * size))
            world.gifts[bad] = FAULTS[fault](world.gifts[bad], world.gifts[other])
            wrong, _, suspect = world.compare(0)
            assert wrong or other == bad
            found[bad].add(suspect)
    return found


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("reduction", FOLD)
def test_an_innocent_rank_is_never_named_for_what_another_gave(reduction: str, dtype: str, fault: str) -> None:
    for size in (2, 4, 16):
        for bad, suspects in blamed(reduction, dtype, size, fault).items():
            assert suspects <= {bad, None}, size


@pytest.mark.parametrize("fault", ["half", "negative", "three times", "missing", "doubled"])
def test_a_part_of_a_sum_that_is_a_multiple_of_what_it_should_be_names_its_rank(fault: str) -> None:
    for size in (2, 4, 16):
        assert blamed("sum", "float32", size, fault) == {bad: {bad} for bad in range(size)}


@pytest.mark.parametrize("reduction", FOLD)
def test_what_several_ranks_gave_wrong_names_none_of_them_and_no_other(reduction: str) -> None:
    for missing in ({0, 2}, {1, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7}):
        world = World("all_reduce", 16, "float32", reduction=reduction, count=32)
        rows = world.result(0, [rank for rank in range(16) if rank not in missing])
        assert world.compare(0, rows)[2] is None
    assert world.compare(0, world.result(0) * 0)[2] is None, "nothing arrived"
    assert world.compare(0, world.result(0) / 16)[2] is None, "an average"
    for one, another in ((0, 2), (1, 3)):  # together they lack as much as one rank's part
        world.gifts[one], world.gifts[another] = world.gifts[one] / 2, world.gifts[another] / 2
        assert world.compare(0)[2] is None


@pytest.mark.parametrize("op", MOVING)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_data_that_left_a_rank_wrong_names_it_wherever_it_arrives(dtype: str, op: str) -> None:
    for size in (2, 3, 16):
        for bad in {0, size - 1}:
            world = World(op, size, dtype, root=bad if op in ("broadcast", "scatter") else 0)
            world.gifts[bad][:, 7] += 1
            arrives = [(bad - 1) % size, (bad + 1) % size] if op == "send_recv" else world.receivers
            found = [world.compare(rank) for rank in arrives]
            assert {suspect for _, _, suspect in found} == {bad}
            assert all(f"index 7 of 300 of what rank {bad} sent: found " in text for _, text, _ in found)


def test_pieces_in_the_wrong_order_are_wrong() -> None:
    for dtype in EXACT:
        for op in ("all_gather", "all_to_all"):
            world = World(op, 16, dtype, count=1)
            rows = world.result(3)
            assert world.compare(3, rows.flip(0))[0] > 0
            assert world.compare(3, rows.roll(1, 0))[0] > 0
    world = World("all_to_all", 16, "int8", count=1)
    transposed = world.gifts[3].clone()  # what 3 gives to the others, instead of what they give to it
    assert world.compare(3, transposed)[0] >= 14


def test_values_in_the_wrong_place_or_no_number_at_all_are_wrong() -> None:
    world = World("all_reduce", 4, reduction="sum", count=3000)
    assert world.compare(0, world.result(0).roll(1))[0] > 2900
    assert world.compare(0, torch.full((1, 3000), float("nan")))[0] == 3000


def test_what_came_out_of_the_iteration_before_is_wrong_everywhere() -> None:
    for op in (*MOVING, *REDUCING):
        world = World(op, 4, "float16", reduction="sum" if op in REDUCING else "")
        stale = world.result(0)
        assert world.ranks[0].compare(stale, TURN + 1)[0] == stale.numel()


def test_wrong_data_of_two_ranks_or_of_an_unknown_one_names_nobody() -> None:
    world = World("all_gather", 4)
    world.gifts[1][0, 3] += 1
    world.gifts[2][0, 3] += 1
    assert world.compare(0)[2] is None
    for reduction in FOLD:
        world = World("all_reduce", 4, "int32", reduction=reduction)
        rows = world.result(0)
        rows[0, 3:20] += 1
        assert world.compare(0, rows)[2] is None
    one = world.result(0)
    one[0, 3] += 1
    assert world.compare(0, one)[1].startswith("index 3 of 300: found ")
    assert world.compare(0, one)[2] is None


def test_a_loss_within_a_part_names_its_rank() -> None:
    """A chunk of a ring, not the whole tensor."""
    world = World("all_reduce", 16, reduction="sum", count=9001)
    world.gifts[5][0, 4000:5000] = 0
    assert world.compare(0) == (1000, world.compare(0)[1], 5)
    world = World("all_reduce", 16, "bfloat16", reduction="sum", count=9001)
    world.gifts[5][0, 4000:5000] = 0
    assert world.compare(0)[2] == 5


def test_no_number_of_a_pattern_leaves_its_type() -> None:
    for dtype in REDUCED:
        for reduction in FOLD:
            for size in (2, 16, 4096):
                test = {"op": "all_reduce", "dtype": dtype, "bytes": 1 << 12, "root": None, "reduction": reduction}
                last = Pattern(test, size - 1, size)
                part = last._part(size - 1, 0, TURN)
                assert int(last._reduced(0, TURN).abs().max()) <= EXACT[dtype]
                assert int(part.abs().max()) <= EXACT[dtype]
                assert torch.equal(part.to(last.dtype).to(torch.int64), part)
