"""Errors that kernels and drivers log: Xid by the action that they need, memory, links, disks. Data.

Classes of Xid follow the immediate actions of NVIDIA's Xid catalogue and of health checks in use.
"""

import re

from preflight.diagnose.errors.crashes import FAULTS
from preflight.diagnose.types import Kill, Role, Sign, Weight

XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{1,20})\): (\d{1,4})\b")

_MECHANICS = Sign(
    "Xid",
    Role.OWN,
    (),
    "the GPU gets too little power",
    "check the GPU's power cable. If it is fine, replace the GPU (GPU107)",
)
_REBOOT = Sign(
    "Xid",
    Role.OWN,
    (),
    "the GPU or its driver was lost",
    "drain and restart the host. If the error comes back, replace the GPU (GPU102, GPU107)",
)
_RESET = Sign(
    "Xid",
    Role.OWN,
    (),
    "the GPU, its memory, its firmware or its NVLink failed",
    "drain the host and reset the GPU. If the error comes back, replace it (GPU104, GPU107)\n"
    "nvidia-smi --gpu-reset -i {device}",
)
_NVLINK = Sign(
    "Xid",
    Role.LINK,
    (),
    "an NVLink reports errors",
    "check the NVLink errors, the fabric manager's log and the switch (GPU115)\n"
    "nvidia-smi nvlink -e\njournalctl -u nvidia-fabricmanager",
)
_PROGRAM = Sign(
    "Xid",
    Role.OWN,
    (),
    "the program misused the GPU, or a memory error was contained",
    "restart the job. If the error stays with the GPU and not with the program, check its memory\nnvidia-smi -q -d ECC",
)
_INFO = Sign(
    "Xid",
    Role.HINT,
    (),
    "this Xid follows another error, or reports a remapped memory row",
    "check the other Xid. If a row remapping is pending, reset the GPU (GPU104)\nnvidia-smi -q -d ROW_REMAPPER",
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

_SWITCH = (
    "check the fabric manager's log. After a fatal error, reset all GPUs of the host (GPU116)\n"
    "journalctl -u nvidia-fabricmanager"
)
_USERS = "find what uses the memory: data loaders, page-locked memory"
_LIMIT = f"{_USERS} or a low memory limit of the job\nfree -g"
_EXHAUSTED = "the host or the job's memory limit ran out of memory"
_DISK_CHECK = "check the disk with smartctl -a, and move the job's data"

SIGNS = (
    Sign("peermem", Role.NOISE, ("nv_get_p2p_free_callback",)),
    # The driver writes "Fatal," or "Non-fatal," into the first line of each; those with the registers follow it.
    Sign("SXid", Role.LINK, ("nvidia-nvswitch", "SXid", ", Fatal,"), "an NVSwitch reported a fatal error", _SWITCH),
    Sign("SXid", Role.NOISE, ("nvidia-nvswitch", "SXid", ", Severity ")),
    Sign("SXid", Role.NOISE, ("nvidia-nvswitch", "SXid", ", Data {")),
    Sign("SXid", Role.HINT, ("nvidia-nvswitch", "SXid"), "an NVSwitch reported a non-fatal error", _SWITCH),
    Sign(
        "host-memory",
        Role.OWN,
        ("Out of memory: Kill",),
        "the host ran out of memory, and the kernel killed a process",
        f"{_USERS} or another job\nfree -g",
    ),
    Sign(
        "host-memory",
        Role.OWN,
        ("Memory cgroup out of memory: Kill",),
        "a memory limit (cgroup) was reached, and the kernel killed a process",
        _LIMIT,
    ),
    Sign(
        "host-memory",
        Role.OWN,
        ("oom-kill:constraint",),
        _EXHAUSTED,
        _LIMIT,
    ),
    Sign(
        "host-memory",
        Role.OWN,
        ("oom_reaper: reaped",),
        _EXHAUSTED,
        _LIMIT,
    ),
    Sign(
        "open-files",
        Role.OWN,
        ("VFS: file-max limit",),
        "the host reached its limit of open files",
        "raise fs.file-max, or find the process that opens the files (HST134)\nsysctl fs.file-nr fs.file-max",
    ),
    Sign(
        "nccl-crash",
        Role.OWN,
        ("segfault at", "libnccl"),
        "NCCL crashed",
        "set a limited stack size if it is unlimited (HST133). Otherwise use another NCCL release (VER103)\nulimit -s",
    ),
    Sign("crash", Role.OWN, ("segfault at", "libhccl"), "HCCL crashed", "compare CANN and driver (VER109)"),
    Sign(
        "crash",
        Role.OWN,
        ("]: segfault at ", " ip ", " error "),
        "{name} crashed (SIGSEGV) in {library}",
        FAULTS,
        pattern=r"(?P<name>[\w.-]{1,16})\[\d{1,10}\]: segfault at .{1,120} in (?P<library>[^\s\[]{1,80})",
        weight=Weight.DEATH,
    ),
    Sign(
        "link-flap",
        Role.OWN,
        ("ost carrier",),
        "a network link of the host went down",
        "check the cable, the optical module and the switch port (NIC101, RDM108)\nip -brief link",
        pattern=rf"(?:^|\s)(?!{_OF_CONTAINERS})[\w.@-]{{1,40}}: [Ll]ost carrier",
    ),
    Sign("disk", Role.OWN, ("I/O error, dev",), "a disk is failing", _DISK_CHECK, pattern=_DISK),
    Sign(
        "disk",
        Role.OWN,
        ("critical medium error, dev",),
        "a disk is failing",
        _DISK_CHECK,
        pattern=_DISK,
    ),
    Sign(
        "disk",
        Role.OWN,
        ("log I/O error",),
        "a file system lost its disk",
        "check the kernel log, then remount the file system\ndmesg",
    ),
    Sign(
        "nvidia-versions",
        Role.OWN,
        ("Driver/library version mismatch",),
        "the driver was updated, but the old one is still loaded",
        "restart the host or reload the driver (GPU121)",
    ),
    Sign(
        "nvidia-lost",
        Role.OWN,
        ("nable to determine the device handle",),
        "a GPU has fallen off the bus",
        "check the kernel log, then restart the host (GPU101, GPU102)\ndmesg | grep Xid",
    ),
    Sign(
        "nvidia-container",
        Role.OWN,
        ("Failed to initialize NVML: Unknown Error",),
        "the container lost access to its GPUs, usually after systemctl daemon-reload",
        "restart the container with the GPUs passed by --device",
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
