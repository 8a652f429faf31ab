"""From what a tool prints to what the checks say, where it does not tell: what a product refuses is skipped with the
tool's words, what a device leaves out is unknown, and neither is ever a pass."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.answers import npu as npu_answer
from preflight.facts.output import ToolOutput
from preflight.facts.parsers.ascend.hccn_tool import DEEP_READERS
from preflight.facts.sections.nic import Nic, NicDevice
from preflight.facts.types import ClusterFacts, HostFacts
from preflight.facts.unknown_formats import unknown
from preflight.model.finding import Finding
from tests.unit.healthy import scene

REFUSED = "The command is not supported on this product."
OF_NICS = ("NIC101", "NIC102", "NIC103", "NIC104", "NIC105", "NIC106", "NIC107", "NIC108", "NIC109", "NPU122")
OF_CHIPS = ("NPU117", "NPU120", "NPU123", "NPU124")
A3 = {"cluster": {"product": "atlas-a3", "superpod": True}}


def refusing(what: str) -> ToolOutput:
    return ToolOutput(what + "\n", "", 13)


def nic_of(answers: dict[str, ToolOutput]) -> Nic:
    return npu_answer.nic(dict.fromkeys(range(8), answers), tuple(range(8)))


def said(ids: Iterable[str], case: dict[str, Any], **sections: Any) -> dict[str, set[tuple[str, str]]]:
    """Check → what it says of the first host, when that has these sections: (outcome, summary)."""
    healthy = scene(case)
    facts = healthy.facts.hosts["node01"]
    assert isinstance(facts, HostFacts)
    all_facts = ClusterFacts({**healthy.facts.hosts, "node01": replace(facts, **sections)})
    checks = [all_checks()[id_] for id_ in ids]
    findings = run_checks(healthy.cluster, all_facts, checks=checks, hosts=healthy.cluster.hosts)
    return {
        check.id: {_told(one) for one in findings if (one.check, one.host) == (check.id, "node01")} for check in checks
    }


def _told(finding: Finding) -> tuple[str, str]:
    return finding.outcome.value, finding.summary


@pytest.mark.parametrize("id_", OF_NICS)
@pytest.mark.parametrize("words", [REFUSED, "Get invalid major cmd.", "The VM does not support this command."])
def test_what_hccn_tool_refuses_is_skipped_with_its_words(id_: str, words: str) -> None:
    found = said([id_], {}, nic=nic_of({name: refusing(words) for name in DEEP_READERS}))[id_]
    assert {outcome for outcome, _ in found} == {"skip"}
    assert all(words in summary for _, summary in found)


@pytest.mark.parametrize("id_", [id_ for id_ in OF_NICS if id_ != "NIC105"])  # -lldp is asked of every release
def test_what_hccn_tool_does_not_list_in_its_help_and_so_was_not_asked_is_skipped(id_: str) -> None:
    found = said([id_], {}, nic=nic_of({"link": ToolOutput("link status: UP\n", "", 0)}))[id_]
    assert {outcome for outcome, _ in found} == {"skip"}
    assert all("its help (-h) does not list this query" in summary for _, summary in found)


def test_what_only_one_device_refuses_is_skipped_by_its_number() -> None:
    devices = list(healthy_nic().devices)
    devices[3] = nic_of({"optical": refusing(REFUSED)}).devices[3]
    found = said(["NIC102"], {}, nic=Nic(tuple(devices)))["NIC102"]
    assert found == {("skip", f"node01: device 3: values are not reported: hccn_tool -optical: {REFUSED}")}


@pytest.mark.parametrize("id_", [id_ for id_ in OF_NICS if id_ not in ("NIC104", "NIC105", "NPU122")])
def test_a_device_of_which_there_is_nothing_is_unknown(id_: str) -> None:
    """No value and no error, though the others have one: nobody looked, or a document of before was edited."""
    devices = list(healthy_nic().devices)
    devices[3] = NicDevice(3)
    found = said([id_], {}, nic=Nic(tuple(devices)))[id_]
    assert found == {("unknown", "node01: device 3: could not be checked: the tool reported nothing")}


def test_a_link_that_is_up_without_a_speed_is_unknown_and_a_port_without_a_neighbour_is_none() -> None:
    devices = list(healthy_nic().devices)
    devices[3] = NicDevice(3)
    found = said(["NIC104", "NIC105"], {}, nic=Nic(tuple(devices)))
    assert {outcome for outcome, _ in found["NIC104"]} == {"unknown"}
    assert {outcome for outcome, _ in found["NIC105"]} == {"pass"}


def healthy_nic() -> Nic:
    facts = scene({}).facts.hosts["node01"]
    assert isinstance(facts, HostFacts)
    assert isinstance(facts.nic, Nic)
    return facts.nic


MAPPING = "NPU ID  Chip ID  Chip Logic ID  Chip Name\n" + "".join(
    f"{npu}  0  {npu}  Ascend 910B3\n" for npu in range(8)
)


def chips_of(words: str | None) -> Any:
    """Where npu-smi says this to every question; None: it was asked none."""
    asked = ("topo", *(f"{type_} -i {npu}{chip}" for type_, chip in TYPES for npu in range(8)))
    queries = {} if words is None else {query: ToolOutput("", words + "\n", 1) for query in asked}
    return npu_answer.chips(npu_answer.RawChips(ToolOutput(MAPPING, "", 0), queries))


TYPES = (("board", ""), ("health", " -c 0"), ("usages", " -c 0"), ("spod-info", " -c 0"), ("hccs", " -c 0"))
REFUSALS = ["Error parameter of -t", "This device does not support querying this."]


@pytest.mark.parametrize("id_", OF_CHIPS)
@pytest.mark.parametrize("words", REFUSALS)
def test_what_npu_smi_refuses_is_skipped(id_: str, words: str) -> None:
    found = said([id_], A3, chips=chips_of(words), versions=None)[id_]
    assert {outcome for outcome, _ in found} == {"skip"}


@pytest.mark.parametrize("id_", OF_CHIPS)
def test_what_npu_smi_was_not_asked_is_unknown(id_: str) -> None:
    """It is asked everything: what is not there did not come in time."""
    found = said([id_], A3, chips=chips_of(None), versions=None)[id_]
    assert {outcome for outcome, _ in found} == {"unknown"}


@pytest.mark.parametrize("words", REFUSALS)
def test_a_refusal_is_no_format_that_nobody_knows(words: str) -> None:
    facts = scene({}).facts.hosts["node01"]
    assert isinstance(facts, HostFacts)
    nic = nic_of({name: refusing(REFUSED) for name in DEEP_READERS})
    assert unknown({"node01": replace(facts, nic=nic, chips=chips_of(words))}) == ()
    assert unknown({"node01": replace(facts, chips=chips_of("What?"))}) != ()
