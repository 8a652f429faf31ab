"""Checks of the results of the vendor's HCCL Test, which replaces the probe for jobs without torch."""

from collections.abc import Iterator, Sequence

from preflight.checks.engine.registry import NPU, All, Details, cluster_check
from preflight.facts.error_meanings import Meaning, meaning
from preflight.facts.hccl_test_run import HcclTestRun
from preflight.facts.parsers.ascend.hccl_test import HcclTest, checks
from preflight.facts.types import Missing
from preflight.model.finding import Finding
from preflight.model.measure import Member

_SHOWN = 8  # ranks, or sizes
_PLOG = "~/ascend/log/debug/plog"
_LEFTOVER = Meaning(
    "a process of an earlier HCCL Test still runs on one of the hosts",
    "find and end that process on every host, then run the test again",
)
_UNKNOWN_CODE = Meaning("", "look up the number in CANN's list of error codes")
_OTHER_MPI = "mpirun belongs to another MPI than the one of HCCL Test's build, or another program prints into the table"


@cluster_check("PRB104", "HCCL Test results", products=NPU, several=False)
def hccl_test_results(scribe: All, hccl_test: HcclTestRun) -> Iterator[Finding]:
    """Why: If jobs have no torch (MindSpore), the probe cannot run, and the vendor's HCCL Test takes its place. HCCL
    Test does an all_reduce over the same devices and checks the results. It is one job over all devices, so it detects
    faults but seldom locates them.

    Result: FAIL for wrong results, for an error code (retcode), and for a timeout. HCCL Test's alg_bandwidth counts
    2^30 bytes as a GB. The table here counts 10^9 bytes, computed from HCCL Test's times, and derives busbw from that.

    Check manually: The file hosts lists the job's hosts, and 16 is the total number of devices.
      mpirun -f hosts -n 16 all_reduce_test -p 8 -b 8K -e 16M -f 2 -d fp32 -c 1

    Fix: Follow the error message of HCCL Test. Then read the ranks' logs (plog).
      ls ~/ascend/log/debug/plog
    """
    result = hccl_test.said
    again = _again(hccl_test)
    if hccl_test.exit is None:
        yield scribe.bad(
            f"HCCL Test hung and was stopped after {hccl_test.seconds:.0f} s",
            cause="a rank waits for another rank",
            remedy=f"find the first error in the ranks' logs (plog, on each host in {_PLOG})",
            commands=("preflight diagnose --fetch",),
        )
    elif isinstance(result, Missing):
        yield scribe.unknown(f"HCCL Test did not run: {result.error}", **again)
    if isinstance(result, Missing):
        return
    for code in result.codes:  # HCCL's own verdict, unlike a failed start or an unreadable table
        yield _retcode_finding(scribe, hccl_test, code)
    for trouble in result.trouble:
        yield scribe.unknown(trouble, **again)
    problem, cause = _table_problem(hccl_test, result)
    if problem:
        yield scribe.unknown(problem, cause=cause, **again)
    if _is_wrong(result):
        yield _wrong(scribe, hccl_test.members, result)
    elif problem := _result_problem(hccl_test, result):
        yield scribe.unknown(problem, **again)


def _again(run: HcclTestRun) -> Details:
    """Return the remedy of a problem that the test does not explain: its command. It is empty before the test ran."""
    if not run.command:
        return {}
    return {"remedy": f"run HCCL Test manually on {run.members[0].host}", "commands": (run.command,)}


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
            f"HCCL Test printed an unexpected table: {rows} rows ({row_sizes[0]} to {row_sizes[-1]} bytes); "
            f"expected {len(sizes)} rows, starting at {sizes[0]} bytes and doubling each time"
        )
        return problem, _OTHER_MPI
    if run.exit == 0 and rows < len(sizes) and not _is_explained(result):
        return f"HCCL Test's table ends after {rows} of {len(sizes)} sizes, without an error message", ""
    return "", ""


def _result_problem(run: HcclTestRun, result: HcclTest) -> str:
    """Return why the results are not known to be right; empty if they are, or if an error explains it."""
    devices = len(run.members)
    if any(row.check == "NULL" for row in result.rows):
        exact = checks(run.dtype, run.operation, devices)
        why = f"although {run.dtype} allows it" if exact else f"because {devices} devices are too many for {run.dtype}"
        return f"HCCL Test did not compare its results, {why}"
    if run.exit and not _is_explained(result):
        return f"HCCL Test ended with exit code {run.exit}, without an error message"
    return ""


def _retcode_finding(scribe: All, run: HcclTestRun, code: int) -> Finding:
    """Return the finding about a code of HCCL or the runtime."""
    entry = _LEFTOVER if code == 7 else meaning(f"retcode: {code}") or _UNKNOWN_CODE
    hosts = dict.fromkeys(member.host for member in run.members[:_SHOWN])
    return scribe.bad(
        f"HCCL Test ended with retcode {code}" + (f": {entry.cause}" if entry.cause else ""),
        remedy=entry.remedy if code == 7 else f"read the first error in {_PLOG}. Then {entry.step}",
        commands=tuple(scribe.on(host, "pgrep -fa _test") for host in hosts) if code == 7 else entry.explanations,
        retest=run.command,
    )


def _wrong(scribe: All, members: Sequence[Member], result: HcclTest) -> Finding:
    """Return the finding about wrong results, about a device if it is the only one with wrong results."""
    sizes = [str(row.size) for row in result.rows if row.check == "failed"]
    wrong = [members[rank] for rank in result.wrong_ranks if rank < len(members)]
    devices = f" on {', '.join(member.place for member in wrong[:_SHOWN])}" if wrong else ""
    host, device = (wrong[0].host, wrong[0].device) if len(wrong) == 1 else (None, None)
    return scribe.bad(
        f"HCCL Test reported wrong results{devices}",
        host=host,
        device=device,
        expected="success",
        found=f"failed at {', '.join(sizes[:_SHOWN])} bytes" if sizes else "check result failed",
        evidence=("these devices received wrong values from an unknown sender",) if wrong else (),
        remedy="repeat the test with half of the hosts (--limit) until one device is left",
    )
