"""Facts of two looks: what is otherwise, and that what changes by itself is left out."""

import dataclasses
import time
import typing
from collections.abc import Callable
from typing import Any

import pytest

from preflight.facts.documents.differences import ABSENT, compared
from preflight.facts.documents.facts_document import compact, load
from preflight.facts.documents.shareable import cleaner, shared
from preflight.facts.documents.stable_fields import KNOWN_BY, RESTLESS
from preflight.facts.reading import Found
from preflight.facts.sections.job import SeenFile
from preflight.facts.sections.nvidia import Nvidia
from preflight.facts.types import ClusterFacts, HostFacts, Interface, Network
from tests.unit.cli.test_diff import BOTH, facts
from tests.unit.healthy import scene

TRAITS: list[tuple[dict[str, Any], list[tuple[str, str, str, list[str]]]]] = [
    ({host: {"versions": {"driver": "24.1.rc3"}} for host in BOTH},
     [("versions.driver", "23.0.7", "24.1.rc3", ["node01", "node02"])]),
    ({"node02": {"hccn": {"devices": {"3": {"link": {"value": "DOWN"}}}}}},
     [("hccn.devices.link", "UP", "DOWN", ["node02/3"])]),
    ({"node02": {"hccn": {"devices": {"3": {"link": {"error": "timed out after 10 s"}}}}}},
     [("hccn.devices.link", "UP", "(could not be checked)", ["node02/3"])]),
    ({"node01": {"network": {"interfaces": {"1": {"mtu": 9000}}}}},
     [("network.interfaces.mtu", "1500", "9000", ["node01/eth0"])]),
    ({"node01": {"job": {"variables": {"HCCL_IF_IP": "10.9.9.9"}}}},
     [("job.variables.HCCL_IF_IP", "(missing)", "10.9.9.9", ["node01"])]),
    ({"node01": {"os": {"kernel": "6.1.1"}, "load": {"wanted": 3.5}, "clock": {"offset": 2.5}}},
     [("os.kernel", "6.1.0", "6.1.1", ["node01"])]),
    ({"node01": {"sysctl": {"open_files": 9}, "limits": {"shm": {"free": 1}},
                 "nic": {"devices": {"0": {"packets": {"value": {"roce_rx_all_pkt_num": 7}}}}}}}, []),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "found"), TRAITS)
def test_facts_differ_by_name_value_and_place(changed: dict[str, Any], found: list[Any]) -> None:
    seen = compared(facts(), facts(**changed)).differences
    told = [(one.name, one.before, one.after, list(map(str, one.places))) for one in seen]
    assert told == found


def test_of_a_list_only_what_one_of_them_lacks_is_told() -> None:
    rules = [{"node01": {"firewall": {"nft_chains": {"0": {"rules": it}}}}} for it in (["a", "b"], ["b", "c"])]
    (found,) = compared(facts(**rules[0]), facts(**rules[1])).differences
    assert (found.name, found.before, found.after) == ("firewall.nft_chains.rules", "a", "c")
    assert list(map(str, found.places)) == ["node01/inet filter input"]


def test_the_order_of_rules_is_a_difference_and_told_as_one() -> None:
    rules = [{"node01": {"firewall": {"nft_chains": {"0": {"rules": it}}}}} for it in (["a", "b"], ["b", "a"])]
    (found,) = compared(facts(**rules[0]), facts(**rules[1])).differences
    assert (found.name, found.before, found.after) == ("firewall.nft_chains.rules", *["(in another order)"] * 2)


@pytest.mark.parametrize("rule", ["counter packets 12 bytes 340 drop", ":INPUT ACCEPT [12:340]"])
def test_what_a_firewall_counts_is_no_difference(rule: str) -> None:
    rules = [{"node01": {"firewall": {"nft_chains": {"0": {"rules": [it]}}}}} for it in (rule, rule.replace("12", "9"))]
    assert compared(facts(**rules[0]), facts(**rules[1])).differences == ()


def test_a_section_that_one_did_not_see_is_no_difference_and_named() -> None:
    seen = compared(facts(), facts(node02={"chips": {"missing": "no npu-smi"}}))
    assert (seen.differences, dict(seen.unseen)) == ((), {"chips": ("node02",)})


def changed(facts: ClusterFacts, host: str, section: str, **fields: Any) -> ClusterFacts:
    """As what a case says of a host, for what no case can say: of a field that is a list one item fewer."""
    it = facts.hosts[host]
    assert isinstance(it, HostFacts)
    whole = dataclasses.replace(it.section(section), **fields)
    return ClusterFacts({**facts.hosts, host: dataclasses.replace(it, **{section: whole})})


