"""Firewall rules: what each tool's language is read to mean, and our own rules in it."""

from ipaddress import IPv4Network, IPv6Network

import pytest

from preflight.facts.parsers.linux import firewalld as facts_firewalld
from preflight.facts.parsers.linux import nft as facts_nft
from preflight.facts.parsers.linux import ufw as facts_ufw
from preflight.facts.parsers.linux.iptables import chain as read_chain
from preflight.facts.sections.firewall import Arrival, IptablesChain, Zone
from preflight.facts.types import Missing
from preflight.model.ports import PortSet
from preflight.rules.firewall import blocked_connections
from preflight.rules.firewall.dialects import firewalld, iptables, nft, ufw
from preflight.rules.firewall.rules import EVERY_PORT, FirewallRule, judge
from tests.unit.apply_to_facts import zone_file

NET = IPv4Network("10.1.0.0/16")
SIX = IPv6Network("fd00:1::/64")
PORTS = PortSet.parse("29500,60000-60031")


def outcome(rule: FirewallRule, policy: str = "accept", network: IPv4Network | IPv6Network = NET) -> str:
    """The ports that are closed; "?" in front: in doubt, because the rule has conditions that cannot be judged."""
    seen = judge([rule], policy, network, PORTS)
    return str(seen.closed) if seen.closed else f"?{seen.doubtful}" if seen.doubtful else ""


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("tcp dport 60000-60031 drop", "60000-60031"),
        ("tcp dport { 22, 60000-60010 } reject with tcp reset", "60000-60010"),
        ("ip saddr 10.1.2.0/24 drop", "29500,60000-60031"),
        ("ip saddr 10.9.0.0/16 drop", ""),
        ("ip saddr != 10.9.0.0/16 drop", "?29500,60000-60031"),
        ("ct state invalid drop", ""),
        ("ct state { established, related } accept", ""),
        ("ct state vmap { invalid : drop, established : accept }", ""),
        ("ct state vmap { new : drop, established : accept }", "?29500,60000-60031"),
        ("tcp dport vmap { 22 : accept, 60000 : drop }", "?29500,60000-60031"),
        ("udp dport 60000 drop", ""),
        ("ip6 saddr ::1 drop", ""),
        ("meta nfproto ipv6 drop", ""),
        ("meta l4proto { icmp, ipv6-icmp } drop", ""),
        ("meta l4proto { tcp, udp } th dport 29500 counter packets 1 bytes 60 drop", "29500"),
        ('iif "lo" drop', ""),
        ('iifname != "lo" ct state new tcp dport 29500 drop', "29500"),
        ("counter log prefix \"seen \" drop", "29500,60000-60031"),
        ("counter", ""),
        ("tcp flags & (fin | syn) == fin | syn drop", "?29500,60000-60031"),
        ("fib saddr . iif oif missing drop", "?29500,60000-60031"),
        ("tcp dport @cluster drop", "?29500,60000-60031"),
        ("limit rate 5/second burst 5 packets accept", ""),
        ("} garbage { \"", ""),
    ],
)  # fmt: skip
def test_a_rule_closes_what_it_may_close_and_no_more(text: str, closed: str) -> None:
    assert outcome(nft.parse(text)) == closed


@pytest.mark.parametrize(
    ("text", "left_closed"),
    [
        ("ip saddr 10.0.0.0/8 accept", ""),
        ("ip saddr 10.1.2.0/24 accept", "29500,60000-60031"),
        ("tcp dport 29500 accept", "60000-60031"),
        ("meta nfproto ipv4 ip protocol tcp tcp dport 20000-65535 accept", ""),
        ("ip saddr 10.1.0.0/16 limit rate 5/second accept", "29500,60000-60031"),
        ('iifname "eth0" accept', "29500,60000-60031"),
        ("accept", ""),
    ],
)
def test_an_accept_opens_only_what_it_surely_opens(text: str, left_closed: str) -> None:
    assert outcome(nft.parse(text), "drop") == left_closed


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("ip6 saddr fd00::/16 drop", "29500,60000-60031"),
        ("ip6 saddr fd00:9::/64 drop", ""),
        ("ip saddr 10.1.0.0/16 drop", ""),
        ("meta nfproto ipv6 tcp dport 29500 drop", "29500"),
        ("meta nfproto ipv4 drop", ""),
        ("ip6 daddr fd00:1::7 drop", "?29500,60000-60031"),
        ("tcp dport 29500 drop", "29500"),
    ],
)
def test_a_rule_for_one_family_does_nothing_to_the_other(text: str, closed: str) -> None:
    assert outcome(nft.parse(text), network=SIX) == closed


