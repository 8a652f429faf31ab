"""Version files: of the Ascend driver, firmware and CANN (`key=value` lines), and /etc/os-release."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from preflight.facts.quote import quote
from preflight.facts.types import Reading


def _value(text: str, key: str) -> str | None:
    match = re.search(rf"^{key}=[\"']?([^\"'\n]{{1,80}}?)[\"']?[ \t\r]{{0,40}}$", text, re.MULTILINE)
    return match.group(1).strip() if match else None


def _reading(text: str, value: str | None) -> Reading:
    return Reading(value) if value else Reading(error=f"{quote(text)} is not a version file")


def version_info(text: str) -> Reading:
    """version.info of driver or firmware: `Version=23.0.7`."""
    return _reading(text, _value(text, "Version"))


def install_info(text: str) -> Reading:
    """ascend_toolkit_install.info, ascend_nnae_install.info, ascend_ops_install.info: `version=8.1.RC1`."""
    return _reading(text, _value(text, "version"))


def version_cfg(text: str) -> Reading:
    """version.cfg: `runtime_running_version=[7.6.0.1.220:8.0.0]`; CANN's own version stands after the colon."""
    match = re.search(r"^runtime_running_version=\[[^\]:]{0,60}:([^\]]{1,60})\][ \t\r]{0,40}$", text, re.MULTILINE)
    return _reading(text, match.group(1) if match else None)


def cann(files: Iterable[tuple[str, str]]) -> Reading:
    """CANN's version from (path, text) of its version files: the first that holds one; None if there is no file."""
    unreadable = Reading()
    for path, text in files:
        reading = version_cfg(text) if PurePosixPath(path).name == "version.cfg" else install_info(text)
        if reading.value:
            return reading
        unreadable = Reading(error=f"{path}: {reading.error}")
    return unreadable


def os_release(text: str) -> tuple[str, str]:
    """ID and VERSION_ID of /etc/os-release; empty where it does not say."""
    return _value(text, "ID") or "", _value(text, "VERSION_ID") or ""
