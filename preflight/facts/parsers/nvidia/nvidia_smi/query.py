"""`nvidia-smi -q`: the driver's readings of its GPUs (checked with drivers 535 to 610), as text or XML.

If both fail, a CSV query has a few of the values. Fields that drivers have renamed are searched under each of their
names.
"""

import re
from collections.abc import Iterator, Sequence

from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import known, trouble
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import (
    NAMES_ALONE,
    TEXT_ENDS,
    Clocks,
    Ecc,
    EccCounts,
    Gpu,
    GpuFabric,
    GpuProcess,
    Gpus,
    Mode,
    Pcie,
    Power,
    RemappedRows,
    RetiredPages,
)
from preflight.facts.parsers.nvidia.nvidia_smi.tree import MOST, Block, Tree, bus_of, first_repeated, tree
from preflight.facts.parsers.nvidia.nvidia_smi.xml import xml_begins, xml_tree
from preflight.facts.reading import Missing
from preflight.model.text import quote

MOST_UNREAD = 50  # values that are listed one by one
NOT_TOLD = {
    "",
    "N/A",
    "[N/A]",
    "Not Supported",
    "[Not Supported]",
    "Requested functionality has been deprecated",  # of "GPU Reset Status", from driver 570 on
    "[redacted]",  # in a capture
}
# Fields that every driver has for --query-gpu → their path in the text of -q.
FEW = {
    "pci.bus_id": "",
    "name": "Product Name",
    "uuid": "GPU UUID",
    "driver_version": "Driver Version",
    "memory.total": "FB Memory Usage/Total",
    "memory.used": "FB Memory Usage/Used",
}
_NO_ANSWER = re.compile(r"Error|requires reset|Permission")
SLOWDOWNS = (  # "HW Thermal Slowdown" and "HW Power Brake Slowdown" are below "HW Slowdown" in the text
    "Idle",
    "Applications Clocks Setting",
    "SW Power Cap",
    "HW Slowdown",
    "HW Thermal Slowdown",
    "HW Power Brake Slowdown",
    "Sync Boost",
    "SW Thermal Slowdown",
    "Display Clock Setting",
)
_REASONS = ("Clocks Event Reasons/", "Clocks Throttle Reasons/")  # the name until driver 530
_POWER = ("GPU Power Readings/GPU Ceiling Power Limit/", "GPU Power Readings/", "Power Readings/")  # from driver 610 on
_DEPRECATED = "[Deprecated"  # driver 610 writes it after a value if later drivers will not have its name


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


