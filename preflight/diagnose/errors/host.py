"""Errors that kernels and drivers log: Xid by the action that they need, memory, links, disks. Data.

Classes of Xid follow the immediate actions of NVIDIA's Xid catalogue and of health checks in use.
"""

import re

from preflight.diagnose.types import Kill, Role, Sign, Weight

XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{1,20})\): (\d{1,4})\b")

_MECHANICS = Sign(
    "Xid", Role.OWN, (), "the GPU gets too little power", "see to its power cable, or exchange it (GPU107)"
)
_REBOOT = Sign(
    "Xid",
    Role.OWN,
    (),
    "the GPU is lost, or its driver is",
    "drain the host and restart it; if it comes again, exchange the GPU (GPU102, GPU107)",
)
_RESET = Sign(
    "Xid",
    Role.OWN,
    (),
    "the GPU, its memory, its firmware or its NVLink failed",
    "drain the host, then: nvidia-smi --gpu-reset -i N; if it comes again, exchange the GPU (GPU104, GPU107)",
)
_NVLINK = Sign(
    "Xid",
    Role.LINK,
    (),
    "an NVLink reports errors",
    "nvidia-smi nvlink -e; look at the fabric manager's log and at the switch (GPU115)",
)
_PROGRAM = Sign(
    "Xid",
    Role.OWN,
    (),
    "the program used the GPU wrongly, or a memory error was contained",
    "start the job again; if it follows the GPU, not the program: nvidia-smi -q -d ECC",
)
_INFO = Sign(
    "Xid",
    Role.HINT,
    (),
    "it tells of another error, or that a row was remapped",
    "look at the other Xid; nvidia-smi -q -d ROW_REMAPPER: a pending one wants a reset (GPU104)",
)

_CLASSES = (
    (_MECHANICS, {54}),
    (_REBOOT, {79, 151, 167, 168}),
    (_RESET, {46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 169, 171, 172}),
    (_NVLINK, {*range(144, 151), 166, 170}),
    (_INFO, {37, 38, 43, 44, 45, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 154, 157, *range(160, 166)}),
)


def xid(number: int) -> Sign:
    """Return the sign of any Xid. A number in no class ends programs, and is first of all the program's fault."""
    entry = next((sign for sign, numbers in _CLASSES if number in numbers), _PROGRAM)
    return Sign(f"Xid {number}", entry.role, (), entry.cause, entry.step)


_DISK = r"error, dev (?!fd|sr|loop)\w"  # no floppy or CD, which virtual machines have without a medium
# Beginnings of links that come and go with containers and virtual machines.
_OF_CONTAINERS = "veth|docker|br-|cali|cni|flannel|lxc|nodelocal|tap|tunl|virbr|vnet"

MEMORY = "host-memory"  # `kill_of` reads its lines

_SWITCH = "look at the fabric manager's log; fatal ones want all GPUs of the host reset (GPU116)"

