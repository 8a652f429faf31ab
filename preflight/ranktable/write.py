"""Rank tables of versions 1.0 and 1.2 as text, with a line for each device, so that people can read a diff. Pure."""

import json

from preflight.ranktable.types import RankedDevice, RankTable, Server

_OPTIONAL = ("super_device_id", "device_ip", "device_port", "backup_device_ip", "backup_device_port", "host_port")


def text_of(table: RankTable) -> str:
    """Return JSON that HCCL reads, and that `read` turns into the same table.

    MindSpore's examples of version 1.0 have a `host_nic_ip`.
    """
    servers = ",\n".join(_server(server, old_style=table.version == "1.0") for server in table.servers)
    lines = [
        "{",
        f'  "version": {json.dumps(table.version)},',
        f'  "server_count": "{len(table.servers)}",',
        f'  "server_list": [\n{servers}\n  ],',
    ]
    if table.version == "1.2":
        pods = ",\n".join(
            "    " + json.dumps({"super_pod_id": pod.id, "server_list": [{"server_id": id_} for id_ in pod.servers]})
            for pod in table.super_pods
        )
        lines.append(f'  "super_pod_list": [\n{pods}\n  ],')
    return "\n".join([*lines, '  "status": "completed"', "}", ""])


def _server(server: Server, *, old_style: bool) -> str:
    addresses = {key: value for key in ("host_ip", "container_ip") if (value := getattr(server, key))}
    before = json.dumps({"server_id": server.id, **addresses})[1:-1]
    devices = ",\n".join(f"      {_device(device)}" for device in server.devices)
    after = ', "host_nic_ip": "reserve"' if old_style else ""
    return f'    {{{before}, "device": [\n{devices}\n    ]{after}}}'


def _device(device: RankedDevice) -> str:
    optional = {key: value for key in _OPTIONAL if (value := getattr(device, key))}
    return json.dumps({"device_id": str(device.device_id), **optional, "rank_id": str(device.rank)})
