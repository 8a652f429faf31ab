"""`preflight diff`: what two runs have differently, and that what changes by itself is left out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.main import main
from preflight.facts.documents.facts_document import compact, dump
from preflight.facts.types import SECTIONS, ClusterFacts, HostFacts, Missing, Unreachable
from preflight.history.documents import FACTS, REPORT, compress
from preflight.history.runs import CheckRun, remember
from preflight.model.change import Area, Change, Kind, Plan
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.report import SCHEMA, HostLine, Report
from preflight.provision.journal import RunJournal, require_directory
from preflight.report.document import document
from tests.unit.healthy import scene
from tests.unit.past_runs import failed, figure, look

BOTH = ("node01", "node02")
Diff = Callable[..., tuple[int, str, str]]
INCOMPLETE = "INCOMPLETE: nothing in common to compare"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history of its own, and a folder without hosts.toml."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def diff(capsys: pytest.CaptureFixture[str]) -> Diff:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["diff", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def facts(**hosts: Any) -> ClusterFacts:
    """A healthy cluster's, but for what is said: section → field → value, as in cases."""
    return scene({"facts": hosts} if hosts else {}).facts


def ran(run: str, *findings: Any, facts: ClusterFacts | None = None, **more: Any) -> CheckRun:
    one = look(run, *findings, **{"command": "check", **more})
    remember(one, compress({FACTS: compact(facts)} if facts else {}))
    return one


def test_what_a_run_skipped_on_a_host_is_not_gone_there(diff: Diff) -> None:
    bad = [failed("node01"), failed("node02")]
    ran("r1", *bad)
    said = (Finding("PRB101", Outcome.SKIP, "no", "node01"), Finding("PRB101", Outcome.PASS, "", "node02"))
    hosts = tuple(HostLine(name, Outcome.PASS, {}) for name in BOTH)
    saved = Report("r2", "check", "2026-11-21T00:00:00Z", "2026-11-21T00:01:00Z", hosts, said)
    remember(look("r2", command="check"), compress({REPORT: document(saved, 0).encode()}))
    found = json.loads(diff("r1", "r2", "-o", "json")[1])["findings"]
    assert [(it["host"], it["before"], it["after"]) for it in found] == [("node02", "fail", None)]


def test_long_values_are_cut_around_what_differs(diff: Diff, place: Path) -> None:
    for name in ("one", "two"):
        variables = {"LD_LIBRARY_PATH": "/usr/local/lib64:" * 30 + name}
        (place / name).write_text(dump(facts(node01={"job": {"variables": variables}})))
    (found,) = json.loads(diff("one", "two", "-o", "json")[1])["facts"]
    assert (found["before"][-4:], found["after"][-4:]) == (":one", ":two")
    assert max(len(found["before"]), len(found["after"])) <= 200
    (line,) = [line for line in " ".join(diff("one", "two")[1].split()).split("node01: ") if "LD_LIBRARY_PATH" in line]
    assert ":one ->" in line
    assert ":two" in line


# Of runs.


def test_of_no_word_the_last_run_that_passed_is_compared_with_the_newest(diff: Diff) -> None:
    ran("20261120-101010-aaaa", facts=facts(node01={"os": {"kernel": "5.0"}}))
    ran("20261121-101010-bbbb", facts=facts())
    ran("20261121-111111-cccc", failed("node02"), facts=facts())
    new = {host: {"versions": {"driver": "24.1.rc3"}} for host in BOTH}
    ran("20261121-121212-dddd", failed("node01", 3), failed("node02", 3), facts=facts(**new))
    code, out, _ = diff()
    assert code == 1
    assert out.splitlines() == [
        "before  run 20261121-101010-bbbb, check, pass, 2026-11-21T10:42:09Z, 2 hosts",
        "after   run 20261121-121212-dddd, check, fail, 2026-11-21T10:42:09Z, 2 hosts",
        "",
        "facts",
        "  node[01-02]: versions.driver 23.0.7 -> 24.1.rc3",
        "",
        "findings",
        "  new fail PRB101 node[01-02]: it is not well",
        "",
        "DIFFERENT: 1 fact, 2 findings, 0 figures",
        "next: preflight explain PRB101",
    ]


