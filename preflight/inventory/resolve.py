"""The sound part of a document → the Cluster, every host and device written out; and what contradicts itself in it."""

from collections.abc import Iterator
from pathlib import Path

from preflight.inventory import address_rules, contradictions
from preflight.inventory.device_addresses import Devices, HostEntry, in_amp_mode
from preflight.inventory.errors import Mistake
from preflight.inventory.hostset import MOST_HOSTS
from preflight.inventory.schema import Document, GateTable, HostSetupTable, HostTable, JobTable, ProbeTable, SshTable
from preflight.inventory.valid_part import ValidPart
from preflight.model.cluster import Cluster, Host, HostSetup, JobInputs, Machine, ProbeSettings, Product, Ssh, Waiver
from preflight.model.gate import Context, GatePolicy, Unknown
from preflight.model.ports import PortSet

_BACKEND = {Product.NVIDIA: "nccl", Product.CPU: "gloo"}  # else hccl
_HCCL_DEADLINE = 180.0  # HCCL itself waits up to 170 s before it says what is wrong
_DEADLINE = 60.0


def entries_of(sound: ValidPart) -> tuple[list[HostEntry], list[Mistake]]:
    """Every host by itself, in the file's order; and ranges that do not match or lead too far."""
    entries: list[HostEntry] = []
    problems = []
    for number, table in sound.hosts():
        addresses = table.address or table.name
        if not _range_fits(table):
            text = f"{len(addresses)} addresses for {len(table.name)} names"
            problems.append(Mistake(("hosts", number, "address"), text))
            addresses = table.name
        if len(entries) + len(table.name) > MOST_HOSTS:
            problems.append(Mistake(("hosts", number), f"more than {MOST_HOSTS} hosts"))
            break
        named = zip(table.name, addresses, strict=True)
        entries += (HostEntry(number, table, *pair, nth) for nth, pair in enumerate(named))
    return entries, problems


def _range_fits(table: HostTable) -> bool:
    """Whether the table's range of addresses, where it has one, goes with its range of names."""
    return not table.address or len(table.address) == len(table.name)


def contradictions_in(sound: ValidPart, entries: list[HostEntry], given: list[Devices]) -> Iterator[Mistake]:
    """Everything that cannot be. A rule is left out where a table that it needs has lost something: what it would say
    could be wrong."""
    document = sound.document
    yield from contradictions.of_names(entries)
    if sound.intact("cluster", "ports"):
        yield from contradictions.of_ports(document)
    if sound.intact("cluster", "machine"):
        yield from contradictions.of_the_machine(document)
    if sound.intact("cluster", "host_setup", "hosts"):
        yield from contradictions.of_the_setup(document, [entry for entry in entries if _range_fits(entry.table)])
    if sound.intact("probe"):
        yield from contradictions.of_the_probe(document)
    if sound.intact("gate"):
        yield from contradictions.of_the_gate(document)
    if sound.intact("cluster", "ssh", "hosts"):
        yield from contradictions.of_the_way_there(document, entries)
    if sound.intact("hosts"):
        yield from contradictions.of_waivers(((number, waiver.host) for number, waiver in sound.waivers()), entries)
    if not sound.intact("cluster"):
        return
    yield from address_rules.of_the_cluster(document)
    if sound.intact("device_addresses"):
        yield from address_rules.of_the_plan(document)
    whole_plan = sound.intact("device_addresses", "hosts")
    judged = {entry.number: entry for entry in entries if ("hosts", entry.number) not in sound.damaged}
    for entry in judged.values():
        yield from address_rules.of_a_host(document, entry)
    placed = [
        address_rules.Placed(entry, device)
        for entry, devices in zip(entries, given, strict=True)
        for device in devices
        if entry.number in judged and (whole_plan or entry.table.device_addresses is not None)
    ]
    if whole_plan:
        yield from address_rules.of_hosts_for_the_plan(document, entries, placed)
    if document.cluster.product.is_npu:
        yield from address_rules.of_devices(document, entries, placed)


def cluster_of(document: Document, entries: list[HostEntry], given: list[Devices], folder: Path) -> Cluster:
    """The cluster that a document without contradictions describes. Relative paths of keys start at `folder`."""
    ports = document.ports
    return Cluster(
        name=document.cluster.name,
        product=document.cluster.product,
        hosts=tuple(
            Host(
                name=entry.name,
                address=entry.address,
                ssh=_ssh(document.ssh, entry.table.ssh, folder),
                nic=entry.table.nic or document.network.nic,
                devices=devices,
            )
            for entry, devices in zip(entries, given, strict=True)
        ),
        cidrs=tuple(document.cluster.cidrs),
        fabric=document.cluster.fabric,
        hccl_ports=ports.hccl,
        hccl_host_range=str(ports.hccl_host_range or ""),
        job_ports=PortSet.of([*ports.job.ranges, *((port, port) for port in ports.named)]),
        port_names=ports.named,
        firewall=document.firewall.policy,
        firewall_off_at_boot=document.firewall.disable_at_boot,
        probe=_probe(document.probe, document.cluster.product),
        setup=_setup(document.host_setup),
        job=_job(document.job),
        gate=_gate(document.gate),
        waivers=tuple(Waiver(w.check, w.host, w.owner, w.reason, w.expires) for w in document.waivers),
        superpod=document.cluster.superpod,
        machine=Machine(
            document.machine.nvlinks, document.machine.nvlink_speed, document.machine.mig, document.machine.rdma
        ),
        amp=in_amp_mode(document),
    )


def _ssh(common: SshTable, own: SshTable, folder: Path) -> Ssh:
    """The host's own settings over the cluster's."""
    said = {name: getattr(table, name) for table in (common, own) for name in table.model_fields_set}
    for name in ("key", "known_hosts"):
        if name in said:
            said[name] = str(folder / said[name])
    return Ssh(**said)


def _setup(table: HostSetupTable) -> HostSetup:
    limits = table.limits
    return HostSetup(table.hosts_file, str(limits.get("memlock", "")), int(limits.get("nofile", 0)), table.profile)


def _job(table: JobTable) -> JobInputs:
    return JobInputs(table.requirements, table.datasets, table.project or "", table.imports, table.launcher or "")


def _gate(table: GateTable) -> GatePolicy:
    return GatePolicy(
        max_age=table.max_age,
        probe_max_age=table.probe_max_age,
        need_probe=table.need_probe,
        required=table.required,
        optional=table.optional,
        off=table.off,
        unknown={Context(name): Unknown(said) for name, said in table.unknown.model_dump().items()},
        drain=table.drain_at_most,
        undrain=table.undrain,
        requeues=table.requeues,
    )


def _probe(table: ProbeTable, product: Product) -> ProbeSettings:
    backend = table.backend or _BACKEND.get(product, "hccl")
    return ProbeSettings(
        python=table.python,
        setup=table.setup,
        wrapper=tuple(table.exec),
        user=table.user,
        backend=backend,
        transport=table.transport or "",
        sizes=tuple(table.sizes),
        step_deadline=table.step_deadline or (_HCCL_DEADLINE if backend == "hccl" else _DEADLINE),
        via=table.via,
        idle=table.idle,
        init=table.init,
        shared_dir=table.shared_dir or "",
        expect=table.expect.model_dump(exclude_none=True),
    )
