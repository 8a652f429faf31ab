"""What each place of a host's firewall should hold of ours, and which zones the cluster's packets enter."""

from dataclasses import replace
from ipaddress import ip_network

import pytest

from preflight.facts.sections.firewall import (
    Arrival,
    Firewall,
    Firewalld,
    IptablesChain,
    Login,
    NftChain,
    SavedRules,
    Zone,
    ZoneFile,
)
from preflight.facts.types import HostFacts, Interface, Network
from preflight.model.ports import PortSet
from preflight.rules.firewall import blocked_connections, persistent_rules
from preflight.rules.firewall.dialects import firewalld, iptables, nft, ufw
from preflight.rules.firewall.gate_inputs import GateInputs
from preflight.rules.firewall.gates import gates, iptables_gate
from preflight.rules.firewall.rules import Source
from tests.unit.apply_to_facts import zone_file
from tests.unit.healthy import NETWORK, NFTABLES_CONF, PORTS, scene

HERS = (ip_network("192.0.2.1/32"), PortSet.parse("22"))  # the login of another operator
LOGINS = [None, Login("192.0.2.2", 22), Login("192.0.2.1", 22)]
BARE = Firewall(True, (), None, None, False, False, (), ())


def place(firewall: Firewall, network: Network | None = None) -> GateInputs:
    case = scene({})
    facts = case.facts.hosts["node01"]
    assert isinstance(facts, HostFacts)
    host = replace(case.cluster.hosts[0], nic=None if network else "eth0")
    return GateInputs(case.cluster, host, firewall, network or facts.network, facts.sysctl)  # type: ignore[arg-type]


def chain(*rules: str) -> NftChain:
    return NftChain("inet", "filter", "input", "drop", rules, rules)


# A login's rule stays, whoever looks.


def walls() -> dict[str, Firewall]:
    """A closed firewall of each kind, opened by another operator."""
    of_nft = (nft.ours((NETWORK,), PORTS), nft.ours((HERS[0],), HERS[1]))
    of_ufw = (*ufw.ours(NETWORK, PORTS), *ufw.ours(*HERS))
    of_iptables = (*iptables.ours(NETWORK, PORTS), *iptables.ours(*HERS))
    rich = (*firewalld.ours(NETWORK, PORTS), *firewalld.ours(*HERS))
    zone = Zone("public", "default", ("eth0",), (), (), rich, rich)
    return {
        "nft": replace(BARE, nft_chains=(chain(*of_nft),)),
        "ufw": replace(BARE, ufw_installed=True, ufw_enabled=True, ufw_rules=of_ufw, ufw_ours=of_ufw),
        "iptables": replace(BARE, iptables=(IptablesChain("iptables-nft", "drop", of_iptables, of_iptables),)),
        "firewalld": replace(BARE, firewalld=Firewalld((1, 3, 3), "public", (zone,), {})),
    }


@pytest.mark.parametrize("tool", ["nft", "ufw", "iptables", "firewalld"])
@pytest.mark.parametrize("login", LOGINS, ids=["local", "another", "the same"])
def test_the_rule_of_another_operators_login_stays(tool: str, login: Login | None) -> None:
    (gate,) = gates(place(replace(walls()[tool], login=login)))
    wanted = [rule.text for rule in gate.wanted]
    assert {rule.text for rule in gate.ours} <= set(wanted)
    assert len(set(wanted)) == len(wanted)
    # What another operator adds is the own login, and then there is nothing to do for anybody.
    assert gate.settled is (login is None or login.client == "192.0.2.1")
    again = replace(gate, rules=gate.wanted, ours=gate.wanted)
    assert again.settled


def test_the_rule_of_a_login_stays_where_nothing_needs_ours_any_more() -> None:
    rules = (nft.ours((ip_network("10.9.0.0/24"),), PORTS), nft.ours((HERS[0],), HERS[1]))
    firewall = replace(BARE, nft_chains=(NftChain("inet", "filter", "input", "accept", rules, rules),))
    (gate,) = gates(place(firewall))
    assert [rule.text for rule in gate.wanted] == [rules[1]]


@pytest.mark.parametrize(
    ("rule", "stays"),
    [
        ((HERS[0], PortSet.parse("22")), True),
        ((HERS[0], PortSet.parse("2222")), True),
        ((HERS[0], PortSet.parse("29500")), False),
        ((HERS[0], PortSet.parse("22-23")), False),
        ((ip_network("192.0.2.0/24"), PortSet.parse("22")), False),
    ],
)
def test_a_login_is_one_address_to_the_ssh_port(rule: tuple[Source, PortSet], stays: bool) -> None:
    of_login = replace(BARE, login=Login("192.0.2.2", 2222))
    assert bool(place(of_login).logins([nft.parse(nft.ours((rule[0],), rule[1]))])) is stays


