"""Devices alone: they compute and copy correctly, and as fast as the others.

Compute, memory and the way to the host are separate, as they have different causes."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import command
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Member, Observation, Scope
from preflight.model.peers import FEWEST, usual


@dataclass(frozen=True)
class _Kind:
    """One kind of speed in which devices are compared.

    A device is slow if it takes `warn` times as long as the median one. `fail` times as long is a failure (recommended
    defaults for stragglers)."""

    op: str
    words: str
    unit: str
    warn: float
    fail: float


_COMPUTE = _Kind("matmul", "matrix products", "TFLOP/s", 1.05, 1.20)
_MEMORY = _Kind("memory", "copies within its memory", "GB/s", 1.05, 1.15)
_IN = _Kind("copy_in", "copies from the host", "GB/s", 1.15, 1.5)
_OUT = _Kind("copy_out", "copies to the host", "GB/s", 1.15, 1.5)
_FAR = 3.0, 5.0  # spreads from the median, the least for a warning and for a failure
_COOL = "power limit and clocks: npu-smi info -t power -i 0, or nvidia-smi -q -d PERFORMANCE; cooling; who else uses it"
_WIDTH = "compare speed and width of its PCIe link with the others': lspci -vv, LnkSta against LnkCap"


@cluster_check("PRB111", "No device computes slowly or wrongly", several=False)
def computes(all_: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: one slow device slows every step of a job, and one that computes wrong now and then spoils the result
    without an error. Each multiplies matrices of small integers alone, before any network: every value has to be right
    every time. The time is compared with the median device: 1.05 times is a warning, 1.2 times a failure, more where
    devices differ from each other or from themselves by that much.

    Check manually: a matrix product in torch on that device, timed, and the same on another

    Fix: wrong: take it out of jobs, have it replaced; slow: power limit, cooling, another process on it
    """
    yield from _judge(all_, observations, (_COMPUTE,), "computes", _COOL)


