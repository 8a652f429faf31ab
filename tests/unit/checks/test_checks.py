"""Checks: every case of `tests/cases/checks`, the runner, waivers, and the two commands that show the checks."""

import dataclasses
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from preflight.checks.engine.catalogue import catalogue
from preflight.checks.engine.registry import ROUNDS, Check, Here, all_checks
from preflight.checks.engine.run import NotRun, run_checks, select
from preflight.checks.engine.waivers import apply_waivers
from preflight.cli.commands.explain import NEEDS, text
from preflight.cli.commands.list_checks import AREAS, markdown
from preflight.cli.main import COMMANDS, main
from preflight.facts.types import ClusterFacts, HostFacts, Missing
from preflight.model.change import Area, Change, Kind
from preflight.model.cluster import Product, Waiver
from preflight.model.errors import UsageError
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.ports import PortSet
from preflight.provision.accept import plan_refusal
from preflight.provision.plan import make_plan
from preflight.rules.sysctl import reserved_ports
from tests.unit.apply_to_facts import applied
from tests.unit.healthy import Scene, scene
from tests.unit.texts.trials import mistakes_in_words

ROOT = Path(__file__).parents[3]
CASES = sorted((ROOT / "tests" / "cases" / "checks").glob("*/*.toml"))
QUIET = (Outcome.PASS, Outcome.SKIP)


def look(case: Scene, checks: Iterable[Check] | None = None) -> list[Finding]:
    chosen = all_checks().values() if checks is None else checks
    return run_checks(case.cluster, case.facts, checks=chosen, hosts=case.cluster.hosts, rounds=case.rounds)


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def differences(expected: dict[str, Any], finding: Finding) -> list[str]:
    """In what a finding differs from what a case expects."""
    wrong = []
    for key, value in expected.items():
        if key == "says":
            wrong += [f"no {text!r} in {finding.summary!r}" for text in value if text not in finding.summary]
        elif key == "change":
            found = dataclasses.asdict(finding.change) if finding.change else {}
            wrong += [f"change: {found}"] if bool(value) != bool(found) else []
            wrong += [f"change.{k}: {found.get(k)!r}" for k, v in (value or {}).items() if found.get(k) != v]
        elif key == "culprit":
            found = dataclasses.asdict(finding.culprit) if finding.culprit else {}
            wrong += [f"culprit.{k}: {found.get(k)!r}" for k, v in value.items() if list(found.get(k, "")) != list(v)]
        elif key in ("evidence", "commands"):
            wrong += [f"{key}: {getattr(finding, key)}"] if list(getattr(finding, key)) != value else []
        elif getattr(finding, key) != value:
            wrong.append(f"{key}: {getattr(finding, key)!r}")
    return wrong


@dataclasses.dataclass(frozen=True)
class JudgedCase:
    """A case and the findings that it brings."""

    path: Path
    case: dict[str, Any]
    scene: Scene
    findings: list[Finding]


