"""What `preflight learn` makes of hosts: the writer, the plans that it recognises, and what it takes from facts."""

import tomllib
from dataclasses import replace
from datetime import date
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import pytest

from preflight.facts.parsers.ascend.npu_smi import product_of
from preflight.facts.types import ClusterFacts, Hccn, HostFacts, NpuSmi, Reading, Sysctl, Unreachable
from preflight.inventory import dump, load, parse, tables
from preflight.inventory.host_tables import apart, together
from preflight.model.cluster import Device, Host, Product
from preflight.provision.learn import asked, learn, product_seen, why_no_product
from preflight.provision.recognise import plan_of
from tests.unit.healthy import healthy_cluster, healthy_facts

ROOT = Path(__file__).parents[3]
EXAMPLES = [ROOT / "inventory.example.toml", *sorted((ROOT / "examples").glob("*.toml"))]


# The writer.


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_written_is_what_is_read(path: Path) -> None:
    assert tomllib.loads(dump(tables(path))) == tables(path)


def test_awkward_values_come_back() -> None:
    document = {
        "probe": {"setup": 'quote " back \\ tab \t nul \x00 del \x7f é ☃ 𝄞 [x] # no comment', "empty": "", "n": -5},
        "x": {"odd key": 1.5, "list": [["a"], [True, False]], "inline": {"a": {"b.c": date(2027, 1, 31)}}, "none": []},
        "hosts": [{"name": "a", "long": [f"10.0.0.{n}/24" for n in range(64)]}, {}],
    }
    assert tomllib.loads(dump(document)) == document


def test_comments_stand_in_their_tables_and_stay_comments() -> None:
    said = {(): ["head"], ("cluster",): ["one", "two\nname = 'evil'\x1b"], ("hosts", 1): ["of b"]}
    text = dump({"cluster": {"name": "c"}, "hosts": [{"name": "a"}, {"name": "b"}]}, said)
    assert text == (
        "# head\n\n[cluster]\n# one\n# two?name = 'evil'?\nname = \"c\"\n\n"
        '[[hosts]]\nname = "a"\n\n[[hosts]]\n# of b\nname = "b"\n'
    )


def test_hosts_are_put_together_where_ranges_say_it() -> None:
    given = [
        {"name": "n[08-11]", "address": "10.0.0.[8-11]", "nic": "eth0"},
        {"name": "n12", "address": "10.0.0.12"},
        {"name": "n[14-15]", "address": "10.0.0.14,10.0.0.16"},
        {"name": "a,b"},
    ]
    each = apart(given, without=["nic"])
    assert list(each) == ["n08", "n09", "n10", "n11", "n12", "n14", "n15", "a", "b"]
    assert together(each.values()) == [
        {"name": "n[08-12],n14,n15", "address": "10.0.0.[8-12],10.0.0.14,10.0.0.16"},
        {"name": "a,b"},
    ]
    assert apart(together(each.values())) == each


# Plans.

FOUR = 'plan = "four-subnets"\nsubnets = ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"]\n'
GATEWAYS = 'gateways = ["10.0.0.1", "10.0.1.1", "10.0.2.1", "10.0.3.1"]\n'
ONE = 'plan = "one-subnet"\nsubnet = "10.8.0.0/16"\n'
HOSTS = '[[hosts]]\nname = "node[02-04,09]"\n'


@pytest.mark.parametrize(
    ("product", "plan", "hosts"),
    [
        ("atlas-a1", f'{FOUR}first = 7\n{GATEWAYS}detect = "gateway"\n', HOSTS),
        ("atlas-a1", f'{FOUR}by = "name"\ndetect = "next-host"\n', HOSTS),
        ("atlas-a1", f"{ONE}", HOSTS),
        ("atlas-a2", f'{ONE}gateway = "10.8.0.1"\ndetect = "gateway"\n', HOSTS),
        ("atlas-a2", f'{ONE}gateway = "10.8.0.1"\ndetect = "10.8.0.2"\nby = "name"\n', HOSTS),
        ("atlas-a2", f'{ONE}by = "name"\nper_host = 8\nfirst = "10.8.1.1"\n', HOSTS),
        ("atlas-a2", ONE, f'[[hosts]]\nname = "spare"\ndevices = 3\n{HOSTS}'),
        ("atlas-a3", f'{ONE}detect = "next-host"\n', f"{HOSTS}devices = 16\n"),
    ],
)
def test_a_plan_is_recognised_from_the_addresses_that_it_gives(product: str, plan: str, hosts: str) -> None:
    head = f'[cluster]\nname = "c"\nproduct = "{product}"\n'
    cluster = parse(f"{head}[device_addresses]\n{plan}{hosts}", Path("x.toml"))
    found = plan_of(tomllib.loads(head + hosts), cluster.hosts)
    assert found is not None
    again = parse(dump({**tomllib.loads(head + hosts), "device_addresses": found}), Path("x.toml"))
    assert again.hosts == cluster.hosts
    assert (found["plan"], found.get("by", "order")) == (
        "four-subnets" if "four" in plan else "one-subnet",
        "name" if "by =" in plan else "order",
    )


