"""The rules of rank tables: what is written is read again, and of a good table with one thing wrong one rule speaks."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.model.cluster import Product
from preflight.ranktable.read import read
from preflight.ranktable.rules import judge
from preflight.ranktable.types import RankedDevice, RankTable, Server, TableProblem, number_ranks
from preflight.ranktable.write import text_of

ROOT = Path(__file__).parents[3]
RANK_TABLES = ROOT / "tests" / "cases" / "rank_tables"

Document = dict[str, Any]


def table(version: str, servers: int, devices: int) -> RankTable:
    """A good one; of version 1.2 the last server stands in a super-pod of its own."""
    made = [
        Server(f"10.1.0.{10 + number}", tuple(_device(version, number, device) for device in range(devices)), ())
        for number in range(servers)
    ]
    names = [server.id for server in made]
    pods = [("0", tuple(names[:-1])), ("1", tuple(names[-1:]))] if version == "1.2" else []
    return number_ranks(version, made, pods)


def _device(version: str, server: int, device: int) -> RankedDevice:
    sdid = str((server + 1) << 22 | device) if version == "1.2" else ""
    backup = f"10.{20 + (device ^ 1)}.0.{10 + server}" if version == "1.2" else ""
    return RankedDevice(
        0, device, (), f"10.{20 + device}.0.{10 + server}", sdid, "16666", str(60000 + device), backup, "16667",
    )  # fmt: skip


SIZES = st.tuples(st.sampled_from(["1.0", "1.2"]), st.integers(3, 5), st.sampled_from([2, 4, 8]))


@given(SIZES)
@settings(deadline=None)
def test_written_tables_are_read_back_and_break_no_rule(size: tuple[str, int, int]) -> None:
    made = table(*size)
    found = read(text_of(made))
    assert found.table == made
    assert judge(found) == ()
    assert judge(found, Product.ATLAS_A3) == ()


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


@given(st.lists(st.tuples(words, st.lists(st.tuples(st.integers(0, 99), words), max_size=4)), max_size=4), words)
@settings(deadline=None)
def test_any_text_in_a_table_is_read_back(servers: list[tuple[str, list[tuple[int, str]]]], pod: str) -> None:
    made = [
        Server(name, tuple(RankedDevice(0, number, (), address, "7") for number, address in devices), (), host_ip=name)
        for name, devices in servers
    ]
    written = number_ranks("1.2", made, [(pod, tuple(name for name, _ in servers))])
    assert read(text_of(written)).table == written


def device_at(document: Document, server: int, device: int) -> Document:
    found: Document = document["server_list"][server]["device"][device]
    return found


def swap(document: Document, one: tuple[int, int], other: tuple[int, int]) -> None:
    """Exchange the ranks of two devices."""
    a, b = device_at(document, *one), device_at(document, *other)
    a["rank_id"], b["rank_id"] = b["rank_id"], a["rank_id"]


def change(key: str, value: Any, server: int = 1, device: int = 1) -> Callable[[Document], None]:
    return lambda document: device_at(document, server, device).update({key: value})


def without(key: str, server: int = 1, device: int = 1) -> Callable[[Document], None]:
    return lambda document: device_at(document, server, device).__delitem__(key)


def as_of(key: str, other: str = "") -> Callable[[Document], None]:
    """A value of the second server's second device as that of the first server's first."""
    return lambda document: device_at(document, 1, 1).update({key: device_at(document, 0, 0)[other or key]})


def server_key(key: str, value: Any) -> Callable[[Document], None]:
    return lambda document: document["server_list"][1].update({key: value})


# What is done to a good table → the rule that names it, and words of the sentence.
EVERYWHERE: dict[str, tuple[Callable[[Document], None], str, str]] = {
    "not finished": (lambda d: d.update(status="initializing"), "status", "status is 'initializing', so"),
    "no status": (lambda d: d.__delitem__("status"), "status", "status is missing"),
    "one server too many": (lambda d: d.update(server_count="9"), "count", "server_count is 9, but must be "),
    "the same address twice": (as_of("device_ip"), "device-ip", "is also used by rank 0 (server 10.1.0.10, device 0)"),
    "no address": (change("device_ip", "10.20.0.300"), "device-ip", "'10.20.0.300' is not an address"),
    "another family": (change("device_ip", "fd00::1"), "device-ip", "is an IPv6 address, but rank 0"),
    "an address left out": (without("device_ip"), "device-ip", "has no device_ip. It is required for more than "),
    "a rank twice": (as_of("rank_id"), "rank", "rank_id 0 is also used by rank 0 (server 10.1.0.10, device 0)"),
    "a rank out of range": (change("rank_id", "777"), "rank", "rank_id 777 is not in 0-"),
    "interleaved": (lambda d: swap(d, (0, 1), (2, 0)), "interleaved", "the ranks of a server must be consecutive"),
    "a server twice": (server_key("server_id", "10.1.0.10"), "server-id", "server_id 10.1.0.10 occurs twice"),
    "too long a name": (server_key("server_id", "10.1.0.11" + "x" * 60), "server-id", "is longer than 64 characters"),
    "no name": (server_key("server_id", ""), "server-id", "server_list[1] has no server_id"),
    "a host_ip that is none": (server_key("host_ip", "node_0"), "host-ip", "host_ip 'node_0' is not an address"),
    "no device": (server_key("device", []), "rank", "has no device"),
    "a device twice": (change("device_id", "0"), "device", "uses the same device. Each rank"),
    "a number as rank": (lambda d: _number(d, "rank_id"), "strings", "is a number. In this version, it must be"),
    "a number as port": (change("device_port", 16666), "strings", 'it must be the string "16666"'),
    "a port out of range": (change("device_port", "65536"), "port", "device_port '65536' is not in 1-65535"),
    "port zero": (change("host_port", "0"), "port", "host_port '0' is not in 1-65535"),
    "the same host port": (change("host_port", "60000"), "port", "host_port 60000 is also used by rank"),
}  # fmt: skip
OF_SUPER_PODS: dict[str, tuple[Callable[[Document], None], str, str]] = {
    "no super device id": (without("super_device_id"), "sdid", "has no super_device_id"),
    "an empty super device id": (change("super_device_id", ""), "sdid", "has no super_device_id"),
    "a super device id in words": (change("super_device_id", "0x3000000"), "sdid", "'0x3000000' is not a number"),
    "a super device id twice": (as_of("super_device_id"), "sdid", "is also used by rank 0 (server 10.1"),
    "no super-pods": (lambda d: d.__delitem__("super_pod_list"), "super-pod", "super_pod_list is missing or empty"),
    "a super-pod twice": (lambda d: d["super_pod_list"][1].update(super_pod_id="0"), "super-pod", "0 occurs twice"),
    "a server in no super-pod": (lambda d: d["super_pod_list"][0]["server_list"].pop(), "super-pod", "is in no super-"),
    "an unknown server": (
        lambda d: d["super_pod_list"][0]["server_list"].append({"server_id": "nobody"}), "super-pod",
        "super-pod 0 lists server 'nobody', which is not in server_list",
    ),
    "a server in two super-pods": (
        lambda d: d["super_pod_list"][1]["server_list"].append({"server_id": "10.1.0.10"}), "super-pod",
        "super-pod 1 lists server 10.1.0.10, which is already in super-pod 0",
    ),
    "super-pods interleaved": (lambda d: _interleave_pods(d), "super-pod", "of another super-pod is between"),
    "another backup": (change("backup_device_ip", "10.99.0.1"), "backup", "'10.99.0.1' is not the device_ip of the "),
    "the backup's own port": (change("backup_device_port", "16666"), "port", "must differ from the device_port"),
}  # fmt: skip


def _number(document: Document, key: str) -> None:
    device = device_at(document, 1, 1)
    device[key] = int(device[key])


def _interleave_pods(document: Document) -> None:
    """The first server joins the last one's pod, and others are between them."""
    first, last = document["super_pod_list"]
    last["server_list"].insert(0, first["server_list"].pop(0))


