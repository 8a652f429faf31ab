"""Checks of the results of the vendor's HCCL Test, where it takes the probe's place."""

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


@cluster_check("PRB104", "HCCL Test runs over all devices, and its results are right", products=NPU, several=False)
def hccl_test_passes(all_: All, hccl_test: HcclTestRun) -> Iterator[Finding]:
    """Why: where jobs have no torch (MindSpore), the probe cannot run; the vendor's HCCL Test does an all_reduce over
    the same devices and checks its results. It is one job over all: it says that something is wrong, seldom where. Its
    alg_bandwidth counts 2^30 bytes as a GB; the table here has 10^9, computed from its times, and busbw from that.

    Check manually: mpirun -f hosts -n 16 all_reduce_test -p 8 -b 8K -e 16M -f 2 -d fp32 -o sum -c 1

    Fix: what its error says; then the ranks' plog, ~/ascend/log/debug/plog
    """
    result = hccl_test.said
    retry = {"remedy": f"run it by hand: {hccl_test.command}"} if hccl_test.command else {}
    if hccl_test.exit is None:
        yield all_.bad(
            f"HCCL Test did not end within {hccl_test.seconds:.0f} s, and was stopped",
            host=None,
            expected="an end",
            cause="a rank waits for another one",
            remedy="look at the ranks' plog: ~/ascend/log/debug/plog",
        )
    if isinstance(result, Missing):
        if hccl_test.exit is not None:
            yield all_.unknown(f"HCCL Test did not run: {result.error}", host=None, **retry)
        return
    for code in result.codes:  # HCCL's own verdict, unlike a failed start or an unreadable table
        yield all_.bad(_ended_with(code), host=None, **retry)
    for trouble in result.trouble:
        yield all_.unknown(trouble, host=None, **retry)
    if hccl_test.strange_rows:
        row_sizes = sorted({row.size for row in result.rows})
        yield all_.unknown(
            f"HCCL Test's table is another one than was asked for: {len(result.rows)} rows, of "
            f"{row_sizes[0]} to {row_sizes[-1]} bytes, instead of "
            f"{len(hccl_test.sizes)}, doubling from {hccl_test.sizes[0]}",
            host=None,
            cause="mpirun of another MPI than the one it was built with starts every rank as a job of its own, each "
            "with a table; or something else prints into it",
            **retry,
        )
    elif not (result.codes or result.trouble) and hccl_test.exit == 0 and len(result.rows) < len(hccl_test.sizes):
        yield all_.unknown(
            f"HCCL Test's table ends after {len(result.rows)} of {len(hccl_test.sizes)} sizes, and it does not say why",
            host=None,
            **retry,
        )
    if result.wrong_ranks or any(row.check == "failed" for row in result.rows):
        yield _wrong(all_, hccl_test.members, result)
    elif any(row.check == "NULL" for row in result.rows):
        exact = checks(hccl_test.dtype, hccl_test.operation, len(hccl_test.members))
        why = "though it can" if exact else f"as {len(hccl_test.members)} devices are too many for {hccl_test.dtype}"
        yield all_.unknown(f"HCCL Test compared no results, {why}", host=None, **retry)
    elif hccl_test.exit and not (result.codes or result.trouble):
        yield all_.unknown(f"HCCL Test ended with exit code {hccl_test.exit}, and no word why", host=None, **retry)


def _ended_with(code: int) -> str:
    """Return a sentence about a code of HCCL or the runtime."""
    error_meaning = meaning(f"retcode: {code}")
    explanation = (
        f"{error_meaning.cause}; {error_meaning.remedy}"
        if error_meaning
        else "its number is in CANN's list of error codes"
    )
    explanation = _LEFTOVER if code == 7 else f"{explanation}; the first error in plog says where"
    return f"HCCL Test ended with retcode {code}: {explanation}"


def _wrong(all_: All, members: Sequence[Member], said: HcclTest) -> Finding:
    """Return the finding about wrong results; a device is named if it is the only one with wrong results."""
    sizes = [str(row.size) for row in said.rows if row.check == "failed"]
    wrong = [members[rank] for rank in said.wrong_ranks if rank < len(members)]
    places = ", ".join(f"{member.host}/{member.device}" for member in wrong[:8])
    alone = wrong[0] if len(wrong) == 1 else None
    return all_.bad(
        f"HCCL Test: wrong results{f' on {places}' if places else ''}",
        host=alone.host if alone else None,
        device=alone.device if alone else None,
        expected="success",
        found=f"failed at {', '.join(sizes[:8])} bytes" if sizes else "check result failed",
        cause="who received wrong values is known, who sent them is not",
        remedy="halve the hosts (--limit) until one device is alone in it",
    )
