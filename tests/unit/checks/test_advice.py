"""Advice that a user follows: keys that hosts.toml takes, commands that exist, and advice that agrees in one run."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from preflight.checks.engine.catalogue import catalogue
from preflight.checks.engine.registry import all_checks
from preflight.cli.main import main, parser
from preflight.inventory.load import parse
from preflight.model.change import Plan
from preflight.model.cluster import FirewallPolicy
from preflight.model.finding import Finding
from preflight.provision.document import SavedPlan, dump
from preflight.transport import errors
from preflight.transport.errors import Target
from preflight.transport.types import Program
from tests.unit.checks.test_checks import look, read
from tests.unit.healthy import scene

CASES = Path(__file__).parents[2] / "cases" / "checks"
TARGET = Target("node01", "10.1.0.11")
HOSTS = '[cluster]\nname = "c"\nproduct = "{product}"\ndevices = 8\n{tables}\n[[hosts]]\nname = "node02"\n{keys}\n'


LOCAL = """[cluster]
name = "local"
product = "cpu"
[ssh]
transport = "local"
[[hosts]]
name = "localhost"
address = "127.0.0.1"
"""


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory of this machine alone, beside which the commands run; their state is kept there, too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.toml").write_text(LOCAL, encoding="utf-8")
    return tmp_path / "hosts.toml"


def advised(text: str) -> list[list[str]]:
    """The words of every `preflight` command at the end of a line."""
    return [shlex.split(command) for command in re.findall(r": preflight (.*)$", text, re.MULTILINE)]


def accepted(words: Sequence[str]) -> bool:
    """Whether the command line knows this command with these options."""
    try:
        parser(words[0]).parse_args(words)
    except SystemExit:
        return False
    return True


def findings(case: str, *ids: str) -> list[Finding]:
    return look(scene(read(CASES / case)), [all_checks()[id_] for id_ in ids])


def test_the_line_for_two_devices_at_one_address_is_taken_by_the_inventory() -> None:
    remedies = [finding.remedy for finding in findings("NPU102/fail-nothing-planned-both-are-named.toml", "NPU102")]
    line = re.search(r"device_addresses = \[[^]]*\]", remedies[0])
    assert line
    (host,) = parse(HOSTS.format(product="atlas-a1", tables="", keys=line.group()), Path("hosts.toml")).hosts
    assert len({device.address for device in host.devices}) == 8


def test_the_plan_that_is_advised_is_taken_by_the_inventory() -> None:
    remedy = next(filter(None, (each.remedy for each in findings("NPU101/fail-unplanned-and-unset.toml", "NPU101"))))
    plan, subnets = re.findall(r'plan = "[a-z-]+"|subnets = \[[^]]*\]', remedy)
    text = HOSTS.format(product="atlas-a1", tables=f"[device_addresses]\n{plan}\n{subnets}", keys="")
    (host,) = parse(text, Path("hosts.toml")).hosts
    assert all(device.address for device in host.devices)


def test_the_policy_that_switches_the_firewall_off_is_spelled_as_the_inventory_takes_it() -> None:
    told = re.findall(
        r'(\w+ = "\w+")\s+under\s+\[firewall\]|With\s+(\w+ = "\w+") there', catalogue()["FWL101"].explanation
    )
    lines = [first or second for first, second in told]
    policies = [
        parse(
            HOSTS.format(product="cpu", tables=f"[firewall]\n{line}", keys="").replace("devices = 8\n", ""), Path("h")
        )
        for line in lines
    ]
    assert [cluster.firewall for cluster in policies] == [FirewallPolicy.ALLOW, FirewallPolicy.OFF]


@pytest.mark.parametrize("cann", ["7.0.0", "8.0.RC1", "8.0.0", "8.1.RC1", "8.5.0", "9.1.0"])
@pytest.mark.parametrize("torch", ["2.1.0", "2.4.0", "2.6.0", "2.9.0"])
def test_all_version_advice_of_one_run_names_the_same_releases(torch: str, cann: str) -> None:
    """One CANN, one torch and one torch_npu at most, and no driver for a CANN that is to go."""
    ids = [id_ for id_ in all_checks() if id_.startswith("VER1")]
    for torch_npu in ("2.1.0", "2.1.0.post10", "2.4.0", "2.7.1.post2", "2.9.0.post6"):
        host = {"versions": {"torch": torch, "torch_npu": torch_npu, "cann": cann, "python": "3.11.4"}}
        case = scene({"facts": {"node01": host, "node02": host}})
        remedies = {each.check: each.remedy for each in look(case, [all_checks()[id_] for id_ in ids]) if each.remedy}
        advised = " / ".join(remedies.values())
        for what in (r"install CANN ([\w.]+)", r"torch==([\w.]+)", r"torch_npu==([\w.]+)", r"driver ([\d.]+) or later"):
            assert len(set(re.findall(what, advised))) <= 1, remedies
        assert "VER107" not in remedies or "Python" in remedies.get("VER108", "Python"), remedies


@pytest.mark.parametrize(
    ("program", "remedy"),
    [
        (Program(""), "install Python 3.6 or newer on the host, as python3"),
        (
            Program("", wrapper=("docker", "exec", "-i", "train")),
            "correct exec under [probe] in the inventory, or install Python 3.6 or newer for the jobs",
        ),
        (
            Program("", python="/opt/train/bin/python", wrapper=("docker", "exec", "-i", "train")),
            "correct python or exec under [probe] in the inventory, or install Python 3.6 or newer for the jobs",
        ),
    ],
)
def test_a_python_that_is_not_there_names_the_keys_that_lead_to_it(program: Program, remedy: str) -> None:
    assert errors.no_python(TARGET, program, b"sh: 1: exec: python3: not found\n").remedy == remedy


@pytest.mark.parametrize(
    "command",
    [
        "apply plan.json",
        "apply plan.json -o json",
        "configure",
        "configure --limit localhost -o json",
        "configure-ports",
        "configure-device-ips",
        "configure-firewall",
        "configure-environment",
        "rollback 20260101T000000Z-0000 -i hosts.toml",
        "gate install",
        "ranktable --push /data/hccl.json",
    ],
)
def test_a_change_without_a_terminal_names_commands_that_need_none(
    command: str, hosts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts.with_name("plan.json").write_text(dump(SavedPlan("2026-01-01T00:00:00Z", "local", str(hosts), Plan(()))))
    assert main(command.split()) == 2
    commands = advised(capsys.readouterr().err)
    assert len(commands) == 2
    assert commands[0] == [*command.split(), "-y"]
    assert all(map(accepted, commands))


def test_the_list_of_parsers_names_the_mtu_that_the_check_expects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "--list"]) == 0
    named = re.findall(r"4096 takes (\d+) and more", capsys.readouterr().out)
    finding = next(each for each in findings("RDM106/warn-small-everywhere.toml", "RDM106") if each.expected)
    assert [f"MTU {number} or more" for number in named] == [finding.expected]
