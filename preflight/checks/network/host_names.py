"""Names of hosts as libraries read them: numbers, full names, names of addresses, the rendezvous endpoint."""

import shlex
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.shared.majority import odd_ones
from preflight.facts.sections.naming import Naming
from preflight.facts.types import Names, Network, Os
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.ip import is_address
from preflight.model.outcome import Outcome
from preflight.model.text import quote

# NCCL and gloo take the addresses that they find. HCCL has a setting for the family.
_NO_NPU = frozenset({Product.NVIDIA, Product.CPU})
SLOW = 1.0  # seconds for the name of an address
_NO_NAMES = ("", "localhost", "localhost.localdomain")


@host_check("HST124", "Host name format", blocks=False)
def no_number(scribe: Here, os: Os) -> Iterator[Finding]:
    """Why: Name resolution takes a name that is a number for an IPv4 address. For example, 6841231 becomes
    0.104.99.143, 05 becomes 0.0.0.5, and 0x1f becomes 0.0.0.31. Other hosts cannot reach a host by such a name. The
    error is "The client socket has failed to connect to [::ffff:0.104.99.143]".

    Result: FAIL if a host has such a name. WARN if only the inventory uses such a name.

    Check manually:
      hostname
      getent ahostsv4 "$(hostname)"

    Fix: Give the host a name that is neither a decimal nor a hexadecimal number, such as node-6841231.
      hostnamectl set-hostname node-6841231
    """
    host = scribe.host
    if (address := _as_number(os.hostname)) is not None:
        yield scribe.bad(
            f"{host.name}: the host name {os.hostname} is parsed as the IPv4 address {address}",
            expected="a host name with a letter",
            found=address,
            remedy="rename the host, and use the new name in the inventory",
            commands=(scribe.on(host.name, f"hostnamectl set-hostname {shlex.quote(f'node-{os.hostname}')}"),),
        )
    if host.name != os.hostname and (address := _as_number(host.name)) is not None:
        yield scribe.warn(
            f"{host.name}: the name in the inventory is parsed as the IPv4 address {address}",
            expected="a host name with a letter",
            found=address,
            remedy=f"if jobs use host names, change the name in the inventory to {quote(os.hostname)}",
        )


def _as_number(name: str) -> str | None:
    """Return the address that getaddrinfo(3) makes of a name that inet_aton(3) takes; None for a name, and for an
    address."""
    try:
        packed = socket.inet_aton(name)
    except (OSError, ValueError):
        return None
    address = socket.inet_ntoa(packed)
    return None if address == name or " " in name else address


@host_check("HST125", "Resolution of localhost", blocks=False)
def localhost(scribe: Here, naming: Naming) -> Iterator[Finding]:
    """Why: Processes on the same host connect to each other through localhost. In images without /etc/hosts, that name
    may not resolve. The error is "The IPv6 network addresses of (localhost, …) cannot be retrieved".

    Result: FAIL if localhost is not a loopback address or does not resolve.

    Check manually:
      getent ahosts localhost

    Fix: Write these lines to /etc/hosts.
      127.0.0.1 localhost
      ::1 localhost
    """
    if naming.localhost is None:
        yield scribe.unknown(f"{scribe.host.name}: localhost did not resolve within {naming.seconds:g} s")
        return
    foreign = [text for text in naming.localhost if not _is_loopback(text)]
    if foreign or not naming.localhost:
        yield scribe.bad(
            f"{scribe.host.name}: localhost "
            + (f"resolves to {', '.join(foreign)}" if foreign else "does not resolve"),
            expected="127.0.0.1",
            found=", ".join(naming.localhost),
            remedy="set the address of localhost to 127.0.0.1 in /etc/hosts"
            if foreign
            else "add the line 127.0.0.1 localhost to /etc/hosts",
            retest=scribe.on(scribe.host.name, "getent ahosts localhost"),
        )


def _is_loopback(text: str) -> bool:
    try:
        return ip_address(text.partition("%")[0]).is_loopback
    except ValueError:
        return False


