"""Devices alone: they compute and copy correctly, and as fast as the others.

Compute, memory and the way to the host are separate, as they have different causes."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from preflight.attribution.culprit_words import by_id, counted
from preflight.checks.engine.registry import All, Details, cluster_check
from preflight.checks.shared.culprit_findings import command
from preflight.checks.shared.speed_limits import speed_limits
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Member, Observation, Scope
from preflight.model.peers import FEWEST


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
_SHARED = "power, cooling, memory or processor of the host, which its devices share"
_COOL = "check power limit, clocks, cooling and other processes on the device"
_WIDTH = "compare speed and width of the PCIe link (LnkSta) with its capability (LnkCap) and with other devices"


@cluster_check("PRB111", "Device compute speed and results", several=False)
def device_compute(scribe: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: One slow device slows down every step of a job. A device that intermittently computes wrong values corrupts
    the result without an error. Before any network test, each device multiplies matrices of small integers alone.

    Result: FAIL if one value is wrong. WARN if a device takes 1.05 times as long as the median device, FAIL at 1.2
    times. The limits are wider if devices or measurements vary by more than that.

    Check manually: Measure the time of a matrix multiplication in PyTorch on that device and on another device.

    Fix: If a device computes wrong values, exclude it from jobs and have it replaced. If a device is slow, check its
    power limit, its cooling and other processes on it.
    """
    yield from _judge(scribe, observations, (_COMPUTE,), "computes")


