"""Answers of hosts that no parser understands: unknown formats. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from preflight.facts.answers.npu import CHIP_QUERIES
from preflight.facts.known_failures import is_known
from preflight.facts.parsers.ascend.device_nodes import DeviceNodes
from preflight.facts.parsers.ascend.hccn_tool import DEEP_READERS
from preflight.facts.sections.chips import Chips
from preflight.facts.sections.nic import Nic
from preflight.facts.sections.nvidia import Nvidia
from preflight.facts.types import SECTIONS, Hccn, HostFacts, Missing, Versions

# Field of the facts → the command that it comes from.
_HCCN_COMMANDS = {
    "address": "hccn_tool -ip",
    "netmask": "hccn_tool -ip",
    "link": "hccn_tool -link",
    "net_health": "hccn_tool -net_health",
    "detect": "hccn_tool -netdetect",
    "gateway": "hccn_tool -gateway",
    "tls": "hccn_tool -tls",
    "config_status": "hccn_tool -cfg",
    "leaf": "hccn_tool -lldp",
    "mtu": "hccn_tool -mtu",
}
_NIC_COMMANDS = {query.field: f"hccn_tool -{option}" for option, query in DEEP_READERS.items() if option != "lldp"}
_CHIP_COMMANDS = {query.field: f"npu-smi info -t {name}" for name, query in CHIP_QUERIES.items()} | {
    "board": "npu-smi info -t board"
}
_DEVICE_NODE_FILES = {"accelerators": "lspci", "install": "/etc/ascend_install.info"}
_NVIDIA_COMMANDS = {
    "gpus": "nvidia-smi -q",
    "nvlinks": "nvidia-smi nvlink -s",
    "topology": "nvidia-smi topo -m",
    "nvlink_errors": "nvidia-smi nvlink -e",
}


@dataclass(frozen=True)
class UnknownFormat:
    """A command with output that was not understood. `answers`: how many. `error`: that of the first one."""

    command: str
    hosts: tuple[str, ...]
    answers: int
    error: str


def unknown(facts: Mapping[str, HostFacts]) -> tuple[UnknownFormat, ...]:
    """Return the answers that were not understood, by command."""
    answers: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for host, host_facts in facts.items():
        for command, error in _errors(host_facts):
            if not is_known(error):
                answers[command].append((host, error))
    return tuple(
        UnknownFormat(command, tuple(dict.fromkeys(host for host, _ in errors)), len(errors), errors[0][1])
        for command, errors in sorted(answers.items())
    )


def _errors(facts: HostFacts) -> Iterator[tuple[str, str]]:
    """Yield (command, error) of all missing sections and readings."""
    for name in SECTIONS:
        if isinstance(section := facts.section(name), Missing):
            yield f"section {name}", section.error
    if isinstance(facts.hccn, Hccn):
        yield from _of_fields(facts.hccn.devices, _HCCN_COMMANDS)
    if isinstance(facts.nic, Nic):
        yield from _of_fields(facts.nic.devices, _NIC_COMMANDS)
    if isinstance(facts.chips, Chips):
        yield from _of_fields(facts.chips.chips, _CHIP_COMMANDS)
        yield from _of_fields([facts.chips], {"topology": "npu-smi info -t topo"})
    if isinstance(facts.device_nodes, DeviceNodes):
        yield from _of_fields([facts.device_nodes], _DEVICE_NODE_FILES)
    if isinstance(facts.nvidia, Nvidia):
        yield from _of_nvidia(facts.nvidia)
    if isinstance(facts.versions, Versions):
        yield from facts.versions.unread.items()


def _of_nvidia(nvidia: Nvidia) -> Iterator[tuple[str, str]]:
    yield from _of_fields([nvidia], _NVIDIA_COMMANDS)
    for field, command in _NVIDIA_COMMANDS.items():
        if answer := getattr(nvidia, field).value:
            yield from ((command, part.error) for part in answer.unread)


def _of_fields(items: Iterable[object], commands: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for item in items:
        errors = {(command, getattr(item, field).error) for field, command in commands.items()}
        yield from ((command, error) for command, error in sorted(errors) if error)
