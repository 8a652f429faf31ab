"""GPU checks over whatever the tools said: no text makes one crash, and nothing of a terminal gets through."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from preflight.checks.gpu import gpus, numbered
from preflight.checks.registry import all_checks
from preflight.checks.run import run_checks, select
from preflight.facts.document import dump, load
from preflight.facts.found import Found
from preflight.facts.nvidia import Nvidia
from preflight.facts.nvidia_answer import RawFabricManager, RawLog, RawNvidia, nvidia
from preflight.facts.nvidia_smi.nvlink import NvLinks
from preflight.facts.output import Output
from preflight.facts.types import ClusterFacts, HostFacts
from tests.unit.healthy import scene
from tests.unit.healthy_gpus import healthy_nvidia

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


@pytest.mark.parametrize("told", [True, False], ids=["nvlink tells the numbers", "the PCI bus tells"])
def test_a_GPU_that_is_lost_does_not_shift_the_numbers_of_the_others(*, told: bool) -> None:  # noqa: N802
    seen = healthy_nvidia(1)
    assert seen.gpus.value
    rest = replace(seen.gpus.value, gpus=(*gpus(seen)[:2], *gpus(seen)[3:]))
    seen = replace(seen, gpus=Found(rest), nvlinks=seen.nvlinks if told else Found())
    assert [index for index, _ in numbered(seen)] == [0, 1, 3, 4, 5, 6, 7]
    given = replace(seen, nvlinks=Found(), contained=True)
    assert [index for index, _ in numbered(given)] == list(range(7)), "a container counts those that it was given"


def test_where_all_serial_numbers_are_blotted_out_the_places_on_the_bus_count() -> None:
    seen = healthy_nvidia(1)
    assert seen.gpus.value and seen.nvlinks.value
    alike = replace(
        seen,
        gpus=Found(replace(seen.gpus.value, gpus=tuple(replace(gpu, uuid="GPU-0") for gpu in gpus(seen)))),
        nvlinks=Found(NvLinks(tuple(replace(links, uuid="GPU-0") for links in seen.nvlinks.value.gpus))),
    )
    assert [index for index, _ in numbered(alike)] == list(range(8))


def test_a_reset_names_the_GPU_by_its_place_on_the_bus() -> None:  # noqa: N802
    case = scene({"facts": {"node02": {"nvidia": {"gpus": {"value": {"gpus": {"3": {"reset_required": True}}}}}}},
                  "cluster": {"product": "nvidia"}})  # fmt: skip
    findings = run_checks(case.cluster, case.facts, checks=select(all_checks(), ["GPU104"]), hosts=case.cluster.hosts)
    (reset,) = [finding for finding in findings if finding.outcome == "fail"]
    assert "--gpu-reset -i 0000:40:00.0" in reset.remedy