@cluster_check("PRB112", "Device memory speed and integrity", several=False)
def device_memory(scribe: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: If a device's PCIe link comes up with half its lanes, the device loads its data at half the speed. Memory
    that is slow or corrupts data affects every job. Network tests do not detect these faults.

    Result: FAIL if one value is wrong. For copies within a device, WARN at 1.05 times the median time and FAIL at 1.15
    times. For copies to and from the host, the limits are 1.15 and 1.5 times. The limits are wider if devices or
    measurements vary by more than that.

    Check manually: In the output of lspci, compare LnkSta with LnkCap.
      lspci -vv
    On hosts with NPUs:
      npu-smi info -t ecc -i 0
    On hosts with GPUs:
      nvidia-smi -q -d ECC

    Fix: Reseat the card or its riser, and check the server's PCIe settings. Replace a device that corrupts data.
    """
    yield from _judge(scribe, observations, (_MEMORY, _IN, _OUT), "copies")


def _judge(scribe: All, observations: Sequence[Observation], kinds: Sequence[_Kind], verb: str) -> Iterator[Finding]:
    results = [observation for observation in observations if observation.test.op in {kind.op for kind in kinds}]
    wrong = {observation.ranks[0].member for observation in results if observation.test.wrong_values}
    for member in sorted(wrong, key=lambda member: member.place):
        yield _wrong(scribe, results, member, verb)
    if not any(observation.ranks[0].on_host for observation in results):
        yield from _compare(scribe, results, kinds, wrong)
    elif not wrong:
        yield scribe.skip("tensors were in the hosts' memory (gloo, or a stand-in), so there is no device to compare")


def _wrong(scribe: All, results: Sequence[Observation], member: Member, verb: str) -> Finding:
    own = [observation for observation in results if observation.ranks[0].member == member]
    wrong = [observation for observation in own if observation.test.wrong_values]
    ids = tuple(by_id(wrong))
    return scribe.bad(
        f"{member.host}: device {member.device} {verb} wrongly: {len(wrong)} of {len(own)} tests returned wrong values",
        host=member.host,
        device=member.device,
        expected="0 wrong values",
        found=counted(sum(observation.test.wrong_values for observation in wrong), "wrong value"),
        evidence=tuple(
            f"{observation.test.op} {observation.test.dtype}: {observation.ranks[0].first_wrong[:120]}"
            for observation in wrong
        ),
        remedy="take the device out of jobs, then read its ECC counters",
        commands=_smi(scribe, member.host, f"npu-smi info -t ecc -i {member.device}", f"-i {member.device} -q -d ECC"),
        retest=command(scribe, [member.host], Scope.DEVICE),
        culprit=Culprit("device", (member.place,), ids, f"{verb} wrongly"),
    )


def _speed(observation: Observation) -> float | None:
    test = observation.test
    return test.tflops if test.op == _COMPUTE.op else test.algbw_GBps


def _measured(results: Sequence[Observation]) -> set[Member]:
    return {observation.ranks[0].member for observation in results if _speed(observation)}


def _compare(
    scribe: All, results: Sequence[Observation], kinds: Sequence[_Kind], wrong: Collection[Member]
) -> Iterator[Finding]:
    devices = {observation.ranks[0].member for observation in results}
    if len(_measured(results)) < FEWEST <= len(devices):
        yield scribe.unknown(f"fewer than {FEWEST} of {len(devices)} devices returned a time")
    elif len(_measured(results)) < FEWEST and not wrong:
        yield scribe.skip(f"fewer than {FEWEST} devices were tested alone, so there is no median to compare with")
    for kind in kinds:
        slow = [entry for entry in _slow(kind, results) if entry.member not in wrong]
        yield from _slow_devices(scribe, kind, slow, results)


@dataclass(frozen=True)
class _Slow:
    member: Member
    words: str  # the measurement, with the figure and the median
    share: float  # share of the median
    far: bool


def _slow(kind: _Kind, results: Sequence[Observation]) -> Iterator[_Slow]:
    """Yield the devices that are slower than the limit."""
    by_type: dict[str, dict[Member, list[float]]] = defaultdict(lambda: defaultdict(list))
    for observation in results:
        if observation.test.op == kind.op and (speed := _speed(observation)):
            by_type[observation.test.dtype][observation.ranks[0].member].append(speed)
    for dtype, measured in by_type.items():
        limits = speed_limits(measured.values(), 1 / kind.warn, 1 / kind.fail)
        for member, speeds in measured.items():
            speed = max(speeds)
            if limits and speed < limits.warn:
                words = f"{speed:.3g} {kind.unit} in {dtype}, median device {limits.median:.3g} {kind.unit}"
                yield _Slow(member, words, speed / limits.median, speed < limits.fail)


def _slow_devices(scribe: All, kind: _Kind, slow: Sequence[_Slow], results: Sequence[Observation]) -> Iterator[Finding]:
    """Yield one finding a device, or one for a host if all its devices are slow, since then the host is at fault."""
    devices = Counter(member.host for member in _measured(results))
    by_host: dict[str, dict[Member, list[_Slow]]] = defaultdict(lambda: defaultdict(list))
    for entry in slow:
        by_host[entry.member.host][entry.member].append(entry)
    for host, by_member in by_host.items():
        groups = list(by_member.values())
        if len(groups) > 1 and len(groups) == devices[host]:
            groups = [[entry for entries in groups for entry in entries]]
        for group in groups:
            yield _slow_finding(scribe, kind, group, results)


def _slow_finding(scribe: All, kind: _Kind, slow: Sequence[_Slow], results: Sequence[Observation]) -> Finding:
    """Return the finding about a slow device, or about a host with slow devices."""
    members = {entry.member for entry in slow}
    worst = min(slow, key=lambda entry: entry.share)
    host, far = worst.member.host, any(entry.far for entry in slow)
    tests = (observation.test for observation in results if observation.ranks[0].member in members)
    ids = tuple(test.id for test in tests if test.op == kind.op)
    if len(members) > 1:
        device, subject, cause = None, f"all {len(members)} devices", _SHARED
        culprit = Culprit("host", (host,), ids, f"slow {kind.words}")
    else:
        device, subject, cause = worst.member.device, f"device {worst.member.device}", ""
        culprit = Culprit("device", (worst.member.place,), ids, f"slow {kind.words}")
    report, at_fault = (scribe.bad, culprit) if far else (scribe.warn, None)
    return report(
        f"{host}: {subject}: slow {kind.words}, {worst.words}",
        host=host,
        device=device,
        expected=f"{1 / kind.warn:.0%} of the median or more",
        found=f"{worst.share:.0%}",
        cause=cause,
        evidence=tuple(f"{entry.member.place}: {entry.words}" for entry in slow),
        retest=command(scribe, [host], Scope.DEVICE),
        culprit=at_fault,
        **_advice(scribe, kind, host, device),
    )


def _advice(scribe: All, kind: _Kind, host: str, device: int | None) -> Details:
    """Return the remedy for a slow device, or for all devices of a host (`device` None)."""
    if kind is not _COMPUTE:
        return {"remedy": _WIDTH, "commands": (scribe.on(host, "lspci -vv"),)}
    gpu = f"{'' if device is None else f'-i {device} '}-q -d PERFORMANCE"
    return {"remedy": _COOL, "commands": _smi(scribe, host, "npu-smi info", gpu)}


def _smi(scribe: All, host: str, npu: str, gpu: str) -> tuple[str, ...]:
    """Return the query of the product's tool; none if it has no devices."""
    if scribe.cluster.product.is_npu:
        return (scribe.on(host, npu),)
    return (scribe.on(host, f"nvidia-smi {gpu}"),) if scribe.cluster.product is Product.NVIDIA else ()
