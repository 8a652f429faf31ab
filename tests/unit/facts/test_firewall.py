"""What the collector brings home about a host's firewalls, and about connections between hosts, made into facts."""

from pathlib import Path

import pytest

from preflight.facts import connections as arrivals
from preflight.facts.connections import Tried
from preflight.facts.sections.firewall import Arrival, Arrivals, Firewall, IptablesChain, Login, ZoneFile
from preflight.facts.types import Missing
from preflight.model.cluster import Cluster, Host, Product
from preflight.model.ports import PortSet
from tests.unit.facts.test_facts import facts_of, framed, said, sections

CASES = Path(__file__).parents[2] / "cases" / "parsers"


def test_a_host_without_any_firewall_tool_has_an_open_firewall() -> None:
    document = sections()
    document["firewall"]["value"]["nft"] = None
    firewall = facts_of(framed(document)).firewall
    assert isinstance(firewall, Firewall)
    assert (firewall.nft_present, firewall.nft_chains, firewall.iptables) == (False, (), ())


def test_nft_without_permission_leaves_the_firewall_unknown() -> None:
    document = sections()
    document["firewall"]["value"]["nft"] = said("", "Operation not permitted (you must be root)\n", 1)
    assert facts_of(framed(document)).firewall == Missing(
        "nft list ruleset ended with 1: 'Operation not permitted (you must be root)'"
    )


def test_iptables_that_could_not_be_listed_leaves_the_firewall_unknown() -> None:
    document = sections()
    document["firewall"]["value"]["iptables"] = {"iptables-legacy": said("", "iptables: Permission denied\n", 4)}
    firewall = facts_of(framed(document)).firewall
    assert firewall == Missing("iptables-legacy -S INPUT ended with 4: 'iptables: Permission denied'")


def test_a_table_that_nft_itself_was_used_on_is_not_that_of_iptables() -> None:
    document = sections()
    words = "iptables v1.8.9 (nf_tables): table `filter' is incompatible, use 'nft' tool.\n"
    document["firewall"]["value"]["iptables"] = {"iptables-nft": said("", words, 1)}
    firewall = facts_of(framed(document)).firewall
    assert isinstance(firewall, Firewall)
    assert (firewall.iptables, firewall.iptables_unread) == ((), ())


def test_tables_of_a_program_that_is_not_there_are_told() -> None:
    document = sections()
    document["firewall"]["value"]["iptables"] = {"iptables-legacy": None}
    firewall = facts_of(framed(document)).firewall
    assert isinstance(firewall, Firewall)
    assert firewall.iptables_unread == ("iptables-legacy",)


def test_address_translation_is_told_by_whom_it_is_done() -> None:
    document = sections()
    ruleset = """\
table ip nat {
	chain POSTROUTING {
		type nat hook postrouting priority srcnat; policy accept;
		oifname != "docker0" ip saddr 172.17.0.0/16 counter packets 0 bytes 0 masquerade
	}
	chain DOCKER {
	}
}
table inet site {
	chain nd {
		icmpv6 type { nd-neighbor-solicit, nd-redirect } accept
		ct status dnat accept
	}
}
"""
    nat = said("-P POSTROUTING ACCEPT\n-N KUBE-SERVICES\n-A POSTROUTING -o eth1 -j MASQUERADE\n")
    forbidden = said("", "iptables: Permission denied\n", 4)
    document["firewall"]["value"].update(nft=said(ruleset), nat={"iptables-legacy": nat, "ip6tables-legacy": forbidden})
    firewall = facts_of(framed(document)).firewall
    assert isinstance(firewall, Firewall)
    assert firewall.translating == (
        "ip nat POSTROUTING", "ip nat DOCKER", "iptables-legacy nat KUBE-SERVICES", "iptables-legacy nat POSTROUTING",
        "ip6tables-legacy nat",
    )  # fmt: skip


