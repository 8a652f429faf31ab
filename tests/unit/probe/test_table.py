"""What a user sees of the probe's figures."""

from typing import Any

import pytest

from preflight.model.measure import Member, Observation, RankView, Scope, TestOutcome, TestResult
from preflight.probe.table import rows

FOUR = tuple(Member("node01", rank, rank) for rank in range(4))


def seen(op: str = "all_reduce", members: tuple[Member, ...] = FOUR, outcome: TestOutcome = TestOutcome.PASS, *,
         id_: str = "r1-0", dtype: str = "float32", bytes_: int = 1 << 20, root: int | None = None, busbw: float = 0.1,
         seconds: float | None = 0.01, scope: Scope = Scope.ALL, wrong: int = 0, **more: Any
         ) -> Observation:  # fmt: skip
    test = TestResult(
        id_, op, dtype, bytes_, root, members, outcome, "closed", wrong, seconds, 0.1, busbw, scope=scope, **more
    )
    return Observation(test, tuple(RankView(member, "closed") for member in members))


def pair(outcome: TestOutcome = TestOutcome.PASS, *, device: int = 0, partner: int | None = None, **more: Any
         ) -> Observation:  # fmt: skip
    members = (Member("node01", device, 0), Member("node02", device if partner is None else partner, 1))
    return seen("all_reduce", members, outcome, id_="r3-0", scope=Scope.PAIR, **more)


def test_the_columns_are_those_of_nccl_tests_and_the_99th_percentile() -> None:
    head, units, title, row = rows([seen(reduction="sum", p99_seconds=0.0123, busbw=382.104)])
    assert head.split() == ["size", "count", "type", "redop", "root", "time", "p99", "algbw", "busbw", "#wrong"]
    assert units.endswith("(GB/s)")
    assert title == "all_reduce, 4 ranks"
    assert row.split() == ["1048576", "262144", "float32", "sum", "-1", "10000.0", "12300.0", "0.100", "382.10", "0"]


def test_what_was_run_for_its_values_is_one_line() -> None:
    others = [seen(bytes_=64, dtype=dtype, form=form) for dtype in ("int32", "float16") for form in ("tensor", "list")]
    lines = rows([seen(bytes_=8), *others, seen()])
    assert [line.split()[0] for line in lines[3:5]] == ["8", "1048576"]
    assert lines[5].strip() == "4 more, up to 64 B in 2 types, 2 forms: every value exact"


def test_a_wrong_one_among_them_has_a_line_of_its_own() -> None:
    lines = rows(
        [seen(), seen(bytes_=64, dtype="int8"), seen("all_reduce", FOUR, TestOutcome.WRONG_DATA, dtype="int32")]
    )
    assert any(line.split()[2] == "int32" and line.split()[-1] == "some" for line in lines[3:-1])


def test_rails_fold_and_a_pair_counts_with_the_best_of_its_measurements() -> None:
    _, _, title, row = rows([pair(seconds=0.5), pair(seconds=0.02), pair(device=1, seconds=0.03, line_rate=0.9)])
    assert title == "all_reduce, 2 pairs along the rails, slowest shown, 90 % of line rate"
    assert row.split()[5] == "30000.0"


def test_slow_and_hanging_pairs_are_named_and_no_line_is_wider_than_a_terminal() -> None:
    lines = rows([
        *(pair(device=device) for device in range(4)),
        pair(TestOutcome.SLOW, device=5),
        *(pair(TestOutcome.HANG, device=device, seconds=None) for device in range(6, 30)),
        pair(device=5, partner=2),
    ])  # fmt: skip
    assert "all_reduce, slow: node01/5 - node02/5" in lines
    assert any(line.startswith("all_reduce, hang: node01/6 - node02/6, ") and line.endswith("…") for line in lines)
    assert "all_reduce, 1 pair with other partners" in lines
    assert any("hang" in line.split() for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("size", "seconds", "p99", "busbw", "wrong", "shown"),
    [
        (1 << 20, 0.01, None, 0.125, 1 << 20, ["1048576", "10000.0", "0.125", "1.0e6"]),
        (1 << 34, 179.9, 180.0, 10000.0, 7, ["1.7e10", "179900000", "1.8e8", "10000", "7"]),
        (8, 12.0, 99.9, 999.999, 999_999, ["8", "12000000", "1.0e8", "1000.0", "999999"]),
    ],
)
def test_between_two_columns_there_is_always_a_space(
    size: int, seconds: float, p99: float | None, busbw: float, wrong: int, shown: list[str]
) -> None:
    bad = seen(dtype="bfloat16", outcome=TestOutcome.WRONG_DATA, form="object", root=1023, wrong=wrong,
               bytes_=size, seconds=seconds, p99_seconds=p99, busbw=busbw)  # fmt: skip
    row = rows([bad])[-1]
    assert len(row) == 80
    assert [cell for cell in row.split() if cell in shown] == shown, row
    assert len(row.split()) == 10 - (p99 is None)


def test_an_outcome_in_place_of_a_time_has_its_spaces_too() -> None:
    row = rows([seen(outcome=TestOutcome.WRONG_DATA, seconds=None, wrong=3)])[-1]
    assert row.split()[-2:] == ["wrong", "3"]
    assert len(row) == 80


def test_devices_alone_share_a_title_and_a_line_for_each_type() -> None:
    """A GPU multiplies float16 ten times as fast as float32, so the median of both says nothing."""
    alone = [
        seen("matmul", (Member("node01", device, 0),), scope=Scope.DEVICE, dtype=dtype, tflops=factor * (0.25 + device))
        for device in range(3)
        for dtype, factor in (("float32", 1), ("float16", 10))
    ]
    _, _, *lines = rows(alone)
    assert lines[::2] == [
        "matmul, 3 devices, each alone, slowest shown: 0.25 TFLOPS, median 1.25",
        "matmul, 3 devices, each alone, slowest shown: 2.5 TFLOPS, median 12.5",
    ]
    assert [line.split()[2] for line in lines[1::2]] == ["float32", "float16"]


def test_a_device_alone_is_singular() -> None:
    _, _, title, _ = rows([seen("memory", (Member("node01", 0, 0),), scope=Scope.DEVICE, dtype="int32")])
    assert title == "memory, 1 device alone"


def test_what_the_backend_does_not_have_is_named_once() -> None:
    lines = rows([seen(op, FOUR, TestOutcome.REFUSED, dtype="int16", seconds=None) for op in ("all_reduce", "reduce")])
    assert lines == ["refused by the backend: int16 in all_reduce, reduce"]


def test_tests_that_were_not_run_are_counted_in_one_line() -> None:
    lines = rows([pair(), *(pair(TestOutcome.NOT_RUN, device=device, seconds=None) for device in range(1, 9))])
    assert lines[-1] == "8 tests were not run"
    assert len(lines) == 5


def test_values_that_nobody_counted_or_compared_are_no_zero() -> None:
    outcomes = (TestOutcome.UNCHECKED, TestOutcome.WRONG_DATA, TestOutcome.PASS)
    assert [line.split()[-1] for line in rows([seen("all_reduce", FOUR, one) for one in outcomes])[3:]] == [
        "N/A", "some", "0",
    ]  # fmt: skip


def test_nothing_measured_is_no_table() -> None:
    assert rows([]) == []
