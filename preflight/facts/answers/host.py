"""Typed facts from the collector's answer. Pure.

The answer is untrusted. Every section becomes a value, or `Missing` with a sentence, but never an exception.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from typing import Any

import msgspec

from preflight.facts import answer_frame
from preflight.facts.answers.accelerators import RawAccelerators, accelerators
from preflight.facts.answers.firewall import RawFirewall, firewall
from preflight.facts.answers.job import RawDriver, RawJob, job, job_versions, limits
from preflight.facts.answers.npu import (
    RawChips,
    RawDeviceNodes,
    RawHccn,
    RawHccnConf,
    RawNpuSmi,
    chips,
    device_nodes,
    hccn,
    hccn_conf_file,
    nic,
    npu_smi_table,
)
from preflight.facts.answers.nvidia import RawNvidia, nvidia
from preflight.facts.answers.rdma import RawRdma, rdma
from preflight.facts.connections import Tried
from preflight.facts.decode import decode
from preflight.facts.documents.refused_document import JSON_ERRORS, json_error
from preflight.facts.output import ToolOutput
from preflight.facts.parsers.linux import ip, logind, ss, sysctl, tuned
from preflight.facts.parsers.linux.os_release import os_release
from preflight.facts.sections import environment, naming, neighbours
from preflight.facts.sections.firewall import Arrivals
from preflight.facts.sections.load import Load
from preflight.facts.sections.neighbours import RawNeighbours
from preflight.facts.sections.shells import Shells
from preflight.facts.types import (
    Clock,
    HostFacts,
    Missing,
    Names,
    Network,
    Os,
    OwnProcess,
    Sockets,
    Sysctl,
    Tuned,
    Unreachable,
)
from preflight.model.cluster import Product
from preflight.model.ports import PortSet
from preflight.model.text import quote
from preflight.transport.types import Answer

_FAR_FUTURE = 1e11  # seconds since 1970
_MOST_PROCESSORS = 1e6  # of a host; also limits its processes, and the processors that they want
_BUSIEST = 5  # processes kept
_NAME = 60  # characters kept of a process's or user's name
_LINE = 200  # characters kept of the line that was printed before the answer

# The collector's sections as it sends them: see preflight/remote/collect.


@dataclass
class _Clock:
    start: float
    end: float


@dataclass
class _Os:
    release: str
    kernel: str
    arch: str
    hostname: str
    user: str
    root: bool
    machine_id: str = ""
    open_run: str = ""
    logind: list[tuple[str, str]] | None = None
    preflight: list[OwnProcess] = field(default_factory=list)


@dataclass
class _SysctlFile:
    path: str
    target: str = ""
    text: str = ""
    error: str = ""


@dataclass
class _Tuned:
    active: str = ""
    post_loaded: str = ""
    main: str = ""
    files: dict[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass
class _Sysctl:
    values: dict[str, str | None]
    files: list[_SysctlFile]
    read_only: bool
    tuned: _Tuned | None


@dataclass
class _Network:
    addresses: str
    routes: str


@dataclass
class _Names:
    hostname: list[str]
    cluster: dict[str, list[str]]
    resolved: int = 0
    planned: int = 0


Sections = Mapping[str, msgspec.Raw]


@dataclass(frozen=True)
class HostAnswer:
    """The collector's answer. `devices`: those in the request.

    `sent`, `received`: the controller's clock around the round trip. `refused`: why sudo did not make the collector
    root; None if it was not refused.
    """

    raw: Sections | Missing
    devices: tuple[int, ...]
    sent: float
    received: float
    refused: Unreachable | None = None


_PRINTED = "printed"  # a section that the controller adds


def sections(answer: Answer, marker: str) -> Sections | Missing:
    """Return the framed document in `answer` by section, not decoded yet, and the last line printed before it."""
    try:
        parts = decode(answer_frame.document(answer, marker), dict[str, msgspec.Raw])
    except answer_frame.NoAnswer as error:
        return Missing(str(error))
    except JSON_ERRORS as error:
        return Missing(f"the collector's response is corrupted: {json_error(error)}")
    if printed := answer_frame.printed_before(answer, marker):
        parts[_PRINTED] = msgspec.Raw(msgspec.json.encode({"value": printed[:_LINE]}))
    return parts


def tried(answer: Sections | Missing) -> list[Tried] | Missing:
    """Return the outcomes of the host's own connections to other hosts."""
    tries: list[Tried] | Missing = section(answer, "connects", list[Tried])
    return tries


