"""Device links and addresses, as hccn_tool reports them: all devices at once, bounded in time and output."""

import os
import select
import signal
import subprocess
import time

from gate.answer import reason
from gate.state import ascend

# Not PATH: the caller of the gate must not choose a program that runs as root.
PLACES = (
    "/usr/local/Ascend/driver/tools/hccn_tool",
    "/usr/local/bin/hccn_tool",
    "/usr/local/sbin/hccn_tool",
    "/usr/bin/hccn_tool",
    "/usr/sbin/hccn_tool",
)
ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
OUTPUT = 4096  # bytes of an answer; a longer one is refused
AGAIN = 0.2  # seconds until a busy tool is called again


def links(devices, until):
    reasons = []
    for device, (output, trouble) in sorted(call_all("-link", devices, until).items()):
        word = value(output, "link status")
        if word == "DOWN":
            reasons.append(reason("NPU107", "fail", "device %d: link is DOWN" % device, device))
        elif word != "UP":
            reasons.append(unknown("NPU107", device, "link", trouble or quoted(output)))
    return reasons


def addresses(devices, planned, until):
    """Return a reason for each device with an address that differs from the plan, {device as text: "A/PREFIX"}."""
    planned_addresses = {device: planned[str(device)].partition("/")[0] for device in devices if str(device) in planned}
    reasons = []
    for device, (output, trouble) in sorted(call_all("-ip", planned_addresses, until).items()):
        address, planned_address = value(output, "ipaddr"), planned_addresses[device]
        if address == planned_address:
            continue
        if address or "no ip was preset" in output:
            description = "address %.40s" % address if address else "no address"
            summary = "device %d: %s, expected %s" % (device, description, planned_address)
            reasons.append(reason("NPU101", "fail", summary, device))
        else:
            reasons.append(unknown("NPU101", device, "address", trouble or quoted(output)))
    return reasons


def unknown(check, device, subject, cause):
    return reason(check, "unknown", "device %d: %s unknown (%s)" % (device, subject, cause), device)


def value(output_text, key):
    """Return the value after `key:` in an answer, "" without such a line."""
    for line in output_text.splitlines():
        name, _, word = line.partition(":")
        if name.strip() == key:
            return word.strip()
    return ""


def quoted(output_text):
    return "hccn_tool printed %.80r" % output_text.strip()


def call_all(option, devices, until):
    """Return {device: (output of hccn_tool, error or "")}, with all answers by `until` (time.monotonic)."""
    places = (*PLACES, ascend() + "/driver/tools/hccn_tool")
    tool = next((place for place in places if os.access(place, os.X_OK)), None)
    if tool is None:
        return dict.fromkeys(devices, ("", "hccn_tool is not installed"))
    answers, todo = {}, set(devices)
    while todo:
        outputs = call_each(tool, option, todo, until)
        answers.update(outputs)
        todo = {device for device in todo if "hccn_tool is busy" in outputs[device][0]}
        if time.monotonic() + AGAIN > until:
            break
        if todo:
            time.sleep(AGAIN)
    return answers


def call_each(tool, option, devices, until):
    processes = {device: start([tool, "-i", str(device), option, "-g"], until) for device in devices}
    return {device: output_of(process, until) for device, process in processes.items()}


def start(argv, until):
    def set_alarm():
        # An alarm outlives exec: the tool ends even if every process that could end it has been killed.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(max(1, int(until - time.monotonic()) + 1))

    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
            preexec_fn=set_alarm,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return error


def output_of(process, until):
    if isinstance(process, Exception):
        return "", "hccn_tool could not be started: %s" % process
    descriptor = process.stdout.fileno()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    data = b""
    try:
        while poll.poll(max(0, until - time.monotonic()) * 1000):
            part = os.read(descriptor, OUTPUT)
            data += part
            if len(data) > OUTPUT:
                return "", "hccn_tool printed more than %d KiB" % (OUTPUT >> 10)
            if not part:
                return data.decode("utf-8", "replace"), ""
        return "", "hccn_tool did not finish in time"
    finally:
        process.kill()
        process.stdout.close()
