"""Waiting until devices whose workers were killed are free: the driver's HCCP process outlives its job for about 10 s.

Runs in a process of its own, since a call of hccn_tool takes its time and the agent has one thread.
"""

import os
import re
import time

from collect.tools import LookError, command

SECONDS = 30  # as long as a device is waited for
QUIET = 10  # seconds that are waited where hccn_tool cannot be asked: as long as a device usually takes
CALL = 10  # seconds a call may take
PAUSE = 0.5
HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
NOT_THERE = (os.path.dirname(HCCN_TOOL), "/usr/local/bin", "/usr/sbin", "/sbin")  # where a job's PATH may not lead


def settle(devices):
    """Wait; returns (devices that are held after all, why some could not be asked about)."""
    begin = time.monotonic()
    held, error = list(devices), ""
    while held and time.monotonic() - begin < SECONDS:
        for device in list(held):
            word = ask(device)
            if word == "not exist":
                held.remove(device)
            elif word not in ("exist", "busy"):
                held.remove(device)
                error = "device %d: %s" % (device, word)
        if held:
            time.sleep(PAUSE)
    if error:
        time.sleep(max(0, QUIET - (time.monotonic() - begin)))
    return held, error


def ask(device):
    """exist, not exist, busy (the tool, which is asked again), or what it said instead."""
    environment = dict(os.environ, LC_ALL="C", PATH=":".join((os.environ.get("PATH", ""), *NOT_THERE)))
    asked = ["hccn_tool", "-i", str(device), "-process", "-g"]
    try:
        done = command(asked, time.monotonic() + CALL, environment=environment)
    except LookError as error:
        return str(error)[:200]
    text = done["out"] + done["err"]
    if "hccn_tool is busy" in text:
        return "busy"
    found = re.search(r"hccp process ?: ?(exist|not exist)\s*$", text)
    return found.group(1) if found else "hccn_tool said %r" % text[:200]
