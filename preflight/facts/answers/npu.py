"""Typed facts about NPUs from the collector's answer: hccn_tool, npu-smi, device nodes, the PCI bus. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from preflight.facts.output import ToolOutput
from preflight.facts.parsers.ascend import hccn_conf, hccn_tool, npu_smi
from preflight.facts.parsers.ascend.device_nodes import Accelerator, DeviceNode, DeviceNodes, lspci
from preflight.facts.parsers.ascend.packages import driver_install
from preflight.facts.reading import Found
from preflight.facts.refusal import NOT_LISTED, refused
from preflight.facts.sections.chips import Chip, Chips, Topology
from preflight.facts.sections.nic import Nic, NicDevice
from preflight.facts.types import Hccn, HccnConf, HccnDevice, Missing, NpuSmi, Reading

RawHccn = dict[int, dict[str, ToolOutput]]  # device → reading → hccn_tool's output


@dataclass
class RawHccnConf:
    text: str | None


@dataclass
class RawNpuSmi:
    info: ToolOutput
    mapping: ToolOutput
    users: dict[int, str] = field(default_factory=dict)


@dataclass
class RawChips:
    """The section `chips`. `queries`: by the arguments after `npu-smi info -t`, such as "health -i 0 -c 0"."""

    mapping: ToolOutput
    queries: dict[str, ToolOutput]


@dataclass
class RawNode:
    path: str
    device: bool
    mode: int
    uid: int
    gid: int
    user: str
    group: str


@dataclass
class RawDeviceNodes:
    """The section `device_nodes`. `install`: /etc/ascend_install.info, None if it does not exist.

    `lspci` None: not installed. Then `pci` is [bus, device id] of Huawei's accelerators as the kernel has them.
    """

    nodes: list[RawNode]
    lspci: ToolOutput | None
    pci: list[tuple[str, str]]
    install: str | None = None
    install_trouble: str = ""


def only_answer(name: str, output: ToolOutput | None, read: Callable[[str], tuple[Any, ...]]) -> Any | str:
    """Return the only answer to a query of one device, or an error."""
    if output is None or output.trouble:
        return output.trouble if output else f"hccn_tool was not queried for {name}"
    if output.code != 0 and not output.text.strip():
        return f"hccn_tool printed nothing and exited with {output.code}"
    values = read(output.text)
    return values[0] if len(values) == 1 else f"hccn_tool answered {len(values)} times where one answer was expected"


def _hccn_device(index: int, outputs: Mapping[str, ToolOutput]) -> HccnDevice:
    def reading(name: str) -> Reading:
        value = only_answer(name, outputs.get(name), hccn_tool.READERS[name])
        return Reading(error=value) if isinstance(value, str) else value

    address = only_answer("ip", outputs.get("ip"), hccn_tool.ip)
    if isinstance(address, str):
        address = hccn_tool.DeviceAddress(Reading(error=address), Reading(error=address))
    return HccnDevice(
        index=index,
        address=address.address,
        netmask=address.netmask,
        link=reading("link"),
        net_health=reading("net_health"),
        detect=reading("netdetect"),
        gateway=reading("gateway"),
        tls=reading("tls"),
        config_status=reading("cfg"),
        leaf=reading("lldp") if "lldp" in outputs else Reading(),
        mtu=reading("mtu"),
    )


_LATE = "hccn_tool did not answer in time"


def hccn(raw: RawHccn, requested: tuple[int, ...]) -> Hccn:
    """Return every device of the request, including those without readings after the timeout."""
    indices = sorted(set(requested) | set(raw))
    timeout_outputs = dict.fromkeys(("ip", *hccn_tool.READERS), ToolOutput("", "", -1, _LATE))
    return Hccn(tuple(_hccn_device(index, raw.get(index) or timeout_outputs) for index in indices))


def _deep_reading(name: str, output: ToolOutput | None) -> Found[Any]:
    if output is None and name not in hccn_tool.READERS:  # basic queries are sent even if the tool's help lacks them
        return Found(error=f"hccn_tool -{name}: {NOT_LISTED}")
    value = only_answer(name, output, hccn_tool.DEEP_READERS[name].read)
    if isinstance(value, str):
        return Found(error=value)
    return Found(error=f"hccn_tool -{name}: {value.error}") if refused(value.error) else value


def nic(raw: RawHccn, requested: tuple[int, ...]) -> Nic:
    """Return the deep readings of the devices that `hccn` returns."""
    timeout_outputs = dict.fromkeys(hccn_tool.DEEP_READERS, ToolOutput("", "", -1, _LATE))

    def device(index: int) -> NicDevice:
        outputs = raw.get(index) or timeout_outputs
        readings = {deep.field: _deep_reading(name, outputs.get(name)) for name, deep in hccn_tool.DEEP_READERS.items()}
        return NicDevice(index, **readings)

    return Nic(tuple(map(device, sorted(set(requested) | set(raw)))))


def hccn_conf_file(raw: RawHccnConf) -> HccnConf | Missing:
    if raw.text is None:
        return HccnConf(False, {})
    entries = hccn_conf.entries(raw.text)
    return entries if isinstance(entries, Missing) else HccnConf(True, entries, raw.text)


def npu_smi_table(raw: RawNpuSmi) -> NpuSmi | Missing:
    users = {pid: user[:60] for pid, user in raw.users.items()}
    return npu_smi.combined(npu_smi.info(raw.info.text), _mapping(raw.mapping), users)


def _mapping(output: ToolOutput) -> tuple[npu_smi.ChipId, ...] | Missing:
    return Missing(output.trouble) if output.trouble else npu_smi.mapping(output.text)


@dataclass(frozen=True)
class _Query:
    """A type of `npu-smi info -t`, and the field of Chip with its answer. The query of the board takes -i alone."""

    field: str
    read: Callable[[str], Found[Any]]


CHIP_QUERIES = {
    "health": _Query("health", npu_smi.health),
    "usages": _Query("usages", npu_smi.usages),
    "spod-info": _Query("superpod", npu_smi.superpod),
    "hccs": _Query("hccs", npu_smi.hccs),
}


def _answer(output: ToolOutput | None, read: Callable[[str], Found[Any]]) -> Found[Any]:
    if output is None:
        return Found(error="npu-smi was not queried, or not in time")
    return Found(error=output.trouble) if output.trouble else read(output.text)


def chips(raw: RawChips) -> Chips | Missing:
    ids = _mapping(raw.mapping)
    if isinstance(ids, Missing):
        return ids

    def chip(id_: npu_smi.ChipId) -> Chip:
        chip_options = f"-i {id_.npu} -c {id_.chip}"
        readings = {
            query.field: _answer(raw.queries.get(f"{type_} {chip_options}"), query.read)
            for type_, query in CHIP_QUERIES.items()
        }
        board = _answer(raw.queries.get(f"board -i {id_.npu}"), npu_smi.board)
        return Chip(id_.device, id_.npu, id_.chip, board=board, **readings)

    return Chips(tuple(map(chip, ids)), _topology(raw, ids))


def _topology(raw: RawChips, ids: tuple[npu_smi.ChipId, ...]) -> Found[Topology]:
    topology = _answer(raw.queries.get("topo"), npu_smi.topology)
    if topology.value is None:
        return topology
    return npu_smi.by_device(topology.value, {(id_.npu, id_.chip): id_.device for id_ in ids})


def device_nodes(raw: RawDeviceNodes) -> DeviceNodes:
    nodes = tuple(
        DeviceNode(node.path, node.mode, node.user, node.group, node.uid, node.gid) for node in raw.nodes if node.device
    )
    install = Found(error=raw.install_trouble) if raw.install is None else driver_install(raw.install)
    return DeviceNodes(nodes, _accelerators(raw), install)


def _accelerators(raw: RawDeviceNodes) -> Found[tuple[Accelerator, ...]]:
    if raw.lspci is None or raw.lspci.code:
        return Found(tuple(Accelerator(bus, device) for bus, device in raw.pci))
    if not raw.lspci.out.strip():
        return Found(())  # lspci was called for one vendor's devices, and there are none
    return lspci(raw.lspci.out)
