"""The XML of `nvidia-smi -q -x` as the tree of `nvidia-smi -q`: its elements by their names in the text.

Names of elements are those of nvsmi_device_v11.dtd to v13 (drivers 470 to 595). New fields of driver 610 are read under
the names that the DTD would give them. Anything after a cut, or after text that is no XML, is left out and reported.
"""

import re
from xml.parsers import expat

from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import known
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import XML_BREAKS, XML_ENDS
from preflight.facts.parsers.nvidia.nvidia_smi.tree import LONGEST, MOST, Block, Tree, bus_of

_END = "</nvidia_smi_log>"
_DEEPEST = 20  # elements in each other; the deepest of nvidia-smi is 6
_LONGEST_VALUE = 4096  # characters; of a process's command line
_PROCESS = {"pid": "Process ID", "type": "Type", "process_name": "Name", "used_memory": "Used GPU Memory"}
_HOST = {
    "driver_version": "Driver Version",
    "cuda_version": "CUDA Version",
    "attached_gpus": "Attached GPUs",
    "kmd_version": "KMD Version",
    "cuda_umd_version": "CUDA UMD Version",
}
_REASONS = {
    "gpu_idle": "Idle",
    "applications_clocks_setting": "Applications Clocks Setting",
    "sw_power_cap": "SW Power Cap",
    "hw_slowdown": "HW Slowdown",
    "hw_thermal_slowdown": "HW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Power Brake Slowdown",
    "sync_boost": "Sync Boost",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
    "display_clocks_setting": "Display Clock Setting",
}
_POWER = {
    "power_draw": "Power Draw",
    "average_power_draw": "Average Power Draw",
    "instant_power_draw": "Instantaneous Power Draw",
    "power_limit": "Power Limit",
    "current_power_limit": "Current Power Limit",
    "default_power_limit": "Default Power Limit",
    "max_power_limit": "Max Power Limit",
}
_COUNTS = {
    "sram_correctable": "SRAM Correctable",
    "sram_uncorrectable": "SRAM Uncorrectable",
    "sram_uncorrectable_parity": "SRAM Uncorrectable Parity",
    "sram_uncorrectable_secded": "SRAM Uncorrectable SEC-DED",
    "dram_correctable": "DRAM Correctable",
    "dram_uncorrectable": "DRAM Uncorrectable",
    "single_bit/total": "Single Bit/Total",
    "double_bit/total": "Double Bit/Total",
    "sram_threshold_exceeded": "SRAM Threshold Exceeded",
}
# The elements of a GPU that are read: path of an element below <gpu> → its path in the text.
_GPU = {
    "product_name": "Product Name",
    "product_architecture": "Product Architecture",
    "uuid": "GPU UUID",
    "serial": "Serial Number",
    "minor_number": "Minor Number",
    "vbios_version": "VBIOS Version",
    "persistence_mode": "Persistence Mode",
    "compute_mode": "Compute Mode",
    "mig_mode/current_mig": "MIG Mode/Current",
    "mig_mode/pending_mig": "MIG Mode/Pending",
    "gpu_reset_status/reset_required": "GPU Reset Status/Reset Required",
    "gpu_reset_status/drain_and_reset_recommended": "GPU Reset Status/Drain and Reset Recommended",
    "gpu_recovery_action": "GPU Recovery Action",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "PCI/GPU Link Info/PCIe Generation/Current",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "PCI/GPU Link Info/PCIe Generation/Max",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "PCI/GPU Link Info/Link Width/Current",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "PCI/GPU Link Info/Link Width/Max",
    "pci/replay_counter": "PCI/Replays Since Reset",
    "performance_state": "Performance State",
    "fb_memory_usage/total": "FB Memory Usage/Total",
    "fb_memory_usage/used": "FB Memory Usage/Used",
    "ecc_mode/current_ecc": "ECC Mode/Current",
    "ecc_mode/pending_ecc": "ECC Mode/Pending",
    "ecc_errors/channel_repair_pending": "ECC Errors/Channel Repair Pending",
    "ecc_errors/tpc_repair_pending": "ECC Errors/TPC Repair Pending",
    "retired_pages/multiple_single_bit_retirement/retired_count": "Retired Pages/Single Bit ECC",
    "retired_pages/double_bit_retirement/retired_count": "Retired Pages/Double Bit ECC",
    "retired_pages/pending_blacklist": "Retired Pages/Pending Page Blacklist",
    "retired_pages/pending_retirement": "Retired Pages/Pending",
    "remapped_rows/remapped_row_corr": "Remapped Rows/Correctable Error",
    "remapped_rows/remapped_row_unc": "Remapped Rows/Uncorrectable Error",
    "remapped_rows/remapped_row_pending": "Remapped Rows/Pending",
    "remapped_rows/remapped_row_failure": "Remapped Rows/Remapping Failure Occurred",
    "temperature/gpu_temp": "Temperature/GPU Current Temp",
    "temperature/memory_temp": "Temperature/Memory Current Temp",
    "clocks/sm_clock": "Clocks/SM",
    "clocks/mem_clock": "Clocks/Memory",
    "max_clocks/sm_clock": "Max Clocks/SM",
    "max_clocks/mem_clock": "Max Clocks/Memory",
    "fabric/state": "Fabric/State",
    "fabric/status": "Fabric/Status",
    **{
        f"ecc_errors/{xml}/{tag}": f"ECC Errors/{text}/{name}"
        for tag, name in _COUNTS.items()
        for xml, text in (("volatile", "Volatile"), ("aggregate", "Aggregate"))
    },
    **{
        f"{xml}/{tag}": f"{text}/{name}"
        for tag, name in _POWER.items()
        for xml, text in (("gpu_power_readings", "GPU Power Readings"), ("power_readings", "Power Readings"))
    },
    **{
        f"clocks_{kind}_reasons/clocks_{kind}_reason_{tag}": f"Clocks {kind.title()} Reasons/{name}"
        for tag, name in _REASONS.items()
        for kind in ("event", "throttle")
    },
}
# Driver 610 has a section for limits. Its name in the XML is not known: any name with "ceiling" in it is accepted.
_CEILING = re.compile(r"gpu_power_readings/\w{0,40}ceiling\w{0,40}/(\w{1,60})", re.ASCII)
_SLOWED = ("clocks_event_reasons/", "clocks_throttle_reasons/")