def test_an_accept_that_cannot_be_judged_leaves_the_closed_ports_unsure() -> None:
    rules = [nft.parse(text) for text in ("tcp dport 29500 drop", "ip saddr @cluster tcp dport 60000-60031 accept")]
    seen = judge(rules, "drop", NET, PORTS)
    assert (str(seen.closed), str(seen.perhaps), seen.unsure) == ("29500,60000-60031", "60000-60031", False)
    assert judge(rules[1:], "drop", NET, PortSet.parse("60000-60031")).unsure


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("-p tcp -m tcp --dport 60000:60031 -j DROP", "60000-60031"),
        ("-p tcp -m multiport --dports 22,29500,60000:60010 -j REJECT --reject-with tcp-reset", "29500,60000-60010"),
        ("-s 10.1.2.0/24 -j DROP", "29500,60000-60031"),
        ("! -s 10.9.0.0/16 -j DROP", "?29500,60000-60031"),
        ("-m conntrack --ctstate INVALID -j DROP", ""),
        ("-m state --state RELATED,ESTABLISHED -j ACCEPT", ""),
        ("-p udp -m udp --dport 29500 -j DROP", ""),
        ("-i lo -j DROP", ""),
        ("! -i lo -p tcp -m tcp --dport 29500 -j DROP", "29500"),
        ("-i eth0 -p tcp -m tcp --dport 29500 -j DROP", "?29500"),
        ("-p tcp -m tcp --dport 29500 --tcp-flags FIN,SYN,RST,ACK SYN -j DROP", "29500"),
        ("-p tcp -m tcp --tcp-flags SYN,RST SYN,RST -j DROP", "?29500,60000-60031"),
        ('-m comment --comment "do not -j ACCEPT" -j DROP', "29500,60000-60031"),
        ('-j LOG --log-prefix "dropped: "', ""),
        ("-j KUBE-FIREWALL", "?29500,60000-60031"),
        ("-m set --match-set guests src -j DROP", "?29500,60000-60031"),
        ("-p tcp -m tcp --dport 29500 -m limit --limit 5/min -j DROP", "?29500"),
        ("-d 10.1.0.7/32 -j DROP", "?29500,60000-60031"),
        # Options without a word behind them.
        ("-p tcp -m recent --update --seconds 60 --name DEFAULT --mask 255.255.255.255 --rsource -j DROP",
         "?29500,60000-60031"),
        ("-p tcp -m tcp --dport 29500 -m connlimit --connlimit-above 5 --connlimit-mask 32 --connlimit-saddr -j REJECT "
         "--reject-with tcp-reset", "?29500"),
        ("-m physdev --physdev-is-bridged -j DROP", "?29500,60000-60031"),
        ("-m recent --rcheck --rsource ! -s 10.9.0.0/16 -j DROP", "?29500,60000-60031"),
        ("-m physdev ! --physdev-is-bridged -s 10.9.0.0/16 -j DROP", ""),
        ("-m addrtype --dst-type LOCAL --limit-iface-in -g GUARD", "?29500,60000-60031"),
        ("-j LOG --log-prefix \"-j \" --log-tcp-options --log-uid", ""),
        ("-j", ""),
        ("-p tcp --dport", ""),
    ],
)  # fmt: skip
def test_a_rule_of_iptables_closes_what_it_may_close_and_no_more(text: str, closed: str) -> None:
    assert outcome(iptables.parse(text)) == closed


