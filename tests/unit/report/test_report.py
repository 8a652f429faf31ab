import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from preflight.model.change import Area, Change, Kind
from preflight.model.finding import Finding
from preflight.model.measure import Culprit
from preflight.model.outcome import Outcome, overall
from preflight.model.report import LeftOut, Report
from preflight.model.text import printable
from preflight.report.build import RunDetails, build
from preflight.report.document import document
from preflight.report.next_step import next_step
from preflight.report.text import render

TITLES = {"NPU101": "Device address", "HST101": "Host reachability"}
INVENTORY = Path("hosts.toml")
FAIL, WARN, UNKNOWN, PASS, SKIP = Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN, Outcome.PASS, Outcome.SKIP


def report(
    *findings: Finding, hosts: tuple[str, ...] = ("node01", "node02"), left_out: tuple[LeftOut, ...] = ()
) -> Report:
    return build("check", datetime.now(UTC), hosts, findings, RunDetails(left_out=left_out))


def lines(*findings: Finding) -> list[str]:
    rendered = render(report(*findings), TITLES, fold=lambda names: "+".join(names), next_step="go")
    return [line.text for line in rendered]


def finding(
    outcome: Outcome, summary: str, host: str = "node01", device: int | None = None, check: str = "NPU101"
) -> Finding:
    return Finding(check, outcome, summary, host=host, device=device)


def test_the_worst_outcome_decides() -> None:
    assert overall([PASS, WARN, UNKNOWN]) is UNKNOWN
    assert overall([SKIP, PASS]) is PASS
    assert overall([]) is UNKNOWN


@pytest.mark.parametrize(
    ("outcomes", "fail_on", "code"),
    [
        ((PASS, SKIP), FAIL, 0),
        ((PASS, WARN), FAIL, 0),
        ((PASS, WARN), WARN, 1),
        ((PASS, FAIL), FAIL, 1),
        ((UNKNOWN, FAIL), FAIL, 1),
        ((UNKNOWN, WARN), FAIL, 3),
        ((), FAIL, 3),
    ],
)
def test_exit_codes_follow_from_the_outcomes(outcomes: tuple[Outcome, ...], fail_on: Outcome, code: int) -> None:
    assert report(*(finding(outcome, "x") for outcome in outcomes)).exit_code(fail_on) == code


def test_a_run_that_skipped_everything_has_seen_nothing() -> None:
    skipped = report(finding(SKIP, "not run: --no-ping"))
    assert (skipped.verdict, skipped.exit_code()) == (UNKNOWN, 3)
    assert next_step(skipped, INVENTORY) == "preflight check --inventory hosts.toml"


def test_a_run_that_left_a_host_out_unasked_is_never_a_pass() -> None:
    partial = report(finding(PASS, "fine"), left_out=(LeftOut("node09", "not in the file"),))
    assert partial.verdict is UNKNOWN
    assert partial.exit_code() == 3


def test_hosts_left_out_stand_in_the_inventory_s_order_and_what_is_no_host_last() -> None:
    left = [LeftOut(name, "busy") for name in ("rail 3", "node02", "node01")]
    built = build("probe", datetime.now(UTC), ["node01", "node02"], [], RunDetails(left_out=left))
    assert [one.host for one in built.left_out] == ["node01", "node02", "rail 3"]


def test_equal_findings_are_folded_over_devices_and_hosts() -> None:
    shown = lines(
        *(
            finding(FAIL, f"{host}: device {d} has no address", host, d)
            for host in ("node01", "node02")
            for d in range(8)
        )
    )
    assert "    node01+node02: devices 0-7 has no address" in shown


def test_findings_that_differ_are_not_folded() -> None:
    shown = lines(finding(FAIL, "device 0 has 10.0.0.1", device=0), finding(FAIL, "device 1 has 10.0.0.9", device=1))
    assert sum(line.startswith("    ") and "has 10.0.0" in line for line in shown) == 2
    assert [line for line in shown if line.startswith("fail ")] == [
        "fail    node01: NPU101 device 0 has 10.0.0.1 (and 1 more)"
    ], "one line for a host"


