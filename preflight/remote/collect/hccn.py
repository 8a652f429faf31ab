"""Readings of the device NICs with hccn_tool, and the file that restores their settings at boot."""

# ruff: noqa: ARG001  (the sections have one signature)

import collections
import re
import threading
import time

from collect.tools import LookError, attempt, command, device_numbers, each, read, required

# Temporary answers, and the seconds to wait for another one. Just after boot the tool still restores the settings. A
# device that has just got a detect address has not probed it yet.
Passing = collections.namedtuple("Passing", "texts seconds")
PASSING = {
    "cfg": Passing(("status:START",), 10),
    "net_health": Passing(("status: Init", "status: Detect ip set"), 5),
}
NEVER_PASSING = Passing((), 0)
HCCN_TOOL = ("hccn_tool", "/usr/local/Ascend/driver/tools/hccn_tool")
QUERY_SECONDS = 10  # limit of one query: one that hangs leaves time for those after it
hccn_done = threading.Event()  # set once look_hccn has ended


def hccn(tool, device, arguments, deadline):
    """Call hccn_tool once and return its answer. While another user of the tool makes it print "busy" on stdout, call
    again with growing pauses."""
    pause = 0.05
    while True:
        answer = attempt([tool, "-i", str(device), *arguments], deadline)
        if "hccn_tool is busy" not in answer["out"] + answer["err"] or time.monotonic() + pause > deadline:
            return answer
        time.sleep(pause)
        pause = min(1.0, pause * 2)


def hccn_settled(tool, device, arguments, passing, deadline):
    """Call hccn_tool, again for some seconds while its answer is a temporary one. Return the last answer."""
    end = min(deadline, time.monotonic() + passing.seconds)
    while True:
        answer = hccn(tool, device, arguments, min(deadline, time.monotonic() + QUERY_SECONDS))
        if not any(text in answer["out"] for text in passing.texts) or time.monotonic() + 0.5 > end:
            return answer
        time.sleep(0.5)


def supported(tool, names, deadline):
    """Return those of `names` that this hccn_tool lists in its help; all, if no line of the help is understood."""
    try:
        text = command([tool, "-h"], min(deadline, time.monotonic() + QUERY_SECONDS))
    except LookError:
        return names
    listed_names = set(re.findall(r"hccn_tool -i \S+ -(\w+)", text["out"] + text["err"]))
    return [name for name in names if name in listed_names] if listed_names else names


def look_hccn(request, deadline):
    """Return {device: {reading: answer}}. A deep reading that the tool does not know is omitted."""
    try:
        return look_devices(request, deadline)
    finally:
        hccn_done.set()


def look_devices(request, deadline):
    tool = required(*HCCN_TOOL)
    devices = sorted(set(request["devices"]) | set(device_numbers("davinci")))
    if not devices:
        raise LookError("no device: the inventory lists none, and there is no /dev/davinciN")
    deep = supported(tool, request["deep_readings"], deadline) if request.get("deep_readings") else []

    def readings(device):
        answers = {}
        for name, option in request["readings"]:
            probes_nothing = name == "net_health" and "0.0.0.0" in answers.get("netdetect", {}).get("out", "0.0.0.0")
            passing = NEVER_PASSING if probes_nothing else PASSING.get(name, NEVER_PASSING)
            answers[name] = hccn_settled(tool, device, ["-" + name, option], passing, deadline)
        for name in deep:
            answers[name] = hccn(tool, device, ["-" + name, "-g"], min(deadline, time.monotonic() + QUERY_SECONDS))
        return answers

    # A thread a device: reads of different devices do not disturb each other.
    return each(devices, readings, deadline)


def look_hccn_conf(request, deadline):
    return {"text": read("/etc/hccn.conf")}
