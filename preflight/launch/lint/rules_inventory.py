"""Rules for the hosts of a script, compared with host files and the inventory. Pure."""

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_network
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from preflight.launch.job import FOR_MASTERS
from preflight.launch.lint.master_addresses import LOOPBACK, addresses, ports
from preflight.launch.lint.rules_job import ranks
from preflight.launch.lint.types import JobStart, Script, ScriptFault, ScriptSpot, Word, digits
from preflight.model.cluster import Cluster, Host

_SLOTS = re.compile(r"\s(?:max[_-])?slots\s*=\s*([0-9]{1,9})|:([0-9]{1,9})")
_UNKNOWN_ADDRESS = "HCCL_IF_IP is not an address of any host in the inventory"
_FEWER_PROCESSES = "start one process for each device"


def host_files(script: Script) -> Iterator[tuple[JobStart, Word]]:
    """Yield the host files that its commands name."""
    for start in script.starts:
        names = ("hostfile", "H") if start.family == "deepspeed" else ("hostfile", "machinefile", "f")
        word = start.value(*names) if start.family != "srun" else None
        if word and "$" not in word.text:
            yield start, word


class _HostLine(NamedTuple):
    """A line of a host file; without slots, it leaves their number to the launcher."""

    number: int
    text: str
    slots: int | None


def _host_lines(text: str) -> Iterator[_HostLine]:
    for number, line in enumerate(text.splitlines(), 1):
        if entry := line.partition("#")[0].strip():
            slots = _SLOTS.search(entry)
            yield _HostLine(number, entry, int(slots[1] or slots[2]) if slots else None)


def taken(start: JobStart, text: str) -> int:
    """Return how many hosts of its host file a command takes: MPI fills them in order, DeepSpeed takes all."""
    wanted, slots, count = ranks(start), 0, 0
    for line in _host_lines(text):
        if wanted and slots >= wanted:
            break
        slots += line.slots or 1
        count += 1
    return count


def host_file(script: Script, start: JobStart, word: Word, path: Path, text: str) -> Iterator[ScriptFault]:
    """Yield the faults of one command's host file."""
    lines = list(_host_lines(text))
    if start.family == "deepspeed":
        yield from _too_few_hosts(script, start, path, len(lines))
    bare = next((line for line in lines if line.slots is None), None)
    if bare:
        yield _without_slots(path, bare, deepspeed=start.family == "deepspeed")
        return
    wanted, slots = ranks(start), sum(line.slots or 1 for line in lines)
    if wanted and slots < wanted:
        message = f"{path} has {slots} slots for {wanted} ranks"
        yield script.fault(word, message, str(slots), str(wanted), "correct the slots or -np")


def _too_few_hosts(script: Script, start: JobStart, path: Path, hosts: int) -> Iterator[ScriptFault]:
    count, word = start.number("num-nodes"), start.value("num-nodes")
    if word and count and count > hosts:
        message = f"{path} has {hosts} hosts, but --num_nodes is {word.text}"
        do = "correct --num_nodes or the host file"
        yield script.fault(word, message, word.text, f"at most {hosts}", do)


def _without_slots(path: Path, line: _HostLine, *, deepspeed: bool) -> ScriptFault:
    why = "DeepSpeed rejects such a line" if deepspeed else "MPI decides how many ranks it gets"
    message, expected = f"a host without slots: {why}", f"{line.text.split()[0][:80]} slots=N"
    do = "add the number of devices to every host"
    return ScriptFault(path, ScriptSpot(line.number, 1), message, line.text[:80], expected, do)


def host_of(script: Script, hosts: Sequence[Host]) -> Host | None:
    """Return the host that a script is for, by the name of its file.

    Its node rank does not identify the host, since ranks may be in another order than the inventory.
    """
    if script.host:
        return next((host for host in hosts if script.host in (host.name, host.address)), None)
    stem = script.path.stem
    words = {*re.split(r"[^A-Za-z0-9-]+", stem), stem}
    matching = [host for host in hosts if host.name in words or stem.endswith((f"-{host.name}", f"_{host.name}"))]
    return matching[0] if len(matching) == 1 else None


def _host(script: Script, hosts: Sequence[Host]) -> Host | None:
    """Return the host that a script is for, by its file's name or the address that it sets as its own."""
    value, _ = script.settings.get("HCCL_IF_IP", ("", None))
    return host_of(script, hosts) or next((host for host in hosts if host.address == value), None)


