"""Files of sysctl.d, and values below /proc/sys."""

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from preflight.facts.types import Reading, SysctlFile
from preflight.model.ports import PortSet

OWN_FILE = "/etc/sysctl.d/90-preflight.conf"
# A line about the key, as in sysctl.d(5) and sysctl.conf(5): dots or slashes, but not both, blanks around, and "-" in
# front for "ignore errors". "-key" with no value removes the key. "#" and ";" start comments.
_LINE = re.compile(
    r"^[ \t]*+(?P<dash>-?)[ \t]*+net([./])ipv4\2ip_local_reserved_ports[ \t]*+"
    r"(?:=[ \t]*+(?P<value>[^\r\n]*))?(?=\r?$)",
    re.MULTILINE,
)
# A number as the kernel reads it (strtoul with base 0, in at most 20 characters).
_NUMBER = re.compile(r"(?=.{1,20}$)(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*))")
_LAST = 65535
_DISTRIBUTION = ("/usr/lib/", "/lib/")


@dataclass(frozen=True)
class SysctlSetting:
    """One line about the reserved ports. `value` None: "-key", which removes the key.

    `start` and `end` are the value's position in the file's text.
    """

    value: str | None
    start: int
    end: int


def settings(text: str) -> tuple[SysctlSetting, ...]:
    """Return every line of a sysctl file about `net.ipv4.ip_local_reserved_ports`, in order."""
    settings_ = []
    for line in _LINE.finditer(text):
        if line["value"] is not None:
            value = line["value"].rstrip(" \t")
            settings_.append(SysctlSetting(value, line.start("value"), line.start("value") + len(value)))
        elif line["dash"]:
            settings_.append(SysctlSetting(None, line.end(), line.end()))
    return tuple(settings_)


def port_list(text: str) -> PortSet:
    """Parse the value of a line as the kernel does: 0x50 and 0120 are port 80.

    Raises ValueError for values that the kernel refuses, such as blanks inside, 08, or a range that descends (measured
    on Linux 6.18).
    """
    text = text.strip()
    return PortSet.of(map(_port_range, text.removesuffix(",").split(","))) if text else PortSet()


def intended_ports(text: str) -> PortSet | None:
    """Return the ports of a value; None if a part of it is no number.

    Some values that the kernel refuses have ports, too: with blanks, a range that descends, or a number above 65535.
    """
    try:
        ranges = [sorted(_port_range(item)) for item in re.split(r"[,\s]+", text) if item]
    except ValueError:
        return None
    return PortSet.of((low, min(high, _LAST)) for low, high in ranges if low <= _LAST)


def _port_range(item: str) -> tuple[int, int]:
    low, dash, high = item.partition("-")
    return _number(low), _number(high if dash else low)


def _number(text: str) -> int:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number for the kernel")
    base = {"hex": 16, "octal": 8, "decimal": 10}[match.lastgroup or ""]
    return int(match[match.lastgroup or ""], base)


def reserved_ports(text: str) -> Reading:
    """Return the value in the last line for net.ipv4.ip_local_reserved_ports; None if there is no line."""
    lines = settings(text)
    return Reading(lines[-1].value if lines else None)


def file(path: str, text: str, target: str = "", error: str = "") -> SysctlFile:
    """Return the file as a fact. `target`: that of a symbolic link; `error`: why the file could not be read."""
    writable = not (target or path).startswith(_DISTRIBUTION)
    return SysctlFile(path, reserved_ports(text).value, text, writable, target, error)


def relevant(files: Iterable[SysctlFile]) -> tuple[SysctlFile, ...]:
    """Return the files that set the key, could not be read, or hide such a file, and preflight's own file."""
    readable = tuple(files)
    names = {posixpath.basename(file.path) for file in readable if file.error or settings(file.text)}
    return tuple(file for file in readable if file.path == OWN_FILE or posixpath.basename(file.path) in names)


def port_range(text: str) -> tuple[int, int] | None:
    """Parse net.ipv4.ip_local_port_range as the kernel prints it: two numbers."""
    match = re.fullmatch(r"\s*(\d{1,5})\s+(\d{1,5})\s*", text)
    return (int(match.group(1)), int(match.group(2))) if match else None
