"""What a host's gate is told: the operator's rules and what the inventory says of this host (docs/gate.md). Pure."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError

SCHEMA = "preflight.gate/1"
# What no verdict depends on: names for people, who may be disturbed, the way to a host; and all about other hosts, so
# that one that is added voids no verdict. A waiver changes what is found, but not at once: the next look sees it.
_NOT_OF_THE_CLUSTER = {"name", "hosts", "gate", "waivers"}
_NOT_OF_THE_PROBE = {"idle", "via"}
_NOT_OF_A_HOST = {"ssh"}


def config_digest(cluster: Cluster, host: Host) -> str:
    """sha256 (hex) over what the inventory says of this host, and of the cluster as far as its checks depend on it. A
    verdict counts as long as this is the same."""
    said = {
        "cluster": _without(cluster, _NOT_OF_THE_CLUSTER | {"probe"}),
        "probe": _without(cluster.probe, _NOT_OF_THE_PROBE),
        "host": _without(host, _NOT_OF_A_HOST),
    }
    return sha256(json.dumps(said, sort_keys=True, default=_plain).encode()).hexdigest()


def _without(value: Any, left_out: set[str]) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value) if field.name not in left_out}


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def gate_json(cluster: Cluster, host: Host) -> str:
    """The text of this host's /etc/preflight/gate.json. Raises UsageError where [gate] names a check that is not there,
    or wants of one both that it closes the gate and that it does not."""
    gate = cluster.gate
    lists = {key: _ids(key, getattr(gate, key)) for key in ("required", "optional", "off")}
    if both := set(lists["required"]) & {*lists["optional"], *lists["off"]}:
        raise UsageError(f"[gate] of the inventory: {min(both)} is required, and optional or off as well")
    policy = {
        "schema": SCHEMA,
        "host": host.name,
        "cluster": cluster.name,
        "config": config_digest(cluster, host),
        "max_age": int(gate.max_age),
        "probe_max_age": int(gate.probe_max_age),
        "need_probe": gate.need_probe,
        **lists,
        "unknown": gate.unknown,
        "drain": gate.drain,
        "undrain": gate.undrain,
        "requeues": gate.requeues,
        "expect": _expected(cluster, host),
    }
    lines = (f"  {json.dumps(key)}: {json.dumps(value, default=_plain)}" for key, value in policy.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"  # a line a key: a plan shows it, and what of it changes


@cache
def _ids(key: str, words: Sequence[str]) -> list[str]:
    from preflight.checks.engine.registry import all_checks
    from preflight.checks.engine.run import select

    try:
        return [check.id for check in select(all_checks(), words)] if words else []
    except UsageError as error:
        raise UsageError(f"[gate] of the inventory: {key}: {error}") from None


def _expected(cluster: Cluster, host: Host) -> dict[str, Any]:
    """What is cheap to look at, and has to be so whenever a job starts. A host NIC that is named by its network is for
    the checks to find."""
    return {
        "product": cluster.product,
        "reserved": str(cluster.ports),
        "free": str(cluster.ports),
        "devices": [device.index for device in host.devices],
        "addresses": {device.index: str(device.address) for device in host.devices if device.address},
        "nic": host.nic if host.nic and "/" not in host.nic else "",
    }