_COUNT = _pattern(r"([0-9]{1,15})")
_WATTS = _pattern(r"([0-9]{1,6}\.[0-9]{1,3}) W")
_MHZ = _pattern(r"([0-9]{1,6}) MHz")
_MIB = _pattern(r"([0-9]{1,9}) MiB")
_CELSIUS = _pattern(r"(-?[0-9]{1,3}) C")
_WIDTH = _pattern(r"([0-9]{1,2})x")
_WORDS = _pattern(r"([A-Za-z0-9][\w .,:()/+-]{0,79})")
_UUID = _pattern(r"(GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_PERFORMANCE = _pattern(r"(P[0-9]{1,2})")
_SWITCH = {"Enabled": True, "Disabled": False, "Yes": True, "No": False, "Active": True, "Not Active": False}


class _Answers:
    """The readings of one GPU or of the host (`owner`), and those that are not understood."""

    def __init__(self, owner: str, block: Block) -> None:
        self.owner = owner
        self.fields = block.fields
        self.unread: list[Missing] = []

    def add_unread(self, path: str, reason: str = "is not a valid value") -> None:
        value = self.fields[path]
        problem = " is listed twice" if value is None else f": {quote(value)} {reason}"
        self.unread.append(Missing(f"nvidia-smi -q, {self.owner}: {quote(path)}{problem}"))

    def text(self, pattern: re.Pattern[str], *paths: str) -> str | None:
        """Return group 1 of `pattern` in the value of the first of `paths` that exists."""
        path = next((path for path in paths if path in self.fields), None)
        value = None if path is None else _current(self.fields[path])
        if path is None or value in NOT_TOLD:
            return None
        match = None if value is None or _NO_ANSWER.search(value) else pattern.fullmatch(value)
        if match is None:
            self.add_unread(path)
            return None
        return match.group(1)

    def number(self, pattern: re.Pattern[str], *paths: str) -> int | None:
        value = self.text(pattern, *paths)
        return None if value is None else int(value)

    def switch(self, *paths: str) -> bool | None:
        value = self.text(_WORDS, *paths)
        if value is None or value in _SWITCH:
            return None if value is None else _SWITCH[value]
        self.add_unread(next(path for path in paths if path in self.fields))
        return None

    def mode(self, section: str) -> Mode:
        return Mode(self.switch(f"{section}/Current"), self.switch(f"{section}/Pending"))

    def watts(self, *names: str) -> float | None:
        value = self.text(_WATTS, *(section + name for section in _POWER for name in names))
        return None if value is None else float(value)

    def power_draw(self) -> float | None:
        """Return the average power draw, or the current one if the driver has no average."""
        averages = [path for section in _POWER if (path := f"{section}Average Power Draw") in self.fields]
        lacks_average = bool(averages) and self.fields[averages[0]] in NOT_TOLD
        return self.watts("Power Draw", "Instantaneous Power Draw" if lacks_average else "Average Power Draw")


def _current(value: str | None) -> str | None:
    """Return a value without the note that its name is deprecated."""
    current, note, tail = (value or "").partition(_DEPRECATED)
    return current.rstrip() if note and tail.endswith("]") else value


def query(text: str) -> Gpus | Missing:
    """Parse `nvidia-smi -q`, or `-q -x`: all GPUs of a host.

    If only some answered, or if the text was cut, `unread` says so.
    """
    begin = xml_begins(text)
    if begin is None:
        return _gpus(tree(text), text)
    tree_ = xml_tree(text, begin)
    return _gpus(tree_, text) if tree_.gpus or not tree_.messages else Missing(tree_.messages[0])


def few(text: str) -> Gpus | Missing:
    """Parse `nvidia-smi --query-gpu=… --format=csv,noheader` of FEW. All other values are in `unread`."""
    tree_ = Tree()
    for line in text.splitlines()[: MOST + 1]:
        cells = [cell.strip() for cell in line.split(",")]
        bus = bus_of(cells[0])
        if bus and len(cells) == len(FEW):
            fields: dict[str, str | None] = dict(list(zip(FEW.values(), cells, strict=True))[1:])
            tree_.host.fields["Driver Version"] = fields.pop("Driver Version")
            tree_.gpus.append((bus, Block(fields)))
        elif line.strip():
            tree_.messages.append(known(line) or f"nvidia-smi --query-gpu: {quote(line)} is not recognized")
    if not tree_.gpus:
        return Missing(trouble(text, "--query-gpu"))
    tree_.messages.append(NAMES_ALONE)
    return _gpus(tree_, text)


def _gpus(tree: Tree, text: str) -> Gpus | Missing:
    if not tree.gpus:
        is_empty = "Attached GPUs" in tree.host.fields and not known(text)
        return Missing("nvidia-smi -q lists no GPU" if is_empty else trouble(text, "-q"))
    if len(tree.gpus) > MOST:
        return Missing(f"nvidia-smi -q lists more than {MOST} GPUs")
    if repeated := first_repeated(bus for bus, _ in tree.gpus):
        return Missing(
            f"nvidia-smi -q lists GPU {repeated} twice: the output of several hosts or calls is mixed together"
        )
    host = _Answers("the host", tree.host)
    driver = host.text(_WORDS, "KMD Version", "Driver Version")
    cuda = host.text(_WORDS, "CUDA UMD Version", "CUDA Version")
    attached = host.number(_COUNT, "Attached GPUs")
    gpus, unread = [], [*map(Missing, tree.messages), *host.unread]
    for bus, block in tree.gpus:
        answers = _Answers(f"GPU {bus}", block)
        gpus.append(_gpu(bus, answers, block.processes))
        unread += answers.unread
    unread += map(Missing, _missing_parts(tree, attached))
    if len(unread) > MOST_UNREAD:
        unread[MOST_UNREAD:] = [Missing(f"nvidia-smi -q: {len(unread) - MOST_UNREAD} more values are not recognized")]
    return Gpus(driver, cuda, attached, tuple(gpus), tuple(unread))


def _missing_parts(tree: Tree, attached: int | None) -> Iterator[str]:
    """Yield a sentence for each sign that the text was cut, or that a GPU did not answer."""
    if tree.cut:
        yield f"nvidia-smi -q: {TEXT_ENDS} {quote(tree.cut)}"
    count = len(tree.gpus)
    if attached is not None and attached != count:
        yield f"nvidia-smi -q counts {attached} GPUs and lists {count}: it was cut, or a GPU did not answer"


def _gpu(bus: str, answers: _Answers, processes: Sequence[tuple[str, str]] | None) -> Gpu:
    return Gpu(
        bus=bus,
        product=answers.text(_WORDS, "Product Name"),
        architecture=answers.text(_WORDS, "Product Architecture"),
        uuid=answers.text(_UUID, "GPU UUID"),
        serial=answers.text(_WORDS, "Serial Number"),
        minor=answers.number(_COUNT, "Minor Number"),
        vbios=answers.text(_WORDS, "VBIOS Version"),
        persistence=answers.switch("Persistence Mode"),
        compute_mode=answers.text(_WORDS, "Compute Mode"),
        mig=answers.mode("MIG Mode"),
        reset_required=answers.switch("GPU Reset Status/Reset Required"),
        drain_and_reset_recommended=answers.switch("GPU Reset Status/Drain and Reset Recommended"),
        recovery_action=answers.text(_WORDS, "GPU Recovery Action"),
        pcie=_pcie(answers),
        performance_state=answers.text(_PERFORMANCE, "Performance State"),
        slowed_by=_slowed_by(answers),
        memory_total=answers.number(_MIB, "FB Memory Usage/Total"),
        memory_used=answers.number(_MIB, "FB Memory Usage/Used"),
        ecc=Ecc(
            mode=answers.mode("ECC Mode"),
            volatile=_ecc(answers, "ECC Errors/Volatile/"),
            aggregate=_ecc(answers, "ECC Errors/Aggregate/"),
            sram_threshold_exceeded=answers.switch("ECC Errors/Aggregate/SRAM Threshold Exceeded"),
            channel_repair_pending=answers.switch("ECC Errors/Channel Repair Pending"),
            tpc_repair_pending=answers.switch("ECC Errors/TPC Repair Pending"),
        ),
        retired_pages=RetiredPages(
            answers.number(_COUNT, "Retired Pages/Single Bit ECC"),
            answers.number(_COUNT, "Retired Pages/Double Bit ECC"),
            answers.switch("Retired Pages/Pending Page Blacklist", "Retired Pages/Pending"),
        ),
        remapped_rows=RemappedRows(
            answers.number(_COUNT, "Remapped Rows/Correctable Error"),
            answers.number(_COUNT, "Remapped Rows/Uncorrectable Error"),
            answers.switch("Remapped Rows/Pending"),
            answers.switch("Remapped Rows/Remapping Failure Occurred"),
        ),
        temperature=answers.number(_CELSIUS, "Temperature/GPU Current Temp"),
        memory_temperature=answers.number(_CELSIUS, "Temperature/Memory Current Temp"),
        power=Power(
            draw=answers.power_draw(),
            limit=answers.watts("Current Power Limit", "Power Limit"),
            limit_default=answers.watts("Default Power Limit"),
            limit_max=answers.watts("Max Power Limit"),
        ),
        clocks=Clocks(
            sm=answers.number(_MHZ, "Clocks/SM"),
            sm_max=answers.number(_MHZ, "Max Clocks/SM"),
            memory=answers.number(_MHZ, "Clocks/Memory"),
            memory_max=answers.number(_MHZ, "Max Clocks/Memory"),
        ),
        fabric=GpuFabric(answers.text(_WORDS, "Fabric/State"), answers.text(_WORDS, "Fabric/Status")),
        processes=_processes(answers, processes),
    )


def _pcie(answers: _Answers) -> Pcie:
    link = "PCI/GPU Link Info/"
    return Pcie(
        answers.number(_COUNT, link + "PCIe Generation/Current"),
        answers.number(_COUNT, link + "PCIe Generation/Max"),
        answers.number(_WIDTH, link + "Link Width/Current"),
        answers.number(_WIDTH, link + "Link Width/Max"),
        answers.number(_COUNT, "PCI/Replays Since Reset"),
    )


def _slowed_by(answers: _Answers) -> tuple[str, ...] | None:
    """Return the active reasons. A reason with an unknown name is not recognized."""
    active_reasons = {}
    for path in [path for path in answers.fields if path.startswith(_REASONS)]:
        name = path.rpartition("/")[2]
        if name not in SLOWDOWNS:
            answers.add_unread(path, "has an unknown reason")
        elif (active := answers.switch(path)) is not None:
            active_reasons[name] = active
    return tuple(name for name in SLOWDOWNS if active_reasons.get(name)) if active_reasons else None


def _ecc(answers: _Answers, section: str) -> EccCounts:
    parity = answers.number(_COUNT, section + "SRAM Uncorrectable Parity")
    sec_ded = answers.number(_COUNT, section + "SRAM Uncorrectable SEC-DED")
    uncorrected_sum = None if parity is None or sec_ded is None else parity + sec_ded
    return EccCounts(
        sram_corrected=answers.number(_COUNT, section + "SRAM Correctable"),
        sram_uncorrected=(
            uncorrected_sum if uncorrected_sum is not None else answers.number(_COUNT, section + "SRAM Uncorrectable")
        ),
        dram_corrected=answers.number(_COUNT, section + "DRAM Correctable"),
        dram_uncorrected=answers.number(_COUNT, section + "DRAM Uncorrectable"),
        single_bit=answers.number(_COUNT, section + "Single Bit/Total"),
        double_bit=answers.number(_COUNT, section + "Double Bit/Total"),
    )


def _processes(answers: _Answers, lines: Sequence[tuple[str, str]] | None) -> tuple[GpuProcess, ...] | None:
    """Return the processes, each of which begins with its id. An id that cannot be read makes all of them unknown."""
    if lines is None and answers.fields.get("Processes") != "None":
        return None
    blocks: list[dict[str, str]] = []
    for key, value in lines or ():
        if key == "Process ID":
            blocks.append({})
        if blocks:
            blocks[-1].setdefault(key, value)
    processes_ = []
    for process in blocks:
        if not _COUNT.fullmatch(process["Process ID"]):
            answers.unread.append(
                Missing(f"nvidia-smi -q, {answers.owner}: process ID {quote(process['Process ID'])} is not a number")
            )
            return None
        memory = _MIB.fullmatch(process.get("Used GPU Memory", ""))
        processes_.append(
            GpuProcess(
                int(process["Process ID"]),
                process.get("Type", "")[:10],
                process.get("Name", "")[:200],
                int(memory.group(1)) if memory else None,
            )
        )
    return tuple(processes_)
