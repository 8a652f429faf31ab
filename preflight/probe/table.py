"""What was measured, in the columns of nccl-tests; roots and rails folded. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from preflight.model.measure import Observation, TestOutcome, TestResult

_BYTES = {"int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int64": 8, "float64": 8}
_HEAD = f"{'size':>11}{'count':>11}{'type':>9}{'redop':>7}{'root':>6}{'time':>11}{'algbw':>8}{'busbw':>8}{'#wrong':>8}"
_UNITS = f"{'(B)':>11}{'(elements)':>11}{'':>22}{'(us)':>11}{'(GB/s)':>8}{'(GB/s)':>8}"


def rows(observations: Sequence[Observation]) -> list[str]:
    """Lines of at most 80 columns; empty if nothing ran collectives.

    Broadcasts that differ only in root and type share a line, as do pairs that differ only in hosts or rail; such a
    line shows the slowest of them and says so. A test that brought no time shows its outcome in place of one.
    """
    measured = [observation.test for observation in observations if observation.test.bytes]
    tests = [test for test in measured if test.outcome is not TestOutcome.NOT_RUN]
    lines: list[str] = []
    heading = ""
    for same in _alike(tests):
        title = _title(same)
        if title != heading:
            lines += [title, _HEAD, _UNITS] if not heading else [title]
            heading = title
        lines.append(_row(same))
    if len(tests) < len(measured):
        lines.append(f"not run, because their ranks had failed before: {len(measured) - len(tests)} tests")
    return lines


def _alike(tests: Iterable[TestResult]) -> Iterator[list[TestResult]]:
    """Tests that share a line, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[TestResult]] = {}
    for test in tests:
        one_line = test.root is not None or _is_pair(test)
        kind = (_along_a_rail(test),) if _is_pair(test) else (test.op, len(test.members))
        key = (*kind, test.bytes, test.outcome, None if one_line else test.id)
        groups.setdefault(key, []).append(test)
    yield from groups.values()


def _is_pair(test: TestResult) -> bool:
    return not test.id.startswith("r1-")


def _along_a_rail(test: TestResult) -> bool:
    return len({member.device for member in test.members}) == 1


def _title(same: Sequence[TestResult]) -> str:
    test = same[0]
    if not _is_pair(test):
        return f"{test.op}, {len(test.members)} ranks" + (", slowest root shown" if len(same) > 1 else "")
    pairs = list(dict.fromkeys(other.members for other in same))
    if test.outcome is TestOutcome.PASS:
        which = "along the rails" if _along_a_rail(test) else "with other partners"
        shown = f"{len(pairs)} pairs {which}, slowest shown" if len(pairs) > 1 else f"1 pair {which}"
        return f"{test.op}, {shown}"
    named = ", ".join(" - ".join(f"{member.host}/{member.device}" for member in pair) for pair in pairs)
    title = f"{test.op}, {test.outcome}: {named}"
    return title if len(title) <= 80 else title[:79] + "…"


def _row(same: Sequence[TestResult]) -> str:
    slowest = _slowest(same)
    roots = {test.root for test in same}
    root = "-1" if None in roots else f"{slowest.root}"
    dtypes = {test.dtype for test in same}
    dtype = slowest.dtype if len(dtypes) == 1 else f"{len(dtypes)} types"
    count = str(slowest.bytes // _BYTES.get(slowest.dtype, 4)) if len(dtypes) == 1 else ""
    redop = "sum" if slowest.op == "all_reduce" else "none"
    if slowest.seconds is None:
        measured = f"{slowest.outcome:>11}{'':>16}"
    else:
        measured = f"{slowest.seconds * 1e6:>11.1f}{slowest.algbw_GBps or 0:>8.2f}{slowest.busbw_GBps or 0:>8.2f}"
    return f"{slowest.bytes:>11}{count:>11}{dtype:>9}{redop:>7}{root:>6}{measured}{_wrong(same):>8}"


def _wrong(same: Sequence[TestResult]) -> str:
    """How many values are wrong, as far as anybody counted them: HCCL Test does not."""
    if any(test.outcome is TestOutcome.UNCHECKED for test in same):
        return "N/A"
    wrong = sum(test.wrong_values for test in same)
    return str(wrong) if wrong or same[0].outcome is not TestOutcome.WRONG_DATA else "some"


def _slowest(same: Sequence[TestResult]) -> TestResult:
    """The slowest; a pair that was measured several times counts with its fastest."""
    best: dict[object, TestResult] = {}
    for test in same:
        key = (test.members, test.root)
        best[key] = min(test, best.get(key, test), key=lambda test: test.seconds or 0.0)
    return max(best.values(), key=lambda test: test.seconds or 0.0)