def test_a_change_of_hosts_between_them_is_named(diff: Diff) -> None:
    ran("20261121-101010-aaaa", facts=facts())
    require_directory()
    journal = RunJournal("20261121-110000-0000")
    change = Change("node01", Area.PORTS, Kind.SYSCTL, "net.core.somaxconn", "128", "4096", "why")
    journal.start("configure-ports", Path("hosts.toml"), Plan((change,)))
    journal.begin("node01", [change])
    ran("20261121-121212-bbbb", facts=facts())
    code, out, _ = diff()
    assert (code, "configure-ports changed hosts in between" in out) == (0, True)
    assert json.loads(diff("-o", "json")[1])["changed_by"] == ["20261121-110000-0000"]


def test_figures_stand_beside_each_other(diff: Diff) -> None:
    pairs = {f"node01/{n} node02/{n}": 10.0 for n in range(4)}
    ran("r1", figures=tuple(figure(speed, pair) for pair, speed in pairs.items()))
    pairs["node01/2 node02/2"] = 5.0
    ran("r2", figures=tuple(figure(speed, pair) for pair, speed in pairs.items()))
    code, out, _ = diff("r1", "r2")
    assert code == 1
    assert "   10.00    10.00   100%  all_reduce sum float32 16 MiB: 4 pairs, medians" in out.splitlines()
    assert "   10.00     5.00    50%    node01/2 - node02/2" in out.splitlines()
    assert out.splitlines()[-1] == "next: preflight explain PRB115"
    (moved,) = [one for one in json.loads(diff("r1", "r2", "-o", "json")[1])["figures"] if one["differs"]]
    assert (moved["place"], moved["before_GBps"], moved["busbw_GBps"], moved["ratio"]) == (
        "node01/2 node02/2", 10.0, 5.0, 0.5
    )  # fmt: skip


@pytest.mark.parametrize(
    ("was", "now", "changes"),
    [
        ([failed("node01")], [failed("node01")], []),
        ([], [failed("node01")], [(None, "fail")]),
        ([failed("node01")], [], [("fail", None)]),
        ([failed("node01", outcome=Outcome.WARN)], [failed("node01")], [("warn", "fail")]),
        ([failed("node01", 1)], [failed("node01", 2)], [(None, "fail"), ("fail", None)]),
        ([], [failed("node01", check="NPU107")], []),  # the first run did not look for it
        ([], [failed("node09")], []),  # nor at that host
    ],
)
def test_findings_are_new_gone_or_otherwise(diff: Diff, was: list[Any], now: list[Any], changes: list[Any]) -> None:
    ran("r1", *was)
    ran("r2", *now)
    code, out, _ = diff("r1", "r2", "-o", "json")
    found = json.loads(out)
    assert [(one["before"], one["after"]) for one in found["findings"]] == changes
    assert (code, found["exit"]) == (int(bool(changes)),) * 2


def test_facts_that_are_not_kept_any_more_are_named(diff: Diff) -> None:
    ran("r2", failed("node01"))
    ran("r5", failed("node01"), facts=facts())
    assert "facts (run r2 has none)" in " ".join(diff("r2", "r5")[1].split())


def test_a_run_of_the_same_command_is_preferred(diff: Diff) -> None:
    ran("r1")
    ran("r2", command="probe")
    ran("r3", failed("node01"))
    assert json.loads(diff("-o", "json")[1])["before"]["run"] == "r1"


# Of files.


