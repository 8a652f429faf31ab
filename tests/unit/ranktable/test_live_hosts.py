"""The rank table of live hosts, and a table beside them: from facts, offline."""

import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from preflight.app.progress_line import ProgressLine
from preflight.app.session import Session
from preflight.cli.jobs.ranktable_push import push, show_briefly
from preflight.cli.main import main
from preflight.facts.documents.facts_document import dump, load
from preflight.model.change import Area, Change, Kind, Plan
from preflight.model.errors import PreflightError
from preflight.ranktable.build import BuildOptions, BuildResult, ServerOrder, build
from preflight.ranktable.live import compare
from preflight.ranktable.planned import judge_planned
from preflight.ranktable.read import read
from preflight.ranktable.types import HostDifference, RankTable
from preflight.ranktable.write import text_of
from preflight.transport.types import Transport
from tests.unit.healthy import Scene, scene

SUPER_PODS = {"cluster": {"product": "atlas-a3", "superpod": True}}
AWAY = {"facts": {"node02": {"hccn": {"missing": "hccn_tool is not there"}}}}

INVENTORY = """
[cluster]
name = "case"
product = "atlas-a1"
[[hosts]]
name = "node[01-02]"
address = "10.1.0.[1-2]"
"""


def built(case: dict[str, Any], wanted: BuildOptions | None = None) -> BuildResult:
    made = scene(case)
    return build(made.cluster, made.cluster.hosts, made.facts, wanted or BuildOptions())


def table_of(case: dict[str, Any], wanted: BuildOptions | None = None) -> RankTable:
    table = built(case, wanted).table
    assert table is not None
    return table


def differences(table: RankTable, case: dict[str, Any]) -> tuple[list[HostDifference], list[str]]:
    made: Scene = scene(case)
    found = compare(table, made.cluster.hosts, made.facts)
    return list(found.differences), list(found.unseen)


def device(number: int, **changes: Any) -> dict[str, Any]:
    return {"facts": {"node02": {"hccn": {"devices": {str(number): changes}}}}}


def test_the_table_has_the_addresses_that_the_devices_have() -> None:
    made = built(device(3, address={"value": "10.20.3.99"}))
    assert made.table is not None
    assert made.table.servers[1].devices[3].device_ip == "10.20.3.99"
    assert made.differences == ("node02: device 3 has 10.20.3.99, but the inventory plans 10.20.3.20",)


@pytest.mark.parametrize(
    ("case", "part", "says"),
    [
        (device(3, address={"value": None}), "lacking", "node02: device 3 has no address. It is required on Atlas A1"),
        (device(3, address={"error": "busy"}), "unseen", "node02: device 3: address unknown (busy)"),
        (AWAY, "unseen", "node02: hccn_tool is not there"),
        (SUPER_PODS | {"facts": {"node02": {"chips": {"missing": "no npu-smi"}}}}, "unseen",
         "node02: super device ids are unknown (no npu-smi)"),
    ],
)  # fmt: skip
def test_without_a_device_there_is_no_table(case: dict[str, Any], part: str, says: str) -> None:
    made = built(case)
    assert made.table is None
    [sentence] = getattr(made, part)
    assert says in sentence


def test_servers_of_a_super_pod_are_listed_together_with_super_device_ids() -> None:
    pod = {"facts": {"node01": {"chips": {"chips": {str(number): {"superpod": {"value": {
        "sdid": number, "pod": 7, "server": 3, "size": 8}}} for number in range(8)}}}}}  # fmt: skip
    table = table_of(SUPER_PODS | pod)
    assert (table.version, [pod.id for pod in table.super_pods]) == ("1.2", ["7", "0"])
    assert [pod.servers for pod in table.super_pods] == [("10.1.0.1",), ("10.1.0.2",)]
    assert [device.super_device_id for device in table.servers[0].devices] == [str(number) for number in range(8)]
    assert read(text_of(table)).table == table


def test_servers_are_in_lexical_order_by_default() -> None:
    case = {"cluster": {"hosts": {"node01": {"address": "10.1.0.20"}, "node02": {"address": "10.1.0.141"}}}}
    assert [server.id for server in table_of(case).servers] == ["10.1.0.141", "10.1.0.20"]
    kept = table_of(case, BuildOptions(order=ServerOrder.INVENTORY))
    assert [server.id for server in kept.servers] == ["10.1.0.20", "10.1.0.141"]


