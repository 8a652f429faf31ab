"""What a script says of hosts, against host files and the inventory. Pure."""

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path

from preflight.launch.job import FOR_MASTERS
from preflight.launch.lint.rules_job import ranks
from preflight.launch.lint.rules_values import LOOPBACK, addresses, ports
from preflight.launch.lint.types import Fault, Script, Spot, Start, Word, digits
from preflight.model.cluster import Cluster, Host

_SLOTS = re.compile(r"\s(?:max[_-])?slots\s*=\s*([0-9]{1,9})|:([0-9]{1,9})")


def host_files(script: Script) -> Iterator[tuple[Start, Word]]:
    """The host files that its commands name."""
    for start in script.starts:
        names = ("hostfile", "H") if start.family == "deepspeed" else ("hostfile", "machinefile", "f")
        word = start.value(*names) if start.family != "srun" else None
        if word and "$" not in word.text:
            yield start, word


def _hosts(text: str) -> Iterator[tuple[int, str, int | None]]:
    """(number of the line, what it says, slots) of each host in a host file."""
    for number, line in enumerate(text.splitlines(), 1):
        if told := line.partition("#")[0].strip():
            count = _SLOTS.search(told)
            yield number, told, int(count[1] or count[2]) if count else None


def taken(start: Start, text: str) -> int:
    """How many hosts of its host file a command takes: MPI fills one after the other, DeepSpeed takes all."""
    wanted, slots, count = ranks(start), 0, 0
    for _, _, of_host in _hosts(text):
        if wanted and slots >= wanted:
            break
        slots += of_host or 1
        count += 1
    return count


def host_file(script: Script, start: Start, word: Word, path: Path, text: str) -> Iterator[Fault]:
    """What is wrong with the host file of one command."""
    slots, bare, count = 0, 0, 0
    for number, told, of_host in _hosts(text):
        slots += of_host or 1
        count += 1
        if of_host is not None:
            continue
        bare += 1
        if bare == 1:
            why = (
                "DeepSpeed refuses such a line"
                if start.family == "deepspeed"
                else "how many ranks it gets is left to MPI"
            )
            yield Fault(
                path, Spot(number, 1), f"a host without slots: {why}", told[:80], f"{told.split()[0][:80]} slots=N",
                "write the number of devices behind every host",
            )  # fmt: skip
    hosts = start.value("num-nodes")
    if start.family == "deepspeed" and hosts and (start.number("num-nodes") or 0) > count:
        yield Fault(
            script.path, hosts.spot, f"{path} has {count} hosts for {hosts.text}", hosts.text, f"at most {count}",
            "correct --num_nodes, or the host file",
        )  # fmt: skip
    wanted = ranks(start)
    if not bare and wanted and slots < wanted:
        yield Fault(
            script.path, word.spot, f"{path} has {slots} slots for {wanted} ranks", str(slots), str(wanted),
            "correct the slots, or -np",
        )  # fmt: skip


def host_of(script: Script, hosts: Sequence[Host]) -> Host | None:
    """The host that a script is for, by the name of its file. Its node rank says nothing: ranks may be in another order
    than the inventory."""
    if script.host:
        return next((host for host in hosts if script.host in (host.name, host.address)), None)
    words = set(re.split(r"[^A-Za-z0-9-]+", script.path.stem)) | {script.path.stem}
    named = [
        host for host in hosts if host.name in words or script.path.stem.endswith((f"-{host.name}", f"_{host.name}"))
    ]
    return named[0] if len(named) == 1 else None


def _by_address(script: Script, hosts: Sequence[Host]) -> Host | None:
    """The host whose address the script says is its own."""
    value, _ = script.settings.get("HCCL_IF_IP", ("", None))
    return next((host for host in hosts if host.address == value), None)