@pytest.fixture(scope="module", params=CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def judged(request: pytest.FixtureRequest) -> JudgedCase:
    """Judge a case once for all tests of it: pytest runs them one after the other."""
    case = read(request.param)
    of_case = scene(case)
    return JudgedCase(request.param, case, of_case, look(of_case))


def test_a_case_brings_the_expected_findings_and_no_unrelated_ones(judged: JudgedCase) -> None:
    path, case, findings = judged.path, judged.case, judged.findings
    id_ = path.parent.name
    found = [finding for finding in findings if finding.check == id_ and finding.outcome is not Outcome.PASS]
    expected = case.get("expect", [])
    unmatched = list(found)
    for wanted in expected:
        matching = [finding for finding in unmatched if not differences(wanted, finding)]
        assert matching, [differences(wanted, finding) for finding in unmatched]
        unmatched.remove(matching[0])
    assert not unmatched
    assert mistakes_in_words(*(text for finding in found for text in (finding.remedy, finding.cause))) == []
    # A plan of it is one that `apply` takes.
    assert [
        plan_refusal(finding.change) for finding in findings if finding.change and plan_refusal(finding.change)
    ] == []
    worst = path.stem.partition("-")[0]
    assert {finding.outcome.value for finding in found} <= {worst, "warn"} if expected else worst == "pass"
    assert not expected or worst in {finding.outcome.value for finding in found}
    troubled = {finding.check for finding in findings if finding.outcome not in QUIET}
    assert troubled - {id_} == set(case.get("also", ()))


def at_home(check: Check) -> dict[str, Any]:
    """What the inventory says of a cluster to which the check applies."""
    superpod = {"product": "atlas-a3", "superpod": True}
    other = superpod if Product.ATLAS_A3 in check.products else {"product": "nvidia"}
    return {} if Product.ATLAS_A1 in check.products else {"cluster": other}


@pytest.mark.parametrize("id_", all_checks())
def test_every_check_passes_on_a_healthy_cluster(id_: str) -> None:
    findings = look(scene(at_home(all_checks()[id_])), [all_checks()[id_]])
    assert {(finding.host, finding.outcome) for finding in findings} == {("node01", "pass"), ("node02", "pass")}


@pytest.mark.parametrize("id_", all_checks())
def test_every_check_has_a_case_in_which_it_speaks(id_: str) -> None:
    names = [path.stem.partition("-")[0] for path in CASES if path.parent.name == id_]
    assert {"fail", "warn"} & set(names)


SECTION_CHECKS = [check for check in all_checks().values() if not {*ROUNDS, "contact"} & set(check.needs)]


@pytest.mark.parametrize(
    ("check", "section"),
    [(check, section) for check in SECTION_CHECKS for section in check.needs if section not in check.optional],
    ids=lambda value: value.id if isinstance(value, Check) else value,
)  # fmt: skip
def test_a_section_that_could_not_be_collected_is_unknown_for_that_host_alone(check: Check, section: str) -> None:
    """The unknown case of every check that looks at facts; those of other rounds have files of their own."""
    case = scene({**at_home(check), "facts": {"node02": {section: {"missing": "no permission"}}}})
    findings = look(case, [check])
    (unknown,) = (finding for finding in findings if finding.host == "node02")
    assert (unknown.outcome, unknown.summary) == (Outcome.UNKNOWN, "node02: could not be checked: no permission")
    assert {finding.outcome for finding in findings if finding.host == "node01"} == {Outcome.PASS}


def test_every_check_of_a_later_round_has_a_case_in_which_it_could_not_look() -> None:
    later = {check.id for check in all_checks().values() if set(ROUNDS) & set(check.needs)}
    assert later <= {path.parent.name for path in CASES if path.stem.startswith("unknown-")}


# What the fixes do.


def settled(case: Scene, findings: Iterable[Finding]) -> Scene:
    """Return the scene after every change that the findings carry, as `configure` would make them."""
    plan = make_plan(list(findings), tuple(Area))
    return replace(case, facts=applied(plan.changes, case.facts))


def test_after_all_changes_there_is_nothing_left_to_change(judged: JudgedCase) -> None:
    changing = [finding for finding in judged.findings if finding.change]
    if not changing:
        assert make_plan(judged.findings, tuple(Area)).changes == ()
        return
    after = look(settled(judged.scene, judged.findings))
    assert [finding.change for finding in after if finding.change] == []
    remaining = {finding.summary for finding in after if finding.outcome not in QUIET}
    assert not [finding for finding in changing if finding.summary in remaining]


AWKWARD = [
    "net.ipv4.ip_local_reserved_ports=1\n",
    "net.ipv4.ip_local_reserved_ports=1",
    "net.ipv4.ip_local_reserved_ports = 1\r\nvm.swappiness = 1\r\n",
    "vm.swappiness = 1\r\nnet.ipv4.ip_local_reserved_ports = 1\r",
    "  -net/ipv4/ip_local_reserved_ports\t=\t8080-8090, 9000   \n\n\n",
    "# net.ipv4.ip_local_reserved_ports = 5\n;net.ipv4.ip_local_reserved_ports=6\nnet.ipv4.ip_local_reserved_ports =\n",
    "net.ipv4.ip_local_reserved_ports = 1\nnet.ipv4.ip_local_reserved_ports_x=2\nnet.ipv4.ip_local_reserved_ports = 3",
    "kernel.panic = 1\nnet.ipv4.ip_local_reserved_ports = 70000\n# déjà vu\n",
]


@pytest.mark.parametrize("text", AWKWARD)
def test_an_edit_of_a_sysctl_file_touches_its_own_value_only_and_is_done_once(text: str) -> None:
    from preflight.facts.parsers.linux.sysctl import file as sysctl_file

    wanted = PortSet.parse("29500,60000-60031")
    after = reserved_ports.with_value(text, wanted)
    assert reserved_ports.with_value(after, wanted) == after
    read_back = sysctl_file("/etc/sysctl.conf", after)
    assert read_back.value == str(wanted)
    changed = [pair for pair in zip(text.split("\n"), after.split("\n"), strict=True) if pair[0] != pair[1]]
    assert len(changed) == 1
    assert changed[0][0].partition("=")[0] == changed[0][1].partition("=")[0]
    assert after.endswith("\r") == text.endswith("\r")


@pytest.mark.parametrize("text", AWKWARD)
@pytest.mark.parametrize("path", ["/etc/sysctl.conf", "/etc/sysctl.d/10-site.conf", "/usr/lib/sysctl.d/10-x.conf"])
def test_awkward_files_converge_in_one_go(text: str, path: str) -> None:
    from preflight.facts.parsers.linux.sysctl import file as sysctl_file

    fact = sysctl_file(path, text)
    case = scene({"facts": {"node01": {"sysctl": {"reserved_files": [dataclasses.asdict(fact)]}}}})
    after = settled(case, look(case))
    assert [f for f in look(after) if f.check == "PRT102" and f.outcome is not Outcome.PASS] == []
    host = after.facts.hosts["node01"]
    assert isinstance(host, HostFacts)
    assert not isinstance(host.sysctl, Missing)
    assert reserved_ports.repair(host.sysctl, PortSet.parse("29500,60000-60031")).short == {}


def test_an_unprovisioned_cluster_is_described_by_the_causes_alone() -> None:
    bare: dict[str, Any] = {
        "hccn": {"devices": {str(i): {"address": {}, "netmask": {}, "detect": {}, "net_health": {"value": "Init"},
                                      "config_status": {"value": "NONE"}} for i in range(8)}},
        "hccn_conf": {"present": False},
        "sysctl": {"reserved_ports": "", "reserved_files": []},
        "firewall": {"nft_chains": {"input": {"rules": ["tcp dport 22 accept"], "ours": []}},
                     "nft_boot_file": "table inet filter {\n chain input {\n  tcp dport 22 accept\n }\n}\n",
                     "nft_preflight_file": {"absent": True}},
    }  # fmt: skip
    case = scene({"facts": {"node01": bare, "node02": bare}})
    assert {f.check for f in look(case) if f.outcome not in QUIET} == {"PRT101", "PRT102", "FWL101", "FWL102", "NPU101"}
    after = settled(case, look(case))
    assert {f.check for f in look(after) if f.outcome not in QUIET} <= {"NPU110"}, "only a detect address is missing"


# The runner.


def test_an_unreachable_host_gets_one_finding_even_if_nobody_asked_for_reachability() -> None:
    gone = {"trouble": "timeout", "summary": "no answer within 10 s", "remedy": "is it on?"}
    case = scene({"facts": {"node02": {"unreachable": gone}}})
    for chosen in (None, select(all_checks(), ["NPU"]), select(all_checks(), [], ["HST101"])):
        findings = look(case, chosen)
        (only,) = (finding for finding in findings if finding.host == "node02" and finding.check != "PNG101")
        assert (only.check, only.outcome, only.remedy) == ("HST101", Outcome.FAIL, "is it on?")
    assert not [f for f in look(case) if f.host == "node01" and f.outcome not in QUIET]


def test_a_host_without_facts_is_not_spoken_about() -> None:
    case = scene({})
    hosts = {name: facts for name, facts in case.facts.hosts.items() if name != "node02"}
    assert {finding.host for finding in look(replace(case, facts=ClusterFacts(hosts)))} == {"node01"}


def test_checks_for_other_products_are_skipped_with_the_reason() -> None:
    case = scene({"cluster": {"product": "cpu"}})
    findings = look(case, [all_checks()["NPU101"]])
    assert {(f.outcome, f.summary) for f in findings} == {(Outcome.SKIP, "does not apply to cpu")}


@pytest.mark.parametrize("rounds", [{}, {"pings": NotRun("--no-ping")}])
def test_a_round_that_was_left_out_is_a_skip_with_the_reason(rounds: dict[str, object]) -> None:
    case = replace(scene({}), rounds=rounds)
    (summary,) = {f.summary for f in look(case, [all_checks()["PNG101"]])}
    assert summary == ("not run: --no-ping" if rounds else "not run: not requested")


def test_a_host_that_pinged_nobody_has_not_passed() -> None:
    one_way = tuple(ping for ping in scene({}).rounds["pings"] if ping.host == "node01")  # type: ignore[attr-defined]
    findings = look(replace(scene({}), rounds={"pings": one_way}), [all_checks()["PNG101"]])
    assert {(f.host, f.outcome) for f in findings} == {("node01", Outcome.PASS), ("node02", Outcome.SKIP)}


def test_checks_that_compare_hosts_are_skipped_for_a_single_one() -> None:
    case = scene({"hosts": 1})
    several = [check for check in all_checks().values() if check.several]
    assert several
    assert {finding.outcome for finding in look(case, several)} == {Outcome.SKIP}


def test_a_finding_about_the_cluster_as_a_whole_leaves_no_host_with_a_pass() -> None:
    stopped = {"id": "r1-1", "members": ["node01/0", "node01/1", "node02/0"], "outcome": "hang", "stage": "peers"}
    findings = look(scene({"tests": [stopped]}), [all_checks()["PRB101"]])
    assert [(finding.host, finding.outcome) for finding in findings] == [(None, Outcome.FAIL)]


def test_a_check_that_crashes_is_unknown_and_the_others_go_on() -> None:
    def crashing(here: Here, os: object) -> Iterable[Finding]:
        raise KeyError(f"nobody thought of {os} on {here.host.name}")

    broken = replace(all_checks()["HST106"], id="HST106", needs=("os",), function=crashing)
    findings = look(scene({}), [broken, all_checks()["HST104"]])
    assert [f.outcome for f in findings if f.check == "HST106"] == [Outcome.UNKNOWN] * 2
    assert "the check crashed: KeyError" in next(f.summary for f in findings if f.check == "HST106")
    assert {f.outcome for f in findings if f.check == "HST104"} == {Outcome.PASS}


@pytest.mark.parametrize("junk", ["", "\x1b[2J", "::", "10.0.0.1/33", "999.1.1.1", "x" * 10000])
def test_nonsense_in_the_facts_is_never_a_pass_of_the_device(junk: str) -> None:
    case = scene({"facts": {"node01": {"hccn": {"devices": {"2": {"address": {"value": junk}}}}}}})
    outcomes = {f.outcome for f in look(case) if f.host == "node01" and f.device == 2}
    assert outcomes & {Outcome.FAIL, Outcome.UNKNOWN}


def test_findings_are_sorted_by_check_and_do_not_depend_on_the_order_asked() -> None:
    case = scene({})
    forwards, backwards = look(case), look(case, reversed(list(all_checks().values())))
    assert forwards == backwards
    assert [f.check for f in forwards] == sorted(f.check for f in forwards)


# Choosing.


def test_words_choose_by_id_start_of_id_and_area_in_any_case() -> None:
    checks = all_checks()
    assert [c.id for c in select(checks, ["prt101"])] == ["PRT101"]
    assert {c.id for c in select(checks, ["ports"])} == {c.id for c in select(checks, ["PRT"])} == {
        "PRT101", "PRT102", "PRT103", "PRT104"
    }  # fmt: skip
    assert select(checks) == list(checks.values())
    assert "NPU101" not in {c.id for c in select(checks, [], ["ascend"])}


@pytest.mark.parametrize(("word", "hint"), [("NPU11O", "did you mean NPU110?"), ("port", "did you mean ports?"),
                                            ("", "list-checks"), ("zzz", "list-checks")])  # fmt: skip
def test_unknown_words_are_refused_with_a_hint(word: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint.replace("?", r"\?")):
        select(all_checks(), [word])


def test_choosing_no_check_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="no check is left"):
        select(all_checks(), ["PRT101"], ["ports"])


