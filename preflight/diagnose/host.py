"""What kernels and drivers say: Xid by what to do about them, memory, links, disks. Data.

Classes of Xid follow the immediate actions of NVIDIA's Xid catalogue and of health checks in use.
"""

import re

from preflight.diagnose.types import Role, Sign

XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{1,20})\): (\d{1,4})\b")

_MECHANICS = Sign("Xid", Role.OWN, (), "the GPU gets too little power",
                  "see to its power cable, or exchange it (GPU107)")  # fmt: skip
_REBOOT = Sign("Xid", Role.OWN, (), "the GPU is lost, or its driver is", "drain the host and restart it; if it comes "
               "again, exchange the GPU (GPU102, GPU107)")  # fmt: skip
_RESET = Sign("Xid", Role.OWN, (), "the GPU, its memory, its firmware or its NVLink failed", "drain the host, then: "
              "nvidia-smi --gpu-reset -i N; if it comes again, exchange the GPU (GPU104, GPU107)")  # fmt: skip
_NVLINK = Sign("Xid", Role.LINK, (), "an NVLink reports errors", "nvidia-smi nvlink -e; look at the fabric manager's "
               "log and at the switch (GPU115)")  # fmt: skip
_PROGRAM = Sign("Xid", Role.OWN, (), "the program used the GPU wrongly, or a memory error was contained",
                "start the job again; if it follows the GPU, not the program: nvidia-smi -q -d ECC")  # fmt: skip
_INFO = Sign("Xid", Role.HINT, (), "it tells of another error, or that a row was remapped", "look at the other Xid; "
             "nvidia-smi -q -d ROW_REMAPPER: a pending one wants a reset (GPU104)")  # fmt: skip

_CLASSES = (
    (_MECHANICS, {54}),
    (_REBOOT, {79, 151, 167, 168}),
    (_RESET, {46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 169, 171, 172}),
    (_NVLINK, {*range(144, 151), 166, 170}),
    (_INFO, {37, 38, 43, 44, 45, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 154, 157, *range(160, 166)}),
)


def xid(number: int) -> Sign:
    """Of any number: what is in no other class ends programs, and is theirs first."""
    known = next((sign for sign, numbers in _CLASSES if number in numbers), _PROGRAM)
    return Sign(f"Xid {number}", known.role, (), known.cause, known.step)


_DISK = r"error, dev (?!fd|sr|loop)\w"  # no floppy or CD, which virtual machines have without a medium
# Beginnings of links that come and go with containers and virtual machines.
_OF_CONTAINERS = "veth|docker|br-|cali|cni|flannel|lxc|nodelocal|tap|tunl|virbr|vnet"

SIGNS = (
    Sign("peermem", Role.NOISE, ("nv_get_p2p_free_callback",)),
    Sign("SXid", Role.LINK, ("nvidia-nvswitch", "SXid"), "an NVSwitch reports an error",
         "look at the fabric manager's log; fatal ones want all GPUs of the host reset (GPU116)"),
    Sign("host-memory", Role.OWN, ("Out of memory: Kill",), "the host ran out of memory: the kernel killed a process",
         "look at what used it: data loaders, page-locked memory, another job"),
    Sign("host-memory", Role.OWN, ("oom-kill:constraint",), "the host, or the job's memory limit, was used up",
         "look at what used it: data loaders, page-locked memory; the job's memory limit"),
    Sign("host-memory", Role.OWN, ("oom_reaper: reaped",), "the host, or the job's memory limit, was used up",
         "look at what used it: data loaders, page-locked memory; the job's memory limit"),
    Sign("open-files", Role.OWN, ("VFS: file-max limit",), "the host's limit of open files is reached",
         "raise fs.file-max, or find who opens them (HST134)"),
    Sign("nccl-crash", Role.OWN, ("segfault at", "libnccl"), "NCCL crashed",
         "is the stack limit unlimited (ulimit -s, HST133)? Else another release of NCCL (VER103)"),
    Sign("crash", Role.OWN, ("segfault at", "libhccl"), "HCCL crashed", "compare CANN and driver (VER109)"),
    Sign("link-flap", Role.OWN, ("ost carrier",), "a network link of the host went down",
         "look at cable, module and switch port (NIC101 for devices, RDM108; ethtool, ibstat for the host)",
         pattern=rf"(?:^|\s)(?!{_OF_CONTAINERS})[\w.@-]{{1,40}}: [Ll]ost carrier"),
    Sign("disk", Role.OWN, ("I/O error, dev",), "a disk fails", "smartctl -a; move the job's data", pattern=_DISK),
    Sign("disk", Role.OWN, ("critical medium error, dev",), "a disk fails", "smartctl -a; move the job's data",
         pattern=_DISK),
    Sign("disk", Role.OWN, ("log I/O error",), "a file system lost its disk", "dmesg on that host; mount it anew"),
    Sign("nvidia-versions", Role.OWN, ("Driver/library version mismatch",),
         "the driver was updated under the running one", "restart the host, or load the driver anew (GPU121)"),
    Sign("nvidia-lost", Role.OWN, ("nable to determine the device handle",),
         "a GPU has fallen off the bus", "dmesg | grep Xid; restart the host (GPU101, GPU102)"),
    Sign("nvidia-container", Role.OWN, ("Failed to initialize NVML: Unknown Error",),
         "the container lost its right to the GPUs, most often after systemctl daemon-reload",
         "start the container anew; pass the devices with --device"),
)  # fmt: skip
