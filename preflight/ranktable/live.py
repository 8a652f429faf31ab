"""A rank table beside what its hosts show: which host a server is, and what of it is otherwise. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.facts.chips import Chips
from preflight.facts.job import Job, SeenFile
from preflight.facts.types import ClusterFacts, Hccn, HostFacts, Missing, Network, Unreachable
from preflight.model.cluster import Host
from preflight.ranktable.job import addresses_of_job, host_ips_of_job
from preflight.ranktable.rules import ip
from preflight.ranktable.types import Difference, Path, RankedDevice, RankTable, Server, called

_VARIABLE = "RANK_TABLE_FILE"


@dataclass(frozen=True)
class Comparison:
    """`unseen`: a sentence for each thing that could not be looked at."""

    differences: tuple[Difference, ...]
    unseen: tuple[str, ...] = ()


def host_names(host: Host, network: Network | None) -> Iterator[str]:
    """What a rank table may call this host; the likeliest first."""
    yield from (host.address, host.name)
    for interface in network.interfaces if network else ():
        yield from (one.partition("/")[0] for one in interface.addresses if not one.startswith(("127.", "::1/")))


def own_server(table: RankTable, host: Host, network: Network | None) -> Server | None:
    """The table's server that is this host."""
    return next((table.by_name[name] for name in host_names(host, network) if name in table.by_name), None)


def other_addresses(server: Server, hccn: Hccn) -> Iterator[tuple[RankedDevice, str]]:
    """Ranks of a server with another address than their device has, and which it has."""
    has = {device.index: device.address.value for device in hccn.devices}
    for device in server.devices:
        address = has.get(device.device_id)
        if device.device_ip and address and not _same(device.device_ip, address):
            yield device, address


def _same(one: str, other: str) -> bool:
    return one == other or (ip(one) is not None and ip(one) == ip(other))


def compare(
    table: RankTable, hosts: Sequence[Host], facts: ClusterFacts, *, limited: bool = False, digest: str = ""
) -> Comparison:
    """The table and these hosts. `limited`: they are not all of the inventory, so that other servers may be others;
    `digest`: the sha256 of the table's bytes, where the hosts' copies are compared, too."""
    seen = {host.name: facts.hosts.get(host.name) for host in hosts}
    networks = {name: network_of(found) for name, found in seen.items()}
    servers = {host.name: own_server(table, host, networks[host.name]) for host in hosts}
    known = {server.path for server in servers.values() if server}
    differences: list[Difference] = []
    unseen: list[str] = []
    nameless = next((host.name for host in hosts if networks[host.name] is None), "")  # its addresses are not known
    for server in table.servers:
        if server.path in known or limited:
            continue
        if nameless:
            unseen.append(
                f"server {server.id} ({_ranks(server)}): whether it is {nameless}, of which no address is seen"
            )
        else:
            text = f"server {server.id} ({_ranks(server)}) is no host of the inventory"
            differences.append(Difference("server", text, (*server.path, "server_id"), server=server.id))
    for host in hosts:
        own, found = servers[host.name], seen[host.name]
        if found is None or isinstance(found, Unreachable):
            why = found.summary.removeprefix(f"{host.name}: ") if found else "it has no facts"
            unseen.append(f"{host.name}: {why}")
        elif own is None:
            text = f"{host.name} ({host.address}) is not in the table: no server has one of its addresses"
            differences.append(Difference("server", text, ("server_list",), host=host.name))
        else:
            of_host = _Host(host, own, found)
            differences += [*of_host.devices(), *of_host.addresses(unseen), *of_host.sdids(table, unseen)]
            differences += of_host.wanted(table)
    differences += _super_pods(table, servers, seen)
    differences += _copies(digest, seen, unseen) if digest else ()
    return Comparison(tuple(differences), tuple(unseen))


def _super_pods(
    table: RankTable, servers: Mapping[str, Server | None], seen: Mapping[str, HostFacts | Unreachable | None]
) -> Iterator[Difference]:
    """Servers that the table has in one super-pod, and npu-smi in several. What the table calls a super-pod is free."""
    home = {server: pod for pod in table.super_pods for server in pod.servers}
    first: dict[str, tuple[str, int]] = {}
    for host, server in servers.items():
        found = seen[host]
        pod = home.get(server.id) if server else None
        if server is None or pod is None or not isinstance(found, HostFacts) or not isinstance(found.chips, Chips):
            continue
        live = next((chip.superpod.value.pod for chip in found.chips.chips if chip.superpod.value), None)
        other, usual = first.setdefault(pod.id, (host, live)) if live is not None else ("", None)
        if live != usual:
            text = (
                f"server {server.id}: the table has it in super-pod {pod.id} with {other}, but {host} is in super-pod "
                f"{live}, and {other} in {usual}"
            )
            yield Difference("super-pod", text, pod.path, host=host, server=server.id, listed=pod.id, live=str(live))


