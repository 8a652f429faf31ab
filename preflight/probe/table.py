"""Table of measurements in the columns of nccl-tests, with the 99th percentile. Similar tests share a line. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from textwrap import wrap

from preflight.model.measure import Member, Observation, Scope, TestOutcome, TestResult
from preflight.probe.pairs import JUDGED

_BYTES = {"int8": 1, "uint8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int64": 8, "float64": 8}
_WIDTHS = (10, 9, 8, 6, 4, 9, 7, 6, 6, 6)  # with a space between two of them, 80
_HEAD = ("size", "count", "type", "redop", "root", "time", "p99", "algbw", "busbw", "#wrong")
_UNITS = ("(B)", "", "", "", "", "(us)", "(us)", "(GB/s)", "(GB/s)", "")
_GROUPS = {Scope.DEVICE: "device", Scope.HOST: "host", Scope.RAIL: "rail"}
_NOT_OPERATIONS = ("init", "close")
_LARGE = 4096  # bytes: of smaller sizes only the smallest has a line, for its latency


def rows(observations: Sequence[Observation]) -> list[str]:
    """Return lines of at most 80 columns, or none if no test was run.

    There is one line for each size of an operation, in the type that bandwidth is measured in. Tests that were run for
    their values (other types, forms, roots) are one line if all passed. Pairs, rails, hosts and devices that differ
    only in their place share a line, which shows the slowest. A test without a time shows its outcome instead.
    """
    measured = [observation.test for observation in observations if observation.test.op not in _NOT_OPERATIONS]
    tests = [test for test in measured if test.outcome not in (TestOutcome.NOT_RUN, TestOutcome.REFUSED)]
    lines = [_cells(*_HEAD), _cells(*_UNITS)] if tests else []
    for alike in _by(tests, lambda test: (_round(test), test.op, test.dtype if test.tflops else "")):
        lines += _operation(alike)
    lines += _refused(measured)
    not_run = sum(test.outcome is TestOutcome.NOT_RUN for test in measured)
    return [*lines, f"{not_run} tests were not run"] if not_run else lines


def headline(tests: Sequence[TestResult]) -> str:
    """Return the bandwidth of all ranks and of the slowest pair in one sentence, "" if neither was measured."""
    measured = [test for test in tests if test.op == JUDGED and test.busbw_GBps]
    best = [max(group, key=_busbw) for group in _by(measured, lambda test: test.members)]
    together, pairs = list(_of(best, Scope.ALL)), list(_of(best, Scope.PAIR))
    words = []
    if together:
        largest = max(together, key=lambda test: len(test.members))
        words.append(f"all_reduce over {len(largest.members)} ranks {_busbw(largest):.2f}")
    if pairs:
        words.append(f"slowest pair {min(map(_busbw, pairs)):.2f}")
    return f"bandwidth in GB/s: {', '.join(words)} (see --all)" if words else ""


def _busbw(test: TestResult) -> float:
    return test.busbw_GBps or 0.0


def _of(tests: Iterable[TestResult], scope: Scope) -> Iterator[TestResult]:
    return (test for test in tests if test.scope is scope)


def _by(tests: Iterable[TestResult], key: Callable[[TestResult], object]) -> list[list[TestResult]]:
    """Return tests with the same key together, in the order of the first of each."""
    groups: dict[object, list[TestResult]] = {}
    for test in tests:
        groups.setdefault(key(test), []).append(test)
    return list(groups.values())


def _refused(tests: Sequence[TestResult]) -> Iterator[str]:
    """Yield lines about operations that torch or the backend lacks, by type."""
    refused = (test for test in tests if test.outcome is TestOutcome.REFUSED)
    for alike in _by(refused, lambda test: test.dtype):
        operations = ", ".join(dict.fromkeys(f"{test.op} {test.reduction}".strip() for test in alike))
        yield from wrap(f"refused by the backend: {alike[0].dtype} in {operations}", 80, subsequent_indent="  ")


def _round(test: TestResult) -> object:
    """Return the key of a test's round. Rounds of pairs with the same outcome and direction are one."""
    pair = (test.outcome, _along_a_rail(test))
    return pair if test.scope is Scope.PAIR else test.id.partition("-")[0]


def _along_a_rail(test: TestResult) -> bool:
    return len({member.device for member in test.members}) == 1


def _operation(tests: Sequence[TestResult]) -> Iterator[str]:
    yield _title(tests)
    candidates = [test for test in tests if _may_have_line(test)]
    smallest = min((test.bytes for test in candidates), default=0)
    shown = [test for test in candidates if _has_size_for_line(test, smallest) or not _passed(test)]
    yield from map(_row, _by(sorted(shown, key=lambda test: test.bytes), _line))
    values = [test for test in tests if test not in shown]
    if values:
        yield _summary(values)


def _may_have_line(test: TestResult) -> bool:
    is_plain = (
        test.form == "tensor" and test.dtype in ("float32", "") and test.reduction in ("sum", "") and not test.root
    )
    return is_plain or test.scope is Scope.DEVICE or not _passed(test)


