"""The value of net.ipv4.ip_local_reserved_ports after each way of loading sysctl files. Pure.

The ways differ (measured with systemd 252 and procps 4.0.2, repeated by tests/lab/test_ports.py). Both read one file of
a name, the one in the first folder, sorted by name. Systemd writes only the last value that it has read, which the
kernel may refuse. It knows /etc/sysctl.conf only as 99-sysctl.conf, a link that Debian and Red Hat ship. Procps writes
one value after the other, and /etc/sysctl.conf last. A long value takes the kernel several writes: systemd and tuned
make them all, procps only the first."""

import posixpath
from collections.abc import Iterable, Sequence
from enum import StrEnum

from preflight.facts.parsers.linux.sysctl import port_list, settings
from preflight.facts.types import Sysctl, SysctlFile, Tuned
from preflight.model.ports import PortSet

CONF = "/etc/sysctl.conf"
LONGEST = 4094  # characters of a list that the kernel takes in one write(2), and procps makes only one
_GONE_AT_BOOT = "/run/"
_TUNED_READS = ("/etc/sysctl.d/", "/run/sysctl.d/")


class LoadPath(StrEnum):
    """A way of loading, in the words of a message."""

    BOOT = "a reboot"
    TUNED = "a start of tuned"
    SYSTEM = "sysctl --system"
    CONF = "sysctl -p"


def accepted(value: str) -> PortSet | None:
    """Return the ports of a value that is written to its end; None if the kernel refuses it."""
    try:
        return port_list(value)
    except ValueError:
        return None


def in_one_write(value: str) -> str:
    """Return the part of a value that the kernel takes in the first write: whole items only."""
    if len(value) <= LONGEST:
        return value
    first, _, last = value[:LONGEST].rpartition(",")
    return value[:LONGEST] if value[LONGEST] == "," and "-" in last else first


def after(way: LoadPath, sysctl: Sysctl, before: PortSet) -> PortSet:
    """Return the ports that are reserved after one way of loading.

    `before`: those that were reserved before; a boot begins without any."""
    files = sysctl.reserved_files
    conf = [file for file in files if file.path == CONF]
    match way:
        case LoadPath.BOOT:
            return _load_with_systemd(read_in_order(file for file in files if not file.path.startswith(_GONE_AT_BOOT)))
        case LoadPath.CONF:
            return _load_with_procps(conf, before)
        case LoadPath.SYSTEM:
            return _load_with_procps([*read_in_order(files), *conf], before)
        case LoadPath.TUNED:
            return before if sysctl.tuned is None else _after_tuned(sysctl.tuned, files, before)


def _after_tuned(tuned: Tuned, files: Sequence[SysctlFile], before: PortSet) -> PortSet:
    tuned_ports = accepted(tuned.value)
    start = before if tuned_ports is None else tuned_ports
    if not tuned.reapply:
        return start
    reapplied = read_in_order(file for file in files if file.path.startswith(_TUNED_READS))
    return _load_with_procps([*reapplied, *(file for file in files if file.path == CONF)], start, whole=True)


def read_in_order(files: Iterable[SysctlFile]) -> list[SysctlFile]:
    """Return the files of the folders that count, sorted by name; of each name the first. /etc/sysctl.conf is in no
    folder."""
    first: dict[str, SysctlFile] = {}
    for file in files:
        if file.path != CONF:
            first.setdefault(posixpath.basename(file.path), file)
    return [first[name] for name in sorted(first)]


def _load_with_systemd(files: Iterable[SysctlFile]) -> PortSet:
    values = [setting.value for file in files for setting in settings(file.text)]
    return accepted((values or [""])[-1] or "") or PortSet()


def _load_with_procps(files: Iterable[SysctlFile], before: PortSet, *, whole: bool = False) -> PortSet:
    """Return the ports after writing the values of these files in turn. `whole`: a long value is written to its end."""
    reserved = before
    for value in (setting.value for file in files for setting in settings(file.text)):
        ports = None if value is None else accepted(value if whole else in_one_write(value))
        reserved = reserved if ports is None else ports
    return reserved