@pytest.mark.parametrize(
    ("text", "left_closed"),
    [
        ("-s 10.0.0.0/8 -j ACCEPT", ""),
        ("-p tcp -m state --state NEW -m tcp --dport 29500 -j ACCEPT", "60000-60031"),
        ("-m set --match-set cluster src -j ACCEPT", "29500,60000-60031"),
        ("-p tcp -m tcp --dport 20000:65535 -j ACCEPT", ""),
    ],
)
def test_an_accept_of_iptables_opens_only_what_it_surely_opens(text: str, left_closed: str) -> None:
    assert outcome(iptables.parse(text), "drop") == left_closed


@pytest.mark.parametrize(
    ("text", "policy", "closed"),
    [
        ("deny tcp 29500 from 10.1.0.0/16", "accept", "29500"),
        ("deny_log tcp 29500 from 10.1.0.0/16", "accept", "29500"),
        ("deny_log-all any any from 0.0.0.0/0", "accept", "29500,60000-60031"),
        ("reject_log tcp 60000:60031 from 10.0.0.0/8", "accept", "60000-60031"),
        ("allow_log tcp 29500 from 10.1.0.0/16", "drop", "60000-60031"),
        ("allow_log-all any any from 10.1.0.0/16", "drop", ""),
        ("limit tcp 29500 from 0.0.0.0/0", "accept", "?29500"),
        ("limit_log tcp 29500 from 0.0.0.0/0", "accept", "?29500"),
        ("limit udp 29500 from 0.0.0.0/0", "accept", ""),
        ("limit tcp 29500 from 0.0.0.0/0", "drop", "29500,60000-60031"),
        ("deny tcp 29500 from 0.0.0.0/0 on eth0", "accept", "?29500"),
        ("route:deny tcp 29500 from 0.0.0.0/0", "accept", ""),
    ],
)
def test_a_rule_of_ufw_closes_what_it_may_close_and_no_more(text: str, policy: str, closed: str) -> None:
    assert outcome(ufw.parse(text), policy) == closed


LIKE_OURS = "tcp 29500,60000:60031 from 10.1.0.0/16"
WORDS = "tcp from 10.1.0.0/16 to any port 29500,60000:60031"


@pytest.mark.parametrize(
    ("others", "added", "deleted"),
    [
        ([], True, ""),
        ([f"allow {LIKE_OURS}"], False, ""),
        ([f"allow_log {LIKE_OURS}"], False, ""),
        (["allow tcp 60000:60031,29500 from 10.1.0.0/16"], False, ""),
        ([f"allow {LIKE_OURS} on eth0"], True, ""),
        (["allow tcp 29500 from 10.1.0.0/16"], True, ""),
        (["deny any any from 10.1.0.0/16"], True, ""),
        ([f"deny {LIKE_OURS}"], False, f"deny proto {WORDS}"),
        ([f"reject_log-all {LIKE_OURS}"], False, f"reject log-all proto {WORDS}"),
        ([f"limit {LIKE_OURS}"], False, f"limit proto {WORDS}"),
        # What is like ours lets nothing in behind a rule that denies.
        (["deny tcp 29500 from 0.0.0.0/0", f"allow {LIKE_OURS}"], False, f"allow proto {WORDS}"),
        ([f"allow {LIKE_OURS} on eth0", f"deny {LIKE_OURS}"], False, f"deny proto {WORDS}"),
        (["allow any any from 10.0.0.0/8", f"deny {LIKE_OURS}"], False, ""),
    ],
)
def test_ufw_takes_no_rule_beside_one_like_it(others: list[str], added: bool, deleted: str) -> None:
    needed = tuple(map(ufw.parse, ufw.ours(NET, PORTS)))
    commands = (f"ufw delete {deleted}",) if deleted else ()
    assert ufw.addable(needed, list(map(ufw.parse, others)), "drop") == (needed if added else (), commands)


