"""Cluster from a TOML document, with every host and device by itself; or the document's mistakes."""

from pathlib import Path
from typing import Any

from preflight.inventory.contradictions import find_contradictions
from preflight.inventory.device_addresses import Devices, HostEntry, devices_of, in_amp_mode
from preflight.inventory.errors import Mistake
from preflight.inventory.hostset import MOST_HOSTS
from preflight.inventory.schema import Document, GateTable, HostSetupTable, JobTable, ProbeTable, SshTable
from preflight.inventory.valid_part import ValidPart, examine
from preflight.model.cluster import Cluster, Host, HostSetup, JobInputs, Machine, ProbeSettings, Product, Ssh, Waiver
from preflight.model.gate import Context, GatePolicy, Unknown
from preflight.model.ports import PortSet

_BACKEND = {Product.NVIDIA: "nccl", Product.CPU: "gloo"}  # hccl for all other products
_HCCL_DEADLINE = 180.0  # seconds; HCCL waits up to 170 s before it reports an error
_DEADLINE = 60.0


def resolve(data: dict[str, Any], folder: Path) -> tuple[Cluster | None, list[Mistake]]:
    """Return the cluster of a TOML document; if it has mistakes, None and all of them.

    Relative paths of keys start at `folder`.
    """
    valid, mistakes = examine(data)
    if valid is None:
        return None, mistakes
    entries, mismatches = _entries(valid)
    devices = devices_of(valid.document, entries)
    mistakes += [*mismatches, *find_contradictions(valid, entries, devices)]
    return None if mistakes else _cluster(valid.document, entries, devices, folder), mistakes


def _entries(valid: ValidPart) -> tuple[list[HostEntry], list[Mistake]]:
    """Return every host by itself, in the file's order; and mistakes: ranges that do not match, too many hosts."""
    entries: list[HostEntry] = []
    mistakes = []
    for number, table in valid.hosts():
        addresses = table.address or table.name
        if not table.range_fits:
            text = f"{len(addresses)} addresses for {len(table.name)} host names"
            mistakes.append(Mistake(("hosts", number, "address"), text))
            addresses = table.name
        if len(entries) + len(table.name) > MOST_HOSTS:
            mistakes.append(Mistake(("hosts", number), f"more than {MOST_HOSTS} hosts"))
            break
        pairs = zip(table.name, addresses, strict=True)
        entries += (HostEntry(number, table, *pair, nth) for nth, pair in enumerate(pairs))
    return entries, mistakes


def _cluster(document: Document, entries: list[HostEntry], devices: list[Devices], folder: Path) -> Cluster:
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
                devices=host_devices,
            )
            for entry, host_devices in zip(entries, devices, strict=True)
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
    """Return the cluster's settings, overridden by the host's own."""
    settings = {name: getattr(table, name) for table in (common, own) for name in table.model_fields_set}
    for name in ("key", "known_hosts"):
        if name in settings:
            settings[name] = str(folder / settings[name])
    return Ssh(**settings)


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
        unknown={Context(name): Unknown(policy) for name, policy in table.unknown.model_dump().items()},
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
