"""The indented text of `nvidia-smi -q`: fields of the host and of each GPU, by path.

NVIDIA calls this text unstable: its sections differ by driver. So fields are read by their path alone ("ECC
Errors/Volatile/SRAM Correctable"), and nothing depends on their order.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import known

T = TypeVar("T")

LONGEST = 4 << 20  # characters; a host of 16 GPUs prints 150 thousand
MOST = 128  # GPUs
_PLACE = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")


@dataclass
class Block:
    """The fields of the host or of one GPU: path → value; None for a path that comes twice.

    `processes`: the lines of that section, in which keys repeat. None: there is no such section.
    """

    fields: dict[str, str | None] = field(default_factory=dict)
    processes: list[tuple[str, str]] | None = None


@dataclass
class Tree:
    host: Block = field(default_factory=Block)
    gpus: list[tuple[str, Block]] = field(default_factory=list)  # bus address and fields
    messages: list[str] = field(default_factory=list)  # known messages between the answers, explained
    cut: str = ""  # the last line, if it has no line end and the text is incomplete


def first_repeated(values: Iterable[T]) -> T | None:
    """Return the first value that occurs more than once."""
    return next((value for value, count in Counter(values).items() if count > 1), None)


def bus_address(domain: str, bus: str, device: str, function: str = "0") -> str:
    """Return the address as Linux writes it. nvidia-smi pads the domain to eight digits, the kernel to four."""
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def bus_of(text: str) -> str | None:
    """Return the bus address of "00000000:1B:00.0", as all forms of nvidia-smi write it; None for any other text."""
    match = _PLACE.fullmatch(text)
    return bus_address(*match.groups()) if match else None


def tree(text: str) -> Tree:
    """Parse every line that has a line end. Text after the last line end may be half a value."""
    reader = _TreeReader()
    *lines, cut = text[:LONGEST].split("\n")
    for line in filter(None, map(str.rstrip, lines)):
        reader.read(line)
        if reader.is_full():
            break
    if cut.strip() and reader.expects_more(cut):
        reader.tree.cut = cut
    return reader.tree


class _TreeReader:
    """The tree so far, the current block, and the sections around the current line with their indentation."""

    def __init__(self) -> None:
        self.tree = Tree()
        self._block = self.tree.host
        self._sections: list[tuple[int, str]] = []

    def read(self, line: str) -> None:
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        key, colon, value = bare.partition(" : ") if not bare.endswith(" :") else (bare[:-2], ":", "")
        if indent == 0 and (self.tree.gpus or not colon):
            self._begin_gpu_or_message(bare)
            return
        while self._sections and self._sections[-1][0] >= indent:
            self._sections.pop()
        if colon:
            self._add_field(key.strip(), value.strip())
        else:
            self._begin_section(indent, key.strip())

    def is_full(self) -> bool:
        return len(self.tree.gpus) > MOST or len(self._sections) > 20

    def expects_more(self, cut: str) -> bool:
        """Return whether the last block still lacks its section of processes, the last section that is read."""
        if self._block.processes is not None or "Processes" in self._block.fields:
            return False
        return cut.partition(" : ")[0].strip() != "Processes"

    def _begin_gpu_or_message(self, line: str) -> None:
        """Begin a GPU, or keep a known message. Lines of other programs between them end no section."""
        if line.startswith("GPU ") and (bus := bus_of(line[4:])):
            self._block, self._sections = Block(), []
            self.tree.gpus.append((bus, self._block))
        elif message := known(line):
            self.tree.messages.append(message)

    def _begin_section(self, indent: int, name: str) -> None:
        if name == "Processes" and not self._sections and self._block.processes is None:
            self._block.processes = []
        self._sections.append((indent, name))

    def _add_field(self, key: str, value: str) -> None:
        if self._sections and self._sections[0][1] == "Processes" and self._block.processes is not None:
            self._block.processes.append((key, value))
            return
        path = "/".join((*(name for _, name in self._sections), key))
        self._block.fields[path] = None if path in self._block.fields else value