def test_of_firewalld_only_the_zones_in_use_are_kept_and_the_sites_services_are_looked_up() -> None:
    zones = (CASES / "firewalld.zones" / "of-a-server.txt").read_text(encoding="utf-8")
    document = sections()
    document["firewall"]["value"]["firewalld"] = {
        "zones": said(zones),
        "config": "# x\nDefaultZone=public\n",
        "module": "VERSION = '1.3.3'\n",
        "zone_files": {
            "/usr/lib/firewalld/zones/public.xml": "<zone/>",
            "/usr/lib/firewalld/zones/drop.xml": "<zone/>",
        },
        "services": {"/etc/firewalld/services/trainer.xml": '<service><port protocol="tcp" port="7000"/></service>'},
    }
    firewall = facts_of(framed(document)).firewall
    assert isinstance(firewall, Firewall)
    assert firewall.firewalld is not None
    assert firewall.firewalld.version == (1, 3, 3)
    assert [zone.name for zone in firewall.firewalld.zones] == ["public", "trusted"]
    assert firewall.firewalld.zones[0].ports == ("9100/tcp", "6000-6010/udp", "22/tcp", "7000/tcp")
    assert firewall.firewalld.files == {"public": ZoneFile(None, "<zone/>"), "trusted": ZoneFile(None, None)}
    assert firewall.translating == ("zone trusted",)


def test_without_nft_the_rules_of_iptables_nft_are_its_own_listing() -> None:
    document = sections()
    document["firewall"]["value"].update(nft=None, iptables={"iptables-nft": said("-P INPUT DROP\n")})
    firewall = facts_of(framed(document)).firewall
    assert isinstance(firewall, Firewall)
    assert firewall.iptables == (IptablesChain("iptables-nft", "drop", (), ()),)


@pytest.mark.parametrize(
    ("text", "login"),
    [
        ("10.0.0.9 51000 10.1.0.1 22", Login("10.0.0.9", 22)),
        ("fe80::1%eth0 51000 fe80::2%eth0 2222", Login("fe80::1", 2222)),
        ("", None),
        ("nonsense", None),
        ("10.0.0.9 51000 10.1.0.1 99999", None),
    ],
)
def test_the_login_is_read_from_what_sshd_says_of_it(text: str, login: Login | None) -> None:
    document = sections()
    document["firewall"]["value"]["ssh_connection"] = text
    firewall = facts_of(framed(document)).firewall
    assert isinstance(firewall, Firewall)
    assert firewall.login == login


# Connections between hosts.


def cluster(count: int, *cidrs: str, address: str = "10.1.0.{}") -> Cluster:
    from ipaddress import IPv4Network

    hosts = tuple(Host(f"n{number}", address.format(number)) for number in range(1, count + 1))
    return Cluster("c", Product.CPU, hosts, cidrs=tuple(map(IPv4Network, cidrs)))


def test_few_hosts_try_each_other_and_many_the_next_one_in_the_ring() -> None:
    few, many = cluster(3), cluster(5)
    assert arrivals.targets(few, few.hosts, "n2") == [("n3", "10.1.0.3"), ("n1", "10.1.0.1")]
    assert arrivals.targets(many, many.hosts, "n5") == [("n1", "10.1.0.1")]
    assert arrivals.targets(many, many.hosts[:1], "n1") == []


def test_where_the_inventorys_address_is_not_in_the_clusters_networks_the_name_is_tried() -> None:
    outside, named = cluster(2, "10.2.0.0/16"), cluster(2, address="alias-of-{}")
    assert arrivals.targets(outside, outside.hosts, "n1") == [("n2", "n2")]
    assert arrivals.targets(named, named.hosts, "n1") == [("n2", "n2")]


def test_of_many_ranges_a_few_ports_are_tried_the_first_and_the_last_among_them() -> None:
    assert arrivals.ports(PortSet.parse("29500,60000-60031")) == [29500, 60000, 60031]
    many = arrivals.ports(PortSet.parse(",".join(str(port) for port in range(1000, 2000, 10))))
    assert (len(many), many[0], many[-1]) == (8, 1000, 1990)


