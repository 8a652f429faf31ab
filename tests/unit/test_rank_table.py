"""Rank tables: what is read of them, and that whatever else lies there ends in one sentence."""

import json
from collections.abc import Mapping

import pytest

from preflight.facts.found import Found
from preflight.facts.rank_table import RankedServer, read
from tests.unit.healthy import scene
from tests.unit.test_checks import look

DEVICES = [{"device_id": "0", "device_ip": "10.20.0.10"}, {"device_id": "1"}]
PLAIN = {"version": "1.0", "server_list": [{"server_id": "10.1.0.1", "device": DEVICES}]}


def servers(text: str) -> Found[Mapping[str, RankedServer]]:
    """The servers of a table, or why there are none."""
    found = read(text)
    return found.value.servers if found.value else Found(error=found.error)


def test_names_and_addresses_are_read_and_a_device_without_address_is_left_out() -> None:
    assert servers(json.dumps(PLAIN)).value == {"10.1.0.1": RankedServer(frozenset({"10.1.0.1"}), {0: "10.20.0.10"})}


def test_a_table_of_super_pods_names_its_servers_by_host_ip_too() -> None:
    entry = {"server_id": "node_0", "host_ip": "10.1.0.1", "device": []}
    found = servers(json.dumps({"version": "1.2", "server_list": [entry], "super_pod_list": []}))
    server = RankedServer(frozenset({"node_0", "10.1.0.1"}), {})
    assert found.value == {"node_0": server, "10.1.0.1": server}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Expecting value"),
        ('{"version": "1.0", // comment\n}', "in double quotes: line 1"),
        ("[]", "not shaped like a rank table"),
        ("null", "not shaped like a rank table"),
        ('{"version": "2.0"}', "version '2.0' is not read"),
        ('{"version": ["1.0"]}', "is not read"),
        ('{"version": "1.0"}', "not shaped like a rank table"),
        ('{"version": "1.0", "server_list": [3]}', "not shaped like a rank table"),
        ('{"version": "1.0", "server_list": [{"device": [{"device_id": "x", "device_ip": "1"}]}]}', "not shaped"),
        ('{"version": "1.0", "server_list": [{"device": [{"device_id": Infinity, "device_ip": "1"}]}]}', "not shaped"),
        ('{"version": "1.0", "server_list": [{"device": [{"device_id": 1e999, "device_ip": "1"}]}]}', "not shaped"),
        ('{"version": "1.0", "server_list": [{"device": [{"device_id": 1.5, "device_ip": "1"}]}]}', "not shaped"),
        ('{"version": "1.0", "server_list": [{"device": {"device_id": "0"}}]}', "device is no list"),
        ("[" * 100000, "recursion"),
        ('{"version": "\\u001b[2J"}', "is not read"),
    ],
)
def test_anything_else_is_an_error_in_one_line(text: str, says: str) -> None:
    found = servers(text)
    assert found.value is None
    assert says in found.error
    assert len(found.error) < 300
    assert found.error.isprintable()


def test_an_address_has_a_bounded_length() -> None:
    long = json.loads(json.dumps(PLAIN))
    long["server_list"][0]["device"][0]["device_ip"] = "1" * 100000
    found = servers(json.dumps(long)).value
    assert found is not None
    assert len(found["10.1.0.1"].addresses[0]) == 64


def test_a_table_that_all_hosts_have_is_read_once() -> None:
    """Reading it for every host costs 10 s at 1,000 hosts, by one check alone."""
    read.cache_clear()
    table = {"version": "1.0", "status": "completed", "server_list": []}
    files = {"/data/hccl.json": {"path": "/data/hccl.json", "kind": "file", "text": json.dumps(table)}}
    job = {"job": {"variables": {"RANK_TABLE_FILE": "/data/hccl.json"}, "files": files}}
    look(scene({"facts": {"node01": job, "node02": job}}))
    assert read.cache_info().misses == 1
    assert read.cache_info().hits == 5, "three checks look at it on two hosts"
