"""A rank table → text: versions 1.0 and 1.2, a device a line, so that a person can read a difference. Pure."""

import json

from preflight.ranktable.types import RankedDevice, RankTable, Server

_OPTIONAL = ("super_device_id", "device_ip", "device_port", "backup_device_ip", "backup_device_port", "host_port")


def text_of(table: RankTable) -> str:
    """Pure JSON that HCCL reads; what `read` makes the same table of. `host_nic_ip` is what MindSpore's examples have
    in version 1.0."""
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
    head = {"server_id": server.id, "host_ip": server.host_ip, "container_ip": server.container_ip}
    known = {key: value for key, value in head.items() if value or key == "server_id"}
    before = json.dumps(known)[1:-1]
    devices = ",\n".join(f"      {_device(device)}" for device in server.devices)
    after = ', "host_nic_ip": "reserve"' if old_style else ""
    return f'    {{{before}, "device": [\n{devices}\n    ]{after}}}'


def _device(device: RankedDevice) -> str:
    optional = {key: getattr(device, key) for key in _OPTIONAL}
    known = {key: value for key, value in optional.items() if value}
    return json.dumps({"device_id": str(device.device_id), **known, "rank_id": str(device.rank)})
