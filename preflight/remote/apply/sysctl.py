"""Kernel settings."""

import os
import re

from apply.allowed import is_port_list
from apply.kinds import ChangeKind
from apply.tools import StepError

LONGEST = 1 << 20  # bytes; the longest list of reserved ports has a third


def sysctl_path(key):
    if not re.match(r"[a-z0-9_]+(\.[a-z0-9_]+)+$", key):
        raise StepError("%r is not the name of a kernel setting" % key)
    return "/proc/sys/" + key.replace(".", "/")


def read_sysctl(key):
    """Read a setting in one read(2): the kernel gives the whole value to the first call only."""
    handle = os.open(sysctl_path(key), os.O_RDONLY)
    try:
        return os.read(handle, LONGEST).decode().strip()
    finally:
        os.close(handle)


def write_sysctl(key, value):
    """Write a setting in one write(2), as each call sets the whole value. The kernel ignores an empty text; a newline
    clears."""
    data = ((value or "") + "\n").encode()
    handle = os.open(sysctl_path(key), os.O_WRONLY)
    try:
        bytes_written = os.write(handle, data)
    finally:
        os.close(handle)
    if bytes_written != len(data):
        raise StepError(
            "the kernel accepted only %d of %d bytes for %s. Use fewer and wider ranges"
            % (bytes_written, len(data), key)
        )


def same_sysctl(value):
    """Return a value in a comparable form. The kernel sorts and merges port lists, so ports are compared and not the
    text."""
    words = (value or "").split()
    if len(words) != 1 or not is_port_list(words[0]):
        return words
    ranges = []  # sorted, without overlaps
    for low, high in sorted(map(port_range, filter(None, words[0].split(",")))):
        if ranges and low <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], high))
        else:
            ranges.append((low, high))
    return ranges


def port_range(item):
    low, _, high = item.partition("-")
    return int(low), int(high or low)


KINDS = {"sysctl": ChangeKind(read_sysctl, write_sysctl, same_sysctl)}
