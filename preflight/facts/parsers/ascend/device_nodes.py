"""Device nodes below /dev and accelerators on the PCI bus: the kernel's view, beside npu-smi's."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.facts.parsers.ascend.packages import DriverInstall
from preflight.facts.reading import NOT_SET, Found
from preflight.model.text import quote


@dataclass(frozen=True)
class DeviceNode:
    """A character device: /dev/davinci0 …, /dev/davinci_manager, /dev/hisi_hdc, /dev/devmm_svm."""

    path: str
    mode: int  # permission bits, 0o660
    user: str
    group: str
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True)
class Accelerator:
    """A Huawei processing accelerator as lspci lists it. `device`: its PCI device id, d801 on A1, d802 A2, d803 A3."""

    bus: str  # "0000:3d:00.0", with its domain
    device: str


@dataclass(frozen=True)
class DeviceNodes:
    nodes: tuple[DeviceNode, ...]
    accelerators: Found[tuple[Accelerator, ...]] = NOT_SET
    install: Found[DriverInstall] = NOT_SET  # None: there is no /etc/ascend_install.info


@dataclass(frozen=True)
class ListedNode:
    """A line or a word of saved output of `ls -l /dev/davinci*` or `ls /dev/davinci*`.

    `device` is False for a folder. A container engine makes one for a node that it has to bind but the host lacks.
    """

    path: str
    device: bool | None = None  # None, like the fields below: plain ls does not print it
    mode: int | None = None
    user: str = ""
    group: str = ""


_LONGEST = 200_000  # characters
_BUS = re.compile(r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) (.{0,300})")
_IDS = re.compile(r"\[19e5:([0-9a-fA-F]{4})\]")  # with -nn
_UNNAMED = re.compile(r"Huawei Technologies Co\., Ltd\. Device ([0-9a-fA-F]{4})(?= |$)")  # without
_LONG = re.compile(
    r"([bcdlps-])([r-][w-][xsS-][r-][w-][xsS-][r-][w-][xtT-])[.+@]? +[0-9]{1,6} +(\S{1,60}) +(\S{1,60}) +"
    r"(?:[0-9]{1,6}, *[0-9]{1,6}|[0-9]{1,12})(?: .{0,60})? (\S{1,80})(?: -> \S{1,80})?",
    re.ASCII,
)
_NODE = re.compile(r"(?:/dev/)?(davinci[0-9]{1,4}|davinci_manager(?:_docker)?|hisi_hdc|devmm_svm)")


def lspci(text: str) -> Found[tuple[Accelerator, ...]]:
    """Parse `lspci`, of all devices or some, with or without `-D` and `-nn`. Only Huawei's accelerators are kept."""
    accelerators = []
    for line in filter(str.strip, text[:_LONGEST].splitlines()):
        entry = _BUS.fullmatch(line.strip()[:340])
        if entry is None:
            return Found(error=f"lspci printed {quote(line)}")
        bus, name = entry.groups()
        if not name.startswith("Processing accelerators") or "Huawei" not in name:
            continue
        device = _IDS.search(name) or _UNNAMED.search(name)
        if device is None:
            return Found(error=f"lspci: {quote(line)} has no PCI device id. Run lspci with -nn")
        accelerators.append(Accelerator(_with_domain(bus.lower()), device.group(1).lower()))
    if len({accelerator.bus for accelerator in accelerators}) < len(accelerators):
        return Found(error="lspci lists a bus id twice")
    return Found(tuple(accelerators)) if text.strip() else Found(error="lspci printed nothing")


def _with_domain(bus: str) -> str:
    return bus if bus.count(":") == 2 else f"0000:{bus}"


def listed_nodes(text: str) -> Found[tuple[ListedNode, ...]]:
    """Parse `ls` of the NPUs' nodes, long or short, with full paths or as /dev has them."""
    nodes: list[ListedNode] = []
    for line in filter(None, map(str.strip, text[:_LONGEST].splitlines())):
        if long := _LONG.fullmatch(line[:400]):
            nodes += _long_node(long)
        elif not re.fullmatch(r"total [0-9]{1,9}", line):
            names = [_NODE.fullmatch(word) for word in line.split()]
            if not all(names):
                return Found(error=f"ls printed {quote(line)}")
            nodes += [ListedNode(f"/dev/{name.group(1)}") for name in names if name]
    return Found(tuple(nodes)) if nodes else Found(error=f"ls printed {quote(text)}")


def _long_node(line: re.Match[str]) -> Iterator[ListedNode]:
    """Yield the node of a line of `ls -l`; nothing for any other file."""
    kind, mode, user, group, name = line.groups()
    if match := _NODE.fullmatch(name):
        yield ListedNode(f"/dev/{match.group(1)}", kind == "c", _mode(mode), user, group)


def _mode(letters: str) -> int:
    """Return 0o660 for rw-rw----."""
    bits = sum(1 << (8 - index) for index, letter in enumerate(letters) if letter not in "-ST")
    special_bits = zip((2, 5, 8), (0o4000, 0o2000, 0o1000), strict=True)
    return bits | sum(bit for index, bit in special_bits if letters[index] in "sStT")