@host_check("HST126", "Reverse name lookup time", severity=Outcome.WARN)
def reverse(scribe: Here, naming: Naming) -> Iterator[Finding]:
    """Why: PyTorch's store looks up the name of every client that connects, and sshd looks up the name of every client
    that logs in. If the name server does not answer, each lookup takes seconds. The error is "The hostname of the
    client socket cannot be retrieved. err=-3". In a large job, the lookups together exceed the store's timeout.

    Result: WARN if a lookup takes 1 s or more.

    Check manually: Replace ADDRESS with the address in the finding.
      time getent hosts ADDRESS
      cat /etc/resolv.conf

    Fix: Add the hosts to /etc/hosts, or use name servers that answer. To limit the wait, add this line to
    /etc/resolv.conf.
      options timeout:1 attempts:1
    """
    for address, seconds in naming.reverse.items():
        if seconds is None or seconds >= SLOW:
            took = f"more than {naming.seconds:g} s" if seconds is None else f"{seconds:.1f} s"
            yield scribe.bad(
                f"{scribe.host.name}: reverse name lookup of {address} takes {took}",
                expected=f"less than {SLOW:g} s",
                found=took,
                cause="a name server in /etc/resolv.conf does not answer",
                remedy="add the hosts to /etc/hosts (hosts_file = true under [host_setup]), or replace the name server",
                retest=scribe.on(scribe.host.name, f"time getent hosts {shlex.quote(address)}"),
            )
            return


@cluster_check("HST127", "Rendezvous endpoint", blocks=False, optional=("names",))
def endpoint(scribe: All, naming: Mapping[str, Naming], names: Mapping[str, Names | None]) -> Iterator[Finding]:
    """Why: Each torchrun process decides whether --rdzv-endpoint is its own host. If so, it serves the store. If the
    endpoint is an alias or the address of another NIC, possibly no host serves the store, and all hosts wait. The error
    is "RendezvousConnectionError: The connection to the C10d store has failed". If two hosts serve a store, there are
    two jobs instead of one.

    Result: The check uses the name and the address in the inventory's first host as the endpoint. If launcher =
    "torchrun" is set under [job], FAIL if that host recognizes neither as its own, or if another host recognizes one.
    WARN for other mismatches.

    Check manually: Run these on every host. Replace ENDPOINT with the host of torchrun's --rdzv-endpoint.
      U=torch.distributed.elastic.rendezvous.utils
      python3 -c "import $U as u; print(u._matches_machine_hostname('ENDPOINT'))"

    Fix: On the first host, put its address in front of its name in /etc/hosts. Or use torchrun's --rdzv-conf is_host=1
    on the first host and is_host=0 on all other hosts.
    """
    first = scribe.cluster.hosts[0]
    endpoints = tuple(dict.fromkeys((first.name, first.address)))
    served = [name for name in endpoints if first.name in naming and naming[first.name].endpoints.get(name)]
    for name in endpoints:
        answers = {host: naming_of_host.endpoints.get(name) for host, naming_of_host in naming.items()}
        yield from _wrong_owners(scribe, name, answers, names)
        if answers.get(first.name) is False:
            yield _no_store(scribe, name, next(iter(served), ""))


def _no_store(scribe: All, name: str, served: str) -> Finding:
    """Return the finding about a first host that does not recognise `name`. `served`: the name that it recognises."""
    first = scribe.cluster.hosts[0]
    strict = scribe.cluster.job.launcher == "torchrun"
    return (scribe.bad if strict and not served else scribe.warn)(
        f"{first.name}: torchrun does not recognise {name} as this host, so it starts no rendezvous store",
        host=first.name,
        remedy=f"use {served} in torchrun's --rdzv-endpoint"
        if served
        else f"map the host name to {first.address} in /etc/hosts on {first.name}",
        commands=() if served else (scribe.on(first.name, f"getent ahosts {shlex.quote(first.name)}"),),
    )


def _wrong_owners(
    scribe: All, name: str, answers: Mapping[str, bool | None], names: Mapping[str, Names | None]
) -> Iterator[Finding]:
    """Yield the other hosts that accept the first host's name or address as theirs, or may do so."""
    first = scribe.cluster.hosts[0].name
    report = scribe.bad if scribe.cluster.job.launcher == "torchrun" else scribe.warn
    for host, answer in answers.items():
        if answer is None:
            yield scribe.unknown(
                f"{host}: the test whether torchrun recognises {name} as this host timed out", host=host
            )
        elif answer and host != first:
            clause = "" if name == first else f", although {name} is {first}"
            yield report(
                f"{host}: torchrun mistakes {name} for the local host{clause}",
                host=host,
                peer=first,
                expected=f"{first} resolves to {scribe.cluster.hosts[0].address}, "
                f"{host} to {scribe.cluster.by_name[host].address}",
                found=_resolution(names.get(host), first, host),
                remedy=f"correct the lines of both hosts in /etc/hosts on {host}: "
                f"{_hosts_line(scribe, first)} and {_hosts_line(scribe, host)}",
                commands=tuple(scribe.on(host, f"getent ahosts {shlex.quote(peer)}") for peer in (first, host)),
            )