def test_an_interface_of_a_container_is_no_difference() -> None:
    (host, _) = facts().hosts.values()
    assert isinstance(host, HostFacts)
    assert isinstance(host.network, Network)
    told = {}
    for name in ("veth0a1b2c", "cali12", "eth7"):
        more = (*host.network.interfaces, Interface(name, True, 1500, "", ()))
        told[name] = len(compared(facts(), changed(facts(), "node01", "network", interfaces=more)).differences)
    assert told == {"veth0a1b2c": 0, "cali12": 0, "eth7": 1}


def bundled(facts: ClusterFacts) -> ClusterFacts:
    return load(shared(compact(facts), cleaner()))


@pytest.mark.parametrize("seen", [lambda facts: facts, bundled], ids=["run", "bundle"])
def test_a_gpu_that_is_lost_is_told_though_its_id_was_taken_out(seen: Callable[[ClusterFacts], ClusterFacts]) -> None:
    whole = scene({"cluster": {"product": "nvidia"}}).facts
    host = whole.hosts["node02"]
    assert isinstance(host, HostFacts)
    assert isinstance(host.nvidia, Nvidia)
    gpus = host.nvidia.gpus.value
    assert gpus
    fewer = changed(whole, "node02", "nvidia", gpus=Found(dataclasses.replace(gpus, gpus=gpus.gpus[:-1])))
    for was, now in ((whole, fewer), (fewer, whole)):
        (found,) = compared(seen(was), seen(now)).differences
        assert found.name == "nvidia.gpus.gpus"
        assert (found.before == ABSENT, found.after == ABSENT) == (was is fewer, now is fewer)
        assert [place.host for place in found.places] == ["node02"]


def with_file(text: str) -> ClusterFacts:
    return changed(facts(), "node01", "job", files={"RANK_TABLE_FILE": SeenFile("/etc/rt", "file", text, "d", 3, "")})


def test_a_secret_is_no_difference_to_its_bundle_and_is_not_shown() -> None:
    whole = with_file("a\nSECRET_TOKEN=hunter2\nb")
    assert compared(whole, bundled(whole)).differences == ()
    for was in (whole, bundled(whole)):
        (found,) = compared(was, with_file("a\nSECRET_TOKEN=hunter3\nc")).differences
        assert "hunter" not in found.before + found.after
        assert (found.before.endswith("b"), found.after.endswith("c")) == (True, True)


def test_many_lines_are_compared_in_time() -> None:
    rules = [[f"-s 10.1.{n % 256}.{n // 256} -j {word}" for n in range(12_000)] for word in ("ACCEPT", "DROP")]
    begun = time.monotonic()
    (found,) = compared(*(with_file("\n".join(lines)) for lines in rules)).differences
    assert time.monotonic() - begun < 4, "a look-up a line, not a list a line"
    assert len(found.before) <= 200


def types_of(hint: Any) -> set[type]:
    """All dataclasses that a type is made of."""
    found: set[type] = set()
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        found.add(hint)
        for part in typing.get_type_hints(hint).values():
            found |= types_of(part)
    for part in (typing.get_origin(hint), *typing.get_args(hint)):
        if part is not hint and part is not None:
            found |= types_of(part)
    return found


@pytest.mark.parametrize("named", [RESTLESS, KNOWN_BY], ids=["left out", "known by"])
def test_the_lists_name_fields_that_there_are(named: dict[type, tuple[str, ...]]) -> None:
    facts_types = types_of(HostFacts)
    for type_, names in named.items():
        assert type_ in facts_types, type_
        assert set(names) <= {field.name for field in dataclasses.fields(type_)}, type_


def test_a_gpu_is_told_by_its_bus_and_what_it_does_at_the_moment_is_left_out() -> None:
    nvidia = {"cluster": {"product": "nvidia"}}
    gpu = {"vbios": "96.00.9F.00.01", "temperature": 71, "memory_used": 9000}
    now = scene({**nvidia, "facts": {"node02": {"nvidia": {"gpus": {"value": {"gpus": {"1": gpu}}}}}}}).facts
    (found,) = compared(scene(nvidia).facts, now).differences
    (place,) = found.places
    assert (found.name, found.after, place.host) == ("nvidia.gpus.gpus.vbios", "96.00.9F.00.01", "node02")
    assert place.element.count(":") == 2