def test_files_of_facts_reports_and_runs_are_compared(diff: Diff, place: Path) -> None:
    (place / "facts.json").write_text(dump(facts()))
    report = {
        "schema": SCHEMA, "run": "r0", "command": "check", "started": "2026-11-01T00:00:00Z", "verdict": "fail",
        "hosts": [{"name": "node01"}], "checks": {"PRB101": []}, "tests": [],
        "findings": [{"check": "PRB101", "outcome": "fail", "summary": "node01: no", "host": "node01"}],
    }  # fmt: skip
    (place / "report.json").write_text(json.dumps(report))
    ran("r1", facts=facts(node02={"os": {"kernel": "6.9"}}))
    assert diff("facts.json", "r1")[:2] == (1, diff("facts.json", "last")[1])
    assert "node02: os.kernel 6.1.0 -> 6.9" in diff("facts.json", "r1")[1]
    assert "gone: fail PRB101 node01: no" in diff("report.json", "r1")[1]
    code, out, _ = diff("report.json", "facts.json")
    assert (code, out.splitlines()[-2:]) == (3, [INCOMPLETE, "next: preflight history"])


REFUSED = [
    ([""], "this machine has no run ''"),
    ([], "this machine has no run of check or probe"),
    (["r9", "r9"], "this machine has no run r9, and no such file. To list the runs: preflight history"),
    (["a", "b", "c"], "diff compares two runs, not 3"),
    (["odd.json", "odd.json"], "odd.json: this is not a document of preflight. diff compares reports, facts, captures"),
    (["cut.json", "cut.json"], "cut.json: not a report"),
    (["-i", "other.toml"], "this machine has no run of check or probe over other.toml"),
]


@pytest.mark.parametrize(("words", "says"), REFUSED)
def test_what_cannot_be_compared_is_refused_in_a_sentence(diff: Diff, place: Path, words: list[str], says: str) -> None:
    (place / "odd.json").write_text("{}")
    (place / "cut.json").write_text(f'{{"schema": "{SCHEMA}", "run')
    code, out, err = diff(*words)
    assert (code, out, err.count("Traceback")) == (2, "", 0)
    assert says in err


def test_a_beginning_of_several_runs_is_refused(diff: Diff) -> None:
    ran("20261121-101010-aaaa")
    ran("20261121-121212-bbbb", failed("node01"))
    assert "20261121 matches 2 runs" in diff("20261121", "last")[2]
    assert diff("20261121-10", "20261121-12")[0] == 1


def test_a_run_that_changed_hosts_is_no_side(diff: Diff) -> None:
    require_directory()
    RunJournal("20261121-110000-0000").start("configure", Path("hosts.toml"), Plan(()))
    code, _, err = diff("20261121-110000-0000", "last")
    assert (code, "changed hosts. Choose a run" in err) == (2, True)


def test_many_changes_are_folded_to_eighty_columns_and_the_document_has_them_all(diff: Diff) -> None:
    def changed(host: int) -> dict[str, Any]:
        devices = {str(n): {"address": {"value": f"10.99.{host}.{n}"}, "mtu": {"value": "9000"}} for n in range(8)}
        variables = {f"HCCL_{n:02}": "a long value " * 20 for n in range(40)}
        return {"hccn": {"devices": devices}, "job": {"variables": variables}}

    ran("r1", facts=facts())
    ran("r2", failed("node01"), facts=facts(node01=changed(1), node02=changed(2)))
    lines = diff("r1", "r2")[1].splitlines()
    assert max(map(len, lines)) <= 80
    assert "  … and 13 other changes of hccn.devices.address in 13 places" in lines
    (mtu,) = [line for line in lines if "devices.mtu" in line]
    assert mtu.startswith("  node[01-02] devices 0-7: hccn.devices.mtu ")
    assert "  … and 15 more (-o json lists all)" in lines
    assert len(json.loads(diff("r1", "r2", "-o", "json")[1])["facts"]) == 16 + 1 + 40


def test_what_a_host_says_does_not_reach_the_terminal_as_it_is(diff: Diff) -> None:
    ran("r1", facts=facts())
    ran("r2", failed("node01"), facts=facts(node01={"os": {"kernel": "\x1b[31m6.1\u202e"}}))
    out = diff("r1", "r2")[1]
    assert "\x1b" not in out
    assert "\\x1b[31m6.1\\x202e" in out


