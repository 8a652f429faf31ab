"""Advice that a user follows: keys that hosts.toml takes, commands that exist, and advice that agrees in one run."""

import re
from pathlib import Path

import pytest

from preflight.checks.catalogue import catalogue
from preflight.checks.registry import all_checks
from preflight.inventory.load import parse
from preflight.model.cluster import FirewallPolicy
from preflight.model.finding import Finding
from preflight.transport import troubles
from preflight.transport.troubles import Place
from preflight.transport.types import Program
from tests.unit.healthy import scene
from tests.unit.test_checks import look, read

CASES = Path(__file__).parents[1] / "cases" / "checks"
PLACE = Place("node01", "10.1.0.11")
HOSTS = '[cluster]\nname = "c"\nproduct = "{product}"\ndevices = 8\n{tables}\n[[hosts]]\nname = "node02"\n{keys}\n'


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
        r'(\w+ = "\w+")\s+under\s+\[firewall\]|with\s+(\w+ = "\w+") there', catalogue()["FWL101"].explanation
    )
    lines = [first or second for first, second in told]
    policies = [
        parse(
            HOSTS.format(product="cpu", tables=f"[firewall]\n{line}", keys="").replace("devices = 8\n", ""), Path("h")
        )
        for line in lines
    ]
    assert [cluster.firewall for cluster in policies] == [FirewallPolicy.ALLOW, FirewallPolicy.OFF]


@pytest.mark.parametrize(
    ("program", "remedy"),
    [
        (Program(""), "install Python 3.6 or newer there, as python3"),
        (
            Program("", wrapper=("docker", "exec", "-i", "train")),
            "correct exec under [probe] in the inventory, or install Python 3.6 or newer where jobs run",
        ),
        (
            Program("", python="/opt/train/bin/python", wrapper=("docker", "exec", "-i", "train")),
            "correct python and exec under [probe] in the inventory, or install Python 3.6 or newer where jobs run",
        ),
    ],
)
def test_a_python_that_is_not_there_names_the_keys_that_lead_to_it(program: Program, remedy: str) -> None:
    assert troubles.no_python(PLACE, program, b"sh: 1: exec: python3: not found\n").remedy == remedy
