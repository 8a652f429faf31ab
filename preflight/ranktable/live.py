"""A rank table compared with its live hosts: which host each server is, and what differs. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from preflight.facts.sections.chips import Chips
from preflight.facts.sections.job import Job, SeenFile
from preflight.facts.types import ClusterFacts, Hccn, HostFacts, Missing, Network, Unreachable
from preflight.model.cluster import Host
from preflight.ranktable.job import addresses_of_job, host_ips_of_job
from preflight.ranktable.rules import ip
from preflight.ranktable.types import HostDifference, RankedDevice, RankTable, Server, format_rank

_VARIABLE = "RANK_TABLE_FILE"
_RULES = {"device_id": "device", "device_ip": "device-ip", "super_device_id": "sdid"}

_Finding = HostDifference | str  # a sentence names something that could not be checked
_FactsOfHosts = Mapping[str, HostFacts | Unreachable | None]


@dataclass(frozen=True)
class TableComparison:
    """Differences, and a sentence for everything that could not be checked."""

    differences: tuple[HostDifference, ...]
    unseen: tuple[str, ...] = ()


def host_names(host: Host, network: Network | None) -> Iterator[str]:
    """Yield the names that a rank table may use for this host, the likeliest first."""
    yield from (host.address, host.name)
    for interface in network.interfaces if network else ():
        yield from (text.partition("/")[0] for text in interface.addresses if not text.startswith(("127.", "::1/")))


def network_of(facts: HostFacts | Unreachable | None) -> Network | None:
    return facts.network if isinstance(facts, HostFacts) and isinstance(facts.network, Network) else None


def own_server(table: RankTable, host: Host, network: Network | None) -> Server | None:
    """Return the table's server that is this host."""
    return next((table.by_name[name] for name in host_names(host, network) if name in table.by_name), None)


def other_addresses(server: Server, hccn: Hccn) -> Iterator[tuple[RankedDevice, str]]:
    """Yield ranks of a server with another address than their device has, and the device's address."""
    addresses = {device.index: device.address.value for device in hccn.devices}
    for device in server.devices:
        address = addresses.get(device.device_id)
        if device.device_ip and address and not _same(device.device_ip, address):
            yield device, address


def _same(a: str, b: str) -> bool:
    return a == b or (ip(a) is not None and ip(a) == ip(b))


def compare(
    table: RankTable, hosts: Sequence[Host], facts: ClusterFacts, *, limited: bool = False, digest: str = ""
) -> TableComparison:
    """Compare the table with these hosts.

    `limited`: the inventory has more hosts, which other servers may be. `digest`: the sha256 of the table's bytes, with
    which the hosts' copies are compared, too.
    """
    host_facts = {host.name: facts.hosts.get(host.name) for host in hosts}
    servers = {host.name: own_server(table, host, network_of(host_facts[host.name])) for host in hosts}
    findings = [] if limited else list(_servers_without_host(table, servers, host_facts))
    for host in hosts:
        findings += _host_findings(table, host, servers[host.name], host_facts[host.name])
    findings += _super_pods(table, servers, host_facts)
    findings += _copies(digest, host_facts) if digest else ()
    return TableComparison(
        tuple(finding for finding in findings if isinstance(finding, HostDifference)),
        tuple(finding for finding in findings if isinstance(finding, str)),
    )


def _servers_without_host(
    table: RankTable, servers: Mapping[str, Server | None], host_facts: _FactsOfHosts
) -> Iterator[_Finding]:
    """Yield servers that are no host. A host without known addresses may be any of them."""
    paths = {server.path for server in servers.values() if server}
    unknown = next((name for name, facts in host_facts.items() if network_of(facts) is None), "")
    for server in table.servers:
        if server.path in paths:
            continue
        name = f"server {server.id} ({_ranks(server)})"
        if unknown:
            yield f"{name} may be {unknown}. The addresses of {unknown} are unknown"
        else:
            text = f"{name} is not a host in the inventory"
            yield HostDifference("server", text, (*server.path, "server_id"), server=server.id)


def _host_findings(
    table: RankTable, host: Host, server: Server | None, facts: HostFacts | Unreachable | None
) -> Iterator[_Finding]:
    if not isinstance(facts, HostFacts):
        yield f"{host.name}: {facts.summary.removeprefix(f'{host.name}: ') if facts else 'no facts were collected'}"
    elif server is None:
        text = f"{host.name} ({host.address}) is not in the table. No server has an address of this host"
        yield HostDifference("server", text, ("server_list",), host=host.name)
    else:
        comparison = _ServerComparison(host, server, facts)
        yield from comparison.devices()
        yield from comparison.addresses()
        yield from comparison.super_device_ids(table)
        yield from comparison.job_requirements(table)


def _super_pods(
    table: RankTable, servers: Mapping[str, Server | None], host_facts: _FactsOfHosts
) -> Iterator[HostDifference]:
    """Yield servers of one super-pod of the table that npu-smi has in several. The table is free to name super-pods."""
    pod_of = {server: pod for pod in table.super_pods for server in pod.servers}
    first: dict[str, tuple[str, int]] = {}
    for host, server in servers.items():
        pod = pod_of.get(server.id) if server else None
        live = _live_pod(host_facts[host])
        if server is None or pod is None or live is None:
            continue
        example, usual = first.setdefault(pod.id, (host, live))
        if live != usual:
            text = (
                f"server {server.id}: the table puts {host} and {example} into super-pod {pod.id}, but {host} is in "
                f"super-pod {live} and {example} in super-pod {usual}"
            )
            yield HostDifference(
                "super-pod", text, pod.path, host=host, server=server.id, listed=pod.id, live=str(live)
            )


