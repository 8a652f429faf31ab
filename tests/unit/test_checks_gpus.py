"""GPU checks over whatever the tools said: no text makes one crash, and nothing of a terminal gets through."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from preflight.checks.registry import all_checks
from preflight.checks.run import run_checks, select
from preflight.facts.document import dump, load
from preflight.facts.nvidia import Nvidia
from preflight.facts.nvidia_answer import RawFabricManager, RawLog, RawNvidia, nvidia
from preflight.facts.output import Output
from preflight.facts.types import ClusterFacts, HostFacts
from tests.unit.healthy import scene

SAID = Path(__file__).parents[1] / "cases" / "parsers"


def texts(parser: str) -> list[str]:
    return [path.read_bytes().decode() for path in sorted((SAID / parser).glob("*.txt"))]


def host(query: str, links: str, topology: str, log: str) -> Nvidia:
    said = {"-q": Output(query, "", 0), "nvlink -s": Output(links, "", 0), "topo -m": Output(topology, "\x1b[2J", 0)}
    found = nvidia(
        RawNvidia(True, said, [("0000:9b:00.0", "63", "16", False)], [], "NVRM version: none", [],
                  RawFabricManager(False, None, "\x1b"), False, RawLog(log, False, ""))
    )  # fmt: skip
    assert isinstance(found, Nvidia)
    return found


@pytest.mark.parametrize("query", texts("nvidia-smi.query"))
def test_no_answer_of_the_tools_crashes_a_check(query: str) -> None:
    case, checks = scene({"cluster": {"product": "nvidia"}}), select(all_checks(), ["GPU"])
    healthy = case.facts.hosts["node01"]
    assert isinstance(healthy, HostFacts)
    others = zip(texts("nvidia-smi.nvlink"), cycle(texts("nvidia-smi.topo")), cycle(texts("kernel-log.xids")))
    for links, topology, log in others:
        seen = replace(healthy, nvidia=host(query, links, topology, log))
        facts = ClusterFacts({**case.facts.hosts, "node02": seen})
        assert load(dump(facts)) == facts
        findings = run_checks(case.cluster, facts, checks=checks, hosts=case.cluster.hosts)
        assert not [finding for finding in findings if "crashed" in finding.summary]
        assert all((f.summary + f.found + f.cause + f.remedy + "".join(f.evidence)).isprintable() for f in findings)
        assert "GPU102" in {finding.check for finding in findings if finding.outcome == "fail"}, "one fell off the bus"