def of_a_plan(**other: Device) -> tuple[dict[str, Any], list[Host]]:
    text = f'[cluster]\nname = "c"\nproduct = "atlas-a2"\n{HOSTS}'
    cluster = parse(text.replace("[[hosts]]", f"[device_addresses]\n{ONE}[[hosts]]"), Path("x.toml"))
    last = cluster.hosts[-1]
    devices = tuple(other.get(f"device{device.index}", device) for device in last.devices)
    return tomllib.loads(text), [*cluster.hosts[:-1], replace(last, devices=devices)]


def test_a_device_without_an_address_does_not_hide_the_plan() -> None:
    found = plan_of(*of_a_plan(device3=Device(3)))
    assert found == {"plan": "one-subnet", "subnet": "10.8.0.0/16", "first": "10.8.0.11"}


@pytest.mark.parametrize(
    "other",
    [Device(3, IPv4Interface("10.8.9.9/16")), Device(3, IPv4Interface("10.9.0.14/24")),
     Device(3, IPv4Interface("10.8.0.38/16"), IPv4Interface("10.8.0.1/16").ip)],
    ids=["another address", "another network", "a gateway that others lack"],
)  # fmt: skip
def test_what_no_plan_gives_is_no_plan(other: Device) -> None:
    assert plan_of(*of_a_plan(device3=other)) is None


# Facts.

BASE: dict[str, Any] = {
    "cluster": {"name": "c", "product": "atlas-a2"},
    "hosts": [{"name": "node[01-02]", "address": "10.1.0.[1-2]"}],
}


def facts_with(**hosts: HostFacts | Unreachable) -> ClusterFacts:
    return ClusterFacts({**healthy_facts(healthy_cluster()).hosts, **hosts})


def hosts_of(base: dict[str, Any]) -> tuple[Host, ...]:
    return parse(dump(base), Path("x.toml")).hosts


def test_addresses_without_a_plan_are_written_out_with_what_the_hosts_say_besides() -> None:
    learned = learn(BASE, hosts_of(BASE), facts_with(), Product.ATLAS_A1)
    cluster = parse(dump(learned.document, learned.comments), Path("x.toml"))
    assert [[device.address for device in host.devices] for host in cluster.hosts] == [
        [device.address for device in host.devices] for host in healthy_cluster().hosts
    ]
    assert learned.document["hosts"][0]["detect"][0] == "10.20.0.11"
    assert (cluster.product, cluster.hosts[0].nic) == (Product.ATLAS_A1, "eth0")
    assert [str(network) for network in cluster.cidrs] == ["10.1.0.0/24"]
    assert cluster.ports == healthy_cluster().ports
    assert learned.unseen == ()


def test_what_the_inventory_says_is_kept() -> None:
    base = {
        **BASE,
        "network": {"nic": "bond0"},
        "ports": {"master": 12345},
        "waivers": [{"check": "X"}],
        "new": {"a": 1},
    }
    base["cluster"] = {**BASE["cluster"], "cidrs": ["10.0.0.0/8"]}
    hosts = tuple(replace(host, nic="bond0") for host in hosts_of(BASE))
    document = learn(base, hosts, facts_with(), Product.ATLAS_A2).document
    assert {key: document[key] for key in ("network", "ports", "waivers", "new")} == {
        "network": {"nic": "bond0"}, "ports": {"master": 12345}, "waivers": [{"check": "X"}], "new": {"a": 1},
    }  # fmt: skip
    assert document["cluster"]["cidrs"] == ["10.0.0.0/8"]
    assert list(document)[-2:] == ["hosts", "waivers"]


@pytest.mark.parametrize(
    ("one", "other", "ports", "said"),
    [
        (
            "29500,60000-60015",
            "29500,60000-60015,7",
            {"hccl_count": 16},
            "Ports that all hosts reserve: 29500,60000-60015",
        ),
        ("29500,6000,7000-7001,60000-60031", None, {"job": ["6000", "7000-7001"]}, ""),
        ("30000-32767,60000-60031", None, {}, "which no job seems to use: 30000-32767"),
        ("", None, {}, ""),
    ],
)
def test_ports_are_what_all_hosts_reserve(one: str, other: str | None, ports: dict[str, Any], said: str) -> None:
    facts = {}
    for name, reserved in (("node01", one), ("node02", one if other is None else other)):
        host = facts_with().hosts[name]
        assert isinstance(host, HostFacts)
        assert isinstance(host.sysctl, Sysctl)
        facts[name] = replace(host, sysctl=replace(host.sysctl, reserved_ports=reserved))
    learned = learn(BASE, hosts_of(BASE), facts_with(**facts), Product.ATLAS_A1)
    assert learned.document.get("ports", {}) == ports
    assert said in " ".join(learned.comments.get((), ()))


