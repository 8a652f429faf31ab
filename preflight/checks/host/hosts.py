"""Hosts as such: reachable, clocks, the host NIC, names, limits."""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from preflight.checks.engine.obstacles import no_answer
from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.facts.quote import quote
from preflight.facts.types import Clock, HostFacts, Limits, Missing, Names, Network, Os, Unreachable
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.nics.inventory_nic import named_by, routable

CLOCK_WARN, CLOCK_FAIL = 0.5, 5.0  # seconds between two hosts
OPEN_FILES = 65535
_NAMED = 20  # names that one host's finding lists; without a name server every host misses all others
# What container engines and hypervisors make; HCCL and NCCL take these last or never.
_VIRTUAL = ("lo", "docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "tunl", "kube-", "cilium", "lxc")


@host_check("HST101", "The host is reachable")
def reachable(here: Here, contact: HostFacts | Unreachable) -> Iterator[Finding]:
    """Why: nothing else can be looked at, and a job that includes this host waits for its connect timeout.

    By hand: ssh -o BatchMode=yes HOST python3 --version

    Mend: what the finding says: each way of failing (name, refused, timeout, host key, authentication, python3) has its
    own remedy. Where python3 gives no answer, make it run programs and print nothing by itself.
    """
    if isinstance(contact, HostFacts):
        yield from _python_answers(here, contact)
    if isinstance(contact, Unreachable):
        address = here.host.address
        # Without its own address a dead rack reads as one line; the address is in the remedy, and in `found`.
        summary = contact.summary if address == here.host.name else contact.summary.replace(address, "its address")
        yield here.bad(summary, found=address, remedy=contact.remedy, evidence=(contact.trouble,))


def _python_answers(here: Here, facts: HostFacts) -> Iterator[Finding]:
    name, os = here.host.name, facts.os
    if isinstance(os, Missing) and no_answer(os.error):
        yield here.unknown(f"{name}: could not look: {os.error}")
    elif isinstance(os, Os) and os.printed:
        line = quote(os.printed)
        yield here.warn(
            f"{name}: the login shell or python3 prints {line} before the answer",
            expected="no output",
            found=line,
            remedy="keep the shell's start files and Python's sitecustomize silent: "
            f"ssh {here.host.address} python3 -I -c pass",
        )


@cluster_check("HST102", "The hosts' clocks agree")
def clocks_agree(all_: All, clock: Mapping[str, Clock]) -> Iterator[Finding]:
    """Why: logs of a failed job are put in order by time, and certificates, tokens and shared file systems refuse
    clocks that are far apart. Half a second between hosts is a warning, five seconds a failure.

    By hand: chronyc tracking; date +%s.%N on both hosts

    Mend: the same time source on every host: chronyc makestep, or systemctl enable --now chrony
    """
    from statistics import median  # its import costs more than listing all checks

    middle = median(seen.offset for seen in clock.values())
    reference = min(clock, key=lambda name: (abs(clock[name].offset - middle), abs(clock[name].offset), name))
    for name, seen in clock.items():
        ahead = seen.offset - clock[reference].offset
        doubt = 0.0 if name == reference else seen.uncertainty + clock[reference].uncertainty
        certain = abs(ahead) - doubt
        word = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} {reference} (±{doubt:.1f} s)"
        remedy = "synchronise the host: chronyc makestep"
        if certain > CLOCK_FAIL:
            yield all_.bad(f"{name}: the clock is {word}", host=name, peer=reference, remedy=remedy)
        elif certain > CLOCK_WARN:
            yield all_.warn(f"{name}: the clock is {word}", host=name, peer=reference, remedy=remedy)
        elif doubt > CLOCK_FAIL:
            yield all_.unknown(f"{name}: the clock could not be compared: the answer took too long", host=name)


@host_check("HST103", "The host NIC is up and has exactly one routable IPv4 address")
def one_address(here: Here, network: Network) -> Iterator[Finding]:
    """Why: ranks tell each other one host address. With several to choose from, libraries take the lexically first
    interface, which may be one that the other hosts cannot reach; the job then hangs until its connect timeout.

    By hand: ip -4 -brief address show

    Mend: name the NIC under [network] in the inventory (nic = "eth0", or the CIDR it is in), and in the job
    (HCCL_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME).
    """
    name, nic = here.host.name, here.host.nic
    if nic is None:
        usable = [i for i in network.interfaces if i.up and not i.name.startswith(_VIRTUAL) and routable(i)]
        found = ", ".join(f"{i.name} {a.ip}" for i in usable for a in routable(i))
        if not usable:
            yield here.bad(f"{name}: no interface that is up has a routable IPv4 address", remedy="ip -4 address show")
        elif sum(len(routable(interface)) for interface in usable) > 1:
            yield here.warn(
                f"{name}: several interfaces could be the host NIC: {found}", found=found, expected="one address",
                remedy='name it under [network] in the inventory: nic = "NAME" or nic = "CIDR"',
            )  # fmt: skip
        return
    interfaces = named_by(nic, network)
    if len(interfaces) != 1:
        found = ", ".join(interface.name for interface in interfaces or network.interfaces)
        count = "no interface" if not interfaces else "more than one interface"
        yield here.bad(f"{name}: {count} is the inventory's nic {nic}; there are {found}", expected=nic, found=found)
        return
    interface, addresses = interfaces[0], routable(interfaces[0])
    if not interface.up:
        yield here.bad(f"{name}: host NIC {interface.name} is down", remedy=f"ip link set {interface.name} up")
    elif len(addresses) != 1:
        found = ", ".join(str(address) for address in addresses) or "none"
        yield here.bad(f"{name}: host NIC {interface.name} has {len(addresses)} routable IPv4 addresses", found=found)


