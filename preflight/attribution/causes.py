"""Causes that findings about facts give for a hang, a slow pair or wrong data. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from preflight.model.cluster import Cluster
from preflight.model.finding import Finding
from preflight.model.measure import Located
from preflight.model.outcome import Outcome

_SHOWN = 6  # checks whose findings are told as evidence
_OF_ONE = ("device", "host", "link", "group")  # a finding about one of their members explains them


class FailureMode(StrEnum):
    """In which way somebody fails; other facts explain each."""

    ALONE = "alone"  # before it met anybody, or by itself: it died, or stands still
    TOGETHER = "together"  # at meeting, connecting or working with others
    SLOW = "slow"
    WRONG = "wrong"


_MEETING, _NETWORK, _ANY = {FailureMode.TOGETHER}, {FailureMode.TOGETHER, FailureMode.SLOW}, set(FailureMode)


@dataclass(frozen=True)
class Reason:
    """A check whose findings explain failing in one of these ways; `word` is the class of cause they tell of. `fabric`:
    it is about the network of the devices, which gloo does not use."""

    check: str  # its id, or the start of several
    word: str
    ways: Collection[FailureMode]
    fabric: bool = False


# What explains most comes first. Left out is what workers of the probe leave themselves when they are killed (NIC108,
# NPU118): the facts were asked for after that.
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
    Reason("GPU121", "driver and its libraries do not suit", {FailureMode.ALONE}),
    Reason("GPU112", "fabric manager does not run", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("GPU113", "fabric manager of another version", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("GPU114", "GPU not in the NVLink fabric", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("GPU110", "GPU closed to programs", {FailureMode.ALONE}),
    Reason("GPU111", "MIG is not as planned", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("GPU104", "GPU waits for a reset", _ANY),
    Reason("GPU107", "Xid", _ANY),
    Reason("GPU103", "errors of the GPU's memory", _ANY),
    Reason("GPU101", "nvidia-smi does not answer", {FailureMode.ALONE, FailureMode.TOGETHER}),
    Reason("NPU113", "device ill", _ANY),
    Reason("NPU117", "alarm of the chip", _ANY),
    Reason("NPU107", "link down", _MEETING, fabric=True),
    Reason("NPU101", "wrong device address", _MEETING, fabric=True),
    Reason("NPU102", "device address twice", _MEETING, fabric=True),
    Reason("NIC106", "address answered by another device", _MEETING, fabric=True),
    Reason("NPU103", "wrong mask", _MEETING, fabric=True),
    Reason("NPU105", "wrong subnet", _MEETING, fabric=True),
    Reason("NPU106", "refused address", _MEETING, fabric=True),
    Reason("NPU111", "wrong gateway", _MEETING, fabric=True),
    Reason("RDM101", "RDMA port not active", _MEETING, fabric=True),
    Reason("RDM102", "no subnet manager", _MEETING, fabric=True),
    Reason("ENV116", "RDMA out of the jobs' reach", _MEETING, fabric=True),
    Reason("RDM112", "memory that RDMA may not lock", _MEETING, fabric=True),
    Reason("RDM104", "no GID that others reach", _MEETING, fabric=True),
    Reason("RDM105", "GIDs of two kinds", _MEETING, fabric=True),
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
    Reason("HST104", "host name is loopback", _MEETING),
    Reason("HST110", "another host NIC than the others reach", _MEETING),
    Reason("HST117", "another host NIC than the others reach", _MEETING),
    Reason("HST118", "another host NIC than the others reach", _MEETING),
    Reason("HST112", "not on HCCL's whitelist", _MEETING),
    Reason("NPU125", "wrong rank table", _MEETING),
    Reason("NPU127", "wrong rank table", _MEETING),
    Reason("ENV117", "variables of NCCL differ", _MEETING),
    Reason("NIC104", "link at a lower speed", {FailureMode.SLOW}, fabric=True),
    Reason("RDM103", "RDMA port at a lower speed", {FailureMode.SLOW}, fabric=True),
    Reason("RDM108", "RDMA link flaps", _NETWORK, fabric=True),
    Reason("GPU115", "NVLinks missing or slow", {FailureMode.TOGETHER, FailureMode.SLOW}),
    Reason("GPU117", "no NVLink between GPUs", {FailureMode.TOGETHER, FailureMode.SLOW}),
    Reason("GPU105", "slowed down by heat or power", {FailureMode.SLOW}),
    Reason("GPU106", "PCIe lanes missing", {FailureMode.SLOW}),
    Reason("RDM110", "PCI bridges redirect", {FailureMode.TOGETHER, FailureMode.SLOW, FailureMode.WRONG}, fabric=True),
    Reason("RDM111", "the IOMMU translates", {FailureMode.TOGETHER, FailureMode.SLOW, FailureMode.WRONG}, fabric=True),
    Reason("RDM109", "RDMA does not reach the GPUs' memory", {FailureMode.TOGETHER, FailureMode.SLOW}, fabric=True),
    Reason("NIC103", "no error correction", _NETWORK, fabric=True),
    Reason("NIC102", "optics out of limits", _NETWORK, fabric=True),
    Reason("NIC101", "link flaps", _NETWORK, fabric=True),
    Reason("NIC109", "damaged or lost packets", _NETWORK, fabric=True),
    Reason("NIC107", "flow control differs", _NETWORK, fabric=True),
    Reason("NIC105", "cabled in another way", _NETWORK, fabric=True),
    Reason("PNG103", "pings over HCCS lost", _NETWORK, fabric=True),
    Reason("NPU124", "topology differs", {FailureMode.SLOW}, fabric=True),
    Reason("HST116", "processors kept busy", {FailureMode.SLOW, FailureMode.TOGETHER}),
    Reason("PRB112", "copies slow or wrong", {FailureMode.SLOW, FailureMode.WRONG}),
    Reason("PRB111", "computes slowly or wrongly", {FailureMode.SLOW, FailureMode.WRONG}),
    Reason("PRB118", "processors slow or busy", {FailureMode.SLOW, FailureMode.TOGETHER}),
    Reason("NPU120", "driver and firmware do not suit", _ANY),
    Reason("ENV105", "variables of HCCL", _MEETING),
    Reason("ENV106", "variables of HCCL differ", _MEETING),
    Reason("VER", "versions", {FailureMode.ALONE, FailureMode.TOGETHER, FailureMode.WRONG}),
    Reason("GPU119", "drivers differ", {FailureMode.ALONE, FailureMode.TOGETHER, FailureMode.WRONG}),
    Reason("GPU108", "device in use", {FailureMode.ALONE, FailureMode.TOGETHER, FailureMode.SLOW}),
    Reason("NPU114", "device in use", {FailureMode.ALONE, FailureMode.TOGETHER, FailureMode.SLOW}),
)

# Of two devices: one answers for the other's address, also where nobody uses it.
ON_THE_WIRE = ("NPU102", "NIC106")


@dataclass(frozen=True)
class Why:
    """What the facts say. `words`: the class of cause and the check that tells of it, "link down (NPU107)", empty where
    nothing explains; `remedy` is that check's. `elsewhere`: it is a failure of the probe's own about these very
    members (`near`) or their hosts, which stands in the report and needs no second one. `blames`: whom that check's
    failures name, kind and members, where it is one object; None else."""

    words: str = ""
    remedy: str = ""
    evidence: tuple[str, ...] = ()  # what explains most first
    elsewhere: bool = False
    near: bool = False
    blames: tuple[str, tuple[str, ...]] | None = None
    facts_decide: bool = False  # tests convict either of two, facts know which of them is wrong


def why(
    cluster: Cluster,
    one: Located,
    way: FailureMode,
    backend: str,
    causes: Sequence[Finding] | None,
    *,
    all_devices: bool = False,
) -> Why:
    """Ranked: what is said of the members themselves, then of their hosts, then by others of them; of these failures
    first, then by `REASONS`. What holds for a small part of the members is evidence, and explains nothing.
    `all_devices`: hosts took part in the tests with all their devices, so that one of them may be why."""
    found: dict[int, list[Finding]] = defaultdict(list)
    for cause in causes or ():
        if one.kind == "group" and cause.outcome is not Outcome.FAIL:
            continue  # what only warns of one of many does not explain that all of them stop
        rank = next((rank for rank, reason in enumerate(REASONS) if _may(reason, cause, way, backend)), None)
        if rank is not None and _nearness(cause, one.members) is not None:
            found[rank].append(cause)
    ranked = sorted((*_weight(cluster, one, same, all_devices=all_devices), rank) for rank, same in found.items())
    lines = tuple(_line(one, found[rank]) for *_, rank in ranked[:_SHOWN])
    if not ranked or ranked[0][0]:
        return Why(evidence=lines)
    rank = ranked[0][-1]
    first = _foremost(one, found[rank])
    of_several = len(one.members) > 1 and one.kind in _OF_ONE
    elsewhere_too = first.check in ON_THE_WIRE and _place(first) not in one.members
    where = f" at {_place(first)}" if (of_several or elsewhere_too) and first.host else ""
    elsewhere = first.check.startswith("PRB") and first.outcome is Outcome.FAIL
    near = _nearness(first, one.members) == 0
    words = f"{REASONS[rank].word}{where} ({first.check})"
    blames = _blamed(found[rank], one.members)
    return Why(words, first.remedy, lines, elsewhere, near, blames, facts_decide=first.check in ON_THE_WIRE)


def _blamed(same: Sequence[Finding], members: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    failures = [cause for cause in same if cause.outcome is Outcome.FAIL and (_nearness(cause, members) or 0) < 2]
    named = {
        (cause.culprit.kind, cause.culprit.members)
        if cause.culprit
        else ("host" if cause.device is None else "device", (_place(cause),))
        for cause in failures
        if cause.culprit or cause.host
    }
    return named.pop() if len(named) == 1 else None


def _may(reason: Reason, cause: Finding, way: FailureMode, backend: str) -> bool:
    told = cause.outcome in (Outcome.FAIL, Outcome.WARN)
    applies = way in reason.ways and not (reason.fabric and backend == "gloo")
    return told and applies and cause.check.startswith(reason.check)


def _place(cause: Finding) -> str:
    return f"{cause.host}/{cause.device}" if cause.device is not None else cause.host or ""


def _nearness(cause: Finding, members: Collection[str]) -> int | None:
    """0: it is about a member, or the device of one, or as much about a member as about another device; 1: about a
    member's host, or about no host at all; 2: about somebody to whom a member is the other end."""
    hosts = {member.partition("/")[0] for member in members}
    if cause.host is None:
        rails = {member.partition("/")[2] for member in members}
        return 1 if cause.rail is None or rails <= {"", str(cause.rail)} else None
    if _place(cause) in members or cause.host in members:
        return 0
    if cause.host in hosts and cause.device is None:
        return 1
    if cause.peer is None or not {cause.peer, cause.peer.partition("/")[0]} & {*members, *hosts}:
        return None
    return 0 if cause.check in ON_THE_WIRE else 2


