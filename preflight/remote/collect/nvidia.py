"""NVIDIA GPUs: output of nvidia-smi, and facts of the kernel without it. At most four processes are started where
nvidia-smi answers."""

# ruff: noqa: ARG001  (the sections have one signature)

import os
import re
import time
from collections import deque

from collect.tools import COMMAND_LIMIT, attempt, each, find, listed, listing, read, runs, word

QUERIES = ("-q", "nvlink -s", "topo -m")
COUNTERS = "nvlink -e"  # called only without journalctl, so that four processes are the most
NOT_ASKED = "nvidia-smi nvlink -e was not run, because journalctl took its place (at most four processes)"
# Queries in turn where -q shows no GPU: the same in another form, then fields of every driver (FEW of facts).
OTHERWISE = (
    "-q -x",
    "--query-gpu=pci.bus_id,name,uuid,driver_version,memory.total,memory.used --format=csv,noheader",
)
GPU_LINE = {"-q": re.compile(r"^GPU [0-9A-Fa-f]{4,8}:", re.M), "-q -x": re.compile(r"<gpu id=")}
QUERY_SECONDS = 25  # without persistence mode every start of the tool wakes all GPUs, which takes seconds each
QUERY_LIMIT = 2 * COMMAND_LIMIT  # characters; 16 GPUs with their processes print 300 thousand
XML_LIMIT = 8 * COMMAND_LIMIT  # characters; 16 GPUs print 800 thousand, with all clocks that they can have
JOURNAL_SECONDS = 10
KMSG = "/dev/kmsg"
LOG_LIMIT = 512 * 1024  # bytes of the driver's lines that travel
RECORD = 8192  # bytes; the kernel refuses a shorter buffer
MOST_RECORDS = 200000
OURS = re.compile(rb"NVRM|nvidia-nvswitch")
JOURNALCTL = ("-k", "-b", "--no-pager", "-o", "short-iso", "-g", OURS.pattern.decode())
PCI = "/sys/bus/pci/devices"
PCI_FILES = ("vendor", "class", "current_link_width", "max_link_width")
NVIDIA, DISPLAYS, SWITCH = "0x10de", ("0x0300", "0x0302"), "0x0680"  # PCI vendor; classes, their first 16 bits
VERSION = "/proc/driver/nvidia/version"
LIBRARY_PLACES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
LIBRARY = re.compile(r"lib(?:nvidia-ml|cuda)\.so\.(\d{3,4}(?:\.\d{1,4}){1,3})$")
INIT, CONTAINER_FILES = "/proc/1", ("/.dockerenv", "/run/.containerenv")
CONTAINER_GROUPS = (b"docker", b"kubepods", b"containerd", b"/lxc", b"libpod")
UNITS = "/etc/systemd/system"
UNIT_PLACES = (
    UNITS,
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
FABRIC_MANAGER = "nvidia-fabricmanager.service"
DPKG = "/var/lib/dpkg/status"
DPKG_LIMIT = 64 << 20  # bytes


def look_nvidia(request, deadline):
    log = kmsg()
    tool = find("nvidia-smi")
    by_journal = not log["whole"] and bool(find("journalctl"))
    answers = ask_all(tool, by_journal, deadline)
    log = answers.pop("journalctl", None) or log
    gpus, switches = pci()
    return {
        "tool": bool(tool),
        "answers": answers,
        "pci": gpus,
        "switches": switches,
        "version": read(VERSION),
        "libraries": libraries(),
        "fabric_manager": fabric_manager(),
        "persistence_daemon": runs("nvidia-persiste"),  # the kernel keeps 15 characters of a name
        "log": log,
        "contained": contained(),
        "pci_drivers": {gpu[0]: name for gpu in gpus for name in [driver(gpu[0])] if name},
        "virtual": [gpu[0] for gpu in gpus if os.path.lexists(os.path.join(PCI, gpu[0], "physfn"))],
    }


def ask_all(tool, by_journal, deadline):
    """Return {question: answer} of nvidia-smi, if it is installed, and of journalctl, if it is to be called."""
    questions = list(QUERIES) if tool else []
    if by_journal:
        questions.append("journalctl")
    elif tool:
        questions.append(COUNTERS)
    groups = each(questions, lambda question: ask_in_turn(tool, question, deadline), deadline)
    answers = {question: answer for group in groups.values() for question, answer in group.items()}
    if tool and by_journal:
        answers[COUNTERS] = {"out": "", "err": "", "code": -1, "trouble": NOT_ASKED}
    return answers


def ask_in_turn(tool, question, deadline):
    """Return {question: answer}, with other forms of the question as long as no GPU is in the answer."""
    if question == "journalctl":
        return {question: journal(deadline)}
    answers = {question: ask(tool, question, deadline)}
    for alternative in OTHERWISE if question == "-q" else ():
        answer = answers[question]
        if "trouble" in answer or GPU_LINE[question].search(answer["out"]):
            break  # a call that hangs costs its own time and no more
        answers[alternative] = ask(tool, alternative, deadline)
        question = alternative
    return answers


def ask(tool, question, deadline):
    limit = XML_LIMIT if question == "-q -x" else QUERY_LIMIT
    return attempt([tool, *question.split()], min(deadline, time.monotonic() + QUERY_SECONDS), limit)


def kmsg():
    """Return the driver's lines that the kernel still has, the newest of very many. `whole`: these are all since the
    boot."""
    driver_lines, size, is_whole = deque(), 0, True
    try:
        file = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return {"text": "", "whole": False, "trouble": "%s cannot be read: %s" % (KMSG, error.strerror)}
    try:
        for number in range(MOST_RECORDS):
            try:
                record = os.read(file, RECORD)
            except BrokenPipeError:
                is_whole = False  # the kernel has overwritten the next record
                continue
            except OSError:
                break  # no further record for now
            if not record:
                break
            if number == 0:
                is_whole = record.split(b";", 1)[0].split(b",")[1:2] == [b"0"]
            lines = [line for line in record.splitlines() if OURS.search(line)]
            driver_lines += lines
            size += sum(map(len, lines))
            while size > LOG_LIMIT:
                size -= len(driver_lines.popleft())
                is_whole = False
    finally:
        os.close(file)
    return {"text": b"\n".join(driver_lines).decode("utf-8", "replace"), "whole": is_whole, "trouble": ""}


def journal(deadline):
    """Return journald's lines of this boot, for a kernel log that is hidden or does not reach back to the boot.

    Return None without a usable result. A user other than root gets no kernel lines, and the same message as where
    there are none.
    """
    tool = find("journalctl")
    if not tool:
        return None
    answer = attempt([tool, *JOURNALCTL], min(deadline, time.monotonic() + JOURNAL_SECONDS), LOG_LIMIT)
    lines = [line for line in answer["out"].splitlines() if OURS.search(line.encode())]
    is_empty = os.geteuid() == 0 and answer["out"].strip() == "-- No entries --"
    return {"text": "\n".join(lines), "whole": True, "trouble": ""} if lines or is_empty else None


def pci():
    """Return GPUs as [bus, lanes, most lanes, whether it answers], and the bus ids of NVSwitches."""
    gpus, switches = [], []
    for bus in sorted(listing(PCI)):
        values = {name: word(os.path.join(PCI, bus, name), 40) for name in PCI_FILES}
        if values["vendor"] != NVIDIA:
            continue
        if values["class"].startswith(DISPLAYS):
            gpus.append([bus, values["current_link_width"], values["max_link_width"], alive(bus)])
        elif values["class"].startswith(SWITCH):
            switches.append(bus)
    return gpus, switches


def alive(bus):
    """Return whether a device answers. One that fell off the bus reads as all ones; one with an unreadable
    configuration counts as alive."""
    try:
        with open(os.path.join(PCI, bus, "config"), "rb") as file:
            return file.read(4) != b"\xff\xff\xff\xff"
    except OSError:
        return True


def driver(bus):
    """Return the kernel's driver of a device, "" for none."""
    try:
        return os.path.basename(os.readlink(os.path.join(PCI, bus, "driver")))[:40]
    except OSError:
        return ""


def contained():
    """Return whether the collector itself is in a container, by the marks that job_view.py uses. That program runs
    where jobs run, alone and maybe elsewhere; nvidia-smi and the PCI bus are seen from here."""
    if "container" in os.environ or any(os.path.exists(path) for path in CONTAINER_FILES):
        return True
    return b"\0container=" in b"\0" + of_init("environ") or any(mark in of_init("cgroup") for mark in CONTAINER_GROUPS)


def of_init(name):
    try:
        with open(os.path.join(INIT, name), "rb") as file:
            return file.read(65536)
    except OSError:
        return b""


def libraries():
    places = {os.path.realpath(place) for place in LIBRARY_PLACES}
    names = [name for place in places for name in listing(place) if name.startswith(("libnvidia-ml", "libcuda"))]
    return sorted({match.group(1) for match in map(LIBRARY.match, names) if match})[:20]


def fabric_manager():
    wants = [folder for ending in (".wants", ".requires") for folder in listed(UNITS, ending)]
    at_boot = any(os.path.lexists(os.path.join(folder, FABRIC_MANAGER)) for folder in wants)
    return {
        "running": runs("nv-fabricmanage"),
        "at_boot": at_boot if os.path.isdir(UNITS) else None,
        "package": package("nvidia-fabricmanager"),
        "unit": any(os.path.lexists(os.path.join(place, FABRIC_MANAGER)) for place in UNIT_PLACES),
    }


def package(prefix):
    """Return the version of the installed Debian package with this prefix of its name; None where there is none."""
    state = {}
    try:
        with open(DPKG, errors="replace") as file:
            for line in file.readlines(DPKG_LIMIT):
                key, _, value = line.partition(": ")
                if key == "Package":
                    state = {"wanted": value.startswith(prefix) and "-dev" not in value}
                elif key == "Status":
                    state["installed"] = value.strip().endswith(" installed")
                elif key == "Version" and state.get("wanted") and state.get("installed"):
                    return value.strip()[:80]
    except OSError:
        pass
    return None
