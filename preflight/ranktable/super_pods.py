"""What version 1.2, of Atlas A3 in super-pods, wants besides: a function a rule. Pure. Sources as in rules.py."""

from collections.abc import Callable, Iterable, Iterator

from preflight.facts.quote import quote
from preflight.ranktable.types import Problem, RankedDevice, RankTable, Server, SuperPod, called, spelled


def without_sdid(server: Server) -> tuple[RankedDevice, ...]:
    """Devices without super_device_id, with which HCCL ends in "super_device_id[] is invalid"."""
    return tuple(device for device in server.devices if not device.super_device_id)


def super_device_ids(table: RankTable) -> Iterator[Problem]:
    """Each a number, of one device of its super-pod alone."""
    if table.version != "1.2":
        return
    pod_of = {server: pod.id for pod in table.super_pods for server in pod.servers}
    first: dict[tuple[str | None, str], tuple[Server, RankedDevice]] = {}
    for server in table.servers:
        for device in without_sdid(server):
            text = f"{called(server, device)} has no super_device_id, which version 1.2 wants of every device"
            yield Problem("sdid", text, device.path, rank=device.rank)
        for device in server.devices:
            sdid, where = device.super_device_id, (*device.path, "super_device_id")
            if not sdid:
                continue
            if not (sdid.isascii() and sdid.isdigit()):
                text = f"{called(server, device)}: super_device_id {quote(sdid)} is no number"
                yield Problem("sdid", text, where, rank=device.rank)
                continue
            other = first.setdefault((pod_of.get(server.id), sdid), (server, device))
            if (other[0].id, other[1].device_id) != (server.id, device.device_id):
                text = (
                    f"{called(server, device)}: super_device_id {sdid} is also that of {called(*other)}, in the same "
                    "super-pod"
                )
                yield Problem("sdid", text, where, rank=device.rank)


def super_pods(table: RankTable) -> Iterator[Problem]:
    """Every server in one super-pod; each pod once, of servers that are there."""
    if table.version != "1.2":
        return
    known = {server.id for server in table.servers}
    ids: dict[str, SuperPod] = {}
    homes: dict[str, SuperPod] = {}
    if not table.super_pods:
        yield Problem("super-pod", "super_pod_list is missing or empty: version 1.2 wants every server in one", ())
        return
    for pod in table.super_pods:
        if not pod.id or pod.id in ids:
            said = f"super_pod_id {pod.id} is given twice" if pod.id else f"{spelled(pod.path)} has no super_pod_id"
            yield Problem("super-pod", said, (*pod.path, "super_pod_id"))
        ids.setdefault(pod.id, pod)
        for number, name in enumerate(pod.servers):
            where = (*pod.path, "server_list", number, "server_id")
            if name not in known:
                text = f"super-pod {pod.id} names server {quote(name)}, which server_list does not have"
                yield Problem("super-pod", text, where)
            elif name in homes:
                text = f"super-pod {pod.id} names server {name}, which is in super-pod {homes[name].id} already"
                yield Problem("super-pod", text, where)
            homes.setdefault(name, pod)
    for server in table.servers:
        if server.id and server.id not in homes:
            yield Problem("super-pod", f"server {server.id} is in no super-pod", (*server.path, "server_id"))


def interleaved_pods(table: RankTable) -> Iterator[Problem]:
    """Servers of a super-pod are listed together."""
    home = {server: pod.id for pod in table.super_pods for server in pod.servers}
    seen: dict[str, str] = {}  # super-pod → the last of its servers so far
    before = ""
    for server in table.servers:
        pod = home.get(server.id, "")
        if pod and pod in seen and pod != before:
            text = (
                f"server {server.id} of super-pod {pod} stands apart from {seen[pod]} of the same: servers of a "
                "super-pod are listed together"
            )
            yield Problem("super-pod", text, (*server.path, "server_id"))
        before = pod or before
        seen[pod] = server.id


def backups(table: RankTable) -> Iterator[Problem]:
    """backup_device_ip is that of the other die of the same NPU: devices 0 and 1, 2 and 3 …"""
    for server in table.servers:
        of = {device.device_id: device.device_ip for device in server.devices}
        for device in server.devices:
            sibling = of.get(device.device_id ^ 1, "")
            if device.backup_device_ip and sibling and device.backup_device_ip != sibling:
                text = (
                    f"{called(server, device)}: backup_device_ip {quote(device.backup_device_ip)} is not the device_ip "
                    f"of the other die, which is {sibling} (device {device.device_id ^ 1})"
                )
                yield Problem("backup", text, (*device.path, "backup_device_ip"), rank=device.rank)


SUPER_POD_RULES: tuple[Callable[[RankTable], Iterable[Problem]], ...] = (
    super_device_ids, super_pods, interleaved_pods, backups,
)  # fmt: skip