def _weight(cluster: Cluster, one: Located, same: Sequence[Finding], *, all_devices: bool) -> tuple[bool, int, bool]:
    """Of one check's findings: whether they concern too few to explain it, how near they are, whether they warn."""
    near = min(_nearness(cause, one.members) or 0 for cause in same)
    return (
        not _enough(cluster, one, same, all_devices=all_devices),
        near,
        all(cause.outcome is not Outcome.FAIL for cause in same),
    )


def _enough(cluster: Cluster, one: Located, same: Sequence[Finding], *, all_devices: bool) -> bool:
    """More than half of the members, and of a host that is a member more than half of its devices; or a failure of any
    of them, where all took part. What is said of no host in particular does not explain a single one."""
    kind = one.kind.rpartition(" ")[2]  # of who fails now and then, too
    if any(cause.host is None for cause in same):
        return kind not in ("device", "host")
    devices = {host.name: max(1, len(host.devices)) for host in cluster.hosts}
    touched = 0
    for member in one.members:
        host, _, device = member.partition("/")
        those = [cause for cause in same if _nearness(cause, (member,)) is not None]
        whole = any(cause.device is None or cause.host != host for cause in those)
        part = {cause.device for cause in those}
        any_ = all_devices and any(cause.outcome is Outcome.FAIL for cause in those)
        touched += bool(those) and (bool(device) or whole or any_ or 2 * len(part) > devices.get(host, 1))
    return touched > 0 if kind in _OF_ONE else 2 * touched > len(one.members)


def _foremost(one: Located, same: Iterable[Finding]) -> Finding:
    return min(same, key=lambda cause: (_nearness(cause, one.members) or 0, cause.outcome is not Outcome.FAIL))


def _line(one: Located, same: Sequence[Finding]) -> str:
    first = _foremost(one, same)
    more = f" (and {len(same) - 1} more like it)" if len(same) > 1 else ""
    return f"{first.check}: {first.summary}{more}"
