"""What an inventory says in one place against what it says in another. Every function yields what it finds wrong."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from preflight.inventory.device_addresses import HostEntry
from preflight.inventory.errors import Location, Mistake
from preflight.inventory.hostset import fold
from preflight.inventory.schema import LAST_PORT, NAMED_PORTS, Document
from preflight.model.cluster import Fabric, Product
from preflight.model.ip import is_address
from preflight.model.ports import PortSet


def of_names(entries: list[HostEntry]) -> Iterator[Mistake]:
    """Names and addresses of hosts that are used twice; both places are named."""
    names = [(entry.name, entry, "name") for entry in entries]
    addresses = [(entry.address, entry, "address" if entry.table.address else "name") for entry in entries]
    for what, plural, uses in (("name", "names", names), ("address", "addresses", addresses)):
        first: dict[str, tuple[HostEntry, str]] = {}
        twice: dict[tuple[Location, Location], list[str]] = defaultdict(list)
        for value, entry, key in uses:
            other, other_key = first.setdefault(value, (entry, key))
            told_as_name = what == "address" and key == other_key == "name"
            if other is not entry and not told_as_name:
                twice[("hosts", entry.number, key), ("hosts", other.number, other_key)].append(value)
        for (at, place), values in twice.items():
            said = f"{what} {values[0]} is" if len(values) == 1 else f"{plural} {fold(values)} are"
            yield Mistake(at, f"{said} used twice", place)


def of_ports(document: Document) -> Iterator[Mistake]:
    """HCCL ports that do not exist, that the product cannot be told, or that are the job's too."""
    ports, npu = document.ports, document.cluster.product.is_npu
    last = ports.hccl_base + ports.hccl_count - 1
    if ports.hccl_host_range is not None:
        if document.cluster.product is Product.ATLAS_A1:
            yield Mistake(("ports", "hccl_host_range"), "atlas-a1 has no HCCL_HOST_SOCKET_PORT_RANGE, only hccl_base")
        for key in ("hccl_base", "hccl_count"):
            if key in ports.model_fields_set:
                yield Mistake(("ports", key), "does not count where hccl_host_range is given; leave one of them out")
    elif last > LAST_PORT:
        text = f"{ports.hccl_count} ports from {ports.hccl_base} on would end at {last}; the last port is {LAST_PORT}"
        yield Mistake(("ports", "hccl_base"), text)
    for key in ("job", *NAMED_PORTS) if npu else ():
        value = getattr(ports, key)
        own = value if isinstance(value, PortSet) else PortSet.of([(value, value)] if value else [])
        if len(own - ports.hccl) < len(own):
            verb = "is one of" if key in NAMED_PORTS else "overlaps"
            yield Mistake(("ports", key), f"{own} {verb} the HCCL ports {ports.hccl}")


def of_the_machine(document: Document) -> Iterator[Mistake]:
    """What is said of GPUs where there are none."""
    product = document.cluster.product
    for key in sorted(document.machine.model_fields_set) if product is not Product.NVIDIA else ():
        yield Mistake(("machine", key), f"is of GPUs (nvidia), the cluster is of {product}")


def of_the_probe(document: Document) -> Iterator[Mistake]:
    """Ranks that are to meet in a file, and no directory for it."""
    if document.probe.init == "file" and document.probe.shared_dir is None:
        yield Mistake(("probe", "init"), '"file" needs shared_dir, a directory that all hosts share')


def of_the_gate(document: Document) -> Iterator[Mistake]:
    """A check that two lists name."""
    first: dict[str, str] = {}
    for key in ("required", "optional", "off"):
        for word in getattr(document.gate, key):
            other = first.setdefault(word.lower(), key)
            if other != key:
                yield Mistake(("gate", key), f"{word} stands in {other}, too", ("gate", other))


def of_the_setup(document: Document, entries: list[HostEntry]) -> Iterator[Mistake]:
    """Names for /etc/hosts without an address; HCCL's variables where there is no HCCL."""
    nameless = [entry.name for entry in entries if not is_address(entry.address)]
    if document.host_setup.hosts_file and nameless:
        yield Mistake(("host_setup", "hosts_file"), f"needs an address of every host; {fold(nameless)} has none")
    if document.host_setup.profile is not None and not document.cluster.product.is_npu:
        product = document.cluster.product
        yield Mistake(("host_setup", "profile"), f"sets variables of HCCL, and {product} has no HCCL")


def of_the_way_there(document: Document, entries: list[HostEntry]) -> Iterator[Mistake]:
    """Hosts that are all this machine; a fibre that is not between two servers."""
    local = [e for e in entries if (e.table.ssh.transport or document.ssh.transport) == "local"]
    if len(local) > 1:
        at: Location = ("hosts", local[1].number, "ssh") if local[1].table.ssh.transport else ("ssh", "transport")
        yield Mistake(at, f'"local" is this machine; {fold(e.name for e in local)} cannot all be')
    if document.cluster.fabric is Fabric.DIRECT and len(entries) != 2:
        yield Mistake(
            ("cluster", "fabric"), f"direct means a fibre between two servers; the inventory has {len(entries)}"
        )


def of_waivers(waived: Iterable[tuple[int, str]], entries: list[HostEntry]) -> Iterator[Mistake]:
    """Waivers, as (number, host), for hosts that are not there."""
    known = {entry.name for entry in entries} | {"*"}
    for number, host in waived:
        if host not in known:
            yield Mistake(
                ("waivers", number, "host"), f'{host!r} is no host of this inventory; one waiver a host, or "*" for all'
            )
