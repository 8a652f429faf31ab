"""The whole journey of the README: an unprovisioned cluster is found broken by name, provisioned, and proven."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.lab


def preflight(*arguments: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "preflight", *map(str, arguments)], capture_output=True, text=True, timeout=timeout
    )


def report(*arguments: str | Path) -> dict[str, Any]:
    done = preflight(*arguments, "-o", "json", "--all")
    body: dict[str, Any] = json.loads(done.stdout)
    assert body["exit"] == done.returncode, done.stderr
    return body


def outcomes(body: dict[str, Any]) -> dict[str, set[str]]:
    seen: dict[str, set[str]] = {}
    for finding in body["findings"]:
        seen.setdefault(finding["check"], set()).add(finding["outcome"])
    return seen


def test_from_an_empty_machine_to_a_proven_cluster(make_lab: Callable[..., Any], tmp_path: Path) -> None:
    inventory = make_lab(hosts=2, devices=8, product="atlas-a1").inventory

    fresh = report("check", "--inventory", inventory)
    assert fresh["exit"] == 1
    for check in ("PRT101", "PRT102", "FWL101", "NPU101"):
        assert "fail" in outcomes(fresh)[check], check
    assert outcomes(fresh)["PRB101"] == {"skip"}, "the probe waits until the cheap checks pass"
    assert {f["device"] for f in fresh["findings"] if f["check"] == "NPU101" and f["outcome"] == "fail"} == set(
        range(8)
    )

    dry = preflight("configure", "--inventory", inventory, "--dry-run", "--exit-code")
    assert dry.returncode == 5, dry.stderr
    assert "192.168.100.11/24" in dry.stdout
    assert outcomes(report("check", "--inventory", inventory)) == outcomes(fresh), "a dry run changes nothing"

    done = preflight("configure", "--inventory", inventory, "-y")
    assert done.returncode == 0, done.stdout + done.stderr
    again = preflight("configure", "--inventory", inventory, "-y", "--dry-run", "--exit-code")
    assert again.returncode == 0, again.stdout

    saved = tmp_path / "report.json"
    shown = preflight("check", "--inventory", inventory, "--save", saved)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert re.search(r"^PASS|^WARN", shown.stdout, re.MULTILINE)
    assert shown.stdout.rstrip().splitlines()[-1].startswith("next: ")
    # Commands are never wrapped, so that they can be copied. A machine with a low open-file limit shows a long one.
    assert all(len(line) <= 80 for line in shown.stdout.splitlines() if not line.startswith("      ssh "))
    proven = json.loads(saved.read_text())
    world = [test for test in proven["tests"] if len(test["members"]) == 16]
    assert {"all_reduce", "broadcast"} <= {test["op"] for test in world}
    assert {test["root"] for test in world} == {None, *range(16)}
    # On a busy machine of two cores a pair may be slow; check itself has not failed for it.
    assert all(test["outcome"] in ("pass", "slow") and test["wrong_values"] == 0 for test in proven["tests"])


def test_a_fact_file_gives_the_same_findings_without_contacting_anybody(
    make_lab: Callable[..., Any], tmp_path: Path
) -> None:
    lab = make_lab(hosts=2, devices=2, product="atlas-a2")
    saved = tmp_path / "facts.json"
    assert preflight("facts", "--inventory", lab.inventory, "-o", "json", "--out", saved).returncode == 0
    live = report("check", "--inventory", lab.inventory, "--no-ping", "--no-probe")
    offline = report("check", "--inventory", lab.inventory, "--from", saved)
    assert outcomes(offline) == outcomes(live)


def test_check_names_a_host_that_is_left_and_goes_on_with_the_others(make_lab: Callable[..., Any]) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu")
    text = Path(lab.inventory).read_text().replace("known_hosts = ", "# known_hosts = ")
    stranger = Path(lab.inventory).with_name("stranger.toml")
    stranger.write_text(text)
    body = report("check", "--inventory", stranger, "--no-probe")
    keys = [f for f in body["findings"] if f["check"] == "HST101"]
    assert {f["host"] for f in keys} == {"node01", "node02"}
    assert all("host key" in f["summary"] for f in keys), "an unknown host key is refused, by name"


def test_limit_and_ignore_shape_the_report_and_no_note_repeats_them(make_lab: Callable[..., Any]) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu")
    body = report("check", "--inventory", lab.inventory, "--no-probe", "--limit", "node01", "--ignore", "FWL101")
    assert [host["name"] for host in body["hosts"]] == ["node01"]
    assert not [note for note in body["notes"] if note.startswith("no probe") or "--limit" in note]
    assert outcomes(body)["FWL101"] == {"warn"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("check", "--inventory", "nowhere.toml"), "nowhere.toml"),
        (("check", "--inventory", "{inventory}", "--limit", "node99"), "node99"),
        (("check", "--inventory", "{inventory}", "--only", "NPU11O"), "NPU11O"),
        (("configure", "--inventory", "{inventory}"), "-y"),
        (("check", "--inventory", "{inventory}", "--buddies", "auto"), "--limit"),
    ],
)
def test_wrong_usage_ends_with_two_and_says_where(
    make_lab: Callable[..., Any], arguments: tuple[str, ...], says: str
) -> None:
    inventory = make_lab(hosts=1, devices=0, product="cpu").inventory
    done = preflight(*(argument.format(inventory=inventory) for argument in arguments))
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_new_host_is_proven_with_known_good_partners(make_lab: Callable[..., Any]) -> None:
    lab = make_lab(hosts=3, devices=0, product="cpu", firewall="ufw")
    assert preflight("configure", "--inventory", lab.inventory, "-y").returncode == 0
    body = report("check", "--inventory", lab.inventory, "--limit", "node03", "--buddies", "auto")
    assert "partners: node01, node02" in body["notes"]
    members = {member["host"] for test in body["tests"] for member in test["members"]}
    assert members == {"node01", "node02", "node03"}
    assert {test["outcome"] for test in body["tests"]} <= {"pass", "slow"}, "three busy namespaces prove no speed"


def test_a_busy_host_is_left_out_and_the_others_are_probed(make_lab: Callable[..., Any]) -> None:
    lab = make_lab(hosts=3, devices=1, product="atlas-a2")
    assert preflight("configure", "--inventory", lab.inventory, "-y").returncode == 0
    broken = preflight(
        "lab", "break", "device-busy", "--host", "node02", "--device", "0", "--dir", lab.inventory.parent
    )
    assert broken.returncode == 0, broken.stderr
    body = report("check", "--inventory", lab.inventory)
    assert body["exit"] == 3, "a host that was not tested is unknown"
    ((host, why),) = ((entry["host"], entry["why"]) for entry in body["left_out"])
    assert (host, why.startswith("device 0 is in use by sleep")) == ("node02", True), why
    assert {member["host"] for test in body["tests"] for member in test["members"]} == {"node01", "node03"}
    of_tests = [f for f in body["findings"] if f["host"] == "node02" and f["check"] in ("PRB101", "PRB102", "PRB103")]
    assert {f["outcome"] for f in of_tests} == {"skip"}, "what was not tested has not passed"


def test_jsonl_tells_of_a_whole_check_as_it_runs(make_lab: Callable[..., Any]) -> None:
    lab = make_lab(hosts=2, devices=1, product="atlas-a2")
    assert preflight("configure", "--inventory", lab.inventory, "-y").returncode == 0
    done = preflight("check", "--inventory", lab.inventory, "-o", "jsonl")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (lines[0]["kind"], lines[-1]["kind"]) == ("start", "summary")
    assert lines[-1]["summary"]["exit"] == done.returncode == 0, done.stderr
    phases = [line["progress"]["phase"] for line in lines if line["kind"] == "progress"]
    rounds = next(number for number, phase in enumerate(phases) if phase.startswith("probe round"))
    assert phases.index("facts") < phases.index("pings") < rounds
    assert phases.index("facts") < phases.index("agents") < rounds, "agents start while devices ping each other"


def test_hosts_are_checked_over_ssh_without_an_inventory(
    make_lab: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(hosts=2, devices=2, product="atlas-a2")
    addresses = list(lab.addresses.values())
    ssh = tmp_path / ".ssh"
    ssh.mkdir(mode=0o700)
    (ssh / "config").write_text(
        f"Host *\n  User root\n  IdentityFile {lab.dir}/id_ed25519\n  UserKnownHostsFile {lab.dir}/known_hosts\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    body = report("check", "--hosts", ",".join(addresses))
    assert [host["name"] for host in body["hosts"]] == addresses
    assert any("so the product is atlas-a2" in note or "npu-smi reports" in note for note in body["notes"])
    assert outcomes(body)["HST101"] == {"pass"}, body["findings"]
    assert "skip" in outcomes(body)["PRB101"]
