"""Firewalls of lab hosts. All are real, and deliberately unprovisioned: only ssh and ping get in."""

from dataclasses import dataclass, field

NFTABLES_CONF = """\
#!/usr/sbin/nft -f

flush ruleset

table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
		iif "lo" accept
		meta l4proto { icmp, ipv6-icmp } accept
		tcp dport 22 accept
	}
	chain forward {
		type filter hook forward priority filter; policy accept;
	}
	chain output {
		type filter hook output priority filter; policy accept;
	}
}
"""

# As on servers with iptables-services: everything is accepted by default, and the last rule rejects.
IPTABLES_RULES = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p {icmp} -j ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -p tcp -m conntrack --ctstate NEW -m tcp --dport 22 -j ACCEPT
-A INPUT -j REJECT --reject-with {prohibited}
COMMIT
"""

# firewalld is reached over the system's D-Bus. Without systemd, both are started here.
START_FIREWALLD = """\
mkdir -p /run/dbus
dbus-daemon --system --fork --nopidfile
firewalld --nopid
tries=0
until [ "$(firewall-cmd --state 2> /dev/null)" = running ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { echo "firewalld did not start"; exit 1; }
    sleep 0.1
done
"""


@dataclass(frozen=True)
class HostFirewall:
    """The firewall of a lab host.

    `programs`: program → the Debian package with it. `files`: path below /etc → text. Directories in `fresh` hide those
    of the machine. `first_boot` and `every_boot` are shell commands.
    """

    programs: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    fresh: tuple[str, ...] = ()
    first_boot: str = ""
    every_boot: str = ""


FIREWALLS = {
    "nftables": HostFirewall(
        programs={"nft": "nftables"},
        files={"nftables.conf": NFTABLES_CONF},
        first_boot="nft -f /etc/nftables.conf\n",
    ),
    "ufw": HostFirewall(programs={"ufw": "ufw"}, first_boot="ufw allow 22/tcp\nufw --force enable\n"),
    "firewalld": HostFirewall(
        programs={"firewalld": "firewalld", "dbus-daemon": "dbus"},
        files={"firewalld/firewalld.conf": "DefaultZone=public\nFirewallBackend=nftables\n"},
        fresh=("firewalld", "firewalld/zones"),
        every_boot=START_FIREWALLD,
    ),
    "iptables": HostFirewall(
        programs={"iptables": "iptables"},
        files={
            "iptables/rules.v4": IPTABLES_RULES.format(icmp="icmp", prohibited="icmp-host-prohibited"),
            "iptables/rules.v6": IPTABLES_RULES.format(icmp="ipv6-icmp", prohibited="icmp6-adm-prohibited"),
        },
        fresh=("iptables",),
        first_boot="iptables-restore < /etc/iptables/rules.v4\nip6tables-restore < /etc/iptables/rules.v6\n",
    ),
    "none": HostFirewall(),
}
