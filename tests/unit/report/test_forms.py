"""The report's forms for other programs: each is what its readers take, whatever a host has said."""

import errno
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import jsonschema  # type: ignore[import-untyped]
import pytest
import xmlschema
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from preflight.cli.main import main
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Member, Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome
from preflight.model.report import LeftOut, Report
from preflight.model.text import printable
from preflight.report.build import RunDetails, build
from preflight.report.document import document
from preflight.report.html import html
from preflight.report.junit import junit
from preflight.report.nagios import nagios, nagios_code
from preflight.report.prometheus import prometheus
from preflight.report.short import short
from tests.report_schema import schema
from tests.unit.healthy import observations

ROOT = Path(__file__).parents[3]
FAIL, WARN, UNKNOWN, PASS, SKIP = Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN, Outcome.PASS, Outcome.SKIP
TITLES, AREAS = {"NPU107": "Device link state"}, {"NPU107": "links"}
HOSTILE = "\x1b[31m]]> <b>&amp; \"quoted\" \\ | 'x' \u202egnp\u202c \ufffe \x00 line\nline\ttab \U0001f525"


def report(*findings: Finding, left_out: tuple[LeftOut, ...] = (), hosts: tuple[str, ...] = ("node01",)) -> Report:
    return build("check", datetime.now(UTC) - timedelta(seconds=90), hosts, findings, RunDetails(left_out=left_out))


def everything(text: str = HOSTILE) -> Report:
    """A finding of each outcome, and whatever a host can choose, chosen."""
    findings = [
        Finding(f"NPU10{n}", outcome, text, host="node01", device=n, cause=text, remedy=text, evidence=(text,))
        for n, outcome in enumerate(Outcome)
    ]
    of_all = Finding("PRB101", WARN, text)
    seen = build("probe", datetime.now(UTC), ["node01", "node02"], [*findings, of_all],
                 RunDetails(observations({}), [LeftOut("node02", text)], [text]))  # fmt: skip
    assert seen.tests
    return seen


def forms(one: Report) -> dict[str, str]:
    return {
        "json": document(one, one.exit_code(), everything=True),
        "short": short(one, fold=",".join, next_step="go"),
        "junit": junit(one, TITLES, AREAS),
        "prometheus": prometheus(one),
        "nagios": nagios(one),
        "html": html(one, TITLES, fold=",".join, next_step="go"),
    }