def _has_size_for_line(test: TestResult, smallest: int) -> bool:
    return test.bytes in (0, smallest) or test.bytes >= _LARGE


def _passed(test: TestResult) -> bool:
    return test.outcome is TestOutcome.PASS


def _line(test: TestResult) -> tuple[object, ...]:
    """Return the key of tests that share a line."""
    details = (test.reduction, test.form, test.root) if not _passed(test) else ()
    return (test.bytes, test.dtype, test.outcome, *details)


def _summary(tests: Sequence[TestResult]) -> str:
    kinds: dict[str, set[object]] = {"types": {test.dtype for test in tests}, "forms": {test.form for test in tests}}
    kinds["roots"] = {test.root for test in tests if test.root is not None}
    counts = [f"{len(values)} {name}" for name, values in kinds.items() if len(values) > 1]
    sizes = f"up to {max(test.bytes for test in tests)} B"
    return f"{'':>10}{len(tests)} more, {sizes}{' in ' if counts else ''}{', '.join(counts)}: every value exact"


def _title(tests: Sequence[TestResult]) -> str:
    test = tests[0]
    groups = list(dict.fromkeys(each_test.members for each_test in tests))
    title = f"{test.op}, {_participants(test, groups)}"
    largest_size = max(each_test.bytes for each_test in tests)
    largest = _slowest(each_test for each_test in tests if each_test.bytes == largest_size)
    if largest.line_rate is not None:
        title += f", {100 * largest.line_rate:.2g} % of line rate"
    speeds = [each_test.tflops for each_test in tests if each_test.tflops]
    if speeds:
        title += f": {min(speeds):.3g} TFLOPS, median {median(speeds):.3g}"
    return title if len(title) <= 80 else title[:79] + "…"


def _participants(test: TestResult, groups: Sequence[tuple[Member, ...]]) -> str:
    if test.scope is Scope.ALL:
        return f"{len(test.members)} ranks"
    if test.scope is Scope.PAIR:
        return _pairs(test, groups)
    kind = _GROUPS[test.scope]
    return f"{len(groups)} {kind}s, each alone, slowest shown" if len(groups) > 1 else f"1 {kind} alone"


def _pairs(test: TestResult, groups: Sequence[tuple[Member, ...]]) -> str:
    if not _passed(test):
        return f"{test.outcome}: " + ", ".join(" - ".join(member.place for member in pair) for pair in groups)
    where = "along the rails" if _along_a_rail(test) else "with other partners"
    return f"{len(groups)} pairs {where}, slowest shown" if len(groups) > 1 else f"1 pair {where}"


def _row(same: Sequence[TestResult]) -> str:
    slowest = _slowest(same)
    count = slowest.bytes // _BYTES.get(slowest.dtype, 4)
    root = -1 if slowest.root is None else slowest.root
    kind = slowest.form if slowest.form in ("object", "list", "async") else slowest.reduction or "none"
    if slowest.seconds is None:
        measured = [slowest.outcome.partition("_")[0], "", "", ""]
    else:
        time, p99 = (None if seconds is None else seconds * 1e6 for seconds in (slowest.seconds, slowest.p99_seconds))
        rates = (_number(rate, 6, 3) for rate in (slowest.algbw_GBps, slowest.busbw_GBps))
        measured = [_number(time, 9, 1), _number(p99, 7, 1), *rates]
    size, wrong = _number(slowest.bytes, 10), _wrong(same)
    return _cells(size, _number(count, 9), slowest.dtype, kind, str(root), *measured, wrong)


def _cells(*row: str) -> str:
    """Return a line of the table, always with a space between two columns."""
    return " ".join(f"{text:>{width}}" for text, width in zip(row, _WIDTHS, strict=True)).rstrip()


def _number(value: float | None, width: int, decimals: int = 0) -> str:
    """Return a number, with fewer decimals if it is too long for its column, else as 1.0e9."""
    if value is None:
        return ""
    texts = (f"{value:.{places}f}" for places in range(decimals, -1, -1))
    digits, exponent = f"{value:.1e}".split("e")
    return next((text for text in texts if len(text) <= width), f"{digits}e{int(exponent)}")


def _wrong(same: Sequence[TestResult]) -> str:
    """Return the number of wrong values, as far as they were counted. HCCL Test does not count them."""
    if any(test.outcome is TestOutcome.UNCHECKED for test in same):
        return "N/A"
    wrong = sum(test.wrong_values for test in same)
    return _number(wrong, 6) if wrong or same[0].outcome is not TestOutcome.WRONG_DATA else "some"


def _slowest(same: Iterable[TestResult]) -> TestResult:
    """Return the slowest test. The fastest of several tests of the same members counts."""
    best: dict[object, TestResult] = {}
    for test in same:
        key = (test.members, test.root, test.dtype)
        best[key] = min(test, best.get(key, test), key=lambda test: test.seconds or 0.0)
    return max(best.values(), key=lambda test: test.seconds or 0.0)
