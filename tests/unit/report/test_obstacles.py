"""One obstacle that keeps many checks from looking is one block of the report, with its fix as the next command."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.types import ON_REQUEST, SECTIONS
from preflight.model.outcome import Outcome
from preflight.report.build import build
from preflight.report.next_step import next_step
from preflight.report.short import short
from preflight.report.text import render
from tests.unit.healthy import scene

NO_PYTHON = (
    "/opt/py/bin/python, where the jobs run, exited with 127: preflight: line 1: /opt/py/bin/python: No such file"
)
NOT_EXECUTABLE = "python3, where the jobs run, does not start: Permission denied"
NO_CONTAINER = "/opt/py/bin/python, where the jobs run, exited with 1: Error response: no such container: train"
SLOW = "/opt/py/bin/python, where the jobs run, did not finish in time"
NOT_INSTALLED = "the Python of the jobs is not installed, so the limits and versions of jobs could not be checked"
OF_JOBS = ("versions", "limits", "job")
NPU_SMI = ("npu_smi", "chips")
SUDO = 'set sudo = true under [ssh] in hosts.toml, or log in as root (user = "root")'
THEN = ", then run: preflight check --inventory hosts.toml"


def report(case: dict[str, Any]) -> tuple[list[str], str, Any]:
    """The lines of the console, the next command and the report, of all checks."""
    setting = scene(case)
    findings = run_checks(
        setting.cluster, setting.facts, checks=all_checks().values(), hosts=setting.cluster.hosts, rounds=setting.rounds
    )
    names = [host.name for host in setting.cluster.hosts]
    built = build("check", datetime.now(UTC), names, findings)
    then = next_step(built, Path("hosts.toml"))
    shown = render(built, {}, fold=lambda hosts: ",".join(sorted(hosts)), next_step=then, width=200)
    return [line.text for line in shown], then, built


def missing(sections: tuple[str, ...], error: str, *hosts: str) -> dict[str, Any]:
    return {host: {section: {"missing": error} for section in sections} for host in hosts}


BOTH = ("node01", "node02")
OBSTACLES = [
    ({"python": "/opt/py/bin/python"}, OF_JOBS, NO_PYTHON,
     "set python under [probe] in hosts.toml: /opt/py/bin/python does not run on the hosts"),
    ({}, OF_JOBS, NOT_EXECUTABLE, "set python under [probe] in hosts.toml: python3 does not run on the hosts"),
    ({}, OF_JOBS, NOT_INSTALLED, "set python under [probe] in hosts.toml: python3 does not run on the hosts"),
    ({"python": "/opt/py/bin/python", "wrapper": ("docker", "exec", "-i", "train")}, OF_JOBS, NO_CONTAINER,
     "correct exec or python under [probe] in hosts.toml: the jobs' Python does not start"),
    ({"setup": "source /opt/env.sh"}, OF_JOBS, SLOW,
     "correct setup under [probe] in hosts.toml: it does not finish"),
    ({}, ("hccn", "nic"), "hccn_tool is not installed, or not on PATH",
     "install the Ascend driver on node01, so that hccn_tool is on PATH"),
    ({}, NPU_SMI, "npu-smi info -m did not finish in time",
     "reboot node01 if npu-smi hangs"),
    ({}, ("firewall", "hccn"), "root is needed: only root can read the firewall rules (checked as kim)", SUDO),
]  # fmt: skip


@pytest.mark.parametrize(("probe", "sections", "error", "fix"), OBSTACLES, ids=lambda value: str(value)[:30])
def test_one_obstacle_is_one_block_whose_fix_is_next(
    probe: dict[str, Any], sections: tuple[str, ...], error: str, fix: str
) -> None:
    lines, then, built = report({"cluster": {"probe": probe}, "facts": missing(sections, error, *BOTH)})
    unknown = [finding for finding in built.findings if finding.outcome is Outcome.UNKNOWN]
    assert len({finding.check for finding in unknown}) > 4
    assert [line for line in lines if line.startswith("UNKNOWN ")] == [
        f"UNKNOWN {len({finding.check for finding in unknown})} checks could not run"
    ]
    assert sum(error[:60] in line for line in lines if line.startswith(" ")) == 1
    assert then.startswith(fix)
    assert then.endswith(THEN)


def test_one_cause_with_several_words_is_one_block() -> None:
    facts = missing(("sockets", "sysctl"), "ss ended with 1: no (checked as kim: root may be needed)", "node01")
    facts["node01"]["firewall"] = {"missing": "root is needed: only root can read the firewall rules"}
    lines, then, _ = report({"facts": facts})
    assert sum(line.startswith("UNKNOWN ") for line in lines) == 1
    assert then == SUDO + THEN


def test_hosts_and_reasons_of_their_own_stay_apart() -> None:
    facts = missing(("npu_smi",), "npu-smi info did not finish in time", "node02")
    facts |= missing(OF_JOBS, NOT_INSTALLED, "node01")
    lines, then, built = report({"facts": facts})
    assert sum(line.startswith("UNKNOWN ") for line in lines) == 2
    assert then.startswith("set python under [probe]"), "what most checks met comes first"
    assert "unknown 2 checks" not in short(built, fold=",".join, next_step=then)


NO_ANSWER = "the program on the host exited with 0 and gave no answer; last output: 'quack'"


OF_GPUS = ("nvidia", "rdma")


def no_python(error: str) -> dict[str, Any]:
    """node02 gave no answer, so that it could not try to connect to node01 either."""
    tries = [{"source": "node02", "outcome": "error", "error": error}]
    return {
        "node02": {section: {"missing": error} for section in SECTIONS if section not in (*ON_REQUEST, *OF_GPUS)},
        "node01": {"arrivals": {"tries": tries}},
    }


@pytest.mark.parametrize(
    "error",
    [
        NO_ANSWER,
        "the program on the host exited with 127 and gave no answer; last output: nothing",
        "the host sent more than 8388608 bytes, but no answer",
        "the collector's response is corrupted: it is no JSON",
    ],
)
def test_a_python_without_an_answer_is_one_block_and_to_be_corrected_next(error: str) -> None:
    lines, then, built = report({"facts": no_python(error)})
    unknown = [finding for finding in built.findings if finding.outcome is Outcome.UNKNOWN]
    assert {("HST101", "node02"), ("FWL104", "node01")} <= {(finding.check, finding.host) for finding in unknown}
    assert sum(line.startswith("UNKNOWN ") for line in lines) == 1
    assert then == "repair python3 on node02, which must run programs and print nothing else" + THEN


def test_a_python_that_was_killed_is_not_to_be_corrected() -> None:
    error = "the program on the host exited with 137 and gave no answer; last output: nothing"
    _, then, built = report({"facts": no_python(error)})
    assert "python3" not in then
    told = {(finding.check, finding.host): finding.outcome for finding in built.findings}
    assert told["HST101", "node02"] is Outcome.PASS


def test_what_fails_comes_before_what_could_not_look() -> None:
    facts = missing(OF_JOBS, NOT_INSTALLED, "node01")
    facts["node01"]["hccn"] = {"devices": {"3": {"link": {"value": "DOWN"}}}}
    assert report({"facts": facts})[1] == "ssh 10.1.0.1 hccn_tool -i 3 -optical -g"


def test_one_check_that_could_not_look_is_explained_in_its_own_block() -> None:
    lines, then, _ = report({"facts": missing(("sockets",), "ss is not installed, or not on PATH", "node01")})
    assert [line for line in lines if line.startswith("UNKNOWN ")] == ["UNKNOWN PRT103"]
    assert "    fix: install iproute2 on node01, so that ss is on PATH" in lines
    assert then == "install iproute2 on node01, so that ss is on PATH" + THEN


def test_devices_of_which_a_tool_that_hangs_told_nothing_are_one_block() -> None:
    hung = {"error": "hccn_tool did not answer in time"}
    devices = {str(index): {"address": hung, "link": hung, "gateway": hung, "tls": hung} for index in range(8)}
    lines, then, _ = report({"facts": {"node02": {"hccn": {"devices": devices}}}})
    assert sum(line.startswith("UNKNOWN ") for line in lines) == 1
    assert then == "reboot node02 if hccn_tool hangs" + THEN


def kind(**more: Any) -> dict[str, Any]:
    return {"accelerators": {"npu_nodes": 0, "npus": [], "gpus": 0, "gpu_nodes": 0, **more}}


def test_a_wrong_product_is_one_finding_and_comes_next() -> None:
    npus = kind(npu_nodes=8, npus=["d802"] * 8, chips=["910B3"] * 8)
    closed = {"sysctl": {"reserved_ports": ""}}
    facts = {
        host: {**npus, **closed, "nvidia": {"pci": [], "gpus": {"error": "nvidia-smi is not installed"}}}
        for host in BOTH
    }
    cluster = {"product": "nvidia", "firewall": "leave"}
    _, then, built = report({"cluster": cluster, "facts": facts})
    failed = [finding for finding in built.findings if finding.outcome is Outcome.FAIL]
    assert [finding.host for finding in failed if finding.check == "HST135"] == [None]
    assert "GPU101" not in {finding.check for finding in failed}
    assert any(finding.change for finding in failed), "which would have been the next command"
    assert then == 'set product = "atlas-a2" under [cluster] in hosts.toml' + THEN


def test_the_driver_of_another_product_is_not_to_be_installed() -> None:
    facts = {
        host: {**kind(gpus=8, gpu_nodes=8), "hccn": {"missing": "hccn_tool is not installed, or not on PATH"}}
        for host in BOTH
    }
    lines, then, _ = report({"facts": facts})
    assert then == 'set product = "nvidia" under [cluster] in hosts.toml' + THEN
    assert "    fix: correct the product in the inventory first" in lines


def test_another_generation_on_all_hosts_comes_next() -> None:
    chips = {"chips": {str(index): {"name": "910B3"} for index in range(8)}}
    facts = {host: {"npu_smi": chips} for host in BOTH}
    assert report({"facts": facts})[1].startswith('set product = "atlas-a2" under [cluster] in hosts.toml')
    assert report({"facts": {"node01": facts["node01"]}})[1] == (
        'set product = "atlas-a2" under [cluster] in hosts.toml, or move node01 to another inventory' + THEN
    )


def test_a_pair_far_below_its_port_is_not_followed_by_the_start_of_the_job() -> None:
    slow = {"id": "r3-7", "members": ["node01/7", "node02/7"], "busbw": 0.2, "line_rate": 0.016}
    case = {"cluster": {"probe": {"expect": {}}}, "baseline": {"none": True}, "only_these_tests": True, "tests": [slow]}
    assert report(case)[1] == "preflight explain PRB116"
    assert report({**case, "baseline": {}})[1] == "start the job"


def test_a_python_that_a_probe_could_not_start_is_to_be_set_next() -> None:
    said = "node01: /opt/nope/python could not be started on the host (No such file or directory)"
    lost = {"error": said, "stage": "none", "end": "lost"}
    members = ["node01/0", "node01/1", "node02/0", "node02/1"]
    test = {"id": "r1-1", "members": members, "outcome": "fail", "stage": "none", "ranks": dict.fromkeys(members, lost)}
    _, then, built = report({"only_these_tests": True, "tests": [test]})
    assert "PRB101" in {finding.check for finding in built.findings if finding.outcome is Outcome.FAIL}
    assert then == "set python under [probe] in hosts.toml" + THEN
