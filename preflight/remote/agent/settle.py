"""Waiting until devices of killed workers are free: the driver's HCCP process outlives its job for about 10 s.

It runs in a separate process, since a call of hccn_tool takes its time and the agent has one thread.
"""

import os
import re
import time

from collect.tools import LookError, Start, command

SECONDS = 30  # longest wait for a device
QUIET = 10  # seconds to wait where hccn_tool gives no answer: as long as a device usually takes
CALL = 10  # seconds a call may take
PAUSE = 0.5
HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
NOT_THERE = (os.path.dirname(HCCN_TOOL), "/usr/local/bin", "/usr/sbin", "/sbin")  # folders that a job's PATH may lack


def settle(devices):
    """Wait until the devices are free. Return (devices that are still held, error of a device that could not be
    checked)."""
    begin = time.monotonic()
    held, error = list(devices), ""
    while held and time.monotonic() - begin < SECONDS:
        for device in list(held):
            answer = ask(device)
            if answer == "not exist":
                held.remove(device)
            elif answer not in ("exist", "busy"):
                held.remove(device)
                error = "device %d: %s" % (device, answer)
        if held:
            time.sleep(PAUSE)
    if error:
        time.sleep(max(0, QUIET - (time.monotonic() - begin)))
    return held, error


def ask(device):
    """Return "exist", "not exist", "busy" if the tool is to be called again, or else its message."""
    environment = dict(os.environ, LC_ALL="C", PATH=":".join((os.environ.get("PATH", ""), *NOT_THERE)))
    arguments = ["hccn_tool", "-i", str(device), "-process", "-g"]
    try:
        result = command(arguments, time.monotonic() + CALL, start=Start(environment=environment))
    except LookError as error:
        return str(error)[:200]
    text = result["out"] + result["err"]
    if "hccn_tool is busy" in text:
        return "busy"
    match = re.search(r"hccp process ?: ?(exist|not exist)\s*$", text)
    return match.group(1) if match else "hccn_tool printed %r" % text[:200]