def test_a_folded_finding_says_only_what_holds_for_all() -> None:
    def fault(device: int, peer: str) -> Finding:
        of_device = finding(FAIL, f"node01: device {device}: Fault", device=device)
        return replace(of_device, cause=f"{peer} is not reached", remedy="ping it", commands=(f"ping {peer}",))

    shown = "\n".join(lines(fault(0, "10.0.0.1"), fault(1, "10.0.0.2")))
    assert "likely" not in shown
    assert "fix: ping it (do the same for the other devices)\n      ping 10.0.0.1" in shown
    assert "likely cause: 10.0.0.1 is not reached" in "\n".join(lines(fault(0, "10.0.0.1"), fault(1, "10.0.0.1")))


def test_advice_without_a_command_counts_for_others_only_where_it_names_the_host() -> None:
    def shown(*remedies: str) -> str:
        hosts = ("node01", "node02")
        faults = (replace(finding(FAIL, f"{h}: lost", h), remedy=r) for h, r in zip(hosts, remedies, strict=True))
        return "\n".join(lines(*faults))

    assert "fix: reboot node01 (do the same for the other hosts)" in shown("reboot node01", "reboot node02")
    assert "do the same" not in shown("check the switch", "check the rail")


def test_fixes_beyond_the_first_three_are_counted() -> None:
    shown = lines(*(replace(finding(FAIL, f"fault {n}"), remedy=f"repair {n}") for n in range(5)))
    assert [line for line in shown if "fix" in line] == [
        *(f"    fix: repair {n}" for n in range(3)),
        "    … and 2 more fixes: -o json lists all",
    ]


def test_a_found_value_of_the_summary_is_not_repeated() -> None:
    shown = lines(replace(finding(FAIL, "node01: MTU is 1500"), expected="9000", found="1500"))
    assert "      expected 9000" in shown
    shown = lines(replace(finding(FAIL, "node01: MTU is 1500"), expected="9000", found="150"))
    assert "      expected 9000; found 150" in shown


def test_only_the_subject_in_front_is_folded_away() -> None:
    assert "    node01: its name node01 is 127.0.1.1" in lines(finding(FAIL, "node01: its name node01 is 127.0.1.1"))


def test_checks_that_could_not_look_for_one_reason_stand_together() -> None:
    blind = [finding(UNKNOWN, "node01: could not be checked: no root", check=check) for check in ("NPU101", "NPU102")]
    shown = lines(*blind, finding(UNKNOWN, "node01: could not be checked: no nft", check="FWL101"))
    assert [line for line in shown if line.startswith("UNKNOWN ")] == ["UNKNOWN FWL101", "UNKNOWN NPU101, NPU102"]
    assert sum("no root" in line for line in shown) == 1


def test_a_host_may_number_its_devices_as_it_likes() -> None:
    assert "    node01: device 99999999: odd" in lines(finding(FAIL, "node01: device 99999999: odd", device=99999999))


def test_passes_are_counted_but_not_listed_and_skips_are_not_even_counted() -> None:
    shown = lines(finding(PASS, "fine"), finding(SKIP, "not here", check="HST101"))
    assert not any("fine" in line for line in shown)
    assert "PASS: 1 pass of 1 checks" in shown


def test_hosts_with_the_same_worst_problem_share_a_line_and_the_healthy_ones_come_last() -> None:
    hosts = [f"node0{number}" for number in range(1, 6)]
    findings = (
        *(finding(FAIL, f"{host}: no answer", host, check="HST101") for host in hosts[:2]),
        *(finding(WARN, f"{host}: device 3 is warm", host, 3) for host in hosts[1:4]),
        finding(PASS, "fine", hosts[4]),
        Finding("PNG101", WARN, "the subnets differ"),
    )
    built = report(*findings, hosts=tuple(hosts))
    shown = [line.text for line in render(built, TITLES, fold="+".join, next_step="go")]
    assert shown[-6:] == [
        "fail    node01+node02: HST101 no answer",
        "warn    node03+node04: NPU101 device 3 is warm",
        "warn    cluster: PNG101 the subnets differ",
        "pass    1 of 5 hosts: node05",
        "FAIL: 1 fail, 2 warn of 3 checks",
        "next: go",
    ]


