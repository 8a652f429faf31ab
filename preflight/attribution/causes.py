"""Causes that findings about facts give for a hang, a slow pair or wrong data. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from preflight.model.cluster import Cluster
from preflight.model.finding import Finding
from preflight.model.measure import Located
from preflight.model.outcome import Outcome

_SHOWN = 6  # checks with findings that are shown as evidence
_OF_ONE = ("device", "host", "link", "group")  # kinds that a finding about one of their members explains


class FailureMode(StrEnum):
    """Ways to fail, each explained by other facts."""

    ALONE = "alone"  # before it met another rank, or by itself: it died, or does not continue
    TOGETHER = "together"  # while it met, connected to or worked with others
    SLOW = "slow"
    WRONG = "wrong"


_MEETING, _NETWORK, _ANY = {FailureMode.TOGETHER}, {FailureMode.TOGETHER, FailureMode.SLOW}, set(FailureMode)


@dataclass(frozen=True)
class Reason:
    """A check with findings that explain some ways to fail.

    `word` is the class of cause that its findings report. `fabric`: it is about the network of the devices, which gloo
    does not use.
    """

    check: str  # its id, or the start of several ids
    word: str
    ways: Collection[FailureMode]
    fabric: bool = False


# The checks that explain most come first. NIC108 and NPU118 are left out: killed workers of the probe leave such traces
# themselves, and the facts are collected after that.
REASONS = (
    Reason("HST101", "host not reached", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("NPU116", "card lost", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("NPU109", "device missing", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("NPU119", "device node missing", {FailureMode.ALONE}),
    Reason("HST109", "device files closed", {FailureMode.ALONE}),
    Reason("HST111", "driver's files missing", {FailureMode.ALONE}),
    Reason("ENV110", "CANN not set up", {FailureMode.ALONE}),
    Reason("ENV107", "devices not visible", {FailureMode.ALONE}),
    Reason("GPU102", "GPU lost", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("GPU121", "driver and libraries incompatible", {FailureMode.ALONE}),
    Reason("GPU112", "fabric manager not running", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("GPU113", "fabric manager version differs", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("GPU114", "GPU not in the NVLink fabric", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("GPU110", "GPU closed to programs", {FailureMode.ALONE}),
    Reason("GPU111", "unexpected MIG mode", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("GPU104", "GPU needs a reset", _ANY),
    Reason("GPU107", "Xid", _ANY),
    Reason("GPU103", "GPU memory errors", _ANY),
    Reason("GPU101", "nvidia-smi does not answer", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("NPU113", "unhealthy device", _ANY),
    Reason("NPU117", "chip alarm", _ANY),
    Reason("NPU107", "link down", _MEETING, fabric=True),
    Reason("NPU101", "wrong device address", _MEETING, fabric=True),
    Reason("NPU102", "device address twice", _MEETING, fabric=True),
    Reason("NIC106", "address answered by another device", _MEETING, fabric=True),
    Reason("NPU103", "wrong mask", _MEETING, fabric=True),
    Reason("NPU105", "wrong subnet", _MEETING, fabric=True),
    Reason("NPU106", "rejected address", _MEETING, fabric=True),
    Reason("NPU111", "wrong gateway", _MEETING, fabric=True),
    Reason("RDM101", "RDMA port not active", _MEETING, fabric=True),
    Reason("RDM102", "no subnet manager", _MEETING, fabric=True),
    Reason("ENV116", "RDMA not available to jobs", _MEETING, fabric=True),
    Reason("RDM112", "locked-memory limit too low for RDMA", _MEETING, fabric=True),
    Reason("RDM104", "no reachable GID", _MEETING, fabric=True),
    Reason("RDM105", "GID types differ", _MEETING, fabric=True),
    Reason("RDM107", "cabled in another way", _MEETING, fabric=True),
    Reason("NPU115", "wrong MTU", _NETWORK, fabric=True),
    Reason("RDM106", "wrong MTU", _NETWORK, fabric=True),
    Reason("PNG102", "large packets lost on the way", _NETWORK, fabric=True),
    Reason("NPU108", "TLS switch differs", _MEETING, fabric=True),
    Reason("PNG101", "pings lost on the way", _NETWORK, fabric=True),
    Reason("FWL101", "port blocked by the firewall", _MEETING),
    Reason("FWL104", "port blocked on the way", _MEETING),
    Reason("PRB114", "port blocked or held", _MEETING),
    Reason("PRT103", "port held", _MEETING),
    Reason("HST103", "host NIC", _MEETING),
    Reason("HST104", "host name resolves to loopback", _MEETING),
    Reason("HST110", "unreachable host NIC", _MEETING),
    Reason("HST117", "unreachable host NIC", _MEETING),
    Reason("HST118", "unreachable host NIC", _MEETING),
    Reason("HST112", "not on HCCL's whitelist", _MEETING),
    Reason("NPU125", "wrong rank table", _MEETING),
    Reason("NPU127", "wrong rank table", _MEETING),
    Reason("ENV117", "NCCL variables differ", _MEETING),
    Reason("NIC104", "lower link speed", {FailureMode.SLOW}, fabric=True),
    Reason("RDM103", "lower RDMA port speed", {FailureMode.SLOW}, fabric=True),
    Reason("RDM108", "RDMA link flaps", _NETWORK, fabric=True),
    Reason("GPU115", "NVLinks missing or slow", {FailureMode.TOGETHER, FailureMode.SLOW}),
    Reason("GPU117", "no NVLink between GPUs", {FailureMode.TOGETHER, FailureMode.SLOW}),
    Reason("GPU105", "throttled by heat or power", {FailureMode.SLOW}),
    Reason("GPU106", "PCIe lanes missing", {FailureMode.SLOW}),
    Reason(
        "RDM110",
        "PCI bridges redirect traffic",
        {FailureMode.TOGETHER, FailureMode.SLOW, FailureMode.WRONG},
        fabric=True,
    ),
    Reason("RDM111", "IOMMU enabled", {FailureMode.TOGETHER, FailureMode.SLOW, FailureMode.WRONG}, fabric=True),
    Reason("RDM109", "RDMA does not reach the GPUs' memory", {FailureMode.TOGETHER, FailureMode.SLOW}, fabric=True),
    Reason("NIC103", "no error correction", _NETWORK, fabric=True),
    Reason("NIC102", "optics out of limits", _NETWORK, fabric=True),
    Reason("NIC101", "link flaps", _NETWORK, fabric=True),
    Reason("NIC109", "damaged or lost packets", _NETWORK, fabric=True),
    Reason("NIC107", "flow control differs", _NETWORK, fabric=True),
    Reason("NIC105", "cabled in another way", _NETWORK, fabric=True),
    Reason("PNG103", "pings over HCCS lost", _NETWORK, fabric=True),
    Reason("NPU124", "topology differs", {FailureMode.SLOW}, fabric=True),
    Reason("HST116", "processors busy", {FailureMode.SLOW, FailureMode.TOGETHER}),
    Reason("PRB112", "slow or wrong copies", {FailureMode.SLOW, FailureMode.WRONG}),
    Reason("PRB111", "slow or wrong computation", {FailureMode.SLOW, FailureMode.WRONG}),
    Reason("PRB118", "processors slow or busy", {FailureMode.SLOW, FailureMode.TOGETHER}),
    Reason("NPU120", "driver and firmware incompatible", _ANY),
    Reason("ENV105", "HCCL variables", _MEETING),
    Reason("ENV106", "HCCL variables differ", _MEETING),
    Reason("VER", "versions", {FailureMode.ALONE, FailureMode.TOGETHER, FailureMode.WRONG}),
    Reason("GPU119", "drivers differ", {FailureMode.ALONE, FailureMode.TOGETHER, FailureMode.WRONG}),
    Reason("GPU108", "device in use", {FailureMode.ALONE, FailureMode.TOGETHER, FailureMode.SLOW}),
    Reason("NPU114", "device in use", {FailureMode.ALONE, FailureMode.TOGETHER, FailureMode.SLOW}),
)

# Checks of two devices, of which one answers for the other's address, even if no device uses it.
ON_THE_WIRE = ("NPU102", "NIC106")


@dataclass(frozen=True)
class Why:
    """The cause that the facts give.

    `words`: the class of cause and its check, as "link down (NPU107)", or empty if no finding explains the failure.
    `remedy`, `commands`: those of the check. `elsewhere`: the cause is itself a failure that the probe's checks
    report, so the report needs no second one. `near`: it is about these very members, not their hosts. `blames`: kind
    and members of the object that the check's failures identify; None unless it is exactly one object.
    """

    words: str = ""
    remedy: str = ""
    commands: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()  # lines; the finding that explains most comes first
    elsewhere: bool = False
    near: bool = False
    blames: tuple[str, tuple[str, ...]] | None = None
    facts_decide: bool = False  # tests point to either of two, facts show which of them is wrong


@dataclass(frozen=True)
class LocatedFailure:
    """A failure of `located`, for which facts may give a cause.

    `all_devices`: hosts took part in the tests with all their devices, so one device may be the cause.
    """

    cluster: Cluster
    located: Located
    mode: FailureMode
    backend: str
    all_devices: bool = False

    @property
    def members(self) -> Collection[str]:
        return self.located.members


def why(failure: LocatedFailure, findings: Sequence[Finding] | None) -> Why:
    """Return the cause that findings give for a failure, with the evidence.

    Findings about the members themselves come first, then those about their hosts, then those about their peers. Among
    these, failures come first, then the order of `REASONS` counts. Findings about a small part of the members are
    evidence, and explain nothing.
    """
    by_rank = _by_rank(failure, findings or ())
    ranked = sorted((*_weight(failure, same), rank) for rank, same in by_rank.items())
    lines = tuple(_line(failure, by_rank[rank]) for *_, rank in ranked[:_SHOWN])
    if not ranked or ranked[0][0]:
        return Why(evidence=lines)
    rank = ranked[0][-1]
    first = _foremost(failure, by_rank[rank])
    elsewhere = first.check.startswith("PRB") and first.outcome is Outcome.FAIL
    is_near = _nearness(first, failure.members) == 0
    words = f"{REASONS[rank].word}{_where(first, failure.located)} ({first.check})"
    blames = _blamed(by_rank[rank], failure.members)
    return Why(
        words,
        first.remedy,
        first.commands,
        lines,
        elsewhere,
        is_near,
        blames,
        facts_decide=first.check in ON_THE_WIRE,
    )


def _by_rank(failure: LocatedFailure, findings: Sequence[Finding]) -> dict[int, list[Finding]]:
    """Return the findings that may explain the failure, by the place of their reason in `REASONS`."""
    by_rank: dict[int, list[Finding]] = defaultdict(list)
    for cause in findings:
        if failure.located.kind == "group" and cause.outcome is not Outcome.FAIL:
            continue  # a warning about one of many does not explain why all of them stop
        rank = next((rank for rank, reason in enumerate(REASONS) if _may_explain(reason, cause, failure)), None)
        if rank is not None and _nearness(cause, failure.members) is not None:
            by_rank[rank].append(cause)
    return by_rank


def _where(cause: Finding, located: Located) -> str:
    """Return the place of a cause in words, unless the finding is about that place anyway."""
    of_several = len(located.members) > 1 and located.kind in _OF_ONE
    elsewhere = cause.check in ON_THE_WIRE and _place(cause) not in located.members
    return f" at {_place(cause)}" if (of_several or elsewhere) and cause.host else ""


def _blamed(same: Sequence[Finding], members: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return kind and members of the object that one check's failures identify, None if it is not exactly one."""
    failures = [cause for cause in same if cause.outcome is Outcome.FAIL and (_nearness(cause, members) or 0) < 2]
    objects = set(map(_culprit, failures)) - {None}
    return objects.pop() if len(objects) == 1 else None