class Page(HTMLParser):
    """What a browser makes of the file: its elements, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.words: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("form", ["junit", "html"])
def test_a_megabyte_of_a_log_is_cut_and_said_to_be(form: str) -> None:
    """Beside what a report without it takes; the texts stand in a form several times, the JSON has them whole."""
    made = forms(everything("x" * (1 << 20)))
    assert len(made[form]) - len(forms(everything("x"))[form]) < 200_000
    assert re.search(r"\(10485\d\d characters\)", made[form])
    attributes = re.findall(r'"([^"]*)"', made["junit"])
    assert max(map(len, attributes)) < 2100
    lines = replace(everything("x").findings[0], evidence=tuple(f"line {n}" for n in range(500)))
    made = forms(report(lines))
    assert "line 19" in made[form]
    assert "line 20<" not in made[form]
    assert "and 480 more lines" in made[form]
    assert "line 499" in made["json"]


@cache
def report_validator() -> jsonschema.Draft202012Validator:
    """Return what judges a report; the schema itself is checked here, once."""
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


@cache
def junit_schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(ROOT / "tests/cases/junit.xsd")


def samples(one: Report) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """As the official parser reads them."""
    families = text_string_to_metric_families(prometheus(one))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


@settings(deadline=None, max_examples=30)
@example(HOSTILE)
@example("<script>alert(1)</script>")
@example("'\"></p><img src=x onerror=y>")
@given(st.text(min_size=1))
def test_whatever_a_host_says_every_form_stays_what_it_is(text: str) -> None:
    one = everything(text)
    made = forms(one)
    for name, form in made.items():
        assert (
            not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]", form)
            or name == "json"
        )
    junit_schema().validate(made["junit"])
    assert samples(one)["preflight_verdict", frozenset()] == 2
    report_validator().validate(json.loads(made["json"]))
    assert len(made["nagios"].splitlines()) == 1
    page, plain = Page(made["html"]), Page(forms(everything("x"))["html"])
    assert (page.tags, page.attributes) == (plain.tags, plain.attributes)
    assert printable(text) in "".join(page.words)


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = Page(forms(everything())["html"])
    assert not page.tags.keys() & {"script", "img", "link", "iframe", "object"}
    assert page.attributes <= {"charset", "class", "content", "lang", "name", "style", "title"}
    assert "url(" not in forms(everything())["html"]


def test_a_device_is_red_by_what_is_said_of_it_alone_and_a_pair_by_its_speed() -> None:
    pairs = [
        TestResult(f"r1-{n}", "all_reduce", "float32", 1 << 20, None, (Member("node01", 0, 0), Member("node02", n, 1)),
                   TestOutcome.FAIL if n else TestOutcome.PASS, "closed", busbw_GBps=speed, scope=Scope.PAIR)
        for n, speed in ((0, 20.0), (1, 2.0))
    ]  # fmt: skip
    culprit = Culprit("device", ("node02/1",), ("r1-1",), "")
    one = report(Finding("NPU107", WARN, "weak", host="node01", device=0), hosts=("node01", "node02"))
    page = html(
        Report(**{**vars(one), "tests": tuple(pairs), "culprits": (culprit,)}), TITLES, fold=",".join, next_step=""
    )
    rows = [re.findall('<td class="([a-z]+)"', row) for row in re.findall("<tr><th>node0[12]</th>.*", page)]
    assert rows == [["warn", "warn", "none"], ["unknown", "pass", "fail"]]
    assert re.findall(r"var\(--pass\) (\d+)%", page) == ["100", "10", "100", "10"]


@pytest.mark.parametrize(
    ("devices", "columns"), [((3,), 4), ((7, 0), 8), ((), 0), ((5, 10**9), 2)], ids=["one", "two", "none", "absurd"]
)
@pytest.mark.parametrize("outcome", Outcome)
def test_the_map_has_a_column_for_every_device_and_says_what_its_colours_mean(
    outcome: Outcome, devices: tuple[int, ...], columns: int
) -> None:
    findings = [Finding("NPU107", outcome, "", host="node01", device=device) for device in devices]
    page = forms(report(Finding("HST101", PASS, "", host="node01"), *findings))["html"]
    (row,) = re.findall("<tr><th>node01</th>.*", page)
    assert len(re.findall("<td", row)) == 1 + columns
    legend = page.partition("One column per device. ")[2].partition("</p>")[0]
    assert re.findall('class="word ([a-z]+)"', legend) == ["pass", "warn", "fail", "unknown"]
    assert legend.endswith("Grey: no separate result.")


def test_a_page_of_a_thousand_hosts_is_one_that_can_be_mailed() -> None:
    hosts = tuple(f"node{n:04}" for n in range(1000))
    bad = [
        Finding("NPU107", FAIL, f"{host}: device {device}: link {n}", host=host, device=device, remedy=f"see {host}")
        for n, host in enumerate(hosts)
        for device in range(8)
    ]
    one = report(
        *bad, *(Finding(f"VER{n}", PASS, "", host=host) for host in hosts for n in range(100, 200)), hosts=hosts
    )
    page = html(one, TITLES, fold=",".join, next_step="go")
    assert len(page) < 5 << 20
    shown, _, more = page.partition("992 more like these")
    assert (shown.count(": link "), shown.count("see node"), more.count(": link ")) == (8, 3, 50)
    assert "… and 942 more (-o json lists all)" in more


def test_of_one_device_the_page_says_what_was_expected_and_what_was_found() -> None:
    apart = [
        Finding("NPU101", FAIL, f"{n}", host="node01", device=n, expected=f"1.{n}", found=f"2.{n}") for n in (0, 1)
    ]
    page = html(report(*apart), TITLES, fold=",".join, next_step="go")
    assert page.count("expected 1.") == page.count("; found 2.") == 2


def test_a_suite_a_host_and_a_case_a_check() -> None:
    up, down = (
        Finding("NPU107", outcome, f"device {n}", host="node01", device=n) for n, outcome in ((0, PASS), (1, FAIL))
    )
    one = report(
        up, down, Finding("VER101", WARN, "old", host="node01"), Finding("HST104", SKIP, "not here", host="node01"),
        Finding("NPU113", UNKNOWN, "npu-smi hangs", host="node02"), Finding("PRB103", FAIL, "all are slow"),
        hosts=("node01", "node02"), left_out=(LeftOut("node03", "busy"),),
    )  # fmt: skip
    root = ElementTree.fromstring(junit(one, TITLES, AREAS))
    told = {
        (suite.get("name"), case.get("name")): [(it.tag, it.get("message")) for it in case]
        for suite in root
        for case in suite
    }
    assert told == {
        ("node01", "NPU107 Device link state"): [("failure", "fail: device 1")],
        ("node01", "VER101"): [("system-out", None)],
        ("node01", "HST104"): [("skipped", "skip: not here")],
        ("node02", "NPU113"): [("error", "unknown: npu-smi hangs")],
        ("cluster", "PRB103"): [("failure", "fail: all are slow")],
        ("node03", "Host checked"): [("error", "left out: busy")],
    }
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6", "failures": "2", "errors": "2", "skipped": "1"
    }  # fmt: skip
    assert float(root.get("time", "")) >= 90


def test_a_group_measured_again_counts_with_its_best_and_the_slowest_group_is_shown() -> None:
    def pair(number: int, one: int, other: int, speed: float) -> TestResult:
        members = (Member("node01", one, 0), Member("node01", other, 1))
        return TestResult(f"r1-{number}", "all_reduce", "float32", 1 << 20, None, members, TestOutcome.PASS, "closed",
                          busbw_GBps=speed, scope=Scope.PAIR)  # fmt: skip

    one = replace(report(), tests=(pair(0, 0, 1, 2.0), pair(1, 1, 0, 0.5), pair(2, 2, 3, 3.0)))
    (speed,) = (value for (name, _), value in samples(one).items() if name == "preflight_busbw_bytes_per_second")
    assert speed == 2e9
    shown = forms(one)["html"].partition("slowest group")[2]
    assert re.findall(r'class="n">([0-9.]+) GB/s', shown) == ["2"]


def test_samples_are_those_of_the_worst_finding_and_of_the_slowest_group() -> None:
    tests = [
        TestResult(f"r1-{n}", "all_reduce", "float32", 8, None, (Member("node01", 0, 0), Member("node02", n, 1)),
                   TestOutcome.PASS, "closed", busbw_GBps=speed,
                   scope=Scope.PAIR)
        for n, speed in enumerate((2.0, 0.5, None))
    ]  # fmt: skip
    one = report(
        Finding("NPU107", WARN, "", host="node01", device=1), Finding("NPU107", UNKNOWN, "", host="node01", device=1),
        Finding("HST104", SKIP, "", host="node01"), Finding("PRB103", PASS, ""), left_out=(LeftOut("node09", "busy"),),
    )  # fmt: skip
    found = samples(replace(one, tests=tuple(tests)))
    status = {tuple(sorted(labels)): value for (name, labels), value in found.items() if name.endswith("check_status")}
    assert status == {
        (("check", "NPU107"), ("device", "1"), ("host", "node01")): 3,
        (("check", "PRB103"), ("device", ""), ("host", "")): 0,
    }
    (speed,) = (value for (name, _), value in found.items() if name == "preflight_busbw_bytes_per_second")
    assert speed == 0.5e9
    assert found["preflight_hosts_left_out", frozenset()] == 1
    assert found["preflight_run_duration_seconds", frozenset()] >= 90
    hostile = Finding("NPU107", FAIL, "", host=HOSTILE)
    assert any(("host", printable(HOSTILE)) in labels for _, labels in samples(report(hostile)))


@pytest.mark.parametrize(
    ("findings", "left_out", "code", "line"),
    [
        ([Finding("VER101", PASS, "", host="node01")], (), 0, "OK: 1 host | pass=1 warn=0 fail=0 unknown=0"),
        ([Finding("VER101", WARN, "a|b", host="node01")], (), 1,
         "WARNING: VER101 a/b | pass=0 warn=1 fail=0 unknown=0"),
        ([Finding("VER101", FAIL, "bad", host="node01")] * 3, (), 2,
         "CRITICAL: VER101 bad and 2 more | pass=0 warn=0 fail=1 unknown=0"),
        ([Finding("VER101", UNKNOWN, "blind", host="node01")], (), 3,
         "UNKNOWN: VER101 blind | pass=0 warn=0 fail=0 unknown=1"),
        ([Finding("VER101", PASS, "", host="node01")], (LeftOut("node02", "busy"),), 3,
         "UNKNOWN: node02 was left out: busy | pass=1 warn=0 fail=0 unknown=0"),
    ],
)  # fmt: skip
def test_a_plugin_of_nagios_has_one_line_and_codes_of_its_own(
    findings: list[Finding], left_out: tuple[LeftOut, ...], code: int, line: str
) -> None:
    one = report(*findings, left_out=left_out)
    assert (nagios_code(one), nagios(one)) == (code, f"PREFLIGHT {line}")


def test_short_is_a_line_a_problem_the_worst_first() -> None:
    same = [Finding("NPU107", WARN, f"node0{n}: link is slow", host=f"node0{n}") for n in (1, 2)]
    one = report(*same, Finding("VER101", FAIL, "two releases"), Finding("NPU101", PASS, "", host="node01"))
    assert short(one, fold="+".join, next_step="preflight explain VER101").splitlines() == [
        "fail    VER101  two releases",
        "warn    NPU107  node01+node02: link is slow",
        "FAIL: 1 fail, 1 warn, 1 pass of 3 checks",
        "next: preflight explain VER101",
    ]


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    Path("hosts.toml").write_text(
        '[cluster]\nname = "here"\nproduct = "cpu"\n[ssh]\ntransport = "local"\n[[hosts]]\nname = "node01"\n'
        'address = "127.0.0.1"\n'
    )
    return "hosts.toml"


def test_one_run_has_as_many_forms_as_are_asked_for(inventory: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"json": "a", "junit": "b", "prometheus": "c", "nagios": "d", "console": "e"}
    asked = [word for form, file in files.items() for word in ("-o", f"{form}={file}")]
    code = main(["check", "-i", inventory, "--only", "PRT104", "--basic", "-o", "short", *asked, "--save", "f"])
    assert code == json.loads(Path("a").read_text())["exit"]
    assert Path("a").read_bytes() == Path("f").read_bytes()
    junit_schema().validate(Path("b").read_text())
    assert list(text_string_to_metric_families(Path("c").read_text()))
    assert Path("d").read_text().startswith("PREFLIGHT ")
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == Path("e").read_text().splitlines()[-1]
    assert shown[-1].startswith("next: ")
    assert not list(Path().glob("*.partial"))


def test_files_are_written_also_where_stdout_or_another_file_is_full(
    inventory: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["check", "-i", inventory, "--only", "PRT104", "--basic", "-o", "short", "-o", "junit=a", "-o", "json=b"]
    whole = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if target.name == "a":
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    assert main(asked) == 1
    assert "cannot write the report to a: No space left on device" in capsys.readouterr().err
    assert json.loads(Path("b").read_text())["command"] == "check"
    assert sorted(file.name for file in Path().glob("?*.partial")) == []
    Path("b").unlink()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "preflight", *asked], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, "No space left on device" in done.stderr) == (1, True)
    assert json.loads(Path("b").read_text())["command"] == "check"
    assert Path("a").exists()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["-o", "short", "-o", "json"], "only one form of the report can go to stdout"),
        (["-o", "json=x", "-o", "junit=x"], "x is given for two forms"),
        (["-o", "json=x", "--save", "x"], "x is given for two forms"),
        (["-o", "junit=missing/x"], "-o missing/x: cannot write in missing"),
        (["-o", "junit=."], "-o . is a directory"),
        (["-o", "pdf"], "'pdf' is not one of console, short, json"),
        (["-o", "json="], "'json=' has no file name after ="),
    ],
)
def test_what_cannot_be_written_is_refused_before_anybody_is_contacted(
    asked: list[str], says: str, inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["check", "-i", inventory, *asked])
    except SystemExit as stopped:  # argparse
        code = int(str(stopped.code))
    assert code == 2
    assert says in capsys.readouterr().err


def test_the_ending_of_a_saved_file_gives_its_form(inventory: str) -> None:
    files = {"r.json": "{", "r.html": "<!DOCTYPE", "r.xml": "<?xml", "r.prom": "# HELP", "r.txt": "{", "r": "{"}
    saves = [word for name in files for word in ("--save", name)]
    main(["check", "-i", inventory, "--only", "HST101", "--basic", *saves])
    assert [name for name, start in files.items() if not Path(name).read_text("utf-8").startswith(start)] == []