def test_hosts_with_the_same_check_stay_in_their_order() -> None:
    shown = lines(finding(FAIL, "node01: zzz"), finding(FAIL, "node02: aaa", "node02"))
    assert [line for line in shown if line.startswith("fail ")] == [
        "fail    node01: NPU101 zzz",
        "fail    node02: NPU101 aaa",
    ]


def test_the_line_of_a_host_ends_before_the_stage_and_begins_with_what_facts_show() -> None:
    hang = finding(FAIL, "node01: device 1 failed while opening the device (last stage: x): Error. More", device=1)
    (line,) = (line for line in lines(hang) if line.startswith("fail "))
    assert line == "fail    node01: NPU101 device 1 failed while opening the device"
    (line,) = (line for line in lines(replace(hang, cause="link down (NPU107)")) if line.startswith("fail "))
    assert line.startswith("fail    node01: NPU101 link down (NPU107): device 1 failed")


def test_a_thousand_problems_have_a_few_lines_of_80_columns() -> None:
    hosts = tuple(f"node{number:04}" for number in range(1000))
    findings = [finding(FAIL, f"{host}: fault {host} {'x' * 99}", host) for host in hosts]
    built = report(*findings, hosts=hosts)
    shown = [
        line.text for line in render(built, TITLES, fold=lambda names: f"{len(list(names))} hosts", next_step="go")
    ]
    of_hosts = [line for line in shown if line.startswith("fail ")]
    assert len(of_hosts) == 9
    assert of_hosts[-1] == "fail    … and 992 more hosts: 992 hosts"
    assert max(map(len, of_hosts)) == 80


def test_what_follows_from_a_failure_is_folded_under_it() -> None:
    root = finding(FAIL, "node01: device 3: link is DOWN", device=3, check="NPU107")
    ping = replace(finding(FAIL, "node01: device 3 answers no pings", device=3, check="PNG101"), cause="down (NPU107)")
    hang = replace(finding(FAIL, "node01: device 3 hung", device=3, check="PRB101"), cause="lost pings (PNG101)")
    other = finding(FAIL, "node02: no answer", "node02", check="HST101")
    shown = lines(hang, ping, other, root)
    assert [line for line in shown if line.startswith("FAIL  ")] == [
        "FAIL    HST101  Host reachability",
        "FAIL    NPU107",
    ]
    assert "    follows from this: PRB101 (node01), PNG101 (node01)" in shown
    everything = render(report(hang, ping, other, root), TITLES, fold="+".join, next_step="go", everything=True)
    assert sum(line.text.startswith("FAIL  ") for line in everything) == 4


@pytest.mark.parametrize("outcome", [WARN, UNKNOWN])
def test_a_failure_is_never_folded_under_something_milder(outcome: Outcome) -> None:
    flap = finding(outcome, "node01: device 3: 2 flaps", device=3, check="NIC101")
    slow = replace(finding(FAIL, "node01: device 3 is slow", device=3, check="PRB103"), cause="link flaps (NIC101)")
    assert "FAIL    PRB103" in lines(flap, slow)


def test_a_failure_is_folded_only_under_one_of_its_own_hosts() -> None:
    down = finding(FAIL, "node07: device 3 answers no pings", "node07", 3, check="PNG101")
    hang = replace(finding(FAIL, "node01: device 1 hung", device=1, check="PRB101"), cause="lost pings (PNG101)")
    assert "FAIL    PRB101" in lines(down, hang)
    waived = finding(WARN, "node01: device 1 answers no pings", device=1, check="PNG101")
    assert "FAIL    PRB101" in lines(down, waived, hang)