def test_a_built_table_has_no_differences() -> None:
    assert differences(table_of({}), {}) == ([], [])
    assert differences(table_of(SUPER_PODS), SUPER_PODS) == ([], [])


def test_a_difference_has_rank_server_device_and_both_values() -> None:
    [found], unseen = differences(table_of({}), device(3, address={"value": "10.20.3.99"}))
    assert found.text == (
        "rank 11 (server 10.1.0.2, device 3): the table has device_ip 10.20.3.20, but node02 has 10.20.3.99"
    )
    assert (found.host, found.server, found.device, found.rank) == ("node02", "10.1.0.2", 3, 11)
    assert (found.listed, found.live, unseen) == ("10.20.3.20", "10.20.3.99", [])


@pytest.mark.parametrize(
    ("wanted", "case", "says"),
    [
        (None, device(3, address={"value": None}), "the table has device_ip 10.20.3.20, but node02 has none"),
        (BuildOptions((0, 1)), {}, "node01: device 2 has no rank in the table (server 10.1.0.1)"),
        (None, {"cluster": {"hosts": {"node02": {"address": "10.1.0.9"}}}},
         "node02 (10.1.0.9) is not in the table. No server has an address of this host"),
        (None, {"cluster": {"hosts": {"node02": {"address": "10.1.0.9"}}}},
         "server 10.1.0.2 (ranks 8-15) is not a host in the inventory"),
    ],
)  # fmt: skip
def test_differences_are_reported(wanted: BuildOptions | None, case: dict[str, Any], says: str) -> None:
    if "cluster" in case:
        case = case | {"facts": {"node02": {"network": {"interfaces": []}}}}
    found, _ = differences(table_of({}, wanted), case)
    assert any(says in one.text for one in found), found


def test_a_missing_device_is_a_difference() -> None:
    table = table_of({})
    made = scene({})
    one_less = json.loads(dump(made.facts))
    one_less["hosts"]["node02"]["hccn"]["value"]["devices"].pop()
    found = compare(table, made.cluster.hosts, load(json.dumps(one_less)))
    assert [one.text for one in found.differences] == ["rank 15 (server 10.1.0.2, device 7): node02 has no device 7"]


def test_another_super_device_id_and_a_split_super_pod_are_differences() -> None:
    other = {"facts": {"node02": {"chips": {"chips": {"0": {"superpod": {"value": {
        "sdid": 5, "pod": 3, "server": 2, "size": 384}}}}}}}}  # fmt: skip
    found, _ = differences(table_of(SUPER_PODS), SUPER_PODS | other)
    assert [one.text for one in found] == [
        "rank 8 (server 10.1.0.2, device 0): the table has super_device_id 8388608, but node02 has 5",
        "server 10.1.0.2: the table puts node02 and node01 into super-pod 0, "
        "but node02 is in super-pod 3 and node01 in super-pod 0",
    ]


def jobs(**variables: dict[str, str]) -> dict[str, Any]:
    """Variables of the jobs on hosts."""
    return {"facts": {host: {"job": {"variables": told}} for host, told in variables.items()}}


PATH = "/data/hccl.json"
TABLE = {"RANK_TABLE_FILE": PATH}


def copies(**digests: str) -> dict[str, Any]:
    """What stands at RANK_TABLE_FILE of hosts; "" is a file that is missing."""
    return {
        "facts": {
            host: {
                "job": {
                    "variables": TABLE,
                    "files": {PATH: {"path": PATH, "kind": "file" if it else "missing", "digest": it}},
                }
            }
            for host, it in digests.items()
        }
    }


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ({}, []),
        (copies(node01="d1", node02="d1"), []),
        (copies(node01="d1", node02="d2"),
         [("node02", False, "node02: RANK_TABLE_FILE=/data/hccl.json is a different table (sha256 d2…)")]),
        (copies(node01="d1", node02=""),
         [("node02", False, "node02: RANK_TABLE_FILE=/data/hccl.json cannot be read (missing)")]),
        (copies(node01="d2", node02="d2"),
         [(host, True, f"{host}: RANK_TABLE_FILE=/data/hccl.json is a different table (sha256 d2…). "
           "No host has this table")
          for host in ("node01", "node02")]),
    ],
)  # fmt: skip
def test_copies_of_the_table_on_hosts_are_compared(case: dict[str, Any], said: list[tuple[str, bool, str]]) -> None:
    made = scene(case)
    found = compare(table_of({}), made.cluster.hosts, made.facts, digest="d1")
    assert [(one.host, one.warning, one.text) for one in found.differences] == said
    assert all(one.rule == "copy" for one in found.differences)