CASES = [("1.0", name, *case) for name, case in EVERYWHERE.items()]
CASES += [("1.2", name, *case) for name, case in (EVERYWHERE | OF_SUPER_PODS).items()]
# What else is right to be said: a super-pod that names a server by a name that it lost, a backup that has gone.
ALSO = {"another family": {"backup"}, "no address": {"backup"}, "the same address twice": {"backup"},
        "no name": {"super-pod"}, "too long a name": {"super-pod"}, "a server twice": {"super-pod", "device"},
        "no device": {"rank", "device-set"}}  # fmt: skip


@pytest.mark.parametrize(("version", "name", "do", "rule", "says"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
@given(servers=st.integers(3, 5), devices=st.sampled_from([2, 4, 8]))
@settings(deadline=None, max_examples=10)
def test_one_mistake_breaks_one_rule(
    version: str, name: str, do: Callable[[Document], None], rule: str, says: str, servers: int, devices: int
) -> None:
    document = json.loads(text_of(table(version, servers, devices)))
    do(document)
    found = [problem for problem in judge(read(json.dumps(document))) if not problem.warning]
    assert any(problem.rule == rule and says in problem.text for problem in found), found
    assert {problem.rule for problem in found} - {rule} <= ALSO.get(name, set()), found


def said(document: Document, product: Product | None = None) -> list[TableProblem]:
    return list(judge(read(json.dumps(document)), product))


def test_servers_out_of_lexical_order_are_a_warning_about_mindspore() -> None:
    """172.30.209.20 comes after 172.30.209.141 in this order."""
    hosts = (("172.30.209.20", "10.0.0.1"), ("172.30.209.141", "10.0.0.2"))
    made = number_ranks("1.0", [Server(name, (RankedDevice(0, 0, (), address),), ()) for name, address in hosts])
    [problem] = judge(read(text_of(made)))
    assert (problem.rule, problem.warning) == ("order", True)
    assert problem.text.startswith(
        "the ranks of server 172.30.209.141 follow those of server 172.30.209.20, but MindSpore"
    )


def test_a_name_of_the_loopback_is_a_warning() -> None:
    made = number_ranks("1.0", [Server("127.0.1.1", (RankedDevice(0, 0, (), "10.0.0.1"),), ())])
    assert [(problem.rule, problem.warning) for problem in judge(read(text_of(made)))] == [("server-id", True)]


@pytest.mark.parametrize("name", ["10.*.*.*", "xx.xx.xx.xx", "xx-xx-xx-xx", "10.1.0.X", "10.1.0.300", "<server ip>"])
def test_a_placeholder_of_a_manual_is_a_warning(name: str) -> None:
    made = number_ranks("1.0", [Server(name, (RankedDevice(0, 0, (), "10.0.0.1"),), ())])
    [problem] = judge(read(text_of(made)))
    assert (problem.rule, problem.warning) == ("server-id", True)
    assert problem.text == f"server_id '{name}' looks like a placeholder from a manual, not an address"


@pytest.mark.parametrize("name", ["10.1.0.1", "fd00::1", "node_0", "max-3.example", "xx", "1-2", "node-1-2-3-4"])
def test_any_other_name_of_a_server_is_taken(name: str) -> None:
    assert judge(read(text_of(number_ranks("1.0", [Server(name, (RankedDevice(0, 63, (), "10.0.0.1"),), ())])))) == ()


def test_a_device_that_no_server_has_is_a_warning() -> None:
    [problem] = judge(read(text_of(number_ranks("1.0", [Server("a", (RankedDevice(0, 64, (), "10.0.0.1"),), ())]))))
    assert (problem.rule, problem.warning) == ("device", True)
    assert problem.text == "rank 0 (server a, device 64): the highest device number on a server is 63"


@pytest.mark.parametrize(
    ("devices", "says"),
    [((0, 1, 2), "3 devices (0, 1, 2). Atlas A1 supports 1, 2, 4 or 8 per server"),
     ((3, 4), "devices 3, 4. On Atlas A1, 2 or 4 devices must be all in 0-3 or all in 4-7"),
     ((0, 1, 4, 5), "2 or 4 devices must be all in 0-3 or all in 4-7"),
     ((0, 1, 2, 3), ""), ((4, 5, 6, 7), ""), ((6,), ""), (tuple(range(8)), "")],
)  # fmt: skip
def test_a_server_of_atlas_a1_takes_devices_of_one_ring_or_all(devices: tuple[int, ...], says: str) -> None:
    ranked = tuple(RankedDevice(0, number, (), f"10.0.0.{number + 1}") for number in devices)
    text = text_of(number_ranks("1.0", [Server("10.1.0.1", ranked, ())]))
    found = judge(read(text), Product.ATLAS_A1)
    assert [problem.rule for problem in found] == (["device-set"] if says else [])
    assert all(says in problem.text for problem in found)
    assert judge(read(text), Product.ATLAS_A2) == (), "any number"


def test_servers_of_atlas_a1_have_the_same_number_and_elsewhere_it_is_recommended() -> None:
    ranked = tuple(RankedDevice(0, number, (), "") for number in range(8))
    servers = [Server("10.1.0.1", ranked, ()), Server("10.1.0.2", ranked, ()), Server("10.1.0.3", ranked[:4], ())]
    found = read(text_of(number_ranks("1.2", servers, [("0", ("10.1.0.1", "10.1.0.2", "10.1.0.3"))])))
    [sets] = [problem for problem in judge(found, Product.ATLAS_A2) if problem.rule == "device-set"]
    assert (sets.text, sets.warning) == (
        "server 10.1.0.3 has 4 devices, but other servers have 8. The same number on each server is recommended", True,
    )  # fmt: skip
    [sets] = [problem for problem in judge(found, Product.ATLAS_A1) if problem.rule == "device-set"]
    assert not sets.warning


def test_ranks_with_different_ports_may_share_a_device() -> None:
    found = read((RANK_TABLES / "good-v1.0-several-ranks-a-device.json").read_text())
    assert judge(found, Product.ATLAS_A2) == ()
    assert [problem.text for problem in judge(found, Product.ATLAS_A1)] == [
        "rank 1 (server host_0, device 0): rank 0 uses the same device. Atlas A1 supports one rank per device"
    ]


def test_the_page_has_every_rule() -> None:
    sources = (ROOT / "preflight" / "ranktable").glob("*.py")
    rules = {
        rule
        for source in sources
        for rule in re.findall(r'(?:TableP|rank_p)roblem\(\s*"([a-z-]+)"', source.read_text())
    }
    page = (ROOT / "docs" / "rank-tables.md").read_text()
    assert len(rules) > 15
    assert [rule for rule in sorted(rules) if f"| `{rule}` |" not in page] == []


@pytest.mark.parametrize(
    ("version", "product", "says"),
    [("1.2", Product.ATLAS_A2, "the table is version 1.2, which atlas-a2 does not support. Use version 1.0"),
     ("1.2", Product.ATLAS_A1, "the table is version 1.2, which atlas-a1 does not support. Use version 1.0"),
     ("1.0", Product.ATLAS_A3, ""), ("1.2", Product.ATLAS_A3, ""), ("1.0", Product.ATLAS_A2, "")],
)  # fmt: skip
def test_the_version_is_one_of_the_product(version: str, product: Product, says: str) -> None:
    found = [problem for problem in judge(read(text_of(table(version, 3, 8))), product) if not problem.warning]
    assert [problem.text for problem in found] == ([says] if says else [])


def test_a_group_list_and_version_2_are_of_other_products() -> None:
    for name in ("good-group-list.json", "good-v2.0.json"):
        found = judge(read((RANK_TABLES / name).read_text()), Product.ATLAS_A3)
        [problem] = [problem for problem in found if not problem.warning]
        assert problem.text.endswith("which atlas-a3 does not support. Use version 1.0 or 1.2")


@pytest.mark.parametrize(("key", "where"), [("group_count", ()), ("instance_count", (0,)), ("device_count", (0,))])
def test_the_counts_of_a_group_list_count(key: str, where: tuple[int, ...]) -> None:
    devices = [{"device_id": "0", "device_ip": "10.0.0.1"}]
    group = {"instance_count": "1", "device_count": "1", "instance_list": [{"server_id": "a", "devices": devices}]}
    document: Document = {"status": "completed", "group_count": "1", "group_list": [group]}
    assert said(document) == []
    (document["group_list"][0] if where else document)[key] = "5"
    [problem] = said(document)
    assert (problem.rule, f"{key} is 5, but must be 1" in problem.text) == ("count", True)


def test_ranks_of_a_group_list_follow_its_order_and_its_devices_need_addresses() -> None:
    instances = [{"server_id": name, "devices": [{"device_id": "0"}]} for name in ("a", "b")]
    group = {"instance_count": "2", "device_count": "2", "instance_list": instances}
    found = said({"status": "completed", "group_count": "1", "group_list": [group]})
    assert [problem.text for problem in found] == [
        "rank 0 (server a, device 0) has no device_ip. It is required in a group_list",
        "rank 1 (server b, device 0) has no device_ip. It is required in a group_list",
    ]


def test_an_address_that_two_ranks_of_version_2_have_is_only_a_warning() -> None:
    address = {"addr_type": "IPV4", "addr": "10.0.0.1"}
    ranks = [
        {"rank_id": number, "device_id": number, "level_list": [{"rank_addr_list": [address]}]} for number in (0, 1)
    ]
    document: Document = {"version": "2.0", "status": "completed", "rank_count": 2, "rank_list": ranks}
    assert [(problem.rule, problem.warning) for problem in said(document)] == [("addr", True)]
    ranks[1]["rank_id"] = 0
    assert ("rank", False) in [(problem.rule, problem.warning) for problem in said(document)]


def test_an_address_that_atlas_a1_needs_may_be_left_out_of_one_server_of_atlas_a2() -> None:
    text = text_of(number_ranks("1.0", [Server("10.1.0.1", (RankedDevice(0, 0, ()),), ())]))
    assert judge(read(text), Product.ATLAS_A2) == ()
    [problem] = judge(read(text), Product.ATLAS_A1)
    assert problem.text.endswith("has no device_ip. It is required on Atlas A1")