def own_address(script: Script, cluster: Cluster, hosts: Sequence[Host]) -> Iterator[Fault]:
    """HCCL_IF_IP, against the host that the script is for."""
    if "HCCL_IF_IP" not in script.settings:
        return
    value, word = script.settings["HCCL_IF_IP"]
    host = host_of(script, hosts)
    whose = next((it.name for it in cluster.hosts if it.address == value), None)
    if "$" in value or (host and value == host.address):
        return
    expected = f"{host.address}, the address of {host.name}" if host else "the address of the host it runs on"
    if LOOPBACK.fullmatch(value) or (host and whose) or (whose is None and not _may_be_own(value, cluster, host)):
        what = f"HCCL_IF_IP is the address of {whose}" if whose else "HCCL_IF_IP is no address of the inventory's hosts"
        yield Fault(script.path, word.spot, what, value, expected, "write this host's own address")


def _may_be_own(value: str, cluster: Cluster, host: Host | None) -> bool:
    """Whether it is in a network of the hosts; a host may have more addresses than the inventory says."""
    try:
        address = ip_address(value)
    except ValueError:
        return True  # another rule's
    networks = [
        *cluster.cidrs,
        *([ip_network(host.nic, strict=False)] if host and host.nic and "/" in host.nic else []),
    ]
    return any(address in network for network in networks) or not networks


def master_host(scripts: Sequence[Script], hosts: Sequence[Host]) -> Iterator[Fault]:
    """The master's address, against the host of the script with node rank 0."""
    first = next((it for it in scripts for start in it.starts if start.number("node-rank") == 0), None)
    host = (host_of(first, hosts) or _by_address(first, hosts)) if first else None
    if not host:
        return
    others = {it.address: it.name for it in hosts if it is not host}
    for script in scripts:
        for address, _, word in list(addresses(script))[:1]:
            if address in others:
                yield Fault(
                    script.path, word.spot,
                    f"this is the address of {others[address]}, and rank 0 is on {host.name}", address,
                    host.address, "name the host that has node_rank 0",
                )  # fmt: skip


def planned_ports(script: Script, cluster: Cluster) -> Iterator[Fault]:
    """The master's port, against the inventory's plan."""
    master = next((port for port, name in cluster.port_names.items() if name == "master"), None)
    for text, word in list(dict.fromkeys(ports(script))):
        if not (text.isascii() and text.isdigit()) or int(text[:9]) == master:
            continue
        port, expected = int(text[:9]), str(master or "a port of the inventory")
        if port not in cluster.ports:
            yield Fault(
                script.path, word.spot, f"port {port} is none of the inventory's: neither reserved nor let through",
                text, expected, f"take {expected}, or add it to [ports] and run preflight configure",
            )  # fmt: skip
        elif cluster.purpose(port) not in FOR_MASTERS:
            yield Fault(
                script.path, word.spot, f"port {port} is {cluster.purpose(port)}'s in the inventory", text, expected,
                "take another port",
            )  # fmt: skip


def device_counts(script: Script, hosts: Sequence[Host]) -> Iterator[Fault]:
    host = host_of(script, hosts) or _by_address(script, hosts)
    counts = [len(it.devices) for it in ([host] if host else hosts)]
    for start in script.starts:
        everywhere = start.family in ("mpi", "srun", "deepspeed")  # else the script may be that of the largest host
        least = (min if everywhere else max)(counts, default=0)
        names = ("nproc-per-node", "npernode", "local-worker-num", "num-gpus")
        each, word = start.number(*names), start.value(*names)
        if each and word and least and each > least:
            yield Fault(
                script.path, word.spot, f"{each} processes on a host with {least} devices: one process a device",
                str(each), f"at most {least}", "start as many processes as there are devices",
            )  # fmt: skip
        for name in ("DEVICE_ID", "LOCAL_RANK"):
            number = script.setting(name, start)
            if number and least and (digits(number[0]) or 0) >= least:
                what = f"{name} {number[0]} on a host with {least} devices: they count from 0"
                yield Fault(
                    script.path, number[1].spot, what, number[0], f"less than {least}",
                    "start as many processes as there are devices",
                )  # fmt: skip
