"""Versions of the packages of driver, firmware and CANN, and the versions that they are compatible with.

Their version files are `key=value` lines: driver/version.info, firmware/version.info, ascend_toolkit_install.info and
its siblings of CANN. /etc/ascend_install.info has the options of the installation of driver and firmware.
"""

import re
from dataclasses import dataclass

from preflight.facts.reading import Found
from preflight.model.text import quote

Ranges = tuple[tuple[str, ...], ...]  # [a,b],[c] → ((a, b), (c,)): from a to b, and c


@dataclass(frozen=True)
class Package:
    """The versions in a version file; empty if the file does not have them. `inner`: such as V100R001C15SPC012B220.

    `takes`: compatible inner versions, those of CANN for the driver, and those of the driver for CANN.
    """

    version: str
    release: str = ""  # package_version: the bundle of driver and firmware it was delivered with
    inner: str = ""
    takes: Ranges = ()  # compatible_version
    takes_firmware: Ranges = ()  # compatible_version_fw, of the driver
    takes_driver: Ranges = ()  # compatible_version_drv, of the firmware


@dataclass(frozen=True)
class DriverInstall:
    """The content of /etc/ascend_install.info. `user` and `group` own the device files. `for_all`: all may use them."""

    user: str
    group: str
    path: str
    for_all: bool | None = None
    status: str = ""  # complete
    mode: str = ""  # normal, vnpu_host …


_LINE = re.compile(r"([A-Za-z_]{1,60})=[\"']?(.{0,600}?)[\"']?[ \t\r]{0,40}")
_RANGES = re.compile(r"\[[\w., ]{1,80}\](?:,\[[\w., ]{1,80}\]){0,40}", re.ASCII)
_WORD = re.compile(r"[\w./+-]{1,200}", re.ASCII)
_LONGEST = 20_000  # characters; the longest known file has 911


def _values(text: str) -> dict[str, str]:
    """Return the values by key in lower case: the driver has `Innerversion`, CANN `innerversion`."""
    matches = (_LINE.fullmatch(line[:700]) for line in text[:_LONGEST].split("\n"))
    return {match.group(1).lower(): match.group(2).strip() for match in matches if match}


def _ranges(value: str) -> Ranges | None:
    if not value:
        return ()
    if not _RANGES.fullmatch(value):
        return None
    return tuple(tuple(word.strip() for word in part.split(",")) for part in re.findall(r"\[(.*?)\]", value))


def package(text: str) -> Found[Package]:
    """Parse any of these version files."""
    values = _values(text)
    version, release, inner = (values.get(key, "") for key in ("version", "package_version", "innerversion"))
    if not _WORD.fullmatch(version) or not all(_WORD.fullmatch(word) for word in (release, inner) if word):
        return Found(error=f"{quote(text)} is not a version file")
    keys = ("compatible_version", "compatible_version_fw", "compatible_version_drv")
    compatible: list[Ranges] = []
    for key in keys:
        ranges = _ranges(values.get(key, ""))
        if ranges is None:
            return Found(error=f"version file: {quote(f'{key}={values[key]}')} is not recognized")
        compatible.append(ranges)
    return Found(Package(version, release, inner, *compatible))


def driver_install(text: str) -> Found[DriverInstall]:
    """Parse /etc/ascend_install.info: how the driver was installed, and for which user."""
    values = _values(text)
    user, group, path = (values.get(key, "") for key in ("username", "usergroup", "driver_install_path_param"))
    if not _WORD.fullmatch(user) or not _WORD.fullmatch(group) or not _WORD.fullmatch(path):
        return Found(error=f"{quote(text)} is not an /etc/ascend_install.info")
    for_all = {"yes": True, "no": False}.get(values.get("driver_install_for_all", ""))
    status, mode = (values.get(f"driver_install_{key}", "")[:40] for key in ("status", "mode"))
    return Found(DriverInstall(user, group, path, for_all, status, mode))
