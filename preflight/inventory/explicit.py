"""Writer of a cluster as inventory tables with one table for each host, without plans, ranges and ssh settings. Pure.

Reading it returns the same cluster except for `ssh`, waivers and `amp`, which only a plan determines.
"""

from typing import Any

from preflight.model.cluster import Cluster, Host, JobInputs, ProbeSettings
from preflight.model.gate import GatePolicy
from preflight.model.ports import PortSet


def explicit_document(cluster: Cluster) -> dict[str, Any]:
    """Return the TOML document of the cluster; `dump` makes its text."""
    return {
        "cluster": {
            "name": cluster.name,
            "product": cluster.product.value,
            "fabric": cluster.fabric.value,
            "superpod": cluster.superpod,
            "cidrs": list(map(str, cluster.cidrs)),
            **_mtu(cluster),
        },
        **_machine(cluster),
        "ports": _ports(cluster),
        "firewall": {"policy": cluster.firewall.value, "disable_at_boot": cluster.firewall_off_at_boot},
        "host_setup": _setup(cluster),
        "probe": _probe(cluster.probe),
        "job": _job(cluster.job),
        "gate": _gate(cluster.gate),
        "hosts": list(map(_host, cluster.hosts)),
    }


def _job(job: JobInputs) -> dict[str, Any]:
    lists = {"requirements": list(job.requirements), "datasets": list(job.datasets), "imports": list(job.imports)}
    texts = {"project": job.project, "launcher": job.launcher}
    return {**lists, **{key: text for key, text in texts.items() if text}}


def _gate(gate: GatePolicy) -> dict[str, Any]:
    return {
        "max_age": f"{gate.max_age:.0f}s",
        "probe_max_age": f"{gate.probe_max_age:.0f}s",
        "need_probe": gate.need_probe,
        **{key: list(getattr(gate, key)) for key in ("required", "optional", "off")},
        "unknown": {context.value: policy.value for context, policy in gate.unknown.items()},
        "drain_at_most": f"{gate.drain.percent:g}%" if gate.drain.nodes is None else gate.drain.nodes,
        "undrain": gate.undrain,
        "requeues": gate.requeues,
    }


def _machine(cluster: Cluster) -> dict[str, Any]:
    links = {"nvlinks": cluster.machine.nvlinks, "nvlink_speed": cluster.machine.nvlink_speed}
    table: dict[str, Any] = {key: value for key, value in links.items() if value is not None}
    table |= {"mig": True} if cluster.machine.mig else {}
    table |= {"rdma": list(cluster.machine.rdma)} if cluster.machine.rdma else {}
    return {"machine": table} if table else {}


def _mtu(cluster: Cluster) -> dict[str, int]:
    planned = next((device.mtu for host in cluster.hosts for device in host.devices), None)
    return {"device_mtu": planned} if planned else {}


def _ranges(ports: PortSet) -> list[str]:
    return str(ports).split(",") if ports else []


def _ports(cluster: Cluster) -> dict[str, Any]:
    named = {name: port for port, name in cluster.port_names.items()}
    unnamed = cluster.job_ports - PortSet.of((port, port) for port in named.values())
    if cluster.hccl_host_range:
        hccl: dict[str, Any] = {
            "hccl_host_range": "auto" if cluster.hccl_host_range == "auto" else _ranges(cluster.hccl_ports)
        }
    else:
        ((low, high),) = cluster.hccl_ports.ranges or ((60000, 60031),)
        hccl = {"hccl_base": low, "hccl_count": high - low + 1}
    return {**hccl, **named, "job": _ranges(unnamed)}


def _setup(cluster: Cluster) -> dict[str, Any]:
    setup = cluster.setup
    limits: dict[str, Any] = {"nofile": setup.nofile} if setup.nofile else {}
    if setup.memlock:
        limits["memlock"] = setup.memlock if setup.memlock == "unlimited" else f"{setup.memlock}KiB"
    profile = {} if setup.profile is None else {"profile": dict(setup.profile) or True}
    return {"hosts_file": setup.hosts_file, "limits": limits, **profile}


def _probe(probe: ProbeSettings) -> dict[str, Any]:
    return {
        "python": probe.python,
        "setup": probe.setup,
        "exec": list(probe.wrapper),
        "user": probe.user,
        "backend": probe.backend,
        **({"transport": probe.transport} if probe.transport else {}),
        "sizes": [f"{size}B" for size in probe.sizes],
        "init": probe.init,
        **({"shared_dir": probe.shared_dir} if probe.shared_dir else {}),
        **({"expect": dict(probe.expect)} if probe.expect else {}),
        "step_deadline": probe.step_deadline,
        **({"via": probe.via} if probe.via != "ssh" else {}),
        "idle": probe.idle,
    }


def _host(host: Host) -> dict[str, Any]:
    table: dict[str, Any] = {"name": host.name, "address": host.address, "devices": len(host.devices)}
    if host.nic:
        table["nic"] = host.nic
    for key, attribute in (("device_addresses", "address"), ("gateways", "gateway"), ("detect", "detect")):
        planned = [getattr(device, attribute) for device in host.devices]
        if planned and None not in planned:
            table[key] = list(map(str, planned))
    return table