def _culprit(failure: Finding) -> tuple[str, tuple[str, ...]] | None:
    if failure.culprit:
        return failure.culprit.kind, failure.culprit.members
    if not failure.host:
        return None
    return "host" if failure.device is None else "device", (_place(failure),)


def _may_explain(reason: Reason, cause: Finding, failure: LocatedFailure) -> bool:
    is_problem = cause.outcome in (Outcome.FAIL, Outcome.WARN)
    applies = failure.mode in reason.ways and not (reason.fabric and failure.backend == "gloo")
    return is_problem and applies and cause.check.startswith(reason.check)


def _place(cause: Finding) -> str:
    return f"{cause.host}/{cause.device}" if cause.device is not None else cause.host or ""


def _nearness(cause: Finding, members: Collection[str]) -> int | None:
    """Return how near a finding is to the members, or None if it concerns none of them.

    `0` is a finding about a member or a device of one, or about a member as much as about another device. `1` is a
    finding about a member's host, or about no host at all. `2` is a finding about a host or device that has a member as
    its peer.
    """
    if cause.host is None:
        return 1 if _is_on_rail(members, cause.rail) else None
    hosts = {member.partition("/")[0] for member in members}
    if not {_place(cause), cause.host}.isdisjoint(members):
        return 0
    if cause.host in hosts and cause.device is None:
        return 1
    if cause.peer is None or not {cause.peer, cause.peer.partition("/")[0]} & {*members, *hosts}:
        return None
    return 0 if cause.check in ON_THE_WIRE else 2


