"""Device nodes below /dev and accelerators on the PCI bus: the kernel's view, beside npu-smi's."""

import re
from dataclasses import dataclass, field

from preflight.facts.parsers.ascend.packages import DriverInstall
from preflight.facts.quote import quote
from preflight.facts.reading import Found


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
    """A Huawei processing accelerator as lspci lists it. `device`: its PCI device id: d801 A1, d802 A2, d803 A3."""

    bus: str  # "0000:3d:00.0", with its domain
    device: str


@dataclass(frozen=True)
class DeviceNodes:
    nodes: tuple[DeviceNode, ...]
    accelerators: Found[tuple[Accelerator, ...]] = field(default_factory=Found)
    install: Found[DriverInstall] = field(default_factory=Found)  # None: there is no /etc/ascend_install.info


@dataclass(frozen=True)
class ListedNode:
    """A line, or a word, of what somebody saved of `ls -l /dev/davinci*` or of `ls /dev/davinci*`. `device` is False
    for a folder, which a container engine makes where it was asked to bind a node that the host does not have."""

    path: str
    device: bool | None = None  # None, as in the rest: plain ls does not tell
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
    for line in text[:_LONGEST].splitlines():
        if not line.strip():
            continue
        entry = _BUS.fullmatch(line.strip()[:340])
        if entry is None:
            return Found(error=f"lspci said {quote(line)}")
        if not entry.group(2).startswith("Processing accelerators") or "Huawei" not in entry.group(2):
            continue
        id_ = _IDS.search(entry.group(2)) or _UNNAMED.search(entry.group(2))
        if id_ is None:
            return Found(error=f"lspci: {quote(line)} has no PCI device id: ask with -nn")
        bus = entry.group(1).lower()
        accelerators.append(Accelerator(bus if bus.count(":") == 2 else f"0000:{bus}", id_.group(1).lower()))
    if len({accelerator.bus for accelerator in accelerators}) < len(accelerators):
        return Found(error="lspci lists a bus id twice")
    return Found(tuple(accelerators)) if accelerators or text.strip() else Found(error="lspci said nothing")


def listed_nodes(text: str) -> Found[tuple[ListedNode, ...]]:
    """Parse `ls` of the NPUs' nodes, long or short, with full paths or as /dev has them."""
    found: list[ListedNode] = []
    for line in map(str.strip, text[:_LONGEST].splitlines()):
        words = line.split()
        long = _LONG.fullmatch(line[:400])
        name = _NODE.fullmatch(long.group(5)) if long else None
        if long and name:
            kind, mode, user, group = long.group(1, 2, 3, 4)
            found.append(ListedNode(f"/dev/{name.group(1)}", kind == "c", _mode(mode), user, group))
        elif line and not long and not re.fullmatch(r"total [0-9]{1,9}", line):
            nodes = [_NODE.fullmatch(word) for word in words]
            if not all(nodes):
                return Found(error=f"ls said {quote(line)}")
            found += [ListedNode(f"/dev/{node.group(1)}") for node in nodes if node]
    if not found:
        return Found(error=f"ls said {quote(text)}")
    return Found(tuple(found))


def _mode(letters: str) -> int:
    """Return 0o660 for rw-rw----."""
    bits = sum(1 << (8 - at) for at, letter in enumerate(letters) if letter not in "-ST")
    special = zip((2, 5, 8), (0o4000, 0o2000, 0o1000), strict=True)
    return bits | sum(bit for at, bit in special if letters[at] in "sStT")