# Lines of a login or a shell before the XML are ignored. After text of -q there is no XML, as a process may have any
# name.
_BEGINS = re.compile(r"^[ \t\ufeff]*(?=<(?:\?xml|!DOCTYPE|nvidia_smi_log))", re.MULTILINE)
_OTHER_FORM = re.compile(r"^(?:GPU [0-9A-Fa-f]{4,8}:|=+NVSMI LOG=)", re.MULTILINE)


def xml_begins(text: str) -> int | None:
    """Return where the XML begins; None if there is none."""
    match = _BEGINS.search(text[:LONGEST])
    return match.end() if match and not _OTHER_FORM.search(text[: match.start()]) else None


class _RefusedError(Exception):
    """XML that nvidia-smi does not print; the message is the end of a sentence."""


class _XmlReader:
    """Handlers for expat, element by element. An element is added at its end."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.path: list[str] = []
        self.text: list[str] = []
        self.length = 0
        self.process: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if not self.path and name != "nvidia_smi_log":
            raise _RefusedError("is not from nvidia-smi")
        if len(self.path) >= _DEEPEST:
            raise _RefusedError(f"has more than {_DEEPEST} nested elements")
        self.path.append(name)
        self.text, self.length = [], 0
        if self.path[1:] == ["gpu"]:
            bus = bus_of(attributes.get("id", ""))
            if bus is None:
                raise _RefusedError("has a GPU without its address on the PCI bus")
            if len(self.tree.gpus) > MOST:
                raise _RefusedError(f"lists more than {MOST} GPUs")
            self.tree.gpus.append((bus, Block()))
        elif self.path[1:] == ["gpu", "processes"] and self.block.processes is None:
            self.block.processes = []
        elif self.path[3:] == ["process_info"]:
            self.process = {}

    @property
    def block(self) -> Block:
        return self.tree.gpus[-1][1]

    def data(self, text: str) -> None:
        self.length += len(text)
        if self.length <= _LONGEST_VALUE:
            self.text.append(text)

    def end(self, _: str) -> None:
        value, self.text, self.length = "".join(self.text).strip(), [], 0
        path = self.path[1:]
        self.path.pop()
        if path[:3] == ["gpu", "processes", "process_info"]:
            self._of_process(path[3:], value)
        elif path[:1] == ["gpu"]:
            self._of_gpu("/".join(path[1:]), value)
        elif len(path) == 1 and path[0] in _HOST:
            _put(self.tree.host, _HOST[path[0]], value)

    def _of_gpu(self, path: str, value: str) -> None:
        ceiling = _CEILING.fullmatch(path)
        if path in _GPU:
            _put(self.block, _GPU[path], value)
        elif ceiling and ceiling.group(1) in _POWER:
            _put(self.block, f"GPU Power Readings/GPU Ceiling Power Limit/{_POWER[ceiling.group(1)]}", value)
        elif path.startswith(_SLOWED):  # an unknown reason is kept, to be reported
            _put(self.block, f"Clocks Event Reasons/{path.partition('/')[2]}", value)

    def _of_process(self, path: list[str], value: str) -> None:
        if not path and self.block.processes is not None:
            first = ("Process ID", self.process.pop("Process ID", ""))
            self.block.processes += [first, *self.process.items()]
        elif len(path) == 1 and path[0] in _PROCESS:
            self.process[_PROCESS[path[0]]] = value

    def doctype(self, _name: str, _system: str | None, _public: str | None, has_internal_subset: int) -> None:
        if has_internal_subset:
            raise _RefusedError("declares its own entities")

    def entity(self, _name: str, _is_parameter: int) -> None:
        raise _RefusedError("has an undeclared entity")


def _put(block: Block, path: str, value: str) -> None:
    block.fields[path] = None if path in block.fields else value


def xml_tree(text: str, begin: int) -> Tree:
    """Parse every complete element from `begin` on.

    Declarations of entities are refused, because entities can expand to any size. Only expat reads the host's answer:
    it opens no file and no connection.
    """
    reader, parser = _XmlReader(), expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.data
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.SkippedEntityHandler = reader.entity
    head = text[:begin]
    body, end, tail = text[begin:LONGEST].partition(_END)
    try:
        if "<nvidia_smi_log" in tail:
            raise _RefusedError("appears twice: the output of several hosts or calls is mixed together")
        parser.Parse((body + end).encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        line = head.count("\n") + error.lineno
        reader.tree.messages.append(f"nvidia-smi -q -x: {XML_BREAKS if end else XML_ENDS} in line {line}")
    except _RefusedError as refused:
        return Tree(messages=[f"nvidia-smi -q -x: the XML {refused}"])
    reader.tree.messages += filter(None, map(known, (head, tail if end else body[-1000:])))
    return reader.tree