def report(name: str, *findings: dict[str, Any], hosts: tuple[str, ...] = ("node01",), **more: Any) -> None:
    """A file as `check --save` writes it; `more` may have `checks`: those that looked, whatever they found, and the
    hosts that each skipped."""
    body = {
        "schema": SCHEMA, "run": "r0", "command": "check", "started": "2026-11-01T00:00:00Z", "verdict": "fail",
        "hosts": [{"name": host} for host in hosts], "checks": {"NPU107": []}, "tests": [],
        "findings": findings, **more,
    }  # fmt: skip
    Path(name).write_text(json.dumps(body))


def test_what_a_foreign_report_says_is_escaped_and_clipped(diff: Diff) -> None:
    report("good.json", checks={"\x1b]0;x\x07": []})
    report("odd.json", {"check": "\x1b]0;x\x07", "outcome": "fail", "summary": "x" * 1_000_000, "host": "node01"})
    code, out, _ = diff("good.json", "odd.json")
    assert (code, out.splitlines()[-1]) == (1, "next: preflight explain \\x1b]0;x\\x07")
    assert ("\x1b" in out, len(out) < 10_000) == (False, True)


# What could not be looked at.

BAD = {"check": "NPU107", "outcome": "fail", "host": "node01", "device": 3, "summary": "device 3: link is DOWN"}
AWAY = {"check": "HST101", "outcome": "fail", "host": "node01", "summary": "node01: connection refused"}
AWAY_ = {**AWAY, "host": "node02"}
NEAR = {"check": "SYS101", "outcome": "warn", "host": "node01", "summary": "node01: not quite"}
UNSEEN = {
    "check": "NPU107",
    "outcome": "unknown",
    "host": "node01",
    "summary": "node01: could not be checked: timed out",
}
Saved = tuple[list[dict[str, Any]], dict[str, Any]]
SIGHT: list[tuple[Saved, Saved, int, list[tuple[str, str | None, str | None]]]] = [
    # A host that is away, a section that was not seen: neither is mended.
    (([BAD], {}), ([AWAY], {}), 1, [("HST101", None, "fail")]),
    (([BAD], {}), ([UNSEEN], {}), 1, [("NPU107", None, "unknown")]),
    (([AWAY], {}), ([BAD], {}), 1, [("NPU107", None, "fail"), ("HST101", "fail", None)]),
    # A check that did not look has found nothing better, nor worse.
    (([BAD], {}), ([], {}), 1, [("NPU107", "fail", None)]),
    (([], {}), ([BAD], {}), 1, [("NPU107", None, "fail")]),
    (([BAD, NEAR], {}), ([NEAR], {"checks": {"SYS101": []}}), 0, []),
    (([NEAR], {"checks": {"SYS101": []}}), ([BAD, NEAR], {}), 0, []),
    (([BAD], {}), ([AWAY], {"checks": {}}), 1, [("HST101", None, "fail")]),
    (([AWAY], {"checks": {}}), ([], {}), 1, [("HST101", "fail", None)]),
    (
        ([BAD, NEAR, AWAY_], {"hosts": BOTH}),
        ([NEAR, AWAY_], {"hosts": BOTH, "command": "probe", "checks": {"SYS101": []}}),
        0,
        [],
    ),
    # Nor where it skipped that host, as after a tool that hung there.
    (([BAD, NEAR], {}), ([NEAR], {"checks": {"NPU107": ["node01"], "SYS101": []}}), 0, []),
    (([BAD], {}), ([], {"checks": {"NPU107": ["node02"]}}), 1, [("NPU107", "fail", None)]),
    # Nothing that both have seen: that a host answered is no comparison.
    (([BAD, AWAY_], {"hosts": BOTH}), ([AWAY_], {"hosts": BOTH, "command": "probe", "checks": {}}), 3, []),
    (([BAD], {}), ([], {"checks": {"NPU107": ["node01"]}}), 3, []),
    (([UNSEEN], {}), ([UNSEEN], {}), 3, []),
    (([BAD], {}), ([BAD], {"hosts": ("node02",)}), 3, []),
    (([AWAY], {}), ([AWAY], {}), 3, []),
    (([BAD], {}), ([], {"command": "probe", "checks": {"PRB101": []}}), 3, []),
    (([], {"command": "probe", "checks": {"PRB101": []}}), ([BAD], {}), 3, []),
]