# Waivers.

TODAY = date(2026, 5, 1)
FAILED = Finding("NPU107", Outcome.FAIL, "node02: device 3: link is DOWN", "node02", 3)


def waiver(**more: Any) -> Waiver:
    return Waiver(**{"check": "NPU107", "host": "node02", "owner": "kim", "reason": "optics ordered",
                     "expires": date(2026, 6, 1), **more})  # fmt: skip


def test_a_waived_failure_is_a_warning_that_says_who_and_why() -> None:
    (finding,) = apply_waivers([FAILED], [waiver()], [], TODAY)
    assert finding.outcome is Outcome.WARN
    assert "waived by kim until 2026-06-01: optics ordered" in finding.summary


def test_what_is_accepted_is_not_offered_to_be_changed() -> None:
    change = Change("node02", Area.PORTS, Kind.SYSCTL, "key", "", "1", "NPU107")
    (finding,) = apply_waivers([replace(FAILED, change=change)], [waiver()], [], TODAY)
    assert finding.change is None


@pytest.mark.parametrize("other", [{"host": "node01"}, {"check": "NPU101"}])
def test_a_waiver_for_something_else_does_not_apply(other: dict[str, str]) -> None:
    assert apply_waivers([FAILED], [waiver(**other)], [], TODAY) == [FAILED]