def test_a_host_that_was_not_reached_and_one_that_cannot_be_written_down_are_comments() -> None:
    host = facts_with().hosts["node02"]
    assert isinstance(host, HostFacts)
    assert isinstance(host.hccn, Hccn)
    busy = replace(host.hccn.devices[1], address=Reading(error="hccn_tool is busy"))
    facts = facts_with(
        node01=Unreachable("refused", "node01: connection refused", "start sshd"),
        node02=replace(host, hccn=Hccn((host.hccn.devices[0], busy))),
    )
    learned = learn(BASE, hosts_of(BASE), facts, Product.ATLAS_A1)
    assert learned.unseen == ("node01: connection refused",)
    assert learned.document["hosts"] == [
        {"name": "node01", "address": "10.1.0.1"},
        {"name": "node02", "address": "10.1.0.2"},
    ]
    assert learned.comments["hosts", 1] == [
        "Not learned: device 1: cannot read the address: hccn_tool is busy",
        'device_addresses = ["10.20.0.20/24", "none"]',
        'detect = ["10.20.0.21", "10.20.1.21"]',
    ]


def test_an_address_that_the_inventory_refuses_is_a_comment_with_the_reason() -> None:
    host = facts_with().hosts["node02"]
    assert isinstance(host, HostFacts)
    assert isinstance(host.hccn, Hccn)
    first, *rest = host.hccn.devices
    odd = replace(first, address=Reading("192.168.1.7"))
    learned = learn(BASE, hosts_of(BASE), facts_with(node02=replace(host, hccn=Hccn((odd, *rest)))), Product.ATLAS_A1)
    assert "hccn_tool rejects 192.168.1.7: 192.168.1.0/24 is reserved for the driver" in learned.comments["hosts", 1][0]
    assert "device_addresses" in learned.document["hosts"][0]
    assert "device_addresses" not in learned.document["hosts"][1]


def test_devices_that_only_a_default_gives_are_not_asked_for() -> None:
    hosts = '[[hosts]]\nname = "node01"\ndevices = 2\n[[hosts]]\nname = "node02"\n'
    guessed = f'[cluster]\nname = "c"\nproduct = "atlas-a2"\n{hosts}'
    named = guessed.replace('"atlas-a2"', '"atlas-a2"\ndevices = 4')
    for text, counts in ((guessed, [2, 0]), (named, [2, 4])):
        found = asked(tomllib.loads(text), parse(text, Path("x.toml")).hosts)
        assert [len(host.devices) for host in found] == counts


@pytest.mark.parametrize(
    ("chip", "product"),
    [("910A", Product.ATLAS_A1), ("910ProB", Product.ATLAS_A1), ("910B", Product.ATLAS_A1), ("910B3", Product.ATLAS_A2),
     ("910B2C", Product.ATLAS_A2), ("Ascend910", Product.ATLAS_A3), ("910_9382", Product.ATLAS_A3), ("310P3", None)],
)  # fmt: skip
def test_chips_tell_the_product(chip: str, product: Product | None) -> None:
    assert product_of(chip) is product


@pytest.mark.parametrize(
    ("chips", "sentence"),
    [
        (("310P3", "310P3"), "Ascend 310P"),
        (("Ascend950PR",), "Ascend 950"),
        (("910A", "910B3"), "belong to several products. Learn the hosts of each product separately, with --hosts"),
        ((), 'npu-smi reports no chips, so the product is unknown. Set product = "atlas-a2"'),
    ],
)
def test_chips_that_tell_no_product_are_named(chips: tuple[str, ...], sentence: str) -> None:
    host = facts_with().hosts["node01"]
    assert isinstance(host, HostFacts)
    assert isinstance(host.npu_smi, NpuSmi)
    named = tuple(replace(host.npu_smi.chips[0], name=name) for name in chips)
    only = ClusterFacts({"node01": replace(host, npu_smi=replace(host.npu_smi, chips=named))})
    assert product_seen(only) is None
    assert sentence in why_no_product(only)


def test_the_product_of_hosts_is_told_only_where_all_chips_agree() -> None:
    assert product_seen(facts_with()) is Product.ATLAS_A1
    assert product_seen(ClusterFacts({})) is None


def test_the_example_comes_back_as_the_same_cluster() -> None:
    assert load(ROOT / "inventory.example.toml") == parse(
        dump(tables(ROOT / "inventory.example.toml")), ROOT / "inventory.example.toml"
    )
