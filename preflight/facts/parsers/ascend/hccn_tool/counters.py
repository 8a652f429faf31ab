"""Counters of a device NIC: `-stat`, `-hw_stats`, `-bandwidth`."""

import re

from preflight.facts.parsers.ascend.hccn_tool.tool_output import NotUnderstoodError, blocks, fields
from preflight.facts.reading import Found
from preflight.facts.sections.nic import Bandwidth
from preflight.model.text import quote

_PACKETS = re.compile(r"([a-z][a-z0-9]{0,15}_[a-z0-9_]{1,63}) ?: ?([0-9]{1,20})")


def _counts(block: list[str], pattern: re.Pattern[str]) -> dict[str, int]:
    values = fields(block, pattern)
    if not values:
        raise NotUnderstoodError(f"hccn_tool printed {quote(block[-1])} without a count. The output is not recognized")
    return {name: int(count) for name, count in values.items()}


def stat(text: str) -> tuple[Found[dict[str, int]], ...]:
    """Parse `-stat -g`: packets and bytes by the tool's own names; which names there are differs between drivers."""
    return blocks(text, re.compile(r"packet statistics ?:").fullmatch, lambda block: _counts(block, _PACKETS))


_RESOURCE = re.compile(r"\[devid [0-9]{1,3}\] ?([a-z][a-z0-9_]{1,63}) ?: ?([0-9]{1,20})")


def hw_stats(text: str) -> tuple[Found[dict[str, int]], ...]:
    """Parse `-hw_stats -g`: RoCE resources allocated, freed and in use (`qp_active` …), by the tool's own names."""
    device, names = "", set[str]()

    def starts(line: str) -> bool:
        """Return whether the line begins an answer. There is no heading: a new device or a repeated name begins one."""
        nonlocal device, names
        match = _RESOURCE.fullmatch(line)
        if match is None:
            return False
        line_device, name = line.partition("]")[0], match.group(1)
        is_first = line_device != device or name in names
        if is_first:
            device, names = line_device, set()
        names.add(name)
        return is_first

    return blocks(text, starts, lambda block: _counts(block, _RESOURCE))


_BANDWIDTH = re.compile(r"Bandwidth (TX|RX) ?: *([0-9]{1,9}\.[0-9]{1,9}) ?MB/sec")


def _bandwidth(block: list[str]) -> Bandwidth:
    values = fields(block, _BANDWIDTH)
    if "RX" not in values:
        raise NotUnderstoodError(f"hccn_tool printed {quote(block[-1])} and nothing of RX, which is not recognized")
    return Bandwidth(float(values["TX"]), float(values["RX"]))


def bandwidth(text: str) -> tuple[Found[Bandwidth], ...]:
    """Parse `-bandwidth -g`: MB/s sent and received at this moment. Known from the driver's source only."""
    starts = re.compile(r"Bandwidth TX ?: *[0-9]{1,9}\.[0-9]{1,9} ?MB/sec").fullmatch
    return blocks(text, starts, _bandwidth, _BANDWIDTH.fullmatch)