@pytest.mark.parametrize("login", LOGINS[:2], ids=["local", "another"])
def test_the_login_stays_in_the_file_of_nftables(login: Login | None) -> None:
    cluster, hers = nft.ours((NETWORK,), PORTS), nft.ours((HERS[0],), HERS[1])
    target = "inet filter input"
    mine = (nft.ours((ip_network(login.client),), HERS[1]),) if login else ()
    stale = nft.ours((ip_network("10.9.0.0/24"),), PORTS)
    firewall = replace(
        BARE, nft_chains=(chain(cluster, *mine),), login=login,
        nft_boot_file=f"{NFTABLES_CONF}{persistent_rules.NFT_INCLUDE}\n",
        nft_preflight_file=persistent_rules.own_file({target: (stale, hers)}),
    )  # fmt: skip
    (file,) = persistent_rules.boot_files(place(firewall))
    assert file.after == persistent_rules.own_file({target: (cluster, *mine, hers)})
    assert not list(persistent_rules.boot_files(place(replace(firewall, nft_preflight_file=file.after))))
    # The same where the host lets everything in: what nothing needs goes, the login stays.
    open_ = replace(firewall, nft_chains=())
    (file,) = persistent_rules.boot_files(place(open_))
    assert (file.lacks, file.after) == (False, persistent_rules.own_file({target: (hers,)}))
    assert not list(persistent_rules.boot_files(place(replace(open_, nft_preflight_file=file.after))))


def test_the_login_goes_from_the_file_with_the_chain_that_the_boot_file_makes() -> None:
    """A rule for a chain that is not there would fail the whole boot file."""
    own = persistent_rules.own_file({"inet gone input": (nft.ours((HERS[0],), HERS[1]),)})
    firewall = replace(BARE, nft_boot_file=f"{NFTABLES_CONF}{persistent_rules.NFT_INCLUDE}\n", nft_preflight_file=own)
    (file,) = persistent_rules.boot_files(place(firewall))
    assert file.after == persistent_rules.own_file({})


def test_the_login_stays_in_a_saved_file_of_iptables() -> None:
    hers = iptables.ours(*HERS)
    text = "*filter\n:INPUT DROP [0:0]\n" + "".join(f"-A INPUT {rule}\n" for rule in hers) + "COMMIT\n"
    firewall = replace(BARE, iptables_saved=(SavedRules("/etc/iptables/rules.v4", text),))
    (file,) = persistent_rules.boot_files(place(firewall))
    assert all(f"-A INPUT {rule}\n" in (file.after or "") for rule in (*iptables.ours(NETWORK, PORTS), *hers))
    assert iptables_gate(place(firewall), IptablesChain("iptables-nft", "accept", tuple(hers), tuple(hers))).settled


def test_the_login_stays_in_the_file_of_a_zone() -> None:
    hers = firewalld.ours(*HERS)
    xml = zone_file("<zone>\n</zone>\n", hers)
    zone = Zone("public", "default", ("eth0",), (), (), (), ())
    state = Firewalld((1, 3, 3), "public", (zone,), {"public": ZoneFile(own=xml)})
    (file,) = persistent_rules.boot_files(place(replace(BARE, firewalld=state)))
    assert (file.zone, file.before) == ("public", "\n".join(hers))
    assert set(hers) < set((file.after or "").splitlines())


# Zones.


def two_nics() -> Network:
    names = {"eth0": "10.1.0.1/24", "eth1": "10.1.0.201/24", "lo": "127.0.0.1/8"}
    return Network(tuple(Interface(name, True, 1500, "", (address,)) for name, address in names.items()), ())


def zoned(*zones: Zone) -> GateInputs:
    return place(replace(BARE, firewalld=Firewalld((1, 3, 3), "public", zones, {})), two_nics())


@pytest.mark.parametrize(
    ("bound", "closed"),
    [(("eth0",), ["public"]), (("eth0", "eth1"), []), ((), ["public"])],
    ids=["one of two", "both", "none"],
)
def test_a_nic_of_the_cluster_in_no_zone_is_in_the_default_one(bound: tuple[str, ...], closed: list[str]) -> None:
    trusted = Zone("trusted", "ACCEPT", bound, (), (), (), ())
    public = Zone("public", "default", (), (), (), (), ())
    assert [gate.target for gate in gates(zoned(trusted, public)) if gate.objections()] == closed


@pytest.mark.parametrize("source", ["ipset:guests", "00:11:22:33:44:55"])
@pytest.mark.parametrize(
    ("target", "ports", "doubted"),
    [("DROP", (), True), ("default", ("1-65535/tcp",), False), ("ACCEPT", (), False)],
)
def test_a_zone_whose_source_is_not_known_leaves_a_doubt(
    source: str, target: str, ports: tuple[str, ...], doubted: bool
) -> None:
    trusted = Zone("trusted", "ACCEPT", ("eth0", "eth1"), (), (), (), ())
    there = zoned(trusted, Zone("guests", target, (), (source,), ports, (), ()))
    found = [seen for gate in gates(there) for _, seen in gate.objections()]
    assert [(str(seen.closed), str(seen.doubtful)) for seen in found] == [("", str(PORTS))] * doubted
    assert all(source in seen.by for seen in found)
    came = tuple(Arrival("node02", "refused", port, "10.1.0.2") for port in (29500, 60000))
    assert not [gate for gate in gates(replace(there, tries=came)) if gate.objections()]


# Chains before those of hook input.


def test_connections_that_die_before_hook_input_name_the_chain_to_look_at() -> None:
    dead = (Arrival("node02", "timeout", 29500, "10.1.0.2", "10.1.0.1"),)
    (loss,) = blocked_connections.losses(
        "node01", dead, place(replace(BARE, unjudged=("netdev guard early (hook ingress)",)))
    )
    assert loss.why == (
        "the network between the hosts, or netdev guard early (hook ingress) on the host, "
        "which preflight does not evaluate"
    )
    assert loss.chain_commands == ("nft list chain netdev guard early",)
    (loss,) = blocked_connections.losses("node01", dead, place(BARE))
    assert loss.why == "the network between the hosts, because the host's firewall accepts the connections"
    assert loss.chain_commands == ()
