"""Policy of a host's gate: the operator's rules, and the inventory's settings for this host (docs/gate.md). Pure."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError

SCHEMA = "preflight.gate/1"
# Settings on which no verdict depends: names for people, permission to disturb, the way to a host, and all of other
# hosts. So an added host voids no verdict. A waiver changes findings, but not at once: the next run applies it.
_NOT_OF_THE_CLUSTER = {"name", "hosts", "gate", "waivers"}
_NOT_OF_THE_PROBE = {"idle", "via"}
_NOT_OF_A_HOST = {"ssh"}


def config_digest(cluster: Cluster, host: Host) -> str:
    """Return the sha256 (hex) of the inventory's settings for this host, and of those of the cluster for its checks.

    A verdict counts as long as this is the same.
    """
    settings = {
        "cluster": _without(cluster, _NOT_OF_THE_CLUSTER | {"probe"}),
        "probe": _without(cluster.probe, _NOT_OF_THE_PROBE),
        "host": _without(host, _NOT_OF_A_HOST),
    }
    return sha256(json.dumps(settings, sort_keys=True, default=_plain).encode()).hexdigest()


def _without(value: Any, left_out: set[str]) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value) if field.name not in left_out}


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def gate_json(cluster: Cluster, host: Host) -> str:
    """Return the text of this host's /etc/preflight/gate.json.

    Raises UsageError if [gate] names a check that does not exist, or wants one both to close the gate and not to.
    """
    gate = cluster.gate
    lists = {key: _ids(key, getattr(gate, key)) for key in ("required", "optional", "off")}
    if both := set(lists["required"]) & {*lists["optional"], *lists["off"]}:
        raise UsageError(f"[gate] in the inventory: {min(both)} cannot be required and also optional or off")
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
    return "{\n" + ",\n".join(lines) + "\n}\n"  # one line for each key: a plan then shows which of them change


@cache
def _ids(key: str, words: Sequence[str]) -> list[str]:
    from preflight.checks.engine.registry import all_checks
    from preflight.checks.engine.run import select

    try:
        return [check.id for check in select(all_checks(), words)] if words else []
    except UsageError as error:
        raise UsageError(f"[gate] in the inventory: {key}: {error}") from None


def _expected(cluster: Cluster, host: Host) -> dict[str, Any]:
    """Return the settings that are cheap to check, and have to hold whenever a job starts.

    A host NIC that is given by its network is left to the checks.
    """
    return {
        "product": cluster.product,
        "reserved": str(cluster.ports),
        "free": str(cluster.ports),
        "devices": [device.index for device in host.devices],
        "addresses": {device.index: str(device.address) for device in host.devices if device.address},
        "nic": host.nic if host.nic and "/" not in host.nic else "",
    }
