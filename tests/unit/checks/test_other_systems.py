"""Systems that nobody has run preflight on: their files and their tools' words, as far as they are known, from the real
collector to the findings.

A case is a file `tests/cases/systems/<system>.toml`, written in our own words after what these systems ship and print:

    [files]                   path → text
    [links]                   path → target
    [commands."ip"]           arguments → what the tool prints, or {out, err, code}; others it refuses
    [running]                 names of processes
    [cluster]                 what the inventory says differently (as in tests/cases/checks)
    [facts]                   what the facts have to say, as far as it is written here
    [[expect]]                every finding of the checks that is neither a pass nor a skip: check, outcome, fragments
                              of what it says, fields of its change
"""

import dataclasses
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.answers import host as answer
from preflight.facts.types import ClusterFacts, HostFacts, Missing
from preflight.model.change import Area
from preflight.model.cluster import Cluster, Host, HostSetup, Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.ports import PortSet
from preflight.transport.programs import source
from preflight.transport.types import Answer

ROOT = Path(__file__).parents[3]
CASES = sorted((ROOT / "tests/cases/systems").glob("*.toml"))
SECTIONS = ("os", "sysctl", "sockets", "network", "firewall", "environment")
AREAS = (Area.PORTS, Area.FIREWALL, Area.ENVIRONMENT)
QUIET = (Outcome.PASS, Outcome.SKIP)
KERNEL = {
    "/proc/sys/net/ipv4/ip_local_reserved_ports": "\n",
    "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    "/proc/sys/net/core/somaxconn": "4096\n",
    "/proc/sys/fs/nr_open": "1048576\n",
}


def tool(name: str, answers: Mapping[str, Any]) -> str:
    """A shell script that answers as the case says."""
    script = ["#!/bin/sh", 'case "$*" in']
    for arguments, said in answers.items():
        whole = {"out": said} if isinstance(said, str) else said
        prints = f"printf %s {shlex.quote(whole.get('out', ''))}; printf %s {shlex.quote(whole.get('err', ''))} >&2"
        script.append(f"{shlex.quote(arguments)}) {prints}; exit {whole.get('code', 0)};;")
    return "\n".join([*script, f'*) echo "{name}: not recorded: $*" >&2; exit 99;;', "esac", ""])


def plant(root: Path, case: Mapping[str, Any]) -> None:
    """The system's file tree below `root`, its tools in `root`/bin."""
    files = {**KERNEL, **case.get("files", {})}
    files |= {f"/proc/{900 + n}/comm": f"{name}\n" for n, name in enumerate(case.get("running", {}).get("names", ()))}
    files |= {f"/bin/{name}": tool(name, answers) for name, answers in case.get("commands", {}).items()}
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        place.chmod(0o755)
    for path, target in case.get("links", {}).items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(f"{root}{target}" if target.startswith("/") and target != "/dev/null" else target)


def collector(root: Path) -> str:
    """The collector's text, with its absolute paths led below `root` and only the tools there."""
    text = source("collect")
    for folder in ("etc", "run", "usr", "lib", "proc", "dev"):
        text = re.sub(rf'"/{folder}(?=[/"])', f'"{root}/{folder}', text)
    return re.sub(r"SEARCH = \[.*?\](?=\\n)", f'SEARCH = ["{root}/bin"]', text)


def looked(root: Path, cluster: Cluster) -> HostFacts:
    request = {
        "marker": "mark",
        "deadlines": dict.fromkeys(SECTIONS, 20),
        "ports": cluster.ports.ranges,
        "hosts_file": cluster.setup.hosts_file,
        "limits": bool(cluster.setup.memlock or cluster.setup.nofile),
    }
    done = subprocess.run(
        [sys.executable, "-I", "-c", collector(root)],
        input=json.dumps(request).encode(),
        capture_output=True,
        check=True,
    )
    document = done.stdout.split(b"\n", 2)[2].replace(str(root).encode(), b"").rstrip()
    reply = Answer(b"\nmark %d\n%s\n" % (len(document), document), b"", 0, 1.0)
    sections = answer.sections(reply, "mark")
    return answer.host_facts(answer.HostAnswer(sections, (), 0.0, 1.0), cluster.product)


def cluster_of(case: Mapping[str, Any]) -> Cluster:
    said = case.get("cluster", {})
    hosts = (Host("node01", "10.1.0.11", nic=said.get("nic")), Host("node02", "10.1.0.12"))
    return Cluster(
        "case", Product.ATLAS_A2, hosts, cidrs=(IPv4Network("10.1.0.0/24"),),
        hccl_ports=PortSet.parse("60000-60031"), job_ports=PortSet.parse("29500"), port_names={29500: "master"},
        setup=HostSetup(**said.get("setup", {})),
    )  # fmt: skip


def missing_in(expected: Any, found: Any, place: str) -> list[str]:
    """Where the facts do not say what a case expects; a table is compared key by key."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [line for key, value in expected.items() for line in missing_in(value, found.get(key), f"{place}.{key}")]
    if isinstance(found, tuple):
        found = list(found)
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = zip(expected, found, strict=True)
        return [line for n, pair in enumerate(pairs) for line in missing_in(*pair, f"{place}[{n}]")]
    return [] if expected == found else [f"{place}: {found!r}"]


def differences(expected: Mapping[str, Any], finding: Finding) -> list[str]:
    change = dataclasses.asdict(finding.change) if finding.change else {}
    wrong = [
        f"{key}: {getattr(finding, key)}" for key in ("check", "outcome") if getattr(finding, key) != expected[key]
    ]
    wrong += [f"no {text!r} in {finding.summary!r}" for text in expected.get("says", ()) if text not in finding.summary]
    wrong += [f"change.{key}: {change.get(key)!r}" for key, value in expected.get("change", {}).items()
              if change.get(key) != value]  # fmt: skip
    return wrong


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_system_is_seen_as_it_is_and_judged(path: Path, tmp_path: Path) -> None:
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    plant(tmp_path, case)
    cluster = cluster_of(case)
    facts = looked(tmp_path, cluster)
    unseen = {name: section.error for name in SECTIONS if isinstance(section := facts.section(name), Missing)}
    assert unseen == {}
    assert missing_in(case["facts"], dataclasses.asdict(facts), "facts") == []
    checks = [check for check in all_checks().values() if check.configures in AREAS and check.scope == "host"]
    found = run_checks(cluster, ClusterFacts({"node01": facts}), checks=checks, hosts=cluster.hosts[:1])
    loud = [finding for finding in found if finding.outcome not in QUIET]
    for expected in case.get("expect", ()):
        matching = [finding for finding in loud if not differences(expected, finding)]
        assert matching, [differences(expected, finding) for finding in loud if finding.check == expected["check"]]
        loud.remove(matching[0])
    assert [(finding.check, finding.summary) for finding in loud] == []