def section(answer: Sections | Missing, name: str, type_: type[Any]) -> Any | Missing:
    """Return one section, decoded and checked against its type."""
    if isinstance(answer, Missing):
        return answer
    raw = answer.get(name)
    if raw is None:
        return Missing(f"the collector's response has no section {name}")
    try:
        parts = decode(raw, dict[str, msgspec.Raw])
        if "error" in parts:
            return Missing(decode(parts["error"], str))
        return decode(parts["value"], type_)
    except KeyError:
        return Missing(f"section {name} of the collector's response has neither a value nor an error")
    except JSON_ERRORS as error:
        return Missing(f"section {name} of the collector's response is not valid: {json_error(error)}")


def _os(raw: _Os, printed: str) -> Os:
    id_, version = os_release(raw.release)
    remove_ipc = logind.remove_ipc(raw.logind, id_)
    return Os(
        id_,
        version,
        raw.kernel,
        raw.arch,
        raw.hostname,
        raw.user,
        raw.root,
        raw.machine_id,
        raw.open_run,
        remove_ipc,
        preflight=tuple(raw.preflight),
        printed=printed,
    )


def _sysctl(raw: _Sysctl) -> Sysctl | Missing:
    reserved_ports = raw.values.get("net.ipv4.ip_local_reserved_ports")
    port_range = sysctl.port_range(raw.values.get("net.ipv4.ip_local_port_range") or "")
    if reserved_ports is None or port_range is None:
        return Missing(
            "the kernel settings under /proc/sys/net/ipv4 are not visible. If this is a container, check its host"
        )
    try:
        PortSet.parse(reserved_ports)
        PortSet.of([port_range])
    except ValueError:
        return Missing(
            f"reserved ports {quote(reserved_ports)} and port range {port_range} are not valid kernel settings"
        )
    table = (raw.values.get("fs.file-nr") or "").split()
    files = [sysctl.file(file.path, file.text, file.target, file.error) for file in raw.files]
    return Sysctl(
        reserved_ports=reserved_ports.strip(),
        local_port_range=port_range,
        reserved_files=sysctl.relevant(files),
        somaxconn=_count(raw.values.get("net.core.somaxconn")),
        syn_backlog=_count(raw.values.get("net.ipv4.tcp_max_syn_backlog")),
        open_files=_many(table[0]) if len(table) == 3 else 0,  # allocated, free, most
        most_files=_many(table[2]) if len(table) == 3 else 0,
        read_only=raw.read_only,
        tuned=_tuned(raw.tuned) if raw.tuned else None,
    )


def _count(text: str | None) -> int:
    """Return a small number that the kernel printed; 0 if the text is no such number."""
    text = (text or "").strip()
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _many(text: str) -> int:
    """Return a number of at most 64 bits; 0 if the text is no such number."""
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def _tuned(raw: _Tuned) -> Tuned | None:
    if raw.error:
        return Tuned("", "", "", error=raw.error)
    return tuned.tuned(raw.active, raw.post_loaded, raw.main, raw.files)


def _sockets(raw: ToolOutput) -> Sockets | Missing:
    if raw.code != 0:
        return Missing(f"ss ended with {raw.code}: {quote(raw.err)}")
    sockets = ss.tcp(raw.out)
    return sockets if isinstance(sockets, Missing) else Sockets(sockets)


def _network(raw: _Network) -> Network | Missing:
    interfaces, routes = ip.address(raw.addresses), ip.route(raw.routes)
    if isinstance(interfaces, Missing):
        return interfaces
    return routes if isinstance(routes, Missing) else Network(interfaces, routes)


def _names(raw: _Names) -> Names | Missing:
    for address in raw.hostname:
        try:
            ip_address(address)
        except ValueError:
            return Missing(f"the host's own name resolves to {quote(address)}, which is not an address")
    cluster_addresses = {name: tuple(dict.fromkeys(addresses)) for name, addresses in raw.cluster.items()}
    return Names(tuple(dict.fromkeys(raw.hostname)), cluster_addresses, raw.resolved, raw.planned)


