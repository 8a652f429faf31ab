"""What hccn_tool says of the device NICs, and the file that their settings come back from at boot."""

# ruff: noqa: ARG001  (the sections have one signature)

import os
import re
import threading
import time

from collect.tools import LookError, attempt, command, each, read, required

# Answers of a moment, and how many seconds they are waited out: just after boot the tool still restores the settings;
# a device that has just got a detect address has not probed it yet.
PASSING = {"cfg": (("status:START",), 10), "net_health": (("status: Init", "status: Detect ip set"), 5)}
HCCN_TOOL = ("hccn_tool", "/usr/local/Ascend/driver/tools/hccn_tool")
QUERY_SECONDS = 10  # that one query may take: one that hangs leaves time for those after it
looked = threading.Event()  # whether look_hccn has come to its end


def hccn(tool, device, arguments, deadline):
    """One call of hccn_tool. Another user of the tool makes it say "busy", on stdout: asked again, ever less often."""
    pause = 0.05
    while True:
        answer = attempt([tool, "-i", str(device), *arguments], deadline)
        if "hccn_tool is busy" not in answer["out"] + answer["err"] or time.monotonic() + pause > deadline:
            return answer
        time.sleep(pause)
        pause = min(1.0, pause * 2)


def hccn_settled(tool, device, arguments, passing, seconds, deadline):
    """One call of hccn_tool, made again for as long as its answer is a passing one and `seconds` are not over."""
    end = min(deadline, time.monotonic() + seconds)
    while True:
        answer = hccn(tool, device, arguments, min(deadline, time.monotonic() + QUERY_SECONDS))
        if not any(words in answer["out"] for words in passing) or time.monotonic() + 0.5 > end:
            return answer
        time.sleep(0.5)


def davinci():
    """Ids of the device nodes; a device's -i is the N of /dev/davinciN."""
    return [int(entry[7:]) for entry in os.listdir("/dev") if entry[:7] == "davinci" and entry[7:].isdigit()]


def known(tool, names, deadline):
    """Those of `names` that this hccn_tool lists in its help; all, where the help lists nothing that is understood."""
    try:
        text = command([tool, "-h"], min(deadline, time.monotonic() + QUERY_SECONDS))
    except LookError:
        return names
    listed = set(re.findall(r"hccn_tool -i \S+ -(\w+)", text["out"] + text["err"]))
    return [name for name in names if name in listed] if listed else names


def look_hccn(request, deadline):
    """{device: {reading: answer}}. A deep reading that the tool does not know is left out."""
    try:
        return look_devices(request, deadline)
    finally:
        looked.set()


def look_devices(request, deadline):
    tool = required(*HCCN_TOOL)
    devices = sorted(set(request["devices"]) | set(davinci()))
    if not devices:
        raise LookError("no device: the inventory names none, and there is no /dev/davinciN")
    deep = known(tool, request["deep_readings"], deadline) if request.get("deep_readings") else []

    def readings(device):
        found = {}
        for name, option in request["readings"]:
            probes_nothing = name == "net_health" and "0.0.0.0" in found.get("netdetect", {}).get("out", "0.0.0.0")
            passing, seconds = ((), 0) if probes_nothing else PASSING.get(name, ((), 0))
            found[name] = hccn_settled(tool, device, ["-" + name, option], passing, seconds, deadline)
        for name in deep:
            found[name] = hccn(tool, device, ["-" + name, "-g"], min(deadline, time.monotonic() + QUERY_SECONDS))
        return found

    # A thread a device: reads of different devices do not disturb each other.
    return each(devices, readings, deadline)


def look_hccn_conf(request, deadline):
    return {"text": read("/etc/hccn.conf")}
