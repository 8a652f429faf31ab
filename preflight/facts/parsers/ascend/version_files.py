"""Version files of the Ascend driver, firmware and CANN: `key=value` lines."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from preflight.facts.parsers.assignments import value_of
from preflight.facts.types import Reading
from preflight.model.text import quote


def _reading(text: str, value: str | None) -> Reading:
    return Reading(value) if value else Reading(error=f"{quote(text)} is not a version file")


def version_info(text: str) -> Reading:
    """Parse version.info of driver or firmware: `Version=23.0.7`."""
    return _reading(text, value_of(text, "Version"))


def install_info(text: str) -> Reading:
    """Parse ascend_toolkit_install.info, ascend_nnae_install.info, ascend_ops_install.info: `version=8.1.RC1`."""
    return _reading(text, value_of(text, "version"))


def version_cfg(text: str) -> Reading:
    """Parse version.cfg: `runtime_running_version=[7.6.0.1.220:8.0.0]`. CANN's own version is after the colon."""
    match = re.search(r"^runtime_running_version=\[[^\]:]{0,60}:([^\]]{1,60})\][ \t\r]{0,40}$", text, re.MULTILINE)
    return _reading(text, match.group(1) if match else None)


def cann(files: Iterable[tuple[str, str]]) -> Reading:
    """Return CANN's version from (path, text) of its version files: the first one that has it. No file: no value."""
    unreadable = Reading()
    for path, text in files:
        reading = version_cfg(text) if PurePosixPath(path).name == "version.cfg" else install_info(text)
        if reading.value:
            return reading
        unreadable = Reading(error=f"{path}: {reading.error}")
    return unreadable