def _live_pod(facts: HostFacts | Unreachable | None) -> int | None:
    chips = facts.chips.chips if isinstance(facts, HostFacts) and isinstance(facts.chips, Chips) else ()
    return next((chip.superpod.value.pod for chip in chips if chip.superpod.value), None)


def _copies(digest: str, host_facts: _FactsOfHosts) -> Iterator[_Finding]:
    """Compare the tables that the hosts' jobs read, since HCCL compares their checksums between ranks.

    If no host has this table, it may not have been copied yet. Then the differences are warnings.
    """
    jobs = {host: facts.job for host, facts in host_facts.items() if isinstance(facts, HostFacts)}
    for host, job in jobs.items():
        if isinstance(job, Missing):
            yield f"{host}: the jobs' rank table is unknown ({job.error})"
    files = dict(_table_files(jobs))
    digests = {host: file.digest if file else "" for host, (_, file) in files.items()}
    nowhere = digest not in digests.values()
    for host, (path, file) in files.items():
        if digests[host] != digest:
            text = f"{host}: {_VARIABLE}={path} {_copy(file)}" + (". No host has this table" if nowhere else "")
            live = digests[host]
            yield HostDifference("copy", text, (), host=host, listed=digest, live=live, warning=nowhere)


def _table_files(jobs: Mapping[str, Job | Missing | None]) -> Iterator[tuple[str, tuple[str, SeenFile | None]]]:
    """Yield each host with the path of its jobs' table, and the file."""
    for host, job in jobs.items():
        if isinstance(job, Job) and (path := job.variables.get(_VARIABLE)):
            yield host, (path, job.files.get(path))


def _copy(file: SeenFile | None) -> str:
    if file and file.digest:
        return f"is a different table (sha256 {file.digest[:12]}…)"
    return f"cannot be read ({_state(file)})"


def _state(file: SeenFile | None) -> str:
    return "not checked" if file is None else file.error or file.kind


def _ranks(server: Server) -> str:
    ranks = sorted(device.rank for device in server.devices)
    return f"ranks {ranks[0]}-{ranks[-1]}" if len(ranks) > 1 else f"rank {ranks[0]}" if ranks else "no rank"


@dataclass(frozen=True)
class _ServerComparison:
    """A host with facts, and its server."""

    host: Host
    server: Server
    facts: HostFacts

    def devices(self) -> Iterator[HostDifference]:
        """Yield devices that only the host or only the table has."""
        devices = self.facts.hccn.devices if isinstance(self.facts.hccn, Hccn) else self.host.devices
        live = {device.index for device in devices}
        listed = {device.device_id: device for device in self.server.devices}
        for number in sorted(live - set(listed)):
            text = f"{self.host.name}: device {number} has no rank in the table (server {self.server.id})"
            path = (*self.server.path, "device")
            yield self._place(HostDifference("device", text, path, device=number, warning=True))
        for number in sorted(set(listed) - live):
            yield self._difference(listed[number], "device_id", "", f"{self.host.name} has no device {number}")

    def addresses(self) -> Iterator[_Finding]:
        hccn = self.facts.hccn
        if not isinstance(hccn, Hccn):
            yield f"{self.host.name}: device addresses are unknown ({_why(hccn)})"
            return
        for device, address in other_addresses(self.server, hccn):
            yield self._other_value(device, "device_ip", address)
        readings = {device.index: device.address for device in hccn.devices}
        for device in self.server.devices:
            reading = readings.get(device.device_id)
            if reading and reading.error:
                yield f"{self.host.name}: device {device.device_id}: address unknown ({reading.error})"
            elif reading and device.device_ip and not reading.value:
                yield self._other_value(device, "device_ip", "")

    def super_device_ids(self, table: RankTable) -> Iterator[_Finding]:
        """Yield super device ids of version 1.2 that are not those of npu-smi."""
        if table.version != "1.2":
            return
        if not isinstance(self.facts.chips, Chips):
            yield f"{self.host.name}: super device ids are unknown ({_why(self.facts.chips)})"
            return
        readings = {chip.device: chip.superpod for chip in self.facts.chips.chips}
        for device in self.server.devices:
            reading = readings.get(device.device_id)
            if reading is None or reading.value is None:
                why = (reading and reading.error) or "not reported"
                yield f"{self.host.name}: device {device.device_id}: super device id unknown ({why})"
            elif device.super_device_id != str(reading.value.sdid):
                yield self._other_value(device, "super_device_id", str(reading.value.sdid))

    def job_requirements(self, table: RankTable) -> Iterator[HostDifference]:
        """Yield requirements that variables of this host's jobs add, and that its server does not meet."""
        variables = self.facts.job.variables if isinstance(self.facts.job, Job) else {}
        for rule in (host_ips_of_job, addresses_of_job):
            for problem in rule(table, (self.server,), variables, f"jobs on {self.host.name}"):
                yield self._place(HostDifference(**vars(problem)))

    def _other_value(self, device: RankedDevice, key: str, live: str) -> HostDifference:
        listed = getattr(device, key) or "none"
        return self._difference(
            device, key, live, f"the table has {key} {listed}, but {self.host.name} has {live or 'none'}"
        )

    def _difference(self, device: RankedDevice, key: str, live: str, text: str) -> HostDifference:
        return self._place(
            HostDifference(
                _RULES[key],
                f"{format_rank(self.server, device)}: {text}",
                (*device.path, key),
                rank=device.rank,
                device=device.device_id,
                listed=str(getattr(device, key)),
                live=live,
            )
        )

    def _place(self, difference: HostDifference) -> HostDifference:
        return replace(difference, host=self.host.name, server=self.server.id)


def _why(section: object) -> str:
    return section.error if isinstance(section, Missing) else "not checked"
