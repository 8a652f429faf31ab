"""Rank tables: what is read of them, and that whatever else lies there ends in one sentence."""

import json

import pytest

from preflight.facts.rank_table import RankedServer, servers

DEVICES = [{"device_id": "0", "device_ip": "10.20.0.10"}, {"device_id": "1"}]
PLAIN = {"version": "1.0", "server_list": [{"server_id": "10.1.0.1", "device": DEVICES}]}


def test_names_and_addresses_are_read_and_a_device_without_address_is_left_out() -> None:
    assert servers(json.dumps(PLAIN)).value == (RankedServer(frozenset({"10.1.0.1"}), {0: "10.20.0.10"}),)


def test_a_table_of_super_pods_names_its_servers_by_host_ip_too() -> None:
    entry = {"server_id": "node_0", "host_ip": "10.1.0.1", "device": []}
    found = servers(json.dumps({"version": "1.2", "server_list": [entry], "super_pod_list": []}))
    assert found.value == (RankedServer(frozenset({"node_0", "10.1.0.1"}), {}),)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is no JSON"),
        ('{"version": "1.0", // comment\n}', "it is no JSON"),
        ("[]", "not shaped like a rank table"),
        ("null", "not shaped like a rank table"),
        ('{"version": "2.0"}', "version '2.0' is not read"),
        ('{"version": ["1.0"]}', "is not read"),
        ('{"version": "1.0"}', "not shaped like a rank table"),
        ('{"version": "1.0", "server_list": [3]}', "not shaped like a rank table"),
        ('{"version": "1.0", "server_list": [{"device": [{"device_id": "x", "device_ip": "1"}]}]}', "not shaped"),
        ("[" * 100000, "not shaped like a rank table"),
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
    assert len(found[0].addresses[0]) == 64
