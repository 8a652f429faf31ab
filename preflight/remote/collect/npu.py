"""NPUs: the driver, what hccn_tool and npu-smi say, pings between device NICs."""

# ruff: noqa: ARG001  (the sections have one signature)

import os
import pwd
import re
import threading
import time

from collect.tools import LookError, command, read, required

# Answers of a moment, and how many seconds they are waited out: just after boot the tool still restores the settings;
# a device that has just got a detect address has not probed it yet.
PASSING = {"cfg": (("status:START",), 10), "net_health": (("status: Init", "status: Detect ip set"), 5)}
HCCN_TOOL = ("hccn_tool", "/usr/local/Ascend/driver/tools/hccn_tool")
NPU_SMI = ("npu-smi", "/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi")


def look_driver(request, deadline):
    base = "/usr/local/Ascend"
    for line in (read("/etc/ascend_install.info") or "").splitlines():
        if line.startswith("Driver_Install_Path_Param="):
            base = line.partition("=")[2].strip() or base
    return {name: read(os.path.join(base, name, "version.info")) for name in ("driver", "firmware")}


def hccn(tool, device, arguments, deadline):
    """One call of hccn_tool. Another user of the tool makes it say "busy", on stdout: asked again, ever less often."""
    pause = 0.05
    while True:
        try:
            answer = command([tool, "-i", str(device), *arguments], deadline)
        except LookError as error:
            return {"out": "", "err": "", "code": -1, "trouble": str(error)}
        if "hccn_tool is busy" not in answer["out"] + answer["err"] or time.monotonic() + pause > deadline:
            return answer
        time.sleep(pause)
        pause = min(1.0, pause * 2)


def hccn_settled(tool, device, arguments, passing, seconds, deadline):
    """One call of hccn_tool, made again for as long as its answer is a passing one and `seconds` are not over."""
    end = min(deadline, time.monotonic() + seconds)
    while True:
        answer = hccn(tool, device, arguments, deadline)
        if not any(words in answer["out"] for words in passing) or time.monotonic() + 0.5 > end:
            return answer
        time.sleep(0.5)


def each_device(devices, work, deadline):
    """{device: work(device)} with a thread a device: reads of different devices do not disturb each other."""
    results = {}

    def run(device):
        results[str(device)] = work(device)

    threads = [threading.Thread(target=run, args=(device,), daemon=True) for device in devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, deadline + 0.5 - time.monotonic()))
    return dict(results)


def davinci():
    """Ids of the device nodes; a device's -i is the N of /dev/davinciN."""
    return [int(entry[7:]) for entry in os.listdir("/dev") if entry[:7] == "davinci" and entry[7:].isdigit()]


def look_hccn(request, deadline):
    tool = required(*HCCN_TOOL)
    devices = sorted(set(request["devices"]) | set(davinci()))
    if not devices:
        raise LookError("no device: the inventory names none, and there is no /dev/davinciN")

    def readings(device):
        found = {}
        for name, option in request["readings"]:
            probes_nothing = name == "net_health" and "0.0.0.0" in found.get("netdetect", {}).get("out", "0.0.0.0")
            passing, seconds = ((), 0) if probes_nothing else PASSING.get(name, ((), 0))
            found[name] = hccn_settled(tool, device, ["-" + name, option], passing, seconds, deadline)
        return found

    return each_device(devices, readings, deadline)


def look_pings(request, deadline):
    """The pings of one device go one after the other."""
    tool = required(*HCCN_TOOL)
    targets = {}
    for device, address in request["pings"]:
        targets.setdefault(device, []).append(address)

    def pings(device):
        return {
            address: hccn(tool, device, ["-ping", "-g", "address", address], deadline) for address in targets[device]
        }

    return each_device(targets, pings, deadline)


def look_hccn_conf(request, deadline):
    return {"text": read("/etc/hccn.conf")}


def look_npu_smi(request, deadline):
    tool = required(*NPU_SMI)
    info, mapping = command([tool, "info"], deadline), command([tool, "info", "-m"], deadline)
    processes = re.findall(r"^\|[ \d]+\|\s*(\d{1,9})\s*\|", info["out"].partition("Process id")[2], re.MULTILINE)
    users = {pid: owner(pid) for pid in processes}
    return {"info": info, "mapping": mapping, "users": {pid: user for pid, user in users.items() if user}}


def owner(pid):
    """Whose process it is: the real user, None where the process is not to be seen."""
    try:
        with open("/proc/%s/status" % pid) as file:
            uid = next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
    except (OSError, StopIteration):
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "uid %d" % uid
