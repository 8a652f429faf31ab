"""Checks of the results of the vendor's HCCL Test, which replaces the probe for jobs without torch."""

from collections.abc import Iterator, Sequence

from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.facts.error_meanings import meaning
from preflight.facts.hccl_test_run import HcclTestRun
from preflight.facts.parsers.ascend.hccl_test import HcclTest, checks
from preflight.facts.types import Missing
from preflight.model.finding import Finding
from preflight.model.measure import Member

_LEFTOVER = (
    "a process of an earlier HCCL Test is still there on one of the hosts: find it with pgrep -fa _test, end it, and "
    "start again"
)
_OTHER_MPI = (
    "mpirun of another MPI than the one it was built with starts every rank as a job of its own, each with a table; or "
    "something else prints into it"
)


@cluster_check("PRB104", "HCCL Test results", products=NPU, several=False)
def hccl_test_results(scribe: All, hccl_test: HcclTestRun) -> Iterator[Finding]:
    """Why: If jobs have no torch (MindSpore), the probe cannot run, and the vendor's HCCL Test takes its place. HCCL
    Test does an all_reduce over the same devices and checks the results. It is one job over all devices, so it detects
    faults but seldom locates them.

    Result: FAIL for wrong results, for an error code (retcode), and for a timeout. HCCL Test's alg_bandwidth counts
    2^30 bytes as a GB. The table here counts 10^9 bytes, computed from HCCL Test's times, and derives busbw from that.

    Check manually: The file hosts holds the hosts of the job, and 16 is the number of all devices.
      mpirun -f hosts -n 16 all_reduce_test -p 8 -b 8K -e 16M -f 2 -d fp32 -c 1

    Fix: Follow the error message of HCCL Test. Then read the ranks' logs (plog).
      ls ~/ascend/log/debug/plog
    """
    result = hccl_test.said
    remedy = f"run it by hand: {hccl_test.command}" if hccl_test.command else ""
    if hccl_test.exit is None:
        yield scribe.bad(
            f"HCCL Test did not end within {hccl_test.seconds:.0f} s, and was stopped",
            expected="an end",
            cause="a rank waits for another one",
            remedy="look at the ranks' plog: ~/ascend/log/debug/plog",
        )
    elif isinstance(result, Missing):
        yield scribe.unknown(f"HCCL Test did not run: {result.error}", remedy=remedy)
    if isinstance(result, Missing):
        return
    for code in result.codes:  # HCCL's own verdict, unlike a failed start or an unreadable table
        yield scribe.bad(_retcode_problem(code), remedy=remedy)
    for trouble in result.trouble:
        yield scribe.unknown(trouble, remedy=remedy)
    problem, cause = _table_problem(hccl_test, result)
    if problem:
        yield scribe.unknown(problem, cause=cause, remedy=remedy)
    if _is_wrong(result):
        yield _wrong(scribe, hccl_test.members, result)
    elif problem := _result_problem(hccl_test, result):
        yield scribe.unknown(problem, remedy=remedy)


def _is_wrong(result: HcclTest) -> bool:
    return bool(result.wrong_ranks) or any(row.check == "failed" for row in result.rows)


def _is_explained(result: HcclTest) -> bool:
    return bool(result.codes or result.trouble)


def _table_problem(run: HcclTestRun, result: HcclTest) -> tuple[str, str]:
    """Return why the table is not that of the requested sizes, and the cause, as far as errors do not explain it."""
    rows, sizes = len(result.rows), run.sizes
    if run.strange_rows:
        row_sizes = sorted({row.size for row in result.rows})
        problem = (
            f"HCCL Test's table is another one than was asked for: {rows} rows, of {row_sizes[0]} to {row_sizes[-1]} "
            f"bytes, instead of {len(sizes)}, doubling from {sizes[0]}"
        )
        return problem, _OTHER_MPI
    if run.exit == 0 and rows < len(sizes) and not _is_explained(result):
        return f"HCCL Test's table ends after {rows} of {len(sizes)} sizes, and it does not say why", ""
    return "", ""


def _result_problem(run: HcclTestRun, result: HcclTest) -> str:
    """Return why the results are not known to be right; empty if they are, or if an error explains it."""
    devices = len(run.members)
    if any(row.check == "NULL" for row in result.rows):
        exact = checks(run.dtype, run.operation, devices)
        why = "though it can" if exact else f"as {devices} devices are too many for {run.dtype}"
        return f"HCCL Test compared no results, {why}"
    if run.exit and not _is_explained(result):
        return f"HCCL Test ended with exit code {run.exit}, and no word why"
    return ""


def _retcode_problem(code: int) -> str:
    """Return a sentence about a code of HCCL or the runtime."""
    error_meaning = meaning(f"retcode: {code}")
    explanation = (
        f"{error_meaning.cause}; {error_meaning.remedy}"
        if error_meaning
        else "its number is in CANN's list of error codes"
    )
    explanation = _LEFTOVER if code == 7 else f"{explanation}; the first error in plog says where"
    return f"HCCL Test ended with retcode {code}: {explanation}"


def _wrong(scribe: All, members: Sequence[Member], result: HcclTest) -> Finding:
    """Return the finding about wrong results, about a device if it is the only one with wrong results."""
    sizes = [str(row.size) for row in result.rows if row.check == "failed"]
    wrong = [members[rank] for rank in result.wrong_ranks if rank < len(members)]
    devices = f" on {', '.join(member.place for member in wrong[:8])}" if wrong else ""
    host, device = (wrong[0].host, wrong[0].device) if len(wrong) == 1 else (None, None)
    return scribe.bad(
        f"HCCL Test: wrong results{devices}",
        host=host,
        device=device,
        expected="success",
        found=f"failed at {', '.join(sizes[:8])} bytes" if sizes else "check result failed",
        cause="who received wrong values is known, who sent them is not",
        remedy="halve the hosts (--limit) until one device is alone in it",
    )