def _copies(digest: str, seen: Mapping[str, HostFacts | Unreachable | None], unseen: list[str]) -> Iterator[Difference]:
    """The tables that the hosts' jobs would read: HCCL compares a checksum of them between ranks. Where no host has
    this one, it may be that it is yet to be brought there."""
    jobs = {host: found.job for host, found in seen.items() if isinstance(found, HostFacts)}
    unseen += [
        f"{host}: the rank table of its jobs: {job.error}" for host, job in jobs.items() if isinstance(job, Missing)
    ]
    told = {host: job for host, job in jobs.items() if isinstance(job, Job) and job.variables.get(_VARIABLE)}
    files = {host: job.files.get(job.variables[_VARIABLE]) for host, job in told.items()}
    has = {host: file.digest if file else "" for host, file in files.items()}
    nowhere = digest not in has.values()
    for host, other in has.items():
        if other != digest:
            path, file = told[host].variables[_VARIABLE], files[host]
            what = f"another table (sha256 {other[:12]}…)" if other else f"no table that can be read ({_state(file)})"
            text = f"{host}: {_VARIABLE}={path} is {what}" + ("; no host has this one" if nowhere else "")
            yield Difference("copy", text, (), host=host, listed=digest, live=other, warning=nowhere)


def _state(file: SeenFile | None) -> str:
    return "it was not looked at" if file is None else file.error or file.kind


def _ranks(server: Server) -> str:
    ranks = sorted(device.rank for device in server.devices)
    return f"ranks {ranks[0]}-{ranks[-1]}" if len(ranks) > 1 else f"rank {ranks[0]}" if ranks else "no rank"


def network_of(found: HostFacts | Unreachable | None) -> Network | None:
    """Its addresses, where they were seen."""
    return found.network if isinstance(found, HostFacts) and isinstance(found.network, Network) else None


@dataclass(frozen=True)
class _Host:
    """A host that was seen, and its server."""

    host: Host
    server: Server
    facts: HostFacts

    def devices(self) -> Iterator[Difference]:
        """Devices that only one of both has."""
        has = {device.index for device in self.host.devices}
        if isinstance(self.facts.hccn, Hccn):
            has = {device.index for device in self.facts.hccn.devices}
        listed = {device.device_id: device for device in self.server.devices}
        for number in sorted(has - set(listed)):
            text = f"{self.host.name}: device {number} has no rank (server {self.server.id})"
            yield self._difference(text, (*self.server.path, "device"), number, "", "", warning=True)
        for number in sorted(set(listed) - has):
            text = f"{called(self.server, listed[number])}: {self.host.name} has no device {number}"
            yield self._of(listed[number], text, "device_id", str(number), "")

    def addresses(self, unseen: list[str]) -> Iterator[Difference]:
        hccn = self.facts.hccn
        if not isinstance(hccn, Hccn):
            unseen.append(f"{self.host.name}: device addresses: {_why(hccn)}")
            return
        for device, has in other_addresses(self.server, hccn):
            yield self._other_address(device, has)
        readings = {device.index: device.address for device in hccn.devices}
        for device in self.server.devices:
            reading = readings.get(device.device_id)
            if reading and reading.error:
                unseen.append(f"{self.host.name}: device {device.device_id}: its address: {reading.error}")
            elif reading and device.device_ip and not reading.value:
                yield self._other_address(device, "")

    def wanted(self, table: RankTable) -> Iterator[Difference]:
        """What the variables of this host's jobs want of its server."""
        variables = self.facts.job.variables if isinstance(self.facts.job, Job) else {}
        for rule in (host_ips_of_job, addresses_of_job):
            for it in rule(table, (self.server,), variables, f"jobs on {self.host.name}"):
                yield self._difference(it.text, it.path or (), None, "", "", rank=it.rank, rule=it.rule)

    def sdids(self, table: RankTable, unseen: list[str]) -> Iterator[Difference]:
        """Of version 1.2: the super device ids, as far as npu-smi tells them."""
        if table.version != "1.2":
            return
        if not isinstance(self.facts.chips, Chips):
            unseen.append(f"{self.host.name}: super device ids: {_why(self.facts.chips)}")
            return
        told = {chip.device: chip.superpod for chip in self.facts.chips.chips}
        for device in self.server.devices:
            found = told.get(device.device_id)
            if found is None or found.value is None:
                why = found.error if found else ""
                unseen.append(f"{self.host.name}: device {device.device_id}: its super device id: {why or 'not told'}")
            elif device.super_device_id != str(found.value.sdid):
                live = str(found.value.sdid)
                text = (
                    f"{called(self.server, device)}: the table has super_device_id {device.super_device_id or 'none'}, "
                    f"{self.host.name} has {live}"
                )
                yield self._of(device, text, "super_device_id", device.super_device_id, live)

    def _other_address(self, device: RankedDevice, has: str) -> Difference:
        listed = f"the table has device_ip {device.device_ip}"
        text = f"{called(self.server, device)}: {listed}, {self.host.name} has {has or 'none'}"
        return self._of(device, text, "device_ip", device.device_ip, has)

    def _of(self, device: RankedDevice, text: str, key: str, listed: str, live: str) -> Difference:
        path = (*device.path, key)
        return self._difference(text, path, device.device_id, listed, live, rank=device.rank, rule=_RULES[key])

    def _difference(
        self, text: str, path: Path, device: int | None, listed: str, live: str, *, rank: int | None = None,
        rule: str = "device", warning: bool = False,
    ) -> Difference:  # fmt: skip
        return Difference(
            rule, text, path, rank=rank, warning=warning, host=self.host.name, server=self.server.id, device=device,
            listed=listed, live=live,
        )  # fmt: skip


_RULES = {"device_id": "device", "device_ip": "device-ip", "super_device_id": "sdid"}


def _why(section: object) -> str:
    return section.error if isinstance(section, Missing) else "not looked at"