@cluster_check(
    "PRB112", "Memory of every device, and copies to and from it, are right and as fast as the others'", several=False
)
def copies(all_: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: a device whose PCIe link came up with half its lanes loads its data at half the speed, one whose memory is
    slow or loses bits spoils every job; none of that shows on the network. Every value is compared; the time with the
    median device: within the device 1.05 times is a warning and 1.15 times a failure, to and from the host 1.15 times
    and 1.5 times, more where devices differ from each other or from themselves by that much.

    Check manually: lspci -vv (LnkSta against LnkCap); npu-smi info -t ecc -i 0, or nvidia-smi -q -d ECC

    Fix: seat the card or its riser again; the server's settings for PCIe; a device that loses bits is replaced
    """
    yield from _judge(all_, observations, (_MEMORY, _IN, _OUT), "copies", _WIDTH)


def _judge(
    all_: All, observations: Sequence[Observation], kinds: Sequence[_Kind], verb: str, remedy: str
) -> Iterator[Finding]:
    results = [observation for observation in observations if observation.test.op in {kind.op for kind in kinds}]
    devices = {observation.ranks[0].member for observation in results}
    wrong = {observation.ranks[0].member for observation in results if observation.test.wrong_values}
    for member in sorted(wrong, key=lambda member: member.place):
        yield _wrong(
            all_, member, [observation for observation in results if observation.ranks[0].member == member], verb
        )
    if any(view.on_host for observation in results for view in observation.ranks):
        if not wrong:
            yield all_.skip("tensors were in the hosts' memory (gloo, or a stand-in): no device to compare")
        return
    speeds = {kind: _speeds(results, kind) for kind in kinds}
    measured = {member for by_type in speeds.values() for speeds_of in by_type.values() for member in speeds_of}
    if len(measured) < FEWEST <= len(devices):
        yield all_.unknown(f"fewer than {FEWEST} of {len(devices)} devices brought a time", host=None)
    elif len(measured) < FEWEST and not wrong:
        yield all_.skip(f"fewer than {FEWEST} devices were tested alone: no median to compare with")
    for kind, by_type in speeds.items():
        slow = [
            entry
            for dtype, speeds_of in by_type.items()
            for entry in _slow(kind, dtype, speeds_of)
            if entry.member not in wrong
        ]
        yield from _told(all_, kind, slow, measured, results, remedy)


def _wrong(all_: All, member: Member, seen: Sequence[Observation], verb: str) -> Finding:
    bad = [observation for observation in seen if observation.test.wrong_values]
    ids = tuple(observation.test.id for observation in bad)
    return all_.bad(
        f"{member.host}: device {member.device} {verb} wrongly: {len(bad)} of {len(seen)} tests brought wrong values",
        host=member.host,
        device=member.device,
        expected="0 wrong values",
        found=f"{sum(observation.test.wrong_values for observation in bad)} wrong values",
        evidence=tuple(
            f"{observation.test.op} {observation.test.dtype}: {observation.ranks[0].first_wrong[:120]}"
            for observation in bad
        ),
        remedy="take the device out of jobs; its memory errors: npu-smi info -t ecc -i 0, or nvidia-smi -q -d ECC; to "
        f"see it again: {command(all_, [member.host], Scope.DEVICE)}",
        culprit=Culprit("device", (member.place,), ids, f"{verb} wrongly"),
    )


_Speeds = dict[Member, list[float]]  # device → its measurements in the kind's unit


def _speeds(done: Sequence[Observation], kind: _Kind) -> dict[str, _Speeds]:
    """Return the speeds by data type."""
    speeds: dict[str, _Speeds] = defaultdict(lambda: defaultdict(list))
    for observation in done:
        speed = observation.test.tflops if kind is _COMPUTE else observation.test.algbw_GBps
        if observation.test.op == kind.op and speed:
            speeds[observation.test.dtype][observation.ranks[0].member].append(speed)
    return speeds


@dataclass(frozen=True)
class _Slow:
    member: Member
    words: str  # the measurement, with the figure and the median
    share: float  # share of the median
    far: bool


def _slow(kind: _Kind, dtype: str, speeds: _Speeds) -> Iterator[_Slow]:
    """Yield the devices that are slower than the limit.

    The better of two measurements counts, since noise only makes a device slower. If the median device differs from
    itself by more than the limit, only larger differences count."""
    best = {member: max(measured) for member, measured in speeds.items()}
    peers = usual(list(best.values()))
    if peers is None:
        return
    steadiness = usual([min(measured) / max(measured) for measured in speeds.values()])
    steady_limit = peers.median * (steadiness.median if steadiness else 1.0)
    for member, speed in best.items():
        if speed < min(steady_limit, peers.limit(1 / kind.warn, _FAR[0])):
            words = f"{speed:.3g} {kind.unit} in {dtype}, the median device has {peers.median:.3g}"
            far = speed < min(steady_limit, peers.limit(1 / kind.fail, _FAR[1]))
            yield _Slow(member, words, speed / peers.median, far)


def _told(
    all_: All,
    kind: _Kind,
    slow: Sequence[_Slow],
    measured: Collection[Member],
    done: Sequence[Observation],
    remedy: str,
) -> Iterator[Finding]:
    """Yield one finding a device, or one for a host if all its devices are slow, since then the host is at fault."""
    by_host: dict[str, dict[Member, list[_Slow]]] = defaultdict(lambda: defaultdict(list))
    for entry in slow:
        by_host[entry.member.host][entry.member].append(entry)
    for host, by_member in by_host.items():
        whole_host = len(by_member) > 1 and len(by_member) == sum(member.host == host for member in measured)
        groups = (
            [[entry for entries in by_member.values() for entry in entries]] if whole_host else list(by_member.values())
        )
        for group in groups:
            worst = min(group, key=lambda entry: entry.share)
            device = None if whole_host else worst.member.device
            subject = f"all {len(by_member)} devices" if whole_host else f"device {device}"
            far = any(entry.far for entry in group)
            members = {entry.member for entry in group}
            ids = tuple(
                observation.test.id
                for observation in done
                if observation.test.op == kind.op and observation.ranks[0].member in members
            )
            named = ("host", (host,)) if whole_host else ("device", (worst.member.place,))
            yield (all_.bad if far else all_.warn)(
                f"{host}: {subject}: {kind.words} are slow: {worst.words}",
                host=host,
                device=device,
                expected=f"{1 / kind.warn:.0%} of the median or more",
                found=f"{worst.share:.0%}",
                cause="what its devices share: power, cooling, memory and processor of the host" if whole_host else "",
                evidence=tuple(f"{entry.member.place}: {entry.words}" for entry in group),
                remedy=f"{remedy}; to see it again: {command(all_, [host], Scope.DEVICE)}",
                culprit=Culprit(*named, ids, f"slow {kind.words}") if far else None,
            )