def _load(raw: Load) -> Load | Missing:
    shares = (figure for process in raw.busiest for figure in (process.wanted, process.used))
    is_plausible = all(0 <= figure < _MOST_PROCESSORS for figure in (raw.wanted, raw.others, *shares))
    if not (is_plausible and 0 < raw.processors < _MOST_PROCESSORS and (raw.limit is None or raw.limit > 0)):
        return Missing("the number of processors or the load is not valid")
    busiest = (
        replace(process, name=process.name[:_NAME], user=process.user and process.user[:_NAME])
        for process in raw.busiest
    )
    return replace(raw, busiest=tuple(busiest)[:_BUSIEST])


def _clock(raw: _Clock, sent: float, received: float) -> Clock | Missing:
    """Return the offset of the host's clock, and its uncertainty.

    The clock was read after `sent` and before `received`, both by the controller's clock. So the offset has two bounds.
    Nothing is assumed about how the time between them divides.
    """
    if not (0 <= raw.start < _FAR_FUTURE and 0 <= raw.end < _FAR_FUTURE):
        return Missing("the host's clock shows no valid time")
    low, high = raw.end - received, raw.start - sent
    return Clock(offset=(low + high) / 2, uncertainty=max(0.0, (high - low) / 2))


def _facts(parts: Sections | Missing, name: str, type_: type[Any], make: Callable[[Any], Any]) -> Any:
    raw = section(parts, name, type_)
    return raw if isinstance(raw, Missing) else make(raw)


def host_facts(answer: HostAnswer, product: Product, *, deep: bool = True) -> HostFacts:
    """Return all sections of one host. `deep`: more than the basic set."""
    parts = answer.raw
    read = partial(_facts, parts)

    def requested(name: str, type_: type[Any], make: Callable[[Any], Any]) -> Any:
        """Return a section of ON_REQUEST; None if the answer does not have it, as it was not requested."""
        return read(name, type_, make) if not isinstance(parts, Missing) and name in parts else None

    def newer(name: str, type_: type[Any], make: Callable[[Any], Any]) -> Any:
        """Return a section that older collectors do not send."""
        return read(name, type_, make) if isinstance(parts, Missing) or name in parts else None

    driver = section(parts, "driver", RawDriver) if product.is_npu else None
    printed = requested(_PRINTED, str, lambda raw: raw[:_LINE])
    basic_facts = HostFacts(
        os=read("os", _Os, lambda raw: _os(raw, printed if isinstance(printed, str) else "")),
        clock=read("clock", _Clock, lambda raw: _clock(raw, answer.sent, answer.received)),
        sysctl=read("sysctl", _Sysctl, _sysctl),
        sockets=read("sockets", ToolOutput, _sockets),
        network=read("network", _Network, _network),
        firewall=read("firewall", RawFirewall, firewall),
        environment=read("environment", environment.RawEnvironment, environment.environment),
        naming=read("naming", naming.RawNaming, naming.naming),
        arrivals=read("connects", list[Tried], lambda _: Arrivals()),  # with_arrivals adds those of other hosts
        accelerators=newer("accelerators", RawAccelerators, accelerators),
        names=read("names", _Names, _names),
        limits=read("job", RawJob, limits),
        versions=read("job", RawJob, lambda raw: job_versions(raw, driver)),
        shells=requested("shells", Shells, lambda raw: raw),
        neighbours=requested("neighbours", RawNeighbours, neighbours.neighbours),
    )
    return replace(basic_facts, **dict(_product_facts(read, product, answer.devices, deep=deep)))


def _product_facts(
    read: Callable[[str, type[Any], Callable[[Any], Any]], Any],
    product: Product,
    devices: tuple[int, ...],
    *,
    deep: bool,
) -> Iterator[tuple[str, Any]]:
    """Yield the sections that only one product or only a deep run has, by name."""
    if deep:
        yield "job", read("job", RawJob, job)
        yield "load", read("load", Load, _load)
    if product is Product.NVIDIA:
        yield "rdma", read("rdma", RawRdma, rdma)
        yield "nvidia", read("nvidia", RawNvidia, nvidia)
    if product.is_npu:
        yield "hccn", read("hccn", RawHccn, lambda raw: hccn(raw, devices))
        yield "hccn_conf", read("hccn_conf", RawHccnConf, hccn_conf_file)
        yield "npu_smi", read("npu_smi", RawNpuSmi, npu_smi_table)
    if product.is_npu and deep:
        yield "nic", read("hccn", RawHccn, lambda raw: nic(raw, devices))
        yield "chips", read("chips", RawChips, chips)
        yield "device_nodes", read("device_nodes", RawDeviceNodes, device_nodes)