def test_a_waiver_holds_to_its_last_day_and_an_expired_one_is_mentioned() -> None:
    (kept,) = apply_waivers([FAILED], [waiver(expires=TODAY, host="*")], [], TODAY)
    assert kept.outcome is Outcome.WARN
    (expired,) = apply_waivers([FAILED], [waiver(expires=date(2026, 4, 30))], [], TODAY)
    assert expired.outcome is Outcome.FAIL
    assert expired.evidence == ("the waiver by kim expired on 2026-04-30: optics ordered",)


def test_ignoring_is_recorded_in_the_finding_and_passes_stay_passes() -> None:
    passed = replace(FAILED, outcome=Outcome.PASS)
    unknown = replace(FAILED, outcome=Outcome.UNKNOWN)
    seen = apply_waivers([FAILED, passed, unknown], [], ["npu107"], TODAY)
    assert [finding.outcome for finding in seen] == [Outcome.WARN, Outcome.PASS, Outcome.WARN]
    assert "(fail, ignored with --ignore)" in seen[0].summary


@pytest.mark.parametrize("word", ["all", "ALL", "*", "NPU999"])
def test_ignoring_everything_or_nothing_known_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        apply_waivers([FAILED], [], [word], TODAY)


# What users read.

REQUIRED = ("Why", "Check manually", "Fix")
PARAGRAPHS = ("Why", "Result", "Check manually", "Fix", "Source")
# A tool with what is typed behind it, within a sentence.
COMMAND = re.compile(
    r"\b(?:hccn_tool|nvidia-smi|npu-smi|systemctl|sysctl|nft|iptables|firewall-cmd|ss|ip|lspci|dmesg|grep|cat|ls|kill)"
    rf" (?:-{{1,2}}\w|/|info\b|restart\b|enable\b)|\bpreflight (?:{'|'.join(COMMANDS)})\b"
)
REMARK = re.compile(r"\s#\s|\s\([^()$]*\)$")  # behind a command


