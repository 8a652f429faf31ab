"""Rank tables: what is read of them, and that whatever else lies there ends in one sentence with its place."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from preflight.ranktable.read import read
from preflight.ranktable.rules import judge
from preflight.ranktable.syntax import offset_of, places, position
from preflight.ranktable.types import TableProblem
from tests.unit.checks.test_checks import look
from tests.unit.healthy import scene

CASES = Path(__file__).parents[2] / "cases" / "rank_tables"
DEVICES = [{"device_id": "0", "device_ip": "10.20.0.10", "rank_id": "0"}, {"device_id": "1", "rank_id": "1"}]
PLAIN: dict[str, Any] = {"version": "1.0", "server_list": [{"server_id": "10.1.0.1", "device": DEVICES}]}


def place(text: str, problem: TableProblem) -> tuple[int, int]:
    """Line and column, as the command tells them."""
    return position(text, offset_of(problem, places(text) if problem.path is not None else {}))


def test_names_and_addresses_are_read_and_a_device_may_have_none() -> None:
    table = read(json.dumps(PLAIN)).table
    assert table is not None
    [server] = table.servers
    assert server.names == {"10.1.0.1"}
    assert [(device.rank, device.device_id, device.device_ip) for device in server.devices] == [
        (0, 0, "10.20.0.10"), (1, 1, ""),
    ]  # fmt: skip


def test_a_table_of_super_pods_names_its_servers_by_host_ip_too() -> None:
    entry = {"server_id": "node_0", "host_ip": "10.1.0.1", "device": []}
    table = read(json.dumps({"version": "1.2", "server_list": [entry], "super_pod_list": []})).table
    assert table is not None
    assert set(table.by_name) == {"node_0", "10.1.0.1"}


@pytest.mark.parametrize("path", sorted(CASES.glob("good-*")), ids=lambda path: path.stem)
def test_good_tables_break_no_rule(path: Path) -> None:
    found = read(path.read_text())
    assert found.table is not None
    assert found.table.size > 0
    assert judge(found) == ()


@pytest.mark.parametrize("path", sorted(CASES.glob("bad-*")), ids=lambda path: path.stem)
def test_problems_have_line_and_column(path: Path) -> None:
    expected = tomllib.loads((CASES / "expect.toml").read_text())[path.name]
    text = path.read_text()
    [problem] = [problem for problem in judge(read(text)) if not problem.warning]
    assert (problem.rule, [*place(text, problem)]) == (expected["rule"], expected["at"])
    assert expected["says"] in problem.text


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", (1, 1), "the file is empty"),
        ("  \n", (2, 1), "the file is empty"),
        ("\ufeff{}", (1, 1), "begins with a byte order mark"),
        ("{\n/* why */}", (2, 1), "JSON has no comments"),
        ('{"status": "completed"\n  # why\n}', (2, 3), "JSON has no comments"),
        ('{"status": "completed",\n}', (1, 23), "nothing follows the comma"),
        ('{"status": ["a", ]}', (1, 16), "nothing follows the comma"),
        ('{"status": "completed"', (1, 23), "but the text ends here"),
        ("{'status': 1}", (1, 2), "enclosed in double quotes, found \"'status': 1}\""),
        ('{"a": NaN}', None, "NaN is not a JSON number"),
        ('{"a": -Infinity}', None, "-Infinity is not a JSON number"),
        ("[" * 100000, None, "recursion"),
        ('{"a": ' + "9" * 5000 + "}", None, "4300 digits"),
        ('{"a": "\x1b[2J"}', (1, 8), "invalid control character"),
    ],
)
def test_text_that_is_not_json_is_explained_in_one_line(text: str, at: tuple[int, int] | None, says: str) -> None:
    found = read(text)
    [problem] = found.problems
    assert not found.is_json
    assert problem.rule == "json"
    assert says in problem.text
    assert len(problem.text) < 300
    assert problem.text.isprintable()
    assert at is None or place(text, problem) == at


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "It is a list, not an object"),
        ("null", "It is null, not an object"),
        ("{}", "It has neither version nor group_list"),
        ('{"version": "3.0"}', "version '3.0' is not supported. Use one of 1.0, 1.2, 2.0"),
        ('{"version": ["1.0"]}', "a list. It must be a string"),
        ('{"version": 1.0}', "version is '1.0', a number. It must be a string"),
        ('{"version": "1.0"}', "the table has no server_list"),
        ('{"version": "1.0", "server_list": {}}', "server_list is an object, not a list"),
        ('{"version": "1.0", "server_list": [3]}', "server_list[0] is a number, not an object"),
        ('{"version": "1.0", "server_list": [{}]}', "server_list[0] has no device"),
        ('{"version": "1.0", "server_list": [{"device": [{"device_id": "0"}]}]}', "device[0] has no rank_id"),
        ('{"version": "1.0", "server_list": [{"device": [{"rank_id": "0"}]}]}', "device[0] has no device_id"),
        ('{"version": "1.0", "server_list": [{"device": [{"rank_id": "x"}]}]}', "is 'x', not a number"),
        ('{"version": "1.0", "server_list": [{"device": [{"rank_id": 1.5}]}]}', "is '1.5', not a number"),
        ('{"version": "1.0", "server_list": [{"device": [{"rank_id": -1}]}]}', "is '-1', not a number"),
        ('{"version": "1.0", "server_list": [{"device": [{"rank_id": 1e999}]}]}', "is 'inf', not a number"),
        ('{"version": "1.0", "server_list": [{"device": [{"rank_id": true}]}]}', "is 'True', not a number"),
        ('{"version": "1.0", "server_list": [{"device": {"device_id": "0"}}]}', "device is an object, not a list"),
        ('{"version": "1.0", "server_list": [{"server_id": [], "device": []}]}', "server_id is a list, not a string"),
        ('{"version": "2.0", "rank_list": [{"rank_id": 0}]}', "rank_list[0] has no level_list"),
        ('{"group_list": [{"instance_list": [{"server_id": "a"}]}]}', "instance_list[0] has no devices"),
        ('{"version": "\\u001b[2J"}', "is not supported"),
    ],
)  # fmt: skip
def test_json_that_is_no_rank_table_is_explained_in_one_line(text: str, says: str) -> None:
    found = read(text)
    assert found.is_json
    assert found.table is None
    assert says in found.why
    assert len(found.why) < 300
    assert found.why.isprintable()


def test_a_number_instead_of_a_string_is_a_problem_and_is_read() -> None:
    text = json.dumps(PLAIN, indent=1).replace('"rank_id": "1"', '"rank_id": 1')
    found = read(text)
    [problem] = found.problems
    assert (problem.rule, found.table is not None) == ("strings", True)
    wanted = 'server_list[0].device[1].rank_id is a number. In this version, it must be the string "1"'
    assert problem.text == wanted
    assert place(text, problem)[0] == next(
        number for number, line in enumerate(text.splitlines(), 1) if '"rank_id": 1' in line
    )


def test_a_string_instead_of_a_number_is_a_problem_of_version_2() -> None:
    text = (CASES / "good-v2.0.json").read_text().replace('"rank_id": 1,', '"rank_id": "1",')
    [problem] = read(text).problems
    assert problem.text == "rank_list[1].rank_id is a string. In this version, it must be the number 1"


def test_a_repeated_key_is_reported_at_its_second_place() -> None:
    text = '{"version": "1.0",\n "status": "a", "status": "completed", "server_count": "0", "server_list": []}'
    [problem] = read(text).problems
    assert (problem.text, place(text, problem)) == ("status occurs twice. The last value counts", (2, 17))


def test_an_address_has_a_bounded_length() -> None:
    long = json.loads(json.dumps(PLAIN))
    long["server_list"][0]["device"][0]["device_ip"] = "1" * 100000
    table = read(json.dumps(long)).table
    assert table is not None
    assert len(table.servers[0].devices[0].device_ip) == 64


def test_a_table_that_all_hosts_have_is_read_once() -> None:
    """Reading it for every host costs 10 s at 1,000 hosts, by one check alone."""
    read.cache_clear()
    table = {"version": "1.0", "status": "completed", "server_list": []}
    files = {"/data/hccl.json": {"path": "/data/hccl.json", "kind": "file", "text": json.dumps(table)}}
    job = {"job": {"variables": {"RANK_TABLE_FILE": "/data/hccl.json"}, "files": files}}
    look(scene({"facts": {"node01": job, "node02": job}}))
    assert read.cache_info().misses == 1
    assert read.cache_info().hits == 5, "three checks look at it on two hosts"