@host_check("HST104", "The host name does not resolve to loopback")
def own_name(here: Here, names: Names) -> Iterator[Finding]:
    """Why: gloo, torchrun and MPI give the address of their own host name to the other hosts. Debian's installer
    writes 127.0.1.1 for it, and then every rank on another host connects to itself. Only a warning where the
    inventory names the host NIC, since the job's environment then says the interface.

    By hand: getent ahosts "$(hostname)"; grep "$(hostname)" /etc/hosts

    Mend: in /etc/hosts, give the host name the host NIC's address instead of 127.x
    """
    name = here.host.name
    report = here.warn if here.host.nic else here.bad
    loopback = [address for address in names.hostname if ip_address(address.partition("%")[0]).is_loopback]
    remedy = f"in /etc/hosts on {name}, put {here.host.address} in front of the host name"
    if loopback:
        yield report(
            f"{name}: its own name resolves to {', '.join(loopback)}", found=", ".join(loopback), remedy=remedy
        )
    elif not names.hostname:
        yield report(f"{name}: its own name does not resolve", remedy=remedy)


@host_check("HST105", "The cluster's host names resolve to the inventory's addresses", severity=Outcome.WARN)
def cluster_names(here: Here, names: Names) -> Iterator[Finding]:
    """Why: MASTER_ADDR, host files and rank tables are often written with names. A stale line in one host's
    /etc/hosts sends its ranks to another machine.

    By hand: getent ahostsv4 NAME, on every host

    Mend: the same lines in /etc/hosts everywhere, or names in DNS
    """
    found, own = names.cluster, here.host.name
    planned = here.cluster.ipv4_hosts
    others = [name for name, address in planned.items() if address not in found.get(name, ()) and name != own]
    wrong = [
        f"{name} is {', '.join(found.get(name, ())) or 'not known'} (inventory: {planned[name]})"
        for name in others[:_NAMED]
    ]
    if len(others) > _NAMED:
        wrong.append(f"and {len(others) - _NAMED} more")
    if others:
        yield here.bad(
            f"{here.host.name}: {len(others)} of the cluster's names do not resolve as in the inventory: {wrong[0]}",
            evidence=tuple(wrong), remedy="use addresses in the job, or correct /etc/hosts or DNS",
        )  # fmt: skip


@host_check("HST106", f"A process may open {OPEN_FILES} files", severity=Outcome.WARN)
def open_files(here: Here, limits: Limits) -> Iterator[Finding]:
    """Why: a rank holds a socket for every peer and channel, and data loaders hold files; the first rank of a large
    job runs out first, with "Too many open files" in the middle of the connection phase.

    By hand: ulimit -Sn; ulimit -Hn   (in the way the job starts: through sshd, the scheduler or the container)

    Mend: in /etc/security/limits.d/90-training.conf: * soft nofile 65535 and * hard nofile 65535, then log in again
    """
    if 0 <= limits.nofile_soft < OPEN_FILES:
        yield here.bad(
            f"{here.host.name}: a process may open only {limits.nofile_soft} files",
            expected=f"{OPEN_FILES} or more", found=f"soft {limits.nofile_soft}, hard {limits.nofile_hard}",
            remedy=f"ulimit -n {OPEN_FILES} in the job's script, or a line in /etc/security/limits.d",
        )  # fmt: skip


@host_check("HST107", "sudo makes preflight root where the inventory says so")
def root_by_sudo(here: Here, os: Os) -> Iterator[Finding]:
    """Why: firewall rules, the devices' settings and other people's processes are shown to root only. Where sudo
    refuses, the host is looked at as the login user: checks that need more say unknown, and nothing can be changed.

    By hand: ssh HOST sudo -n id -u   (0, and no question)

    Mend: what the finding says; with -K (--ask-sudo-password) preflight asks for sudo's password once. Without any
    rights on the host, sudo = false under [ssh] says so.
    """
    if os.refused:
        yield here.bad(
            f"{os.refused.summary}; it was looked at without root", expected="root", found=os.user,
            remedy=os.refused.remedy,
        )  # fmt: skip


@cluster_check("HST108", "Every host is a machine of its own")
def own_machine(all_: All, os: Mapping[str, Os]) -> Iterator[Finding]:
    """Why: a machine that stands in the inventory under two names is provisioned twice, at the same time, and a job
    that counts on both has half of the devices that it thinks it has. Machines that were copied from one image share
    their machine id: preflight tells them apart by name, but DHCP and journald do not.

    By hand: cat /etc/machine-id; hostname   (on both hosts)

    Mend: take one of the names out of the inventory; on copies: rm /etc/machine-id && systemd-machine-id-setup
    """
    first: dict[str, str] = {}  # machine id → the host that has it
    for name, seen in os.items():
        if not seen.machine_id:
            yield all_.unknown(f"{name}: has no machine id", host=name, remedy="systemd-machine-id-setup")
            continue
        other = first.setdefault(seen.machine_id, name)
        if other != name and os[other].hostname == seen.hostname:
            yield all_.bad(
                f"{name}: is the same machine as {other}: host name {seen.hostname}, machine id {seen.machine_id}",
                host=name, peer=other, remedy="take one of the two names out of the inventory",
            )  # fmt: skip
        elif other != name:
            yield all_.warn(
                f"{name}: has the machine id of {other}, as copies of one image do", host=name, peer=other,
                remedy="rm /etc/machine-id && systemd-machine-id-setup, then reboot",
            )  # fmt: skip
