"""Contradictions between the keys of an inventory. Every check yields the mistakes that it finds."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from preflight.inventory import address_rules
from preflight.inventory.device_addresses import Devices, HostEntry
from preflight.inventory.errors import Location, Mistake
from preflight.inventory.hostset import fold
from preflight.inventory.schema import LAST_PORT, NAMED_PORTS, Document
from preflight.inventory.valid_part import ValidPart
from preflight.model.cluster import Fabric, Product
from preflight.model.ip import is_address
from preflight.model.ports import PortSet


def find_contradictions(valid: ValidPart, entries: list[HostEntry], devices: list[Devices]) -> Iterator[Mistake]:
    """Yield all contradictions. A check is skipped if a table that it needs is damaged: its result could be wrong."""
    document = valid.document
    ranged = [entry for entry in entries if entry.table.range_fits]
    waived = ((number, waiver.host) for number, waiver in valid.waivers())
    checks: list[tuple[tuple[str, ...], Iterator[Mistake]]] = [
        ((), _check_names(entries)),
        (("cluster", "ports"), _check_ports(document)),
        (("cluster", "machine"), _check_machine(document)),
        (("cluster", "host_setup", "hosts"), _check_host_setup(document, ranged)),
        (("probe",), _check_probe(document)),
        (("gate",), _check_gate(document)),
        (("cluster", "ssh", "hosts"), _check_ssh(document, entries)),
        (("hosts",), _check_waivers(waived, entries)),
        (("cluster",), address_rules.find_mistakes(valid, entries, devices)),
    ]
    for tables, mistakes in checks:
        if valid.intact(*tables):
            yield from mistakes


def _check_names(entries: list[HostEntry]) -> Iterator[Mistake]:
    """Yield names and addresses of hosts that are used twice, with both locations."""
    names = [(entry.name, entry, "name") for entry in entries]
    addresses = [(entry.address, entry, "address" if entry.table.address else "name") for entry in entries]
    yield from _check_unique(names, "name", "names")
    yield from _check_unique(addresses, "address", "addresses")


def _check_unique(uses: list[tuple[str, HostEntry, str]], noun: str, plural: str) -> Iterator[Mistake]:
    holders: dict[str, tuple[HostEntry, str]] = {}
    repeated: dict[tuple[Location, Location], list[str]] = defaultdict(list)
    for value, entry, key in uses:
        holder, holder_key = holders.setdefault(value, (entry, key))
        reported_as_name = noun == "address" and key == holder_key == "name"
        if holder is not entry and not reported_as_name:
            repeated[("hosts", entry.number, key), ("hosts", holder.number, holder_key)].append(value)
    for (at, first), values in repeated.items():
        text = f"{noun} {values[0]} is" if len(values) == 1 else f"{plural} {fold(values)} are"
        yield Mistake(at, f"{text} used twice", first)


def _check_ports(document: Document) -> Iterator[Mistake]:
    """Yield HCCL ports that do not exist, that the product does not support, or that the job uses too."""
    ports = document.ports
    last = ports.hccl_base + ports.hccl_count - 1
    if ports.hccl_host_range is not None:
        yield from _check_host_range(document)
    elif last > LAST_PORT:
        text = f"{ports.hccl_count} ports from {ports.hccl_base} end at {last}, but the last port is {LAST_PORT}"
        yield Mistake(("ports", "hccl_base"), text)
    for key in ("job", *NAMED_PORTS) if document.cluster.product.is_npu else ():
        value = getattr(ports, key)
        own = value if isinstance(value, PortSet) else PortSet.of([(value, value)] if value else [])
        if len(own - ports.hccl) < len(own):
            verb = "is one of" if key in NAMED_PORTS else "overlaps"
            yield Mistake(("ports", key), f"{own} {verb} the HCCL ports {ports.hccl}")


def _check_host_range(document: Document) -> Iterator[Mistake]:
    if document.cluster.product is Product.ATLAS_A1:
        yield Mistake(("ports", "hccl_host_range"), "atlas-a1 has no HCCL_HOST_SOCKET_PORT_RANGE, only hccl_base")
    for key in ("hccl_base", "hccl_count"):
        if key in document.ports.model_fields_set:
            text = "has no effect with hccl_host_range. Remove one of them."
            yield Mistake(("ports", key), text)


def _check_machine(document: Document) -> Iterator[Mistake]:
    """Yield keys for GPUs in a cluster without GPUs."""
    product = document.cluster.product
    for key in sorted(document.machine.model_fields_set) if product is not Product.NVIDIA else ():
        yield Mistake(("machine", key), f"is for GPUs (nvidia), but the cluster is {product}")


def _check_probe(document: Document) -> Iterator[Mistake]:
    """Yield an `init` by file without a directory for the file."""
    if document.probe.init == "file" and document.probe.shared_dir is None:
        yield Mistake(("probe", "init"), '"file" needs shared_dir, a directory that all hosts share')


def _check_gate(document: Document) -> Iterator[Mistake]:
    """Yield checks that are in two lists."""
    lists: dict[str, str] = {}
    for key in ("required", "optional", "off"):
        for word in getattr(document.gate, key):
            first = lists.setdefault(word.lower(), key)
            if first != key:
                yield Mistake(("gate", key), f"{word} is also in {first}", ("gate", first))


def _check_host_setup(document: Document, entries: list[HostEntry]) -> Iterator[Mistake]:
    """Yield names for /etc/hosts without an address, and variables of HCCL for a product without HCCL."""
    nameless = [entry.name for entry in entries if not is_address(entry.address)]
    if document.host_setup.hosts_file and nameless:
        yield Mistake(("host_setup", "hosts_file"), f"needs an address for every host, but {fold(nameless)} has none")
    if document.host_setup.profile is not None and not document.cluster.product.is_npu:
        product = document.cluster.product
        yield Mistake(("host_setup", "profile"), f"sets HCCL variables, but {product} has no HCCL")


def _check_ssh(document: Document, entries: list[HostEntry]) -> Iterator[Mistake]:
    """Yield several hosts that are this machine, and a direct fabric that is not between two hosts."""
    local = [entry for entry in entries if (entry.table.ssh.transport or document.ssh.transport) == "local"]
    if len(local) > 1:
        at: Location = ("hosts", local[1].number, "ssh") if local[1].table.ssh.transport else ("ssh", "transport")
        yield Mistake(at, f'"local" is this machine, so only one of {fold(entry.name for entry in local)} can have it')
    if document.cluster.fabric is Fabric.DIRECT and len(entries) != 2:
        text = f"direct connects exactly two servers, but the inventory has {len(entries)}"
        yield Mistake(("cluster", "fabric"), text)


def _check_waivers(waived: Iterable[tuple[int, str]], entries: list[HostEntry]) -> Iterator[Mistake]:
    """Yield waivers, given as (number, host), for hosts that do not exist."""
    hosts = {entry.name for entry in entries} | {"*"}
    for number, host in waived:
        if host not in hosts:
            text = f'{host!r} is not a host of this inventory. Write one waiver per host, or "*" for all hosts.'
            yield Mistake(("waivers", number, "host"), text)