def test_copies_that_could_not_be_read_are_unseen() -> None:
    made = scene({"facts": {"node02": {"job": {"missing": "no container of this name"}}}})
    found = compare(table_of({}), made.cluster.hosts, made.facts, digest="d1")
    assert (found.differences, found.unseen) == (
        (),
        ("node02: the jobs' rank table is unknown (no container of this name)",),
    )


RETRY, ROCE = {"HCCL_OP_RETRY_ENABLE": "L1:0,L2:1"}, {"HCCL_INTER_HCCS_DISABLE": "TRUE"}


def without(table: RankTable, key: str) -> RankTable:
    """A super-pod's table whose second server lacks this key."""
    document = json.loads(text_of(table))
    second = document["server_list"][1]
    for entry in (second, *second["device"]):
        entry.pop(key, None)
    found = read(json.dumps(document)).table
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("key", "variables", "rule", "says"),
    [
        ("host_ip", RETRY, "host-ip", "server 10.1.0.2 has no host_ip, which HCCL_OP_RETRY_ENABLE='L1:0,L2:1' ("),
        ("device_ip", ROCE, "device-ip",
         "rank 8 (server 10.1.0.2, device 0) has no device_ip, which HCCL_INTER_HCCS_DISABLE=TRUE ("),
    ],
)  # fmt: skip
def test_variables_of_a_job_add_requirements(key: str, variables: dict[str, str], rule: str, says: str) -> None:
    table = without(table_of(SUPER_PODS), key)
    assert differences(table, SUPER_PODS) == ([], [])
    found, _ = differences(table, SUPER_PODS | jobs(node02=variables))
    assert {one.rule for one in found} == {rule}
    assert found[0].text == f"{says}jobs on node02) requires"
    assert differences(table, SUPER_PODS | jobs(node01=variables)) == ([], []), "of its own server"
    off = {name: value.replace("1:1", "1:0").replace("2:1", "2:0").replace("TRUE", "FALSE") for name, value in
           variables.items()}  # fmt: skip
    assert differences(table, SUPER_PODS | jobs(node02=off)) == ([], [])
    assert differences(table_of(SUPER_PODS), SUPER_PODS | jobs(node02=variables)) == ([], [])
    planned = scene(SUPER_PODS).cluster
    planned = replace(planned, setup=replace(planned.setup, profile=variables))
    [problem, *_] = judge_planned(read(text_of(table)), planned)
    assert (problem.rule, problem.text) == (rule, f"{says}[host_setup] in the inventory) requires")
    assert judge_planned(read(text_of(table_of(SUPER_PODS))), planned) == ()


def test_devices_beyond_those_of_the_inventory_are_problems() -> None:
    planned = scene({}).cluster
    text = text_of(table_of({}))
    assert judge_planned(read(text), planned) == ()
    few = replace(planned, hosts=(planned.hosts[0], replace(planned.hosts[1], devices=planned.hosts[1].devices[:4])))
    [problem, *others] = judge_planned(read(text), few)
    assert (
        problem.text
        == "rank 12 (server 10.1.0.2, device 4): according to the inventory, such a server has devices 0 to 3"
    )
    assert (problem.rule, problem.warning, len(others)) == ("device", False, 3)
    unknown = text.replace('"10.1.0.2"', '"10.1.0.9"').replace('"device_id": "7"', '"device_id": "64"')
    said = judge_planned(read(unknown), few)
    assert [it.text.partition(": ")[2] for it in said if it.rule == "device"] == [
        "according to the inventory, such a server has devices 0 to 7"
    ] * 2, "and not that it is above 63, too"