def _is_on_rail(members: Iterable[str], rail: int | None) -> bool:
    return rail is None or all(member.partition("/")[2] in ("", str(rail)) for member in members)


def _weight(failure: LocatedFailure, same: Sequence[Finding]) -> tuple[bool, int, bool]:
    """Return the order of one check's findings: if too few members are concerned, their nearness, if all only warn."""
    nearness = min(_nearness(cause, failure.members) or 0 for cause in same)
    return not _enough(failure, same), nearness, all(cause.outcome is not Outcome.FAIL for cause in same)


def _enough(failure: LocatedFailure, same: Sequence[Finding]) -> bool:
    """Return whether one check's findings concern enough of the members to explain the failure.

    For a device, host, link or group, one member is enough, otherwise it takes more than half. Findings about no host
    in particular do not explain a single host or device.
    """
    kind = failure.located.kind.rpartition(" ")[2]  # without "intermittent"
    if any(cause.host is None for cause in same):
        return kind not in ("device", "host")
    devices = {host.name: max(1, len(host.devices)) for host in failure.cluster.hosts}
    members_concerned = 0
    for member in failure.members:
        findings = [cause for cause in same if _nearness(cause, (member,)) is not None]
        members_concerned += bool(findings) and _is_concerned(member, findings, failure, devices)
    return members_concerned > 0 if kind in _OF_ONE else 2 * members_concerned > len(failure.members)


def _is_concerned(
    member: str, findings: Sequence[Finding], failure: LocatedFailure, devices: Mapping[str, int]
) -> bool:
    """Return whether findings concern a member as a whole.

    A host counts if more than half of its devices are concerned, or one that fails, if all took part.
    """
    host, _, device = member.partition("/")
    if device or any(cause.device is None or cause.host != host for cause in findings):
        return True
    if failure.all_devices and any(cause.outcome is Outcome.FAIL for cause in findings):
        return True
    return 2 * len({cause.device for cause in findings}) > devices.get(host, 1)


def _foremost(failure: LocatedFailure, same: Iterable[Finding]) -> Finding:
    return min(same, key=lambda cause: (_nearness(cause, failure.members) or 0, cause.outcome is not Outcome.FAIL))


def _line(failure: LocatedFailure, same: Sequence[Finding]) -> str:
    first = _foremost(failure, same)
    similar = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
    return f"{first.check}: {first.summary}{similar}"