def test_net_health_is_folded_under_the_pings_that_it_repeats() -> None:
    """Behind a leaf that is cut off, no device reaches its gateway: the leaf's uplinks are the thing to check."""
    health = replace(finding(FAIL, "node01: device 0: net health is Fault", "node01", 0, "NPU110"), commands=("ping",))
    cut_off = Culprit("partition", ("node01", "node02"), (), "lost pings")
    pings = replace(Finding("PNG101", FAIL, "leaf01 is cut off", culprit=cut_off), commands=("ssh n1 lldp",))
    assert [line for line in lines(health, pings) if line.startswith("FAIL  ")] == ["FAIL    PNG101"]
    assert next_step(report(health, pings), INVENTORY) == "ssh n1 lldp"
    elsewhere = replace(health, host="node07", summary="node07: device 0: net health is Fault")
    assert sum(line.startswith("FAIL  ") for line in lines(elsewhere, pings)) == 2
    of_device = replace(pings, host="node01", device=3, culprit=Culprit("device", ("node01/3",), (), "lost pings"))
    assert sum(line.startswith("FAIL  ") for line in lines(health, of_device)) == 2


def test_no_failure_is_lost_where_its_cause_has_several_causes() -> None:
    roots = [
        finding(FAIL, "node01: down", "node01", 1, "NPU107"),
        finding(FAIL, "node02: twice", "node02", 1, "NPU102"),
    ]
    pings = [
        replace(finding(FAIL, f"{host}: no ping", host, 1, "PNG101"), cause=f"x ({check})")
        for host, check in (("node01", "NPU107"), ("node02", "NPU102"))
    ]
    hangs = [
        replace(finding(FAIL, f"{host}: hung", host, 1, "PRB101"), cause="y (PNG101)") for host in ("node01", "node02")
    ]
    shown = lines(*hangs, *pings, *roots)
    assert sum("follows from this: PRB101" in line for line in shown) == 2
    assert [line for line in shown if line.startswith("FAIL  ")] == ["FAIL    NPU102", "FAIL    NPU107"]


def test_findings_that_explain_each_other_are_both_shown() -> None:
    first = replace(finding(FAIL, "one", check="NPU101"), cause="address twice (NPU102)")
    second = replace(finding(FAIL, "two", check="NPU102"), cause="wrong address (NPU101)")
    assert sum(line.startswith("FAIL  ") for line in lines(first, second)) == 2


def test_the_next_step_is_the_root_cause_s_own_fix() -> None:
    slow = replace(finding(FAIL, "node01: slow", check="PRB103"), remedy="check the cable", commands=("ssh n1 cable",))
    unreached = finding(FAIL, "node02: no answer", "node02", check="HST101")
    console = replace(unreached, remedy="start sshd", commands=("systemctl start ssh",))
    change = Change("node01", Area.PORTS, Kind.SYSCTL, "key", "", "1", "PRT101")
    ports = Finding("PRT101", FAIL, "not reserved", host="node01", change=change)
    assert next_step(report(slow), INVENTORY) == "ssh n1 cable"
    assert next_step(report(slow, ports), INVENTORY) == "preflight configure-ports --inventory hosts.toml"
    assert next_step(report(slow, ports, console), INVENTORY) == (
        "node02: start sshd, then run: preflight check --inventory hosts.toml"
    ), "a command for a host's console cannot be run here"
    two = replace(finding(FAIL, "bad"), remedy="compare the keys. If they match, use --accept-new")
    assert next_step(report(two), INVENTORY) == f"node01: {two.remedy}"
    perhaps = replace(finding(FAIL, "bad"), remedy="end the process if it is a leftover", commands=("kill 7",))
    assert "kill" not in next_step(report(perhaps), INVENTORY), "not without its condition"
    several = replace(finding(FAIL, "bad"), remedy="read both", commands=("ssh a", "ssh b"), retest="preflight probe")
    assert next_step(report(several), INVENTORY) == "node01: read both, then run: preflight probe"
    own = replace(finding(FAIL, "bad"), remedy="ping more", commands=("preflight check --mesh",))
    assert next_step(report(own), INVENTORY, limit="node[01-02]") == "preflight check --mesh --limit 'node[01-02]'"
    assert next_step(report(ports), INVENTORY, via="slurm").endswith("--inventory hosts.toml --via slurm")
    long = replace(finding(FAIL, "bad"), remedy="word " * 40)
    assert next_step(report(long), INVENTORY) == "preflight explain NPU101"