@pytest.mark.parametrize(
    ("tried", "arrival"),
    [
        (Tried("n2", "10.1.0.2", 80, 0, "10.1.0.1"), Arrival("n1", "connected", 80, "10.1.0.1", "10.1.0.2")),
        (Tried("n2", "10.1.0.2", 80, 111, "10.1.0.1"), Arrival("n1", "refused", 80, "10.1.0.1", "10.1.0.2")),
        (Tried("n2", "10.1.0.2", 80, 110, "10.1.0.1"), Arrival("n1", "timeout", 80, "10.1.0.1", "10.1.0.2")),
        # "Connection refused" by ICMP is the word of a firewall, not of the port.
        (Tried("n2", "10.1.0.2", 80, 111, "10.1.0.1", "10.1.0.2"),
         Arrival("n1", "rejected", 80, "10.1.0.1", "10.1.0.2", "10.1.0.2", "Connection refused")),
        (Tried("n2", "10.1.0.2", 80, 113, "10.1.0.1", "10.9.9.9"),
         Arrival("n1", "rejected", 80, "10.1.0.1", "10.1.0.2", "10.9.9.9", "No route to host")),
        (Tried("n2", "10.1.0.2", 80, busy=True), Arrival("n1", "in-use", 80, None, "10.1.0.2")),
        (Tried("n2", error="n2 does not resolve on that host"),
         Arrival("n1", "error", error="n2 does not resolve on that host")),
        (Tried("n2", "\x1b[2J", 80, 0, "nobody"), Arrival("n1", "connected", 80)),
        (Tried("n2", "10.1.0.2", 80), Arrival("n1", "error", 80, None, "10.1.0.2", error="its state is unknown")),
    ],
)  # fmt: skip
def test_a_connection_is_told_by_the_host_it_went_to(tried: Tried, arrival: Arrival) -> None:
    assert arrivals.arrivals({"n1": [tried]}, {"n1": ["n2"]}) == {"n2": Arrivals((arrival,))}


def test_a_host_that_could_not_try_and_one_that_speaks_of_others_than_it_was_asked_about() -> None:
    tried: dict[str, list[Tried] | Missing] = {"n1": Missing("no time"), "n2": [Tried("n9", "10.1.0.9", 80, 0)]}
    assert arrivals.arrivals(tried, {"n1": ["n2"], "n2": ["n1"]}) == {
        "n2": Arrivals((Arrival("n1", "error", error="no time"),))
    }


EARLY = """\
table netdev guard {
	chain early {
		type filter hook ingress device "eth0" priority filter; policy accept;
		tcp dport 29500 drop
	}
}
table inet site {
	chain blocked {
		ip saddr @bad counter packets 0 bytes 0 reject with tcp reset
	}
	chain pre {
		type filter hook prerouting priority raw; policy accept;
		jump blocked
	}
	chain shut {
		type filter hook prerouting priority -310; policy drop;
	}
	chain input {
		type filter hook input priority filter; policy drop;
	}
	chain counted {
		type filter hook prerouting priority mangle; policy accept;
		log prefix "no drop " counter packets 0 bytes 0 comment "drop"
	}
}
table ip nat {
	chain DOCKER {
		return
	}
	chain PREROUTING {
		type nat hook prerouting priority dstnat; policy accept;
		fib daddr type local counter packets 0 bytes 0 jump DOCKER
	}
}
"""


def test_chains_that_drop_before_hook_input_are_named() -> None:
    document = sections()
    document["firewall"]["value"]["nft"] = said(EARLY)
    firewall = facts_of(framed(document)).firewall
    assert isinstance(firewall, Firewall)
    assert [chain.name for chain in firewall.nft_chains] == ["input"]
    assert firewall.unjudged == (
        "netdev guard early (hook ingress)", "inet site pre (hook prerouting)", "inet site shut (hook prerouting)",
    )  # fmt: skip