def preflight(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "preflight", *arguments], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize("check", all_checks().values(), ids=lambda check: check.id)
def test_an_explanation_has_three_parts(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    paragraphs = catalogue()[check.id].paragraphs()
    assert list(paragraphs) == [label for label in PARAGRAPHS if label in paragraphs or label in REQUIRED]
    assert all(paragraphs.values())
    assert main(["explain", check.id.lower()]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{check.id}  ")
    assert shown.endswith(f"\nnext: preflight check --only {check.id}\n")
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("check", all_checks().values(), ids=lambda check: check.id)
def test_a_command_is_alone_on_its_line_and_shown_so(check: Check) -> None:
    paragraphs = catalogue()[check.id].paragraphs()
    lines = [line for label in ("Check manually", "Fix") for line in paragraphs[label]]
    assert [line for line in lines if not line.startswith(" ") and COMMAND.search(line)] == []
    commands = [line for line in lines if line.startswith(" ")]
    assert [line for line in commands if not re.fullmatch(r"  \S+(?: \S+)*", line) or REMARK.search(line)] == []
    shown = text(catalogue()[check.id]).splitlines()
    assert [line for line in commands if f"  {line}" not in shown] == []


@pytest.mark.parametrize("check", all_checks().values(), ids=lambda check: check.id)
def test_inputs_and_area_of_a_check_have_words(check: Check) -> None:
    assert set(check.needs) - set(NEEDS) <= {"causes", "known", "limit", "located"}
    assert check.area in AREAS


def test_list_checks_has_a_line_of_at_most_80_columns_for_each_check() -> None:
    shown = preflight("list-checks").stdout
    lines = re.findall(r"^  (\w+)  (?:fail|warn)  (.+)$", shown, re.MULTILINE)
    assert dict(lines) == {check.id: check.title for check in all_checks().values()}
    assert re.findall(r"^\w.* \(check --only (\w+)\)$", shown, re.MULTILINE) == list(AREAS)
    assert max(map(len, shown.splitlines())) <= 80
    assert [row["id"] for row in json.loads(preflight("list-checks", "-o", "json").stdout)] == list(all_checks())


def test_words_and_commands_alternate_in_a_paragraph() -> None:
    explanation = "Why: It\nis so.\n\nCheck manually:\n  a -b\n  c\n\nFix: One\nof two.\n  d\nOr\nthe other.\n  e"
    entry = replace(catalogue()["PRT101"], explanation=explanation)
    assert text(entry).splitlines()[6:-3] == [
        *("Why:", "  It is so.", "", "Check manually:", "    a -b", "    c"),
        *("", "Fix:", "  One of two.", "    d", "  Or the other.", "    e"),
    ]
    page = "*Why:* It is so. *Check manually:* ``` a -b c ``` *Fix:* One of two. ``` d ``` Or the other. ``` e ```"
    assert page in " ".join(markdown([entry]).split())


@pytest.mark.parametrize(
    ("id_", "hint"),
    [
        ("PRT1O1", "there is no check 'PRT1O1'; did you mean PRT101?"),
        ("npu10", "there is no check 'npu10'; did you mean NPU101, NPU102 …? See preflight list-checks"),
        ("NPU1O", "there is no check 'NPU1O'; did you mean NPU101, NPU102 …? See preflight list-checks"),
        ("", "there is no check ''; preflight list-checks lists all checks"),
    ],
)
def test_explaining_an_unknown_check_is_a_usage_error_with_a_hint(
    id_: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", id_]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert hint in shown.err


@pytest.mark.parametrize("arguments", [["list-checks"], ["explain", "PRT101"]])
def test_showing_checks_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from preflight.cli.main import main; assert main(sys.argv[1:]) == 0; "
        "heavy = {'paramiko', 'fabric', 'invoke', 'rich', 'pydantic', 'torch', 'msgspec', 'ClusterShell'}; "
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    shown = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert (shown.returncode, shown.stderr.strip()) == (0, "[]")


def test_what_the_checks_say_is_kept_and_asked_anew_when_a_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = catalogue()
    assert list(asked) == list(all_checks())
    (kept,) = (tmp_path / "preflight").iterdir()
    saved = json.loads(kept.read_text())
    sources = {path for path, _, _ in saved["sources"]}
    assert {check.function.__code__.co_filename for check in all_checks().values()} <= sources
    saved["entries"][0]["title"] = "from the cache"
    kept.write_text(json.dumps(saved))
    assert next(iter(catalogue().values())).title == "from the cache"
    saved["sources"][0][2] += 1
    kept.write_text(json.dumps(saved))
    assert catalogue() == asked
    for broken in ("", "[]", '{"sources": 1}', "\0"):
        kept.write_text(broken)
        assert catalogue() == asked


def test_what_the_checks_say_needs_no_place_to_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert list(catalogue()) == list(all_checks())


def test_titles_are_short_noun_phrases_without_a_duplicate() -> None:
    titles = [check.title for check in all_checks().values()]
    assert [title for title in titles if len(title.split()) > 6] == []
    assert [title for title in titles if not title[0].isupper() or title.endswith(".")] == []
    assert len({title.casefold() for title in titles}) == len(titles)