def test_the_last_line_says_what_to_run_next() -> None:
    assert lines(finding(PASS, "fine"))[-1] == "next: go"


def test_no_line_is_wider_than_asked() -> None:
    assert max(map(len, lines(finding(FAIL, "word " * 60)))) <= 80


def test_escape_sequences_of_a_host_never_reach_the_terminal() -> None:
    hostile = "\x1b[2Jgone\x07\x9b31m\u202e"
    assert printable(hostile) == "\\x1b[2Jgone\\x07\\x9b31m\\x202e"
    assert not any("\x1b" in line or "\x9b" in line for line in lines(finding(FAIL, hostile)))


def test_the_document_has_the_contracts_fields() -> None:
    body = json.loads(document(report(finding(FAIL, "bad", device=3), finding(SKIP, "no", check="HST101")), 1))
    assert body["schema"] == "preflight.report/1"
    assert (body["verdict"], body["exit"]) == ("fail", 1)
    assert body["hosts"][0]["checks"] == {"fail": 1, "unknown": 0, "warn": 0, "pass": 0, "skip": 1}
    assert body["checks"] == {"NPU101": []}, "a check that skipped everything has not looked"
    (only,) = body["findings"]
    assert set(only) == {
        "check", "outcome", "host", "device", "rail", "peer", "summary", "expected", "found", "cause", "remedy",
        "commands", "retest", "evidence", "change", "culprit",
    }  # fmt: skip
    assert len(json.loads(document(report(finding(PASS, "fine")), 0, everything=True))["findings"]) == 1


@pytest.mark.parametrize(
    ("areas", "command"),
    [((Area.PORTS,), "configure-ports"), ((Area.PORTS, Area.FIREWALL), "configure"), ((), "explain NPU101")],
)
def test_the_next_step_applies_fixes_before_it_explains(areas: tuple[Area, ...], command: str) -> None:
    findings = [finding(FAIL, "bad")]
    for area in areas:
        change = Change("node01", area, Kind.SYSCTL, "key", "", "1", "PRT101")
        findings.append(Finding("PRT101", FAIL, "not reserved", host="node01", change=change))
    assert next_step(report(*findings), INVENTORY).startswith(f"preflight {command}")


def test_the_next_step_keeps_to_the_hosts_asked_for_and_can_be_pasted() -> None:
    change = Change("node01", Area.PORTS, Kind.SYSCTL, "key", "", "1", "PRT101")
    step = next_step(report(replace(finding(FAIL, "x"), change=change)), Path("my hosts.toml"), limit="node[01-02]")
    assert step == "preflight configure-ports --inventory 'my hosts.toml' --limit 'node[01-02]'"


def test_a_remedy_that_is_a_command_of_ours_names_the_inventory() -> None:
    found = Finding("PRT101", FAIL, "x", host="node01", remedy="preflight configure-ports, or: sysctl -w")
    (shown,) = build(
        "check", datetime.now(UTC), ("node01",), (found,), RunDetails(inventory=Path("my hosts.toml"))
    ).findings
    assert shown.remedy == "preflight configure-ports --inventory 'my hosts.toml', or: sysctl -w"


def test_what_is_still_to_prove_is_the_next_step() -> None:
    passed = report(finding(PASS, "fine"))
    assert next_step(passed, INVENTORY, to_prove="probe --idle") == f"preflight probe --inventory {INVENTORY} --idle"
    assert next_step(passed, INVENTORY) == "start the job"


def test_culprits_are_those_of_failures_each_once() -> None:
    named = Culprit("device", ("node01/3",), ("r2-1",), "its link is down")
    twice = [replace(finding(FAIL, text), culprit=named) for text in ("one", "two")]
    slow = replace(finding(WARN, "slow"), culprit=Culprit("host", ("node02",), (), "slow"))
    assert json.loads(document(report(*twice, finding(FAIL, "three"), slow), 1))["culprits"] == [
        {"kind": "device", "members": ["node01/3"], "tests": ["r2-1"], "cause": "its link is down"}
    ]
