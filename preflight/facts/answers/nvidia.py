"""Typed facts about NVIDIA GPUs from the collector's answer. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from preflight.facts.output import ToolOutput
from preflight.facts.parsers.nvidia import nvidia_logs, nvidia_smi
from preflight.facts.reading import Found, Missing
from preflight.facts.sections.nvidia import DriverLog, FabricManager, KernelModule, Nvidia, PciGpu
from preflight.model.text import quote

_MODULE = re.compile(r"NVRM version: NVIDIA UNIX ([^\n]{0,60}?) +([0-9]{3,4}(?:\.[0-9]{1,4}){1,3})(?:\s|$)", re.ASCII)
_PACKAGE = re.compile(r"(?:[0-9]+:)?([0-9]{3,4}(?:\.[0-9]{1,4}){1,3})(?:[-+~]|$)", re.ASCII)
_VERSION = re.compile(r"[0-9]{3,4}(?:\.[0-9]{1,4}){1,3}", re.ASCII)
_BUS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_DRIVER_STARTS = "NVRM: loading NVIDIA UNIX"
_LINKS, _ERRORS = "nvlink -s", "nvlink -e"
_XML, _FEW = "-q -x", "--query-gpu"
_STILL_RUNS = "did not finish in time"  # the collector's words
_WIDEST = 32  # lanes; a device that fell off the bus reports 63


@dataclass
class RawFabricManager:
    running: bool
    at_boot: bool | None
    package: str | None
    unit: bool = True


@dataclass
class RawLog:
    text: str
    whole: bool
    trouble: str


@dataclass
class RawNvidia:
    """The section `nvidia`. `answers`: by the arguments after `nvidia-smi`.

    `pci`: [bus, lanes, most lanes, True if it answers].
    """

    tool: bool
    answers: dict[str, ToolOutput]
    pci: list[tuple[str, str, str, bool]]
    switches: list[str]
    version: str | None
    libraries: list[str]
    fabric_manager: RawFabricManager
    persistence_daemon: bool
    log: RawLog = field(default_factory=lambda: RawLog("", False, "the collector did not query the kernel log"))
    contained: bool = False
    pci_drivers: dict[str, str] = field(default_factory=dict)  # by bus id
    virtual: list[str] = field(default_factory=list)  # bus ids


def nvidia(raw: RawNvidia) -> Nvidia | Missing:
    invalid_ids = [bus for bus in (*(gpu[0] for gpu in raw.pci), *raw.switches) if not _BUS.fullmatch(bus)]
    if invalid_ids:
        return Missing(f"the PCI bus has {quote(invalid_ids[0])}, which is not a device address")
    manager, gpus = raw.fabric_manager, _gpus(raw)
    package = _PACKAGE.match(manager.package or "")
    return Nvidia(
        gpus=gpus,
        nvlinks=_answer(raw, _LINKS, nvidia_smi.nvlink),
        topology=_answer(raw, "topo -m", nvidia_smi.topology),
        hung=_STILL_RUNS in gpus.error,
        pci=tuple(
            PciGpu(bus, _lanes(width), _lanes(widest), answers, raw.pci_drivers.get(bus), bus in raw.virtual)
            for bus, width, widest, answers in raw.pci
        ),
        switches=tuple(raw.switches),
        module=_module(raw.version),
        libraries=tuple(version for version in raw.libraries if _VERSION.fullmatch(version)),
        fabric_manager=FabricManager(
            manager.running, manager.at_boot, package.group(1) if package else None, manager.unit
        ),
        persistence_daemon=raw.persistence_daemon,
        log=_log(raw.log),
        contained=raw.contained,
        nvlink_errors=_answer(raw, _ERRORS, nvidia_smi.nvlink_errors),
    )


def _gpus(raw: RawNvidia) -> Found[nvidia_smi.Gpus]:
    """Return the GPUs of `-q`. If that failed, return those of another query, with the error of `-q` in `unread`."""
    first = _answer(raw, "-q", nvidia_smi.query)
    if first.value is not None:
        return first
    for query in raw.answers:
        read = nvidia_smi.query if query == _XML else nvidia_smi.few if query.startswith(_FEW) else None
        answer: Found[nvidia_smi.Gpus] = _answer(raw, query, read) if read else Found()
        if _STILL_RUNS in answer.error:
            return answer
        if answer.value is not None:
            return Found(replace(answer.value, unread=(Missing(first.error), *answer.value.unread)))
    return first


def _answer(raw: RawNvidia, query: str, read: Callable[[str], Any]) -> Found[Any]:
    if not raw.tool:
        return Found(error="nvidia-smi is not installed, or not on PATH")
    output = raw.answers.get(query)
    if output is None or output.trouble:
        return Found(error=output.trouble if output else "nvidia-smi did not answer in time")
    if query in (_LINKS, _ERRORS) and not output.code and not output.text.strip():
        return Found()  # no GPU here has NVLink
    answer = read(output.text)
    return Found(error=answer.error) if isinstance(answer, Missing) else Found(answer)


def _lanes(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 3 and 0 < int(text) <= _WIDEST else None


def _module(text: str | None) -> KernelModule | None:
    match = _MODULE.search(text or "")
    return KernelModule(match.group(2), "Open" in match.group(1)) if match else None


def _log(raw: RawLog) -> Found[DriverLog]:
    """Return the errors since the driver's last start. Earlier messages are about GPUs that it has set up again."""
    if raw.trouble:
        return Found(error=raw.trouble)
    start = raw.text.rfind(_DRIVER_STARTS)
    text = raw.text[raw.text.rfind("\n", 0, start) + 1 :] if start >= 0 else raw.text
    log = nvidia_logs.xids(text)
    if isinstance(log, Missing):
        return Found(error=log.error)
    return Found(DriverLog(log, "driver" if start >= 0 else "boot" if raw.whole else "unknown"))
