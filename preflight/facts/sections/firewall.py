"""A host's firewalls, tool by tool, and connections from other hosts to it.

Several firewalls can be active at once: ufw writes iptables rules, and firewalld and docker add chains to those of
nftables. A packet has to pass all of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class NftChain:
    """A base chain with hook input. `rules`: all rules as `nft` prints them, in order.

    `ours`: the rules with preflight's form and the comment `preflight`, in order.
    """

    family: str
    table: str
    name: str
    policy: str  # accept | drop
    rules: tuple[str, ...]
    ours: tuple[str, ...]


@dataclass(frozen=True)
class IptablesChain:
    """The chain INPUT of the table `filter` of one iptables program, live or in a file for the next boot.

    `rules`: as `iptables -S` prints them, without `-A INPUT`. `ours`: those with preflight's form and the comment
    `preflight`.
    """

    program: str  # iptables-nft | ip6tables-nft | iptables-legacy | ip6tables-legacy
    policy: str  # accept | drop
    rules: tuple[str, ...]
    ours: tuple[str, ...]


@dataclass(frozen=True)
class SavedRules:
    """A file that a service loads into iptables at boot."""

    path: str
    text: str


@dataclass(frozen=True)
class Zone:
    """A zone of firewalld at run time. `ours`: the rich rules with preflight's priority."""

    name: str
    target: str  # default | ACCEPT | %%REJECT%% | DROP
    interfaces: tuple[str, ...]
    sources: tuple[str, ...]  # networks, MAC addresses, ipset:NAME
    ports: tuple[str, ...]  # "60000-60031/tcp": the zone's own, and those of its services that the site defined
    rich_rules: tuple[str, ...]
    ours: tuple[str, ...]


@dataclass(frozen=True)
class ZoneFile:
    """The XML of a zone. `own`: the file in /etc/firewalld/zones. `builtin`: the file of firewalld's package."""

    own: str | None = None
    builtin: str | None = None


@dataclass(frozen=True)
class Firewalld:
    """A running firewalld."""

    version: tuple[int, ...]  # (1, 3, 3); empty: not known
    default_zone: str
    zones: tuple[Zone, ...]  # those in use, the default one, and those with rules of preflight
    files: dict[str, ZoneFile]  # by the zone's name


@dataclass(frozen=True)
class Login:
    """The ssh connection of this collection, as the host sees it."""

    client: str  # the address that it comes from
    port: int  # of sshd


@dataclass(frozen=True)
class Firewall:
    """State of the host's firewalls. `nft_chains` includes the chains that ufw, firewalld and iptables-nft made."""

    nft_present: bool
    nft_chains: tuple[NftChain, ...]
    nft_boot_file: str | None  # text of /etc/nftables.conf
    nft_preflight_file: str | None  # text of preflight's own /etc/preflight/nftables.nft
    ufw_installed: bool
    ufw_enabled: bool
    ufw_rules: tuple[str, ...]  # "allow tcp 29500,60000:60031 from 10.1.0.0/16", one per tuple of user.rules
    ufw_ours: tuple[str, ...]  # those with the comment `preflight`
    ufw_policy: str = "drop"  # default for incoming packets: accept | drop
    ufw_ipv6: bool = True  # ufw covers IPv6
    firewalld: Firewalld | None = None  # None: it does not run
    iptables: tuple[IptablesChain, ...] = ()  # chains that iptables has made
    iptables_unread: tuple[str, ...] = ()  # programs that are missing, though the kernel has rules made by them
    iptables_saved: tuple[SavedRules, ...] = ()
    translating: tuple[str, ...] = ()  # chains that translate addresses or that containers need: "ip nat DOCKER"
    unjudged: tuple[str, ...] = ()  # chains that may drop before hook input: "netdev guard early (hook ingress)"
    at_boot: tuple[str, ...] = ()  # services that load a firewall and that systemd starts
    login: Login | None = None  # None: not over ssh, or not visible


@dataclass(frozen=True)
class Arrival:
    """A TCP connection that another host tried to this one.

    `outcome` is one of:
      - connected.
      - refused (nothing listens, but the packet passed).
      - timeout (no answer).
      - rejected (a firewall or router answered; `by` is its address, if known).
      - in-use (not tried, as a job uses that port).
      - error (could not be tried, see `error`).
    """

    source: str  # the inventory's name of the host that tried
    outcome: str
    port: int | None = None
    client: str | None = None  # the address that it came from
    address: str | None = None  # the address that it went to
    by: str | None = None
    error: str = ""

    @property
    def came_through(self) -> bool:
        return self.outcome in ("connected", "refused")

    @property
    def died(self) -> bool:
        return self.outcome in ("timeout", "rejected")


@dataclass(frozen=True)
class Arrivals:
    """The connections that other hosts tried; empty if none did."""

    tries: tuple[Arrival, ...] = ()
