"""The indented text of `nvidia-smi -q`: what is said of the host, and of each GPU, by path.

NVIDIA calls this text unstable: sections come and go with the driver, so that fields are found by their path alone
("ECC Errors/Volatile/SRAM Correctable"), and nothing depends on their order.
"""

import re
from dataclasses import dataclass, field

from preflight.facts.parsers.nvidia.nvidia_smi.trouble import known

LONGEST = 4 << 20  # characters; a host of 16 GPUs prints 150 thousand
MOST = 128  # GPUs
_PLACE = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")


@dataclass
class Block:
    """`fields`: path → value; None where the path comes twice. `processes`: the lines of that section, which repeat;
    None: there is no such section."""

    fields: dict[str, str | None] = field(default_factory=dict)
    processes: list[tuple[str, str]] | None = None


@dataclass
class Tree:
    host: Block = field(default_factory=Block)
    gpus: list[tuple[str, Block]] = field(default_factory=list)  # bus address and what is said
    messages: list[str] = field(default_factory=list)  # known messages between the answers, explained
    cut: str = ""  # a last line without its end, where more was to come


def bus_address(domain: str, bus: str, device: str, function: str = "0") -> str:
    """As Linux writes it. nvidia-smi pads the domain to eight digits, the kernel and lspci to four."""
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def bus_of(text: str) -> str | None:
    """The bus address of "00000000:1B:00.0", as all forms of nvidia-smi write it; None: it is none."""
    match = _PLACE.fullmatch(text)
    return bus_address(*match.groups()) if match else None


def tree(text: str) -> Tree:
    """Every line that ends with a line end; what is behind the last one may be half a value."""
    found = Tree()
    block = found.host
    sections: list[tuple[int, str]] = []  # those that the line stands in, with their indentation
    *lines, rest = text[:LONGEST].split("\n")
    for line in lines:
        line = line.rstrip()
        bare = line.lstrip(" ")
        if not bare:
            continue
        indent = len(line) - len(bare)
        key, colon, value = bare.partition(" : ") if not bare.endswith(" :") else (bare[:-2], ":", "")
        key = key.strip()
        if indent == 0 and (found.gpus or not colon):
            if bare.startswith("GPU ") and (bus := bus_of(bare[4:])):
                block, sections = Block(), []
                found.gpus.append((bus, block))
            elif message := known(bare):
                found.messages.append(message)
            continue  # what other programs say between the lines changes no section
        while sections and sections[-1][0] >= indent:
            sections.pop()
        if key == "Processes" and not colon and not sections and block.processes is None:
            block.processes = []
        if sections and sections[0][1] == "Processes" and block.processes is not None:
            if colon:
                block.processes.append((key, value.strip()))
        elif colon:
            path = "/".join((*(name for _, name in sections), key))
            block.fields[path] = None if path in block.fields else value.strip()
        if not colon:
            sections.append((indent, key))
        if len(found.gpus) > MOST or len(sections) > 20:
            break
    if (
        rest.strip()
        and block.processes is None
        and "Processes" not in (*block.fields, rest.partition(" : ")[0].strip())
    ):
        found.cut = rest  # the processes come last, as far as anything here is concerned
    return found
