"""What the checks of devices say of captures of real tools: where a device of the healthy cluster has what a capture
shows. Like the parsers' captures, not run without --captures DIR."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preflight.checks.engine.registry import All, Here, all_checks
from preflight.facts.parsers.ascend import npu_smi
from preflight.facts.parsers.registry import PARSERS
from preflight.facts.sections.nic import Nic
from preflight.facts.types import HostFacts, Missing
from preflight.model.finding import Finding
from tests.unit.healthy import scene

# (capture, parser, field of NicDevice) → what a check says of device 0
OF_A_PORT = [
    ("hccn_tool-link_stat-g-910a.txt", "link_stat", "history", "NIC101", []),  # lost once, in its port's first minute
    ("hccn_tool-link_stat-g-flap-910b.txt", "link_stat", "history", "NIC101", []),  # the same, 23 days ago
    ("hccn_tool-optical-g-910a.txt", "optical", "optics", "NIC102",
     ["fail: optical module receives too little light on lane 1 and sends too much light on lane 0"]),
    ("hccn_tool-fec-g-none.txt", "fec", "fec", "NIC103", ["fail: link has no error correction (FEC)"]),
    ("hccn_tool-hw_stats-g-910b1.txt", "hw_stats", "resources", "NIC108", []),  # idle: one queue pair of the driver
]  # fmt: skip
NO_PROCESSES = {
    None: "skip: npu-smi cannot list processes here, so a leftover process cannot be distinguished from a running job "
    "(see NPU114)"
}
# capture of the table → what a check says, device by device
OF_A_TABLE = [
    ("npu-smi-info-910a-20.2.2.txt", "NPU118", NO_PROCESSES),
    ("npu-smi-info-910b1-23.0.rc2-excerpt.txt", "NPU118", NO_PROCESSES),
    ("npu-smi-info-910b4-24.1.rc3.txt", "NPU118", {}),  # 8.6 % of an idle one; what its jobs have, they have
    ("npu-smi-info-a3-910c-24.1.rc3.3.txt", "NPU118", {}),
    ("npu-smi-info-910a-23.0.rc1-warning.txt", "NPU118", NO_PROCESSES),  # 93 % of one is in use, nobody knows by whom
    ("npu-smi-info-910a-23.0.rc1-warning.txt", "NPU113", dict.fromkeys(range(4), "warn: health is Warning")),
]  # fmt: skip


@pytest.fixture
def captures(request: pytest.FixtureRequest) -> Path:
    directory: Path | None = request.config.getoption("--captures")
    if directory is None:
        pytest.skip("not run: captures of real tools are not in this repository; give them with --captures DIR")
    return directory


def findings(id_: str, sections: Mapping[str, Any]) -> list[Finding]:
    """Of the first host of the healthy cluster, alone, with other sections than it has."""
    case, check = scene({}), all_checks()[id_]
    host, facts = case.cluster.hosts[0], case.facts.hosts["node01"]
    assert isinstance(facts, HostFacts)
    inputs = {name: sections.get(name, facts.section(name)) for name in check.needs}
    if check.scope == "host":
        return list(check.function(Here(check, case.cluster, host), **inputs))
    all_ = All(check, case.cluster, (host,))
    return list(check.function(all_, **{name: {host.name: section} for name, section in inputs.items()}))


def said(finding: Finding) -> str:
    return f"{finding.outcome}: {finding.summary.removeprefix(f'node01: device {finding.device}: ')}"


@pytest.mark.parametrize(("name", "parser", "field", "id_", "says"), OF_A_PORT, ids=lambda value: str(value)[:40])
def test_what_is_said_of_a_real_port(
    captures: Path, name: str, parser: str, field: str, id_: str, says: list[str]
) -> None:
    parse: Any = PARSERS[f"hccn_tool.{parser}"]
    (reading,) = parse((captures / name).read_text(encoding="utf-8"))
    facts = scene({}).facts.hosts["node01"]
    assert isinstance(facts, HostFacts)
    assert isinstance(facts.nic, Nic)
    first, *others = facts.nic.devices
    nic = Nic((replace(first, **{field: reading}), *others))
    assert [said(finding) for finding in findings(id_, {"nic": nic})] == says


@pytest.mark.parametrize(("name", "id_", "says"), OF_A_TABLE, ids=lambda value: str(value)[:40])
def test_what_is_said_of_a_real_table(captures: Path, name: str, id_: str, says: dict[int | None, str]) -> None:
    table: Any = PARSERS["npu-smi.info"]((captures / name).read_text(encoding="utf-8"))
    facts = npu_smi.combined(table, npu_smi.mapping(""))
    assert not isinstance(facts, Missing)
    found = findings(id_, {"npu_smi": facts, "chips": None})
    assert {finding.device: said(finding) for finding in found} == says
