"""Checks of the results of the vendor's HCCL Test, where it takes the probe's place."""

from collections.abc import Iterator, Sequence

from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.facts.error_catalogue import meaning
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

    By hand: mpirun -f hosts -n 16 all_reduce_test -p 8 -b 8K -e 16M -f 2 -d fp32 -o sum -c 1

    Mend: what its error says; then the ranks' plog, ~/ascend/log/debug/plog
    """
    said = hccl_test.said
    again = {"remedy": f"run it by hand: {hccl_test.command}"} if hccl_test.command else {}
    if hccl_test.exit is None:
        yield all_.bad(
            f"HCCL Test did not end within {hccl_test.seconds:.0f} s, and was stopped",
            host=None,
            expected="an end",
            cause="a rank waits for another one",
            remedy="look at the ranks' plog: ~/ascend/log/debug/plog",
        )
    if isinstance(said, Missing):
        if hccl_test.exit is not None:
            yield all_.unknown(f"HCCL Test did not run: {said.error}", host=None, **again)
        return
    for code in said.codes:  # HCCL's own verdict; what kept it from starting, or its table from being read, is none
        yield all_.bad(_ended_with(code), host=None, **again)
    for trouble in said.trouble:
        yield all_.unknown(trouble, host=None, **again)
    if hccl_test.strange_rows:
        given = sorted({row.size for row in said.rows})
        yield all_.unknown(
            f"HCCL Test's table is another one than was asked for: {len(said.rows)} rows, of {given[0]} to {given[-1]} "
            f"bytes, instead of {len(hccl_test.sizes)}, doubling from {hccl_test.sizes[0]}",
            host=None,
            cause="mpirun of another MPI than the one it was built with starts every rank as a job of its own, each "
            "with a table; or something else prints into it",
            **again,
        )
    elif not (said.codes or said.trouble) and hccl_test.exit == 0 and len(said.rows) < len(hccl_test.sizes):
        yield all_.unknown(
            f"HCCL Test's table ends after {len(said.rows)} of {len(hccl_test.sizes)} sizes, and it does not say why",
            host=None,
            **again,
        )
    if said.wrong_ranks or any(row.check == "failed" for row in said.rows):
        yield _wrong(all_, hccl_test.members, said)
    elif any(row.check == "NULL" for row in said.rows):
        exact = checks(hccl_test.dtype, hccl_test.operation, len(hccl_test.members))
        why = "though it can" if exact else f"as {len(hccl_test.members)} devices are too many for {hccl_test.dtype}"
        yield all_.unknown(f"HCCL Test compared no results, {why}", host=None, **again)
    elif hccl_test.exit and not (said.codes or said.trouble):
        yield all_.unknown(f"HCCL Test ended with exit code {hccl_test.exit}, and no word why", host=None, **again)


def _ended_with(code: int) -> str:
    """A sentence about a code of HCCL or the runtime."""
    known = meaning(f"retcode: {code}")
    said = f"{known.cause}; {known.remedy}" if known else "its number is in CANN's list of error codes"
    said = _LEFTOVER if code == 7 else f"{said}; the first error in plog says where"
    return f"HCCL Test ended with retcode {code}: {said}"


def _wrong(all_: All, members: Sequence[Member], said: HcclTest) -> Finding:
    """The finding about wrong results; a device is named where it alone had them."""
    sizes = [str(row.size) for row in said.rows if row.check == "failed"]
    wrong = [members[rank] for rank in said.wrong_ranks if rank < len(members)]
    who = ", ".join(f"{member.host}/{member.device}" for member in wrong[:8])
    alone = wrong[0] if len(wrong) == 1 else None
    return all_.bad(
        f"HCCL Test: wrong results{f' on {who}' if who else ''}",
        host=alone.host if alone else None,
        device=alone.device if alone else None,
        expected="success",
        found=f"failed at {', '.join(sizes[:8])} bytes" if sizes else "check result failed",
        cause="who received wrong values is known, who sent them is not",
        remedy="halve the hosts (--limit) until one device is alone in it",
    )