def zone(*rich: str, ports: tuple[str, ...] = (), target: str = "default") -> Zone:
    return Zone("public", target, (), (), ports, rich, ())


@pytest.mark.parametrize(
    ("seen", "closed"),
    [
        (zone(), "29500,60000-60031"),
        (zone(target="ACCEPT"), ""),
        (zone(ports=("29500/tcp", "60000-60031/udp")), "60000-60031"),
        (zone('rule family="ipv4" source address="10.0.0.0/8" accept'), ""),
        (zone('rule family="ipv6" source address="fd00::/8" accept'), "29500,60000-60031"),
        (zone('rule family="ipv4" source NOT address="10.0.0.0/8" accept'), "29500,60000-60031"),
        (zone('rule family="ipv4" source NOT address="10.9.0.0/16" accept'), "29500,60000-60031"),
        (zone('rule family="ipv4" destination address="10.0.0.0/8" accept'), "29500,60000-60031"),
        (zone('rule family="ipv4" source address="10.1.0.0/16" destination address="10.9.0.7" drop',
              ports=("1-65535/tcp",)), "?29500,60000-60031"),
        (zone('rule family="ipv4" source address="10.9.0.0/16" destination address="10.1.0.7" drop',
              ports=("1-65535/tcp",)), ""),
        (zone('rule family="ipv4" source NOT address="10.9.0.0/16" drop', ports=("1-65535/tcp",)),
         "?29500,60000-60031"),
        (zone('rule family="ipv4" source address="10.9.0.0/16" invert="True" drop', ports=("1-65535/tcp",)),
         "?29500,60000-60031"),
        (zone('rule family="ipv4" source address="10.1.0.0/16" service name="ssh" accept'), "29500,60000-60031"),
        (zone('rule port port="29500" protocol="tcp" reject', ports=("1-65535/tcp",)), "29500"),
        # What closes goes before what opens, unless its priority says otherwise.
        (zone('rule priority="5" port port="29500" protocol="tcp" drop', ports=("1-65535/tcp",)), ""),
        (zone('rule port port="29500" protocol="tcp" drop',
              'rule priority="-9" family="ipv4" source address="10.1.0.0/16" accept'), ""),
    ],
)  # fmt: skip
def test_a_zone_closes_what_it_does_not_open(seen: Zone, closed: str) -> None:
    found = judge(firewalld.zone_rules(seen), firewalld.policy(seen), NET, PORTS)
    assert (str(found.closed) or (f"?{found.doubtful}" if found.doubtful else "")) == closed


# Our own rules.


def test_ufw_and_iptables_take_fifteen_ports_a_rule_and_a_range_counts_two() -> None:
    many = PortSet.of((port, port + (port % 2)) for port in range(1000, 1100, 5))
    for written, read in ((ufw.ours(NET, many), ufw.parse), (iptables.ours(NET, many), iptables.parse)):
        words = (word for text in written for word in text.split() if word[:1].isdigit() and "." not in word)
        assert max(sum(2 if ":" in item else 1 for item in word.split(",")) for word in words) <= 15
        assert not judge([read(text) for text in written], "drop", NET, many).closed


@pytest.mark.parametrize("network", [NET, SIX, IPv4Network("10.1.0.7/32"), IPv6Network("::/0")], ids=str)
def test_our_rules_are_read_as_what_they_are_meant_to_be(network: IPv4Network | IPv6Network) -> None:
    family = network.version
    for rules in (
        [nft.parse(nft.ours((network,), PORTS))],
        [iptables.parse(text, family) for text in iptables.ours(network, PORTS)],
        [ufw.parse(text) for text in ufw.ours(network, PORTS)],
        [firewalld.parse(text) for text in firewalld.ours(network, PORTS)],
    ):
        assert judge(rules, "drop", network, EVERY_PORT).closed == EVERY_PORT - PORTS
        assert not any(rule.partial for rule in rules)
        assert not [rule for rule in rules if rule.meets(SIX if family == 4 else NET)]


