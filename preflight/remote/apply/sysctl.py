"""Kernel settings."""

import os
import re

from apply.kinds import Kind
from apply.tools import StepError


def sysctl_path(key):
    if not re.match(r"[a-z0-9_]+(\.[a-z0-9_]+)+$", key):
        raise StepError("%r is not the name of a kernel setting" % key)
    return "/proc/sys/" + key.replace(".", "/")


def read_sysctl(key):
    with open(sysctl_path(key)) as file:
        return file.read().strip()


def write_sysctl(key, value):
    """One write(2): what one call brings is the whole value. The kernel ignores an empty one; a newline clears."""
    data = ((value or "") + "\n").encode()
    handle = os.open(sysctl_path(key), os.O_WRONLY)
    try:
        taken = os.write(handle, data)
    finally:
        os.close(handle)
    if taken != len(data):
        raise StepError(
            "the kernel took %d of %d bytes for %s; fewer, wider ranges are shorter" % (taken, len(data), key)
        )


def same_sysctl(value):
    """The kernel sorts and merges port lists: the ports are compared, not the text."""
    words = (value or "").split()
    if len(words) != 1 or not re.match(r"[0-9,-]+$", words[0]):
        return words
    ports = set()
    for item in filter(None, words[0].split(",")):
        low, _, high = item.partition("-")
        ports.update(range(int(low), int(high or low) + 1))
    return ports


KINDS = {"sysctl": Kind(read_sysctl, write_sysctl, same_sysctl)}
