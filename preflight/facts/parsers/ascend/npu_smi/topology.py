"""`npu-smi info -t topo`: how each device reaches each other one."""

import re
from collections.abc import Mapping
from dataclasses import replace

from preflight.facts.parsers.ascend.npu_smi.trouble import trouble
from preflight.facts.quote import quote
from preflight.facts.reading import Found
from preflight.facts.sections.chips import Topology

LINKS = ("X", "HCCS", "HCCS_SW", "SIO", "PIX", "PXB", "PHB", "SYS", "UB", "NA")
_DEVICE = re.compile(r"(NPU|Phy-ID)([0-9]{1,4})")
_NIC = re.compile(r"NIC[0-9]{1,4}")
_CPUS = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?){0,40}|NA")
_MOST = 128  # devices


def topology(text: str) -> Found[Topology]:
    """A row a device, until the legend. Newer tools add a column and a row a host NIC, which are left out; 910_93 on
    ARM prints no CPUs. Rows are named by NPU ID, on 910_93 by physical id."""
    rows = [line.split() for line in text[:100_000].split("\n") if line.strip()]
    start = next((at for at, row in enumerate(rows) if _DEVICE.fullmatch(row[0])), None)
    if start is None:
        return Found(error=trouble(text, "info -t topo"))
    names = [name for name in rows[start] if _DEVICE.fullmatch(name)]
    nics = sum(bool(_NIC.fullmatch(name)) for name in rows[start])
    with_cpus = rows[start][-2:] == ["CPU", "Affinity"]
    width = 1 + len(names) + nics + with_cpus
    if len(rows[start]) != len(names) + nics + 2 * with_cpus or not 0 < len(set(names)) == len(names) <= _MOST:
        return Found(error=f"npu-smi info -t topo: {quote(' '.join(rows[start]))} is not understood")
    body = rows[start + 1 : start + 1 + len(names)]
    for at, row in enumerate(body):
        good = len(row) == width and row[0] == names[at] and all(word in LINKS for word in row[1 : width - with_cpus])
        if not good or row[1 + at] != "X" or (with_cpus and not _CPUS.fullmatch(row[-1])):
            return Found(error=f"npu-smi info -t topo: {quote(' '.join(row))} is not understood")
    if len(body) < len(names):
        return Found(error=f"npu-smi info -t topo has {len(names)} columns and {len(body)} rows: it is cut")
    numbered = [match.groups() for name in names if (match := _DEVICE.fullmatch(name))]
    return Found(
        Topology(
            devices=tuple(int(number) for _, number in numbered),
            links=tuple(tuple(row[1 : 1 + len(names)]) for row in body),
            cpus=tuple(row[-1] for row in body) if with_cpus else (),
            numbers=numbered[0][0],
        )
    )


def by_device(topology: Topology, physical: Mapping[tuple[int, int], int]) -> Found[Topology]:
    """With physical ids for npu-smi's own numbers. `physical`: (NPU, chip) → physical id."""
    if topology.numbers == "Phy-ID":
        return Found(topology)
    unknown = [npu for npu in topology.devices if (npu, 0) not in physical]
    if unknown:
        return Found(error=f"npu-smi info -t topo tells of NPU {unknown[0]}, which npu-smi info does not list")
    return Found(replace(topology, devices=tuple(physical[npu, 0] for npu in topology.devices), numbers="Phy-ID"))