@pytest.mark.parametrize(("was", "now", "code", "changes"), SIGHT)
def test_what_could_not_be_looked_at_is_not_gone_nor_the_same(
    diff: Diff, was: Saved, now: Saved, code: int, changes: list[Any]
) -> None:
    for name, (findings, more) in (("was", was), ("now", now)):
        report(name, *findings, **more)
    ended, out, _ = diff("was", "now", "-o", "json")
    assert ended == code
    found = json.loads(out)
    assert found["exit"] == code
    assert [(it["check"], it["before"], it["after"]) for it in found["findings"]] == changes
    if code == 3:
        assert INCOMPLETE in diff("was", "now")[1]
        return
    told = [text for text in found["not_compared"] if text.startswith("findings of NPU107")]
    known = ("NPU107", "fail", None), ("NPU107", None, "fail")
    lost = (BAD in was[0]) is not (BAD in now[0]) and not set(known) & set(changes)
    assert bool(told) == lost, "what is not compared is named"


def away(host: str) -> ClusterFacts:
    return ClusterFacts({**facts().hosts, host: Unreachable("refused", f"{host}: no", "start it")})


def test_a_host_that_only_one_run_reached_is_a_difference(diff: Diff, place: Path) -> None:
    (place / "up").write_text(dump(facts()))
    (place / "down").write_text(dump(away("node02")))
    code, out, _ = diff("up", "down")
    assert (code, "  node02: reached yes -> no: refused" in out) == (1, True)
    assert diff("down", "up")[0] == 1
    code, out, _ = diff("down", "down")
    assert (code, "not compared: all of node02" in out) == (0, True), "the other host was compared"


def test_hosts_that_neither_reached_are_not_the_same(diff: Diff, place: Path) -> None:
    (place / "down").write_text(dump(ClusterFacts({"node02": away("node02").hosts["node02"]})))
    assert diff("down", "down")[0] == 3


def test_runs_that_have_no_section_in_common_are_not_the_same(diff: Diff) -> None:
    """A probe collects a few sections, and here they could not be collected."""
    unread = Missing("npu-smi did not finish in time")
    probed: dict[str, HostFacts | Unreachable] = {name: HostFacts(**dict.fromkeys(SECTIONS, unread)) for name in BOTH}
    ran("r1", facts=facts(), checks=frozenset({"NPU107"}), started="2026-11-20T10:00:00Z")
    ran("r2", failed("node01"), facts=ClusterFacts(probed), command="probe", next_step="preflight explain PRB101")
    code, out, _ = diff("last", "passed")
    assert (code, out.splitlines()[-2:]) == (3, [INCOMPLETE, "next: preflight explain PRB101"])


def test_the_next_command_is_that_of_the_newer_run(diff: Diff) -> None:
    ran("r1", facts=facts(), started="2026-11-20T10:00:00Z")
    ran("r2", facts=facts(), exit=3, verdict=Outcome.UNKNOWN, next_step="preflight check -i hosts.toml")
    for words in (("last", "passed"), ("passed", "last")):
        assert diff(*words)[1].splitlines()[-1] == "next: preflight check -i hosts.toml"


def test_figures_that_only_one_has_are_named(diff: Diff) -> None:
    ran("r1", figures=(figure(8.0), figure(10.0, "node01/0 node02/0")))
    ran("r2", figures=(figure(8.0),))
    code, out, _ = diff("r1", "r2")
    assert (code, "not compared: 1 figure that only run r1 has" in out) == (0, True)


def test_a_word_longer_than_a_name_can_be_is_no_run(diff: Diff) -> None:
    code, _, err = diff("x" * 5000, "last")
    assert (code, "this machine has no run xxx" in err) == (2, True)
