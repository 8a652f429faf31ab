"""sysctl.d files and what the kernel prints under /proc/sys."""

import re

from preflight.facts.types import Reading, SysctlFile

# As sysctl.d(5) has it: dots or slashes, blanks around, "-" in front: do not fail. "#" and ";" start comments.
_SETTING = re.compile(r"^[ \t]{0,40}-?[ \t]{0,40}net[./]ipv4[./]ip_local_reserved_ports[ \t]{0,40}=(.*)$", re.MULTILINE)
_DISTRIBUTION = ("/usr/lib/", "/lib/")


def reserved_ports(text: str) -> Reading:
    """What the last line for net.ipv4.ip_local_reserved_ports sets; None if no line does."""
    values = _SETTING.findall(text)
    return Reading(values[-1].strip() if values else None)


def file(path: str, text: str) -> SysctlFile | None:
    """The file as a fact, None if it only mentions the key (in a comment)."""
    value = reserved_ports(text).value
    return None if value is None else SysctlFile(path, value, text, not path.startswith(_DISTRIBUTION))


def port_range(text: str) -> tuple[int, int] | None:
    """net.ipv4.ip_local_port_range as the kernel prints it: two numbers."""
    match = re.fullmatch(r"\s*(\d{1,5})\s+(\d{1,5})\s*", text)
    return (int(match.group(1)), int(match.group(2))) if match else None