SAVED = """\
# kept
*nat
:INPUT ACCEPT [0:0]
-A INPUT -m comment --comment preflight -j ACCEPT
COMMIT
*filter
:INPUT DROP [1:40]
:FORWARD ACCEPT [0:0]
-A FORWARD -j ACCEPT
-A INPUT -i lo -j ACCEPT
COMMIT
"""


@pytest.mark.parametrize("text", [SAVED, SAVED.replace("-A INPUT", "[7:420] -A INPUT"),
                                  SAVED.replace("-A INPUT -i lo -j ACCEPT\n", "")])  # fmt: skip
def test_our_lines_in_a_saved_file_come_first_and_go_without_a_trace(text: str) -> None:
    ours = iptables.ours(NET, PORTS)
    edited = iptables.with_rules(text, ours)
    chain = read_chain(edited)
    assert isinstance(chain, IptablesChain)
    assert (chain.rules[:1], chain.ours) == (tuple(ours), tuple(ours))
    assert iptables.with_rules(edited, ours) == edited
    assert iptables.with_rules(edited, []) == text


ZONE = """\
<?xml version="1.0" encoding="utf-8"?>
<zone>
  <short>Public</short>
  <!-- <rule family="ipv4" priority="-29517"><source address="10.8.0.0/16"/><accept/></rule> -->
  <rule family="ipv4">
    <source address="10.9.0.0/16"/>
    <drop/>
  </rule>
  <service name="ssh"/>
</zone>
"""


@pytest.mark.parametrize("text", [ZONE, ZONE.replace("\n", ""), ZONE.replace("\n", "\r\n")])
def test_our_rules_in_a_zone_file_are_told_from_all_else_there(text: str) -> None:
    ours = [*firewalld.ours(NET, PORTS), *firewalld.ours(SIX, PORTS)]
    assert not firewalld.rules_in(text)
    assert list(firewalld.rules_in(zone_file(text, ours))) == ours


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("<accept/>", "<drop/>"),
        ("<accept/>", '<reject type="icmp-host-prohibited"/>'),
        ("<accept/>", '<log prefix="x"/><accept/>'),
        ("<accept/>", '<accept><limit value="1/m"/></accept>'),
        ('<source address="10.1.0.0/16"/>', ""),
        ('<source address="10.1.0.0/16"/>', '<source address="10.1.0.0/16" invert="yes"/>'),
        ('<source address="10.1.0.0/16"/>', '<source ipset="cluster"/>'),
        ('protocol="tcp"', 'protocol="udp"'),
        ("<port ", "<source-port "),
        (' family="ipv4"', ""),
    ],
)
def test_a_rule_of_our_priority_that_preflight_never_makes_is_the_sites(ours: str, theirs: str) -> None:
    xml = (
        '<zone><rule family="ipv4" priority="-29517"><source address="10.1.0.0/16"/><port port="29500" '
        'protocol="tcp"/><accept/></rule></zone>'
    )
    assert firewalld.rules_in(xml) == tuple(firewalld.ours(NET, PortSet.parse("29500")))
    assert ours in xml
    assert firewalld.rules_in(xml.replace(ours, theirs)) == ()


IPTABLES = iptables.ours(NET, PORTS)[0]
NFT = nft.ours((NET,), PORTS)
UFW = ufw.ours(NET, PORTS)[0]
RICH = firewalld.ours(NET, PORTS)[0]


@pytest.mark.parametrize("ours", [IPTABLES, IPTABLES.replace("preflight", '"preflight"')])
@pytest.mark.parametrize(
    ("word", "theirs"),
    [("ACCEPT", "DROP"), ("ACCEPT", "LOG"), ("-s 10.1.0.0/16 ", ""), ("-p tcp", "-i eth1 -p tcp"), ("-s", "! -s"),
     ("-p tcp -m multiport --dports 29500,60000:60031", "-p udp"), ("preflight", "preflight-site")],
)  # fmt: skip
def test_a_rule_of_iptables_with_our_comment_that_preflight_never_makes_is_the_sites(
    ours: str, word: str, theirs: str
) -> None:
    saved = SAVED.replace("-A INPUT -i lo", f"-A INPUT {ours.replace(word, theirs)}\n-A INPUT -i lo")
    chain = read_chain(saved)
    assert isinstance(chain, IptablesChain)
    assert (ours.replace(word, theirs) in chain.rules, chain.ours) == (True, ())
    assert iptables.with_rules(saved, []) == saved
    chain = read_chain(saved.replace(ours.replace(word, theirs), ours))
    assert isinstance(chain, IptablesChain)
    assert chain.ours == (ours,)