def own_address(script: Script, cluster: Cluster, hosts: Sequence[Host]) -> Iterator[ScriptFault]:
    """Compare HCCL_IF_IP with the host that the script is for."""
    if "HCCL_IF_IP" not in script.settings:
        return
    value, word = script.settings["HCCL_IF_IP"]
    host = host_of(script, hosts)
    if "$" in value or (host and value == host.address):
        return
    owner = _owner(value, cluster)
    foreign = host is not None if owner else not _may_be_own(value, cluster, host)
    if foreign or LOOPBACK.fullmatch(value):
        message = f"HCCL_IF_IP is the address of {owner}" if owner else _UNKNOWN_ADDRESS
        expected = f"{host.address}, the address of {host.name}" if host else "the address of the script's own host"
        yield script.fault(word, message, value, expected, "set this host's own address")


def _owner(address: str, cluster: Cluster) -> str:
    return next((host.name for host in cluster.hosts if host.address == address), "")


def _may_be_own(value: str, cluster: Cluster, host: Host | None) -> bool:
    """Return whether an address is in a network of the hosts, which may have more addresses than the inventory."""
    try:
        address = ip_address(value)
    except ValueError:
        return True  # another rule reports it
    networks = list(cluster.cidrs)
    if host and host.nic and "/" in host.nic:
        networks.append(ip_network(host.nic, strict=False))
    return any(address in network for network in networks) or not networks


def master_host(scripts: Sequence[Script], hosts: Sequence[Host]) -> Iterator[ScriptFault]:
    """Compare the master's address with the host of the script with node rank 0."""
    master = _master(scripts, hosts)
    if not master:
        return
    names = {host.address: host.name for host in hosts if host is not master}
    for script in scripts:
        for address, _, word in islice(addresses(script), 1):
            if address in names:
                message = f"this is the address of {names[address]}, but rank 0 is on {master.name}"
                yield script.fault(word, message, address, master.address, "use the host that has node_rank 0")


def _master(scripts: Sequence[Script], hosts: Sequence[Host]) -> Host | None:
    first = next((script for script in scripts for start in script.starts if start.number("node-rank") == 0), None)
    return _host(first, hosts) if first else None


def planned_ports(script: Script, cluster: Cluster) -> Iterator[ScriptFault]:
    """Compare the master's port with the inventory's plan."""
    master = next((port for port, name in cluster.port_names.items() if name == "master"), None)
    expected = str(master or "a port of the inventory")
    for text, word in dict.fromkeys(ports(script)):
        if not (text.isascii() and text.isdigit()) or int(text[:9]) == master:
            continue
        port = int(text[:9])
        if port not in cluster.ports:
            message = f"port {port} is not in the inventory, so it is neither reserved nor open in firewalls"
            do = f"use {expected}, or add the port to [ports] and run preflight configure"
            yield script.fault(word, message, text, expected, do)
        elif cluster.purpose(port) not in FOR_MASTERS:
            message = f"the inventory reserves port {port} for {cluster.purpose(port)}"
            yield script.fault(word, message, text, expected, "use another port")


def device_counts(script: Script, hosts: Sequence[Host]) -> Iterator[ScriptFault]:
    """Compare numbers of processes and of devices with the devices of the hosts."""
    host = _host(script, hosts)
    counts = [len(candidate.devices) for candidate in ([host] if host else hosts)]
    for start in script.starts:
        everywhere = start.family in ("mpi", "srun", "deepspeed")  # else the script may be that of the largest host
        devices = (min if everywhere else max)(counts, default=0)
        if devices:
            yield from _devices_beyond(script, start, devices)


def _devices_beyond(script: Script, start: JobStart, devices: int) -> Iterator[ScriptFault]:
    names = ("nproc-per-node", "npernode", "local-worker-num", "num-gpus")
    each, word = start.number(*names), start.value(*names)
    if each and word and each > devices:
        message = f"{each} processes on a host with {devices} devices. Start one process for each device"
        yield script.fault(word, message, str(each), f"at most {devices}", _FEWER_PROCESSES)
    for name in ("DEVICE_ID", "LOCAL_RANK"):
        setting = script.setting(name, start)
        if setting and (digits(setting[0]) or 0) >= devices:
            message = f"{name} {setting[0]} on a host with {devices} devices, which are numbered from 0"
            yield script.fault(setting[1], message, setting[0], f"less than {devices}", _FEWER_PROCESSES)