def test_unseen_hosts_are_no_difference() -> None:
    assert differences(table_of({}), AWAY) == ([], ["node02: device addresses are unknown (hccn_tool is not there)"])


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`preflight ranktable` in a folder with hosts.toml, facts.json of a healthy cluster, and other facts."""
    monkeypatch.chdir(tmp_path)
    Path("hosts.toml").write_text(INVENTORY)
    Path("facts.json").write_text(dump(scene({}).facts))
    Path("other.json").write_text(dump(scene(device(3, address={"value": "10.20.3.99"})).facts))
    Path("away.json").write_text(dump(scene(AWAY).facts))

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(["ranktable", *arguments])
        except SystemExit as end:  # of argparse
            code = int(end.code or 0)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def unwrapped(out: str) -> str:
    return " ".join(out.split())


def test_a_table_is_written_from_saved_facts(run: Run) -> None:
    assert run("--from", "facts.json", "-o", "table.json")[:2] == (
        0,
        "table.json: version 1.0, 2 servers, 16 ranks\n"
        "next: preflight ranktable --check table.json --inventory hosts.toml\n",
    )
    code, out, err = run("--check", "table.json")
    assert (code, err) == (0, "")
    assert "The table is valid. The hosts were not checked." in out
    code, out, _ = run("--check", "table.json", "--from", "facts.json")
    assert (code, "The table is valid and agrees with the hosts." in out) == (0, True)


def test_differences_exit_with_one_and_unseen_hosts_with_three(run: Run) -> None:
    assert run("--from", "facts.json", "-o", "table.json")[0] == 0
    code, out, _ = run("--check", "table.json", "--from", "other.json")
    assert code == 1
    assert (
        "table.json:19:39: rank 11 (server 10.1.0.2, device 3): the table has device_ip 10.20.3.20, but node02 has "
        "10.20.3.99 [device-ip]"
    ) in unwrapped(out)
    code, out, _ = run("--check", "table.json", "--from", "away.json")
    assert (code, "! not checked: node02: device addresses are unknown (hccn_tool is not there)" in out) == (3, True)
    assert run("--from", "away.json", "-o", "none.json")[0] == 3
    assert not Path("none.json").exists()


def test_a_table_that_breaks_a_rule_exits_with_two(run: Run) -> None:
    _, text, _ = run("--from", "facts.json", "-o", "-")
    Path("bad.json").write_text(text.replace('"rank_id": "9"', '"rank_id": "8"'))
    code, out, _ = run("--check", "bad.json")
    assert code == 2
    assert "bad.json:17:64: rank 8 (server 10.1.0.2, device 1): rank_id 8 is also used by rank 8 (" in unwrapped(out)
    code, out, _ = run("--check", "bad.json", "--from", "facts.json", "-o", "json")
    document = json.loads(out)
    assert (code, document["exit"], document["compared"]) == (2, 2, False)
    assert document["problems"][0] == {
        "rule": "rank", "severity": "error", "line": 17, "column": 64, "path": "server_list[1].device[1].rank_id",
        "rank": 8, "text": "rank 8 (server 10.1.0.2, device 1): rank_id 8 is also used by rank 8 (server 10.1.0.2, "
        "device 0)",
    }  # fmt: skip


def test_many_differences_of_a_kind_are_folded(run: Run) -> None:
    _, text, _ = run("--from", "facts.json", "-o", "-")
    Path("bad.json").write_text(text.replace('"device_ip": "10.', '"device_ip": "x.'))
    code, out, _ = run("--check", "bad.json")
    assert (code, unwrapped(out).count(" is not an address"), "  … and 11 more [device-ip]: ranks 5 to 15" in out) == (
        2,
        5,
        True,
    )


def test_a_link_is_refused(run: Run) -> None:
    run("--from", "facts.json", "-o", "table.json")
    Path("link.json").symlink_to("table.json")
    code, out, _ = run("--check", "link.json")
    assert (code, "link.json is a link" in out) == (2, True)


def test_the_commands_to_run_next_are_quoted(run: Run) -> None:
    written = run("--from", "facts.json", "-i", "hosts.toml", "-o", "a b;id.json")[1]
    assert written.endswith("next: preflight ranktable --check 'a b;id.json' --inventory hosts.toml\n")
    Path("my hosts.toml").write_text(INVENTORY)
    assert run("--check", "a b;id.json")[1].endswith(written.splitlines()[-1] + "\n")
    for facts, says in (
        ("other.json", "next: preflight ranktable --inventory 'my hosts.toml' -o 'a b;id.json' --force\n"),
        ("facts.json", "next: preflight check --inventory 'my hosts.toml'\n"),
    ):
        assert run("--check", "a b;id.json", "--from", facts, "-i", "my hosts.toml")[1].endswith(says)


def test_a_file_is_overwritten_only_with_an_option(run: Run) -> None:
    Path("mine.json").write_text("mine")
    code, _, err = run("--from", "facts.json", "-o", "mine.json")
    assert (code, Path("mine.json").read_text()) == (2, "mine")
    assert "mine.json already exists. Choose another file, or overwrite it with --force." in err
    assert run("--from", "facts.json", "-o", "mine.json", "--force")[0] == 0
    assert read(Path("mine.json").read_text()).table is not None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "ranktable needs -o FILE"),
        (("-o", "json"), "is for --check"),
        (("--from", "facts.json", "-o", "-", "--devices", "3,4"), "2 or 4 devices must be all in 0-3 or all in 4-7"),
        (("--from", "facts.json", "-o", "-", "--devices", "0-2"), "Atlas A1 supports 1, 2, 4 or 8 per server"),
        (("--from", "facts.json", "-o", "-", "--devices", "9"), "node01 has no device 9 in the inventory"),
        (("--from", "facts.json", "-o", "-", "--devices", "3-1"), "'3-1' is not a list of devices such as 0-3 or 0,1"),
        (("--from", "facts.json", "-o", "-", "--devices", "a"), "'a' is not a list of devices such as 0-3 or 0,1"),
        (("--from", "facts.json", "-o", "-", "--format", "1.2"), "--format 1.2 is for super-pods of atlas-a3"),
        (("--from", "facts.json", "--push", "/data/t.json"), "--from and --push cannot be combined"),
        (("-o", "new.json", "--dry-run"), "--dry-run is for --push"),
        (("--push", "data/t.json", "-y"), "is not an absolute path"),
        (("--push", "/data/../t.json", "-y"), "is not an absolute path"),
        (("--push", "/data/", "-y"), "is not an absolute path"),
        (("--check", "nowhere.json"), "nowhere.json: No such file or directory. Choose a rank table"),
        (("--check", "."), "a directory"),
        (("--check", "facts.json", "-o", "x.json"), "with --check, -o is console or json"),
        (("--check", "facts.json", "--devices", "0"), "--check cannot be combined with --push"),
        (("--check", "facts.json", "--limit", "node01"), "--check with --limit needs --inventory FILE"),
        (("--check", "latin.json"), "latin.json:2:2: the rank table is not UTF-8 text"),
    ],
)
def test_wrong_usage_is_one_sentence(run: Run, arguments: tuple[str, ...], says: str) -> None:
    Path("latin.json").write_bytes(b"{\n \xe9}")
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert says in err


def test_two_or_four_devices_of_a_ring_are_a_table(run: Run) -> None:
    code, out, err = run("--from", "facts.json", "-o", "-", "--devices", "4-7")
    table = read(out).table
    assert code == 0
    assert table is not None
    assert [device.device_id for device in table.servers[1].devices] == [4, 5, 6, 7]
    assert "MindSpore's tutorial does not" in err


def test_the_plan_of_a_large_table_shows_path_and_size(capsys: pytest.CaptureFixture[str]) -> None:
    """16 servers of 8 are the most that is shown line by line."""
    names = [f"node{number:02}" for number in range(1, 5)]
    befores = [None, None, None, "{}"]
    changes = [Change(name, Area.ENVIRONMENT, Kind.FILE, "/data/t.json", before, "", "ENV108")
               for name, before in zip(names, befores, strict=True)]  # fmt: skip
    show_briefly(Plan(tuple(changes)), text_of(table_of({})))
    assert capsys.readouterr().out.splitlines() == [
        "+ /data/t.json on node[01-03]",
        "~ /data/t.json on node04",
        "version 1.0, 2 servers, 16 ranks; to read it, add -o FILE",
    ]


def test_a_table_with_problems_is_not_pushed() -> None:
    cluster = scene({}).cluster
    nobody = Session(cluster, cluster.hosts, cast(Transport, None), ProgressLine())
    with pytest.raises(PreflightError, match=r"the table is larger than 8192 KiB\. Write it with -o"):
        push(Namespace(push="/data/t.json"), nobody, " " * (9 << 20))