@pytest.mark.parametrize(
    "ours", [NFT, nft.ours((NET, IPv4Network("10.7.0.9/32")), PORTS), nft.ours((SIX,), PortSet.parse("29500"))]
)
@pytest.mark.parametrize(
    ("word", "theirs"),
    [("accept", "drop"), ("accept", "counter packets 0 bytes 0 accept"), ("accept", "reject"), ("saddr", "saddr !="),
     ("saddr", "daddr"), ("tcp dport", "udp dport"), ("ip", 'iifname "eth1" ip'), ('"preflight"', '"preflight site"')],
)  # fmt: skip
def test_a_rule_of_nftables_with_our_comment_that_preflight_never_makes_is_the_sites(
    ours: str, word: str, theirs: str
) -> None:
    assert facts_nft.is_ours(ours)
    assert not facts_nft.is_ours(ours.replace(word, theirs, 1))


@pytest.mark.parametrize(
    "theirs",
    [
        "deny tcp 22 0.0.0.0/0 any 10.1.0.0/16 in",
        "allow udp 22 0.0.0.0/0 any 10.1.0.0/16 in",
        "allow_log tcp 22 0.0.0.0/0 any 10.1.0.0/16 in",
        "allow tcp 22 10.1.0.1 any 10.1.0.0/16 in",
        "limit tcp 22 0.0.0.0/0 any 10.1.0.0/16 in",
        "allow tcp 22 0.0.0.0/0 any 10.1.0.0/16 in_eth0",
        "allow any any 0.0.0.0/0 any 10.1.0.0/16 in",
    ],
)
def test_a_rule_of_ufw_with_our_comment_that_preflight_never_makes_is_the_sites(theirs: str) -> None:
    comment = b"preflight".hex()
    rules = facts_ufw.rules(f"### tuple ### {theirs} comment={comment}\n")
    assert not isinstance(rules, Missing)
    assert [rule.ours for rule in rules] == [False]


@pytest.mark.parametrize("word", ["accept", 'protocol="tcp"', 'port="29500"'])
def test_the_words_of_a_rich_rule_may_have_any_order(word: str) -> None:
    assert facts_firewalld.is_ours(RICH)
    assert facts_firewalld.is_ours(RICH.replace(f" {word}", "").replace("rule", f"rule {word}"))
    assert not facts_firewalld.is_ours(RICH.replace("accept", "drop"))


# Connections.


def test_a_host_that_reaches_nobody_is_told_once() -> None:
    def tries(*dead: str) -> tuple[Arrival, ...]:
        names = ("n1", "n2", "n3")
        return tuple(Arrival(name, "timeout" if name in dead else "refused", 29500, "10.1.0.9") for name in names)

    arrivals = {"n2": tries("n1"), "n3": tries("n1"), "n4": tries()}
    lost = [loss for target in ("n2", "n3") for loss in blocked_connections.losses(target, arrivals[target], None)]
    assert blocked_connections.senders_cut_off(lost, arrivals) == {}, "n1 reaches n4"
    arrivals["n4"] = tries("n1")
    lost += blocked_connections.losses("n4", arrivals["n4"], None)
    assert list(blocked_connections.senders_cut_off(lost, arrivals)) == ["n1"]
    arrivals["n4"] = tries("n1", "n2", "n3")
    assert blocked_connections.senders_cut_off(lost, arrivals) == {}, "n4 is reached by nobody"
