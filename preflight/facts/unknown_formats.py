"""Which of a host's answers no parser understood: what is met for the first time. Pure."""

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

# Field of HccnDevice → the option of hccn_tool that it comes from.
_OPTIONS = {
    "address": "ip", "netmask": "ip", "link": "link", "net_health": "net_health", "detect": "netdetect",
    "gateway": "gateway", "tls": "tls", "config_status": "cfg", "leaf": "lldp", "mtu": "mtu",
}  # fmt: skip


@dataclass(frozen=True)
class Unknown:
    """A command whose output was not understood: on these hosts, in so many answers, and of one of them why."""

    command: str
    hosts: tuple[str, ...]
    answers: int
    error: str


def unknown(facts: Mapping[str, HostFacts]) -> tuple[Unknown, ...]:
    """By command."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for host, its in facts.items():
        for command, error in _errors(its):
            if not is_known(error):
                found[command].append((host, error))
    return tuple(
        Unknown(command, tuple(dict.fromkeys(host for host, _ in said)), len(said), said[0][1])
        for command, said in sorted(found.items())
    )


def _errors(facts: HostFacts) -> Iterator[tuple[str, str]]:
    """(command, error) of everything that could not be had."""
    for name in SECTIONS:
        if isinstance(section := facts.section(name), Missing):
            yield f"section {name}", section.error
    if isinstance(facts.hccn, Hccn):
        yield from _of_fields(facts.hccn.devices, {field: f"hccn_tool -{option}" for field, option in _OPTIONS.items()})
    if isinstance(facts.nic, Nic):
        options = {deep.field: f"hccn_tool -{option}" for option, deep in DEEP_READERS.items() if option != "lldp"}
        yield from _of_fields(facts.nic.devices, options)
    if isinstance(facts.chips, Chips):
        queries = {query.field: f"npu-smi info -t {type_}" for type_, query in CHIP_QUERIES.items()}
        yield from _of_fields(facts.chips.chips, {**queries, "board": "npu-smi info -t board"})
        yield from _of_fields([facts.chips], {"topology": "npu-smi info -t topo"})
    if isinstance(facts.device_nodes, DeviceNodes):
        files = {"accelerators": "lspci", "install": "/etc/ascend_install.info"}
        yield from _of_fields([facts.device_nodes], files)
    if isinstance(facts.nvidia, Nvidia):
        commands = {"gpus": "-q", "nvlinks": "nvlink -s", "topology": "topo -m",
                    "nvlink_errors": "nvlink -e"}  # fmt: skip
        yield from _of_fields([facts.nvidia], {field: f"nvidia-smi {query}" for field, query in commands.items()})
        for field, query in commands.items():
            answer = getattr(facts.nvidia, field).value
            yield from ((f"nvidia-smi {query}", said.error) for said in (answer.unread if answer else ()))
    if isinstance(facts.versions, Versions):
        yield from facts.versions.unread.items()


def _of_fields(things: Iterable[object], commands: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for thing in things:
        said = {(command, getattr(thing, field).error) for field, command in commands.items()}
        yield from ((command, error) for command, error in sorted(said) if error)
