"""What one look says about a host's firewalls, tool by tool, and about the connections that came in from other hosts.

Several can be active at once: ufw writes iptables rules, firewalld and docker put chains beside those of nftables. A
packet has to pass all of them.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class NftChain:
    """A base chain with hook input. `rules` are all its rules as `nft` prints them, `ours` those whose comment is
    `preflight`, in order."""

    family: str
    table: str
    name: str
    policy: str  # accept | drop
    rules: tuple[str, ...]
    ours: tuple[str, ...]


@dataclass(frozen=True)
class IptablesChain:
    """The chain INPUT of the table `filter` as one iptables program keeps it, live or in a file for the next boot.
    `rules` as `iptables -S` prints them, without `-A INPUT`; `ours` those whose comment is `preflight`."""

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
    """A zone of firewalld as it is at run time; `ours` are the rich rules that carry our priority."""

    name: str
    target: str  # default | ACCEPT | %%REJECT%% | DROP
    interfaces: tuple[str, ...]
    sources: tuple[str, ...]  # networks, MAC addresses, ipset:NAME
    ports: tuple[str, ...]  # "60000-60031/tcp": its own, and those of its services that the site defined itself
    rich_rules: tuple[str, ...]
    ours: tuple[str, ...]


@dataclass(frozen=True)
class ZoneFile:
    """The XML of a zone: what stands in /etc/firewalld/zones, and what firewalld brought along."""

    own: str | None = None
    builtin: str | None = None


@dataclass(frozen=True)
class Firewalld:
    """A firewalld that runs."""

    version: tuple[int, ...]  # (1, 3, 3); empty: not known
    default_zone: str
    zones: tuple[Zone, ...]  # those in use, the default one, and those where rules of ours are
    files: dict[str, ZoneFile]  # by the zone's name


@dataclass(frozen=True)
class Login:
    """The ssh connection over which this look was taken, as the host sees it."""

    client: str  # the address it comes from
    port: int  # of sshd


@dataclass(frozen=True)
class Firewall:
    """State of the host's firewalls. `nft_chains` include those that ufw, firewalld and iptables-nft made."""

    nft_present: bool
    nft_chains: tuple[NftChain, ...]
    nft_boot_file: str | None  # text of /etc/nftables.conf
    nft_preflight_file: str | None  # text of our own /etc/preflight/nftables.nft
    ufw_installed: bool
    ufw_enabled: bool
    ufw_rules: tuple[str, ...]  # "allow tcp 29500,60000:60031 from 10.1.0.0/16", one per tuple of user.rules
    ufw_ours: tuple[str, ...]  # those with the comment `preflight`
    ufw_policy: str = "drop"  # what it does by default to what comes in: accept | drop
    ufw_ipv6: bool = True  # whether it looks after IPv6 at all
    firewalld: Firewalld | None = None  # None: does not run
    iptables: tuple[IptablesChain, ...] = ()  # where iptables has made the chain
    iptables_unread: tuple[str, ...] = ()  # programs that are missing, though the kernel holds rules made by them
    iptables_saved: tuple[SavedRules, ...] = ()
    translating: tuple[str, ...] = ()  # chains that translate addresses or that containers need: "ip nat DOCKER"
    unjudged: tuple[str, ...] = ()  # chains that may drop before hook input: "netdev guard early (hook ingress)"
    at_boot: tuple[str, ...] = ()  # services that load a firewall and that systemd starts
    login: Login | None = None  # None: not over ssh, or not to be seen


@dataclass(frozen=True)
class Arrival:
    """A TCP connection that another host tried to this one.

    `outcome`: connected; refused (nothing listens, but the packet came through); timeout (no answer at all); rejected
    (a firewall or router answered, `by` is its address where it said so); in-use (not tried, a job is at work on that
    port); error (could not be tried, see `error`).
    """

    source: str  # the inventory's name of the host that tried
    outcome: str
    port: int | None = None
    client: str | None = None  # the address it came from
    address: str | None = None  # the address it went to
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
    """What other hosts tried; empty where none did."""

    tries: tuple[Arrival, ...] = field(default=())
