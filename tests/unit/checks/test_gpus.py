"""GPU checks over whatever the tools said: no text makes one crash, and nothing of a terminal gets through."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks, select
from preflight.facts.answers.nvidia import RawFabricManager, RawLog, RawNvidia, nvidia
from preflight.facts.documents.facts_document import dump, load
from preflight.facts.output import ToolOutput
from preflight.facts.parsers.nvidia.nvidia_smi import Gpus, few
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink import NvLinks
from preflight.facts.reading import Found, Missing
from preflight.facts.sections.nvidia import Nvidia
from preflight.facts.types import ClusterFacts, HostFacts
from preflight.rules.gpus import gpus, numbered
from tests.unit.checks.test_rdma import HOSTS, Change, gate, look
from tests.unit.healthy import scene
from tests.unit.healthy_gpus import healthy_nvidia

SAID = Path(__file__).parents[2] / "cases" / "parsers"


def texts(parser: str) -> list[str]:
    return [path.read_bytes().decode() for path in sorted((SAID / parser).glob("*.txt"))]


def host(query: str, links: str, topology: str, log: str) -> Nvidia:
    said = {
        "-q": ToolOutput(query, "", 0),
        "nvlink -s": ToolOutput(links, "", 0),
        "topo -m": ToolOutput(topology, "\x1b[2J", 0),
    }
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


def with_bridges(*without: str) -> Change:
    """Cards of a model that has bridges alone, but none between two GPUs."""

    def changed(host: HostFacts) -> HostFacts:
        seen = host.nvidia
        assert isinstance(seen, Nvidia) and seen.gpus.value and seen.topology.value
        cards = tuple(replace(gpu, product="NVIDIA A40") for gpu in gpus(seen))
        rows = tuple(
            replace(row, links=tuple("SYS" if {row.device, device} == set(without) else link
                                     for device, link in zip(seen.topology.value.devices, row.links, strict=True)))
            for row in seen.topology.value.rows
        )  # fmt: skip
        return replace(host, nvidia=replace(seen, gpus=Found(replace(seen.gpus.value, gpus=cards)),
                                            topology=Found(replace(seen.topology.value, rows=rows))))  # fmt: skip

    return changed


@pytest.mark.parametrize(
    ("lacking", "verdicts"),
    [(["node02"], ["pass", "fail", "pass"]), (["node02", "node03"], ["pass", "pass", "pass"])],
    ids=["one of three", "most have none"],
)
def test_a_bridge_is_missed_where_most_hosts_have_it(lacking: list[str], verdicts: list[str]) -> None:
    changes = {name: with_bridges(*(("GPU2", "GPU3") if name in lacking else ())) for name in HOSTS}
    assert gate(look("GPU117", HOSTS, **changes)) == verdicts


def test_of_two_hosts_that_differ_in_a_bridge_none_is_convicted() -> None:
    two = HOSTS[:2]
    findings = look("GPU117", two, node01=with_bridges(), node02=with_bridges("GPU2", "GPU3"))
    assert gate(findings, two) == ["warn", "warn"]


def of_cards(product: str, count: int = 8) -> Change:
    """So many cards that have no NVLink, of eight on the matrix."""

    def changed(host: HostFacts) -> HostFacts:
        seen = with_bridges()(host).nvidia
        assert isinstance(seen, Nvidia) and seen.gpus.value and seen.topology.value
        cards = tuple(replace(gpu, product=product) for gpu in gpus(seen)[:count])
        rows = tuple(
            replace(row, links=tuple("SYS" if link.startswith("NV") else link for link in row.links))
            for row in seen.topology.value.rows
        )
        return replace(host, nvidia=replace(seen, gpus=Found(replace(seen.gpus.value, gpus=cards)),
                                            topology=Found(replace(seen.topology.value, rows=rows))))  # fmt: skip

    return changed


@pytest.mark.parametrize(
    ("product", "count", "outcome"), [("NVIDIA L40S", 8, "pass"), ("NVIDIA A40", 4, "pass"), ("NVIDIA A40", 8, "fail")]
)
def test_who_has_other_GPUs_misses_no_NVLink(product: str, count: int, outcome: str) -> None:  # noqa: N802
    bridged = with_bridges()
    assert gate(look("GPU117", HOSTS, node01=bridged, node02=of_cards(product, count), node03=bridged))[1] == outcome


def with_one_gpu(host: HostFacts) -> HostFacts:
    """A virtual machine with one H100, as in docs/gpu-run.md: nvidia-smi nvlink -s prints nothing."""
    seen = host.nvidia
    assert isinstance(seen, Nvidia) and seen.gpus.value
    gpu = Found(replace(seen.gpus.value, attached=1, gpus=gpus(seen)[:1]))
    return replace(host, nvidia=replace(seen, gpus=gpu, nvlinks=Found()))


def test_a_single_gpu_misses_no_NVLink() -> None:  # noqa: N802
    findings = look("GPU115", HOSTS[:1], node01=with_one_gpu)
    assert [(one.outcome, one.summary) for one in findings] == [
        ("skip", "node01: there is only one GPU, and nvidia-smi lists no NVLink")
    ]


def test_who_does_not_tell_its_GPUs_is_not_compared() -> None:  # noqa: N802
    def nameless(host: HostFacts) -> HostFacts:
        seen = of_cards("")(host).nvidia
        assert isinstance(seen, Nvidia)
        return replace(host, nvidia=replace(seen, gpus=Found(error="nvidia-smi -q did not finish in time")))

    findings = look("GPU117", HOSTS, node01=with_bridges(), node02=nameless, node03=nameless)
    assert [(one.host, one.outcome) for one in findings if one.outcome != "pass"] == [
        ("node02", "skip"), ("node03", "skip")
    ]  # fmt: skip


def nvlinks(text: str, errors: str, *, answers: bool = True) -> Change:
    """A host with these answers to `nvlink -s` and `-e`; "": nothing came of the call."""

    def changed(host: HostFacts) -> HostFacts:
        seen = host.nvidia
        assert isinstance(seen, Nvidia)
        read = nvidia(
            RawNvidia(True, {"nvlink -s": ToolOutput(text, "", 0),
                             "nvlink -e": ToolOutput(errors, "", 0 if errors else -11)},
                      [], [], None, [], RawFabricManager(False, None, None), False)
        )  # fmt: skip
        assert isinstance(read, Nvidia)
        seen = replace(seen, gpus=seen.gpus if answers else Found(error="hangs"))
        return replace(host, nvidia=replace(seen, nvlinks=read.nvlinks, nvlink_errors=read.nvlink_errors))

    return changed


UP = "GPU 0: NVIDIA B200 (UUID: GPU-0a1b2c3d-0000-1111-2222-000000000000)\n\t Link 0: 53.125 GB/s\n"
GPU_0 = "GPU 0: NVIDIA B200\n\t Link 0: "
NO_NVLINK = "GPU 0: NVIDIA L40S\nDevice does not have or support Nvlink\n"
DARK = UP.replace("53.125 GB/s", "<inactive>")


@pytest.mark.parametrize(
    ("links", "errors", "outcome", "says"),
    [
        (UP, f"{GPU_0}Symbol Errors: 0\n", "pass", ""),
        (UP, f"{GPU_0}Symbol Errors: 4\n", "warn", "NVLink 0 reports 4 symbol errors"),
        (UP, f"{GPU_0}Flux Errors: 0\n", "unknown", "link 0 has no error counter that preflight recognizes"),
        (UP, f"{GPU_0}Symbol Errors: N/A\n", "skip", "has no error counters for NVLink 0"),
        (UP, "GPU 0: NVIDIA B200\n", "unknown", "has no error counters for NVLink 0"),
        (UP, "", "unknown", "nvlink -e printed nothing"),
        (UP, "ERROR: Option -e is not recognized. Please run 'nvidia-smi -h'.\n", "skip", "is not recognized"),
        (DARK, "GPU 0: NVIDIA B200\n", "skip", "no NVLink that is up"),
        (DARK, "", "skip", "printed nothing"),
        (NO_NVLINK, NO_NVLINK, "skip", "no NVLink that is up"),
    ],
)
def test_what_no_link_counted_has_not_passed(links: str, errors: str, outcome: str, says: str) -> None:
    (found,) = (one for one in look("GPU122", node02=nvlinks(links, errors)) if one.host == "node02")
    assert (found.outcome, says in found.summary) == (outcome, True), found.summary


def test_of_a_GPU_in_MIG_mode_no_counts_are_missed() -> None:  # noqa: N802
    def cut(host: HostFacts) -> HostFacts:
        seen = nvlinks(UP, "GPU 0: NVIDIA B200\n")(host).nvidia
        assert isinstance(seen, Nvidia) and seen.gpus.value and seen.nvlinks.value
        uuid = seen.nvlinks.value.gpus[0].uuid
        (gpu,) = gpus(seen)[:1]
        gpu = replace(gpu, mig=replace(gpu.mig, current=True), uuid=uuid)
        return replace(host, nvidia=replace(seen, gpus=Found(replace(seen.gpus.value, gpus=(gpu,)))))

    (found,) = (one for one in look("GPU122", node02=cut) if one.host == "node02")
    assert found.outcome == "skip"


def test_of_a_host_whose_nvidia_smi_hangs_GPU101_alone_speaks() -> None:  # noqa: N802
    (found,) = (one for one in look("GPU122", node02=nvlinks(UP, "", answers=False)) if one.host == "node02")
    assert found.outcome == "skip"


def test_a_reset_names_the_GPU_by_its_place_on_the_bus() -> None:  # noqa: N802
    case = scene({"facts": {"node02": {"nvidia": {"gpus": {"value": {"gpus": {"3": {"reset_required": True}}}}}}},
                  "cluster": {"product": "nvidia"}})  # fmt: skip
    findings = run_checks(case.cluster, case.facts, checks=select(all_checks(), ["GPU104"]), hosts=case.cluster.hosts)
    (reset,) = [finding for finding in findings if finding.outcome == "fail"]
    assert reset.commands == ("ssh 10.1.0.2 nvidia-smi --gpu-reset -i 0000:40:00.0",)


@pytest.mark.parametrize(
    "why", ["the output ends in the middle of the line 'Ser'", "nvidia-smi -q -x: the XML is broken in line 7"]
)
def test_a_gpu_behind_the_point_where_the_answer_breaks_off_is_not_lost(why: str) -> None:
    def changed(host: HostFacts) -> HostFacts:
        seen = host.nvidia
        assert isinstance(seen, Nvidia) and seen.gpus.value
        broken = replace(seen.gpus.value, gpus=gpus(seen)[:3], unread=(Missing(why),))
        return replace(host, nvidia=replace(seen, gpus=Found(broken)))

    findings = look("GPU102", HOSTS, node02=changed)
    assert [(one.host, one.outcome) for one in findings if one.outcome != "pass"] == [("node02", "unknown")]
    assert "fail" in {one.outcome for one in look("GPU102", HOSTS, node02=lacking)}


def lacking(host: HostFacts) -> HostFacts:
    """The same three GPUs in an answer that is whole."""
    seen = host.nvidia
    assert isinstance(seen, Nvidia) and seen.gpus.value
    return replace(host, nvidia=replace(seen, gpus=Found(replace(seen.gpus.value, gpus=gpus(seen)[:3]))))


def test_where_names_alone_are_known_no_check_of_health_passes() -> None:
    text = (SAID / "nvidia-smi.few" / "two-GPUs.txt").read_text(encoding="utf-8")

    def changed(host: HostFacts) -> HostFacts:
        seen, told = host.nvidia, few(text)
        assert isinstance(seen, Nvidia) and isinstance(told, Gpus)
        return replace(host, nvidia=replace(seen, gpus=Found(told)))

    case = scene({"cluster": {"product": "nvidia"}})
    healthy = case.facts.hosts["node02"]
    assert isinstance(healthy, HostFacts)
    facts = ClusterFacts({**case.facts.hosts, "node02": changed(healthy)})
    about = ["GPU101", "GPU103", "GPU104", "GPU105", "GPU108", "GPU109", "GPU110", "GPU111", "GPU114"]
    findings = run_checks(case.cluster, facts, checks=select(all_checks(), about), hosts=case.cluster.hosts)
    outcomes = {(one.check, one.outcome) for one in findings if one.host == "node02"}
    assert outcomes == {("GPU101", "unknown"), *((check, "skip") for check in about[1:])}