SIGNS = (
    Sign("peermem", Role.NOISE, ("nv_get_p2p_free_callback",)),
    # The driver writes "Fatal," or "Non-fatal," into the first line of each; those with the registers follow it.
    Sign("SXid", Role.LINK, ("nvidia-nvswitch", "SXid", ", Fatal,"), "an NVSwitch reports a fatal error", _SWITCH),
    Sign("SXid", Role.NOISE, ("nvidia-nvswitch", "SXid", ", Severity ")),
    Sign("SXid", Role.NOISE, ("nvidia-nvswitch", "SXid", ", Data {")),
    Sign("SXid", Role.HINT, ("nvidia-nvswitch", "SXid"), "an NVSwitch reports an error, not a fatal one", _SWITCH),
    Sign(
        "host-memory",
        Role.OWN,
        ("Out of memory: Kill",),
        "the host ran out of memory: the kernel killed a process",
        "look at what used it: data loaders, page-locked memory, another job",
    ),
    Sign(
        "host-memory",
        Role.OWN,
        ("Memory cgroup out of memory: Kill",),
        "a memory limit (cgroup) was used up: the kernel killed a process",
        "look at what used it: data loaders, page-locked memory; the job's memory limit",
    ),
    Sign(
        "host-memory",
        Role.OWN,
        ("oom-kill:constraint",),
        "the host, or the job's memory limit, was used up",
        "look at what used it: data loaders, page-locked memory; the job's memory limit",
    ),
    Sign(
        "host-memory",
        Role.OWN,
        ("oom_reaper: reaped",),
        "the host, or the job's memory limit, was used up",
        "look at what used it: data loaders, page-locked memory; the job's memory limit",
    ),
    Sign(
        "open-files",
        Role.OWN,
        ("VFS: file-max limit",),
        "the host's limit of open files is reached",
        "raise fs.file-max, or find who opens them (HST134)",
    ),
    Sign(
        "nccl-crash",
        Role.OWN,
        ("segfault at", "libnccl"),
        "NCCL crashed",
        "is the stack limit unlimited (ulimit -s, HST133)? Else another release of NCCL (VER103)",
    ),
    Sign("crash", Role.OWN, ("segfault at", "libhccl"), "HCCL crashed", "compare CANN and driver (VER109)"),
    Sign(
        "crash",
        Role.OWN,
        ("]: segfault at ", " ip ", " error "),
        "{name} crashed (SIGSEGV) in {library}",
        "run it with python -X faulthandler, and compare versions on the hosts (VER103)",
        pattern=r"(?P<name>[\w.-]{1,16})\[\d{1,10}\]: segfault at .{1,120} in (?P<library>[^\s\[]{1,80})",
        weight=Weight.DEATH,
    ),
    Sign(
        "link-flap",
        Role.OWN,
        ("ost carrier",),
        "a network link of the host went down",
        "look at cable, module and switch port (NIC101 for devices, RDM108; ethtool, ibstat for the host)",
        pattern=rf"(?:^|\s)(?!{_OF_CONTAINERS})[\w.@-]{{1,40}}: [Ll]ost carrier",
    ),
    Sign("disk", Role.OWN, ("I/O error, dev",), "a disk fails", "smartctl -a; move the job's data", pattern=_DISK),
    Sign(
        "disk",
        Role.OWN,
        ("critical medium error, dev",),
        "a disk fails",
        "smartctl -a; move the job's data",
        pattern=_DISK,
    ),
    Sign("disk", Role.OWN, ("log I/O error",), "a file system lost its disk", "dmesg on that host; mount it anew"),
    Sign(
        "nvidia-versions",
        Role.OWN,
        ("Driver/library version mismatch",),
        "the driver was updated under the running one",
        "restart the host, or load the driver anew (GPU121)",
    ),
    Sign(
        "nvidia-lost",
        Role.OWN,
        ("nable to determine the device handle",),
        "a GPU has fallen off the bus",
        "dmesg | grep Xid; restart the host (GPU101, GPU102)",
    ),
    Sign(
        "nvidia-container",
        Role.OWN,
        ("Failed to initialize NVML: Unknown Error",),
        "the container lost its right to the GPUs, most often after systemctl daemon-reload",
        "start the container anew; pass the devices with --device",
    ),
)

_OF_KERNEL = ("Xid", "SXid", MEMORY, "link-flap", "disk")


def is_of_kernel(sign: Sign) -> bool:
    """Return whether it is an error that a host's kernel logs, whatever runs there."""
    return sign.id.startswith(_OF_KERNEL)


_KILLED = re.compile(
    r"task=(?P<name>[^,]{1,64}),pid=(?P<pid>\d{1,10})"
    r"|Kill(?:ed)? process (?P<pid2>\d{1,10})(?:, UID \d{1,10})?,? \((?P<name2>[^)]{1,64})\)"
    r"|reaped process (?P<pid3>\d{1,10}) \((?P<name3>[^)]{1,64})\)"
)
_CGROUP = re.compile(r"task_memcg=([^,\s]{1,1000})")


def kill_of(text: str) -> Kill:
    """Return the killed process of a line of `MEMORY`.

    The kernel writes three lines for each: oom-kill, Killed process, oom_reaper.
    """
    match, cgroup = _KILLED.search(text), _CGROUP.search(text)
    limited = "CONSTRAINT_MEMCG" in text or "Memory cgroup" in text
    part = match.groupdict() if match else {}
    pid = part.get("pid") or part.get("pid2") or part.get("pid3")
    name = part.get("name") or part.get("name2") or part.get("name3") or ""
    return Kill(int(pid) if pid else None, name, cgroup[1] if cgroup else "", limited)
