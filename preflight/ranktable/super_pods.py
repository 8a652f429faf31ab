"""The further rules of version 1.2, for Atlas A3 in super-pods: each is a function. Pure. Sources as in rules.py."""

from collections.abc import Callable, Iterable, Iterator

from preflight.model.text import quote
from preflight.ranktable.types import (
    RankedDevice,
    RankTable,
    Server,
    SuperPodEntry,
    TableProblem,
    format_path,
    format_rank,
    rank_problem,
)


def without_sdid(server: Server) -> tuple[RankedDevice, ...]:
    """Return the devices without super_device_id, with which HCCL ends in "super_device_id[] is invalid"."""
    return tuple(device for device in server.devices if not device.super_device_id)


def _pod_ids(table: RankTable) -> dict[str, str]:
    """Return the super-pod of each server."""
    return {server: pod.id for pod in table.super_pods for server in pod.servers}


def super_device_ids(table: RankTable) -> Iterator[TableProblem]:
    """Yield problems unless each super_device_id is a number, of one device of its super-pod alone."""
    if table.version != "1.2":
        return
    pod_of = _pod_ids(table)
    first: dict[tuple[str | None, str], tuple[Server, RankedDevice]] = {}
    for server in table.servers:
        for device in without_sdid(server):
            text = " has no super_device_id, which version 1.2 requires for every device"
            yield rank_problem("sdid", server, device, "", text)
        for device in server.devices:
            sdid = device.super_device_id
            if not sdid:
                continue
            if not (sdid.isascii() and sdid.isdigit()):
                text = f": super_device_id {quote(sdid)} is not a number"
                yield rank_problem("sdid", server, device, "super_device_id", text)
                continue
            owner = first.setdefault((pod_of.get(server.id), sdid), (server, device))
            if (owner[0].id, owner[1].device_id) != (server.id, device.device_id):
                text = f": super_device_id {sdid} is also used by {format_rank(*owner)} in the same super-pod"
                yield rank_problem("sdid", server, device, "super_device_id", text)


def super_pods(table: RankTable) -> Iterator[TableProblem]:
    """Yield problems unless every server is in one super-pod, and each super-pod is listed once, with known servers."""
    if table.version != "1.2":
        return
    if not table.super_pods:
        text = "super_pod_list is missing or empty. In version 1.2, every server must be in a super-pod"
        yield TableProblem("super-pod", text, ())
        return
    servers = {server.id for server in table.servers}
    ids: set[str] = set()
    homes: dict[str, SuperPodEntry] = {}
    for pod in table.super_pods:
        if not pod.id:
            text = f"{format_path(pod.path)} has no super_pod_id"
            yield TableProblem("super-pod", text, (*pod.path, "super_pod_id"))
        elif pod.id in ids:
            text = f"super_pod_id {pod.id} occurs twice"
            yield TableProblem("super-pod", text, (*pod.path, "super_pod_id"))
        ids.add(pod.id)
        yield from _pod_servers(pod, servers, homes)
    for server in table.servers:
        if server.id and server.id not in homes:
            yield TableProblem("super-pod", f"server {server.id} is in no super-pod", (*server.path, "server_id"))


def _pod_servers(pod: SuperPodEntry, servers: set[str], homes: dict[str, SuperPodEntry]) -> Iterator[TableProblem]:
    """Yield problems of a super-pod's servers, and add them to `homes`, the super-pod of each server so far."""
    for number, name in enumerate(pod.servers):
        path = (*pod.path, "server_list", number, "server_id")
        if name not in servers:
            text = f"super-pod {pod.id} lists server {quote(name)}, which is not in server_list"
            yield TableProblem("super-pod", text, path)
        elif name in homes:
            text = f"super-pod {pod.id} lists server {name}, which is already in super-pod {homes[name].id}"
            yield TableProblem("super-pod", text, path)
        homes.setdefault(name, pod)


def interleaved_pods(table: RankTable) -> Iterator[TableProblem]:
    """Yield a problem for each server that is listed apart from the others of its super-pod."""
    pod_of = _pod_ids(table)
    last: dict[str, str] = {}  # super-pod → the last of its servers so far
    before = ""
    for server in table.servers:
        pod = pod_of.get(server.id, "")
        if pod and pod in last and pod != before:
            text = (
                f"servers {last[pod]} and {server.id} are in super-pod {pod}, but a server of another super-pod is "
                "between them. List the servers of each super-pod together"
            )
            yield TableProblem("super-pod", text, (*server.path, "server_id"))
        before = pod or before
        last[pod] = server.id


def backups(table: RankTable) -> Iterator[TableProblem]:
    """Yield problems unless backup_device_ip is that of the same NPU's other die: devices 0 and 1, 2 and 3 …"""
    for server in table.servers:
        addresses = {device.device_id: device.device_ip for device in server.devices}
        for device in server.devices:
            sibling = device.device_id ^ 1
            expected = addresses.get(sibling)
            if device.backup_device_ip and expected and device.backup_device_ip != expected:
                text = (
                    f": backup_device_ip {quote(device.backup_device_ip)} is not the device_ip of the other die, which "
                    f"is {expected} (device {sibling})"
                )
                yield rank_problem("backup", server, device, "backup_device_ip", text)


SUPER_POD_RULES: tuple[Callable[[RankTable], Iterable[TableProblem]], ...] = (
    super_device_ids,
    super_pods,
    interleaved_pods,
    backups,
)