def _resolution(names: Names | None, first: str, host: str) -> str:
    """Return the addresses of both hosts' names as `host` resolves them; empty where they are not known."""
    if names is None or first not in names.cluster:
        return ""
    addresses, own_addresses = (", ".join(values) or "no address" for values in (names.cluster[first], names.hostname))
    return f"{first} resolves to {addresses}, {host} to {own_addresses}"


def _hosts_line(scribe: All, name: str) -> str:
    """Return the line of /etc/hosts, quoted, or its description where the inventory has no address."""
    address = scribe.cluster.by_name[name].address
    return f"'{address} {name}'" if is_address(address) else f"the address of {name}"


@cluster_check("HST128", "Full host name resolution", severity=Outcome.WARN)
def full_names(scribe: All, naming: Mapping[str, Naming]) -> Iterator[Finding]:
    """Why: torchrun and other launchers send the full name (hostname -f) of rank 0's host to the other hosts as
    MASTER_ADDR. If the other hosts cannot resolve the full name, the job hangs after the rendezvous, although every
    short name works.

    Result: WARN if a full name does not resolve, is empty or is localhost. Every host resolves the full names of its
    neighbours in the inventory and of the first host.

    Check manually:
      hostname -f
    On the other hosts, replace NAME with that output:
      getent hosts NAME

    Fix: Add the full names to /etc/hosts or DNS, or use torchrun --local-addr with the host's address.
    """
    strangers: dict[str, list[str]] = defaultdict(list)  # full name → the hosts that cannot resolve it
    for name, naming_of_host in naming.items():
        for peer, addresses in naming_of_host.full_name.peers.items() if naming_of_host.full_name else ():
            if not addresses:
                strangers[peer].append(name)
    for name, naming_of_host in naming.items():
        if naming_of_host.full_name is None:
            yield scribe.unknown(
                f"{name}: the lookup of the full host name took longer than {naming_of_host.seconds:g} s", host=name
            )
            continue
        own = naming_of_host.full_name.name
        if own.lower() in _NO_NAMES:
            yield scribe.bad(
                f"{name}: the full host name is {own or 'empty'}, so every other host would connect to itself",
                host=name,
                found=own,
                remedy=f"list {name} and its full name after the host's address in /etc/hosts, not after 127.x",
                retest=scribe.on(name, "hostname -f"),
            )
        elif own in strangers:
            yield scribe.bad(
                f"{name}: the full host name {own} does not resolve on {', '.join(strangers[own][:3])}",
                host=name,
                peer=strangers[own][0],
                found=own,
                remedy="add the full names to /etc/hosts or DNS, or pass --local-addr to torchrun",
                retest=scribe.on(strangers[own][0], f"getent hosts {shlex.quote(own)}"),
            )


@cluster_check("HST129", "IPv6 availability", severity=Outcome.WARN, products=_NO_NPU)
def families(scribe: All, network: Mapping[str, Network]) -> Iterator[Finding]:
    """Why: NCCL may choose an IPv4 or an IPv6 address, and another host may not have that address family. The error is
    "Socket creation failed : Address family not supported by protocol".

    Result: WARN if some hosts have IPv6 and other hosts do not.

    Check manually:
      cat /proc/sys/net/ipv6/conf/all/disable_ipv6
      ip -6 address show

    Fix: Turn IPv6 on or off on all hosts. Or set the address family in the jobs' environment.
      export NCCL_SOCKET_FAMILY=AF_INET
    """
    has = {
        name: any(":" in address for nic in network_of_host.interfaces if nic.up for address in nic.addresses)
        for name, network_of_host in network.items()
    }
    for odd in odd_ones(has):
        yield scribe.bad(
            f"{odd.host}: has {'an' if odd.value else 'no'} IPv6 address, unlike {odd.elsewhere}",
            host=odd.host,
            peer=odd.others[0],
            found="IPv6" if odd.value else "no IPv6",
            remedy="set NCCL_SOCKET_FAMILY=AF_INET in the jobs' environment, or turn IPv6 on (or off) on all hosts",
        )
