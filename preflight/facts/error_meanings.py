"""Error messages of ranks: errors of torch_npu, HCCL, NCCL and the runtime → their usual cause and remedy.

Texts and codes are from torch_npu's wheel (2.1, 2.13) and from the fault pages of the HCCL user guide. Their most
frequent causes are from users' reports. Pure. An unknown text gives None, never a guess.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Meaning:
    """The usual cause and remedy.

    `cause` is a clause, `remedy` a sentence, both without a full stop. `commands` are for the rank's host, with
    `{device}` in place of the device's number, and `{rendezvous}` of the address and port where ranks meet.
    """

    cause: str
    remedy: str
    commands: tuple[str, ...] = ()

    @property
    def explanations(self) -> tuple[str, ...]:
        """The command that explains the first check that the remedy refers to."""
        return tuple(f"preflight explain {check}" for check in re.findall(r"\b[A-Z]{3}\d{3}\b", self.remedy)[:1])

    @property
    def step(self) -> str:
        """The remedy with its commands, where host and device are not known."""
        commands = " and ".join(self.commands).replace("{device}", "N")
        return f"{self.remedy}: {commands}" if commands else self.remedy


def meaning(text: str) -> Meaning | None:
    """Return the meaning of the first known error in `text`.

    A known sentence counts before a code, and HCCL's code before a number.
    """
    for pattern, sentence_meaning in _SENTENCES:
        if re.search(pattern, text):
            return sentence_meaning
    for code in re.findall(r"\bE[IJ]\d{4}\b", text):
        if code in _CODES:
            return _CODES[code]
    numbers = [
        int(number) for number in re.findall(r"(?:error code(?: is|:)|retcode:?|ErrCode=)\s{0,9}\[?(\d{1,6})\b", text)
    ]
    for number in numbers:
        if number in _RUNTIME:
            return _RUNTIME[number]
    for number in numbers:
        if number in _RESULTS:
            return _RESULTS[number]
    return None


_SET_ENV = (
    "source /usr/local/Ascend/cann/set_env.sh in probe.setup (ENV110). Before CANN 8.5, the file is "
    "/usr/local/Ascend/ascend-toolkit/set_env.sh"
)
_MATRIX = "install compatible releases of torch, torch_npu and CANN (VER107, VER108)"
_ADDRESS = "compare the device's address with the inventory and the rank table (NPU101, NPU125)"
_RAIL = "check the link, the TLS switch and the address of both devices (NPU107, NPU108, PNG101)"
_PORTS = "reserve HCCL's ports and end the processes that hold them (PRT101, PRT103)"
_NPU_SMI, _KERNEL_LOG = "npu-smi info", "dmesg -T"
_HOLDER = "find the process that holds the device's memory. If it is a leftover, end it (NPU118)"
_LEFT_BEHIND = Meaning(
    "a process of an earlier job still holds the device",
    "end the process, wait 10 s, then check that the device is free (NIC108, NPU114)",
    (_NPU_SMI, "hccn_tool -i {device} -process -g"),
)
_TWICE = Meaning(
    "two processes use one device",
    "give every rank its own device, or set HCCL_NPU_SOCKET_PORT_RANGE=auto (NPU114, NPU127)",
)

_SENTENCES = (
    (
        r"could not be started on the host",
        Meaning(
            "the Python that is set under [probe] does not start on the host",
            "set python under [probe] of the inventory to a Python that runs on the host",
        ),
    ),
    (
        r"is a CPU build: install one",
        Meaning(
            "the jobs' Python has a torch without CUDA",
            "install torch from the index of its CUDA build (pip install torch --index-url …/whl/cu124), or correct "
            "probe.python",
        ),
    ),
    (
        r"NVIDIA driver on your system is too old|driver version is insufficient for CUDA",
        Meaning(
            "the driver is older than the CUDA that the jobs' torch is built with",
            "update the driver, or install a torch that is built with an older CUDA",
            ("nvidia-smi --query-gpu=driver_version --format=csv",),
        ),
    ),
    (
        r"[Nn]o GPU is visible|GPU \d+ is not visible|built without NCCL",
        Meaning(
            "the driver, the container or CUDA_VISIBLE_DEVICES hides GPUs of the inventory from jobs",
            "list the GPUs where jobs run, then unset CUDA_VISIBLE_DEVICES or use docker run --gpus all",
            ("nvidia-smi -L",),
        ),
    ),
    (
        r"Duplicate GPU",
        Meaning(
            "two ranks use one GPU: the inventory has a host twice, or two of its hosts are containers on one machine",
            "give each container its own GPUs, and list each container once in the inventory",
        ),
    ),
    (
        r"Got completion .*(?:error |status=)12\b",
        Meaning(
            "RDMA packets got no reply: the two NICs cannot reach each other, even if TCP works",
            "check the rails, the GID index and the switch ACLs, then run ib_write_bw between the two NICs",
        ),
    ),
    (
        r"Failed to initialize any NET plugin|Error: network \S+ not found",
        Meaning(
            "NCCL_NET demands a network that jobs do not have, such as IB without an RDMA device",
            "unset NCCL_NET, or make the RDMA devices available to jobs (ENV116)",
            ("env | grep NCCL_NET",),
        ),
    ),
    (
        r"no socket interface found",
        Meaning(
            "NCCL_SOCKET_IFNAME matches no interface of the host",
            "correct NCCL_SOCKET_IFNAME (HST117)",
            ("env | grep NCCL_SOCKET",),
        ),
    ),
    (
        r"Mismatched NCCL version",
        Meaning("ranks have different NCCL releases", "install the same torch release on all hosts (VER113)"),
    ),
    (
        r"Two accelerators cannot be used",
        Meaning(
            "torch was built for another accelerator (CUDA), and torch_npu does not work with this build",
            "install the CPU build of the same torch release in the jobs' environment",
        ),
    ),
    (
        r"lib(?:hccl|ascendcl|acl_op_compiler|runtime|ge_\w+|graph\w*)\.so\S*: cannot open shared object",
        Meaning("CANN's libraries are not found: CANN is not installed, or its environment is not set", _SET_ENV),
    ),
    (
        r"libatb\.so\S*: cannot open shared object",
        Meaning(
            "CANN's library ATB (package nnal) is not found",
            "source /usr/local/Ascend/nnal/atb/set_env.sh in probe.setup",
        ),
    ),
    (
        r"lib(?:ascend_hal|c_sec|drvdsmi_host|dcmi)\.so\S*: cannot open shared object",
        Meaning(
            "the driver's libraries are not found",
            "add /usr/local/Ascend/driver/lib64/common and …/lib64/driver to LD_LIBRARY_PATH (in a container, mount "
            "/usr/local/Ascend/driver)",
        ),
    ),
    (
        r"ASCEND_(?:OPP|HOME|RUNTIME|COMPILER)_PATH\b.*(?:is not set|does not exist)",
        Meaning("CANN's environment is only partly set, or points to a directory that does not exist", _SET_ENV),
    ),
    (
        r"undefined symbol|GLIBCXX_\S+' not found|version `GLIBC_\S+' not found",
        Meaning("torch, torch_npu and CANN (or the C++ library) are incompatible", _MATRIX),
    ),
    (
        r"No module named '(?:tbe|te|impl|attrs?|decorator|scipy|sympy|psutil|cloudpickle)\b",
        Meaning(
            "CANN's operator compiler needs a Python package that is not installed",
            "source CANN's set_env.sh in probe.setup, then install the packages (VER111)",
            ("pip install attrs decorator scipy sympy psutil",),
        ),
    ),
    (
        r"No module named 'torch'",
        Meaning(
            "torch is not installed in the Python that the probe uses",
            "if jobs have torch in another Python, set python and setup under [probe] in the inventory. Otherwise, "
            "install torch, with ==RELEASE if the other hosts have an older one",
            ("pip install torch",),
        ),
    ),
    (
        r"No module named 'torch_npu'",
        Meaning(
            "torch_npu is not installed in the Python that the probe uses",
            "if jobs have torch_npu in another Python, set python and setup under [probe] in the inventory. Otherwise, "
            "install the torch_npu that is built for the installed torch and CANN (VER107)",
        ),
    ),
    (
        r"Can(?:not|'t) re-initialize NPU in forked subprocess",
        Meaning(
            "something in the jobs' environment loads torch_npu when Python starts",
            "search sitecustomize and the .pth files of the jobs' Python for torch_npu",
        ),
    ),
    (
        r"because the device is used|ret is -8020",
        Meaning(
            "another container also uses the device, or parts of the driver are not mounted",
            "mount /usr/local/dcmi, /etc/ascend_install.info and the driver (HST111), and give the device to one "
            "container only",
        ),
    ),
    (
        r"dcmi module initialize failed.*-8005",
        Meaning(
            "the process is not allowed to use the devices",
            "add the user to the device's group (in a container, add --device)",
        ),
    ),
    (
        r"input data rang|set ASCEND_RT_VISIBLE_DEVICES:\S* error",
        Meaning(
            "ASCEND_RT_VISIBLE_DEVICES lists a device that does not exist",
            "unset ASCEND_RT_VISIBLE_DEVICES for the probe, or count from 0 inside a container (ENV107)",
        ),
    ),
    (
        r"Open TsdClient failed",
        _LEFT_BEHIND,
    ),
    (
        r"hrtRaAiQpCreate|hcclCommInitRootInfoConfig.*error code is 1\b",
        Meaning(
            "the driver is too old for this CANN release",
            "compare the driver and CANN with the vendor's compatibility matrix (VER109)",
        ),
    ),
    (
        r"ra hdc message process failed ret\(-67\)|rdma init fail",
        Meaning(
            "the device's network port was down when the process started",
            "recover the port, then check its link (NPU107)",
            ("hccn_tool -i {device} -cfg recovery",),
        ),
    ),
    (
        r"EADDRINUSE|[Aa]ddress already in use",
        Meaning(
            "another process holds the port on which rank 0 has to listen",
            "find the process that listens on the port. If it is a leftover, end it (PRT103)",
            ("ss -ltnp",),
        ),
    ),
    (
        r"shared_dir \S+: it is not the directory",
        Meaning(
            "shared_dir is not the same directory on all hosts",
            "mount the same directory on all hosts (findmnt --target shows the mount)",
        ),
    ),
    (
        r"shared_dir \S+: ",
        Meaning(
            "ranks cannot create a file in shared_dir for the rendezvous",
            "create the directory on all hosts, and make it writable for the probe's user",
        ),
    ),
    (
        r"retrieving hcclUniqueId from \[0\]",
        Meaning(
            "rank 0 did not start, or its host is unreachable", "check rank 0 and the route to its host, not this host"
        ),
    ),
    (
        r"socket type\[0\].*listen on ip",
        _TWICE,
    ),
    (
        r"is not found in the nic list",
        Meaning(
            "HCCL_IF_IP is not an address of this host",
            "remove HCCL_IF_IP from the profile, or set it to each host's own address",
        ),
    ),
    (
        r"ERR00008",
        Meaning("torch_npu cannot find a part of CANN", _SET_ENV),
    ),
)

_CODES = {
    "EI0001": Meaning("an HCCL variable has an invalid value", "correct the variable in the message (ENV104)"),
    "EI0002": Meaning(
        "a rank waited for another rank inside a collective until the timeout",
        "find the rank that did not join, then check its rail (PRB101)",
    ),
    "EI0003": Meaning(
        "the operation was called with an argument that this product does not support, most often a data type",
        "compare the data type with the types that the product supports",
    ),
    "EI0004": Meaning(
        "the rank table cannot be read, or is invalid", "unset RANK_TABLE_FILE, or correct the file (ENV108)"
    ),
    "EI0005": Meaning(
        "ranks called different operations, or with different sizes",
        "compare the versions of CANN and torch_npu on all hosts (VER102, VER104)",
    ),
    "EI0006": Meaning("a device could not reach port 16666 of its peer, or the peer had not started", _RAIL),
    "EI0007": Meaning("the device has no notifies, queue pairs or streams left", "end leftover processes (NIC108)"),
    "EI0008": Meaning("ranks have different HCCL releases", "install the same CANN release on all hosts (VER102)"),
    "EI0009": Meaning(
        "two devices could not set up RDMA",
        "check the optics, the link and the address of both devices (NIC102, NPU107)",
    ),
    "EI0010": Meaning(
        "devices on one host cannot reach each other over PCIe",
        "check the IOMMU and ACS settings in the firmware, or set HCCL_INTRA_ROCE_ENABLE=1 as a workaround (NPU124)",
    ),
    "EI0011": Meaning("the device's memory is in use", _HOLDER, (_NPU_SMI,)),
    "EI0012": Meaning(
        "a copy between devices on one host failed: the peer had exited, or memory is damaged",
        "read the peer's own error, then check the ECC counters and the driver (NPU113, VER109)",
    ),
    "EI0013": Meaning(
        "RDMA packets were lost or refused on the way",
        "check the links for flaps and errors, and the priorities (NIC101, NIC107, NIC109)",
    ),
    "EI0014": Meaning("addresses in the rank table are not those of the devices", _ADDRESS),
    "EI0015": Meaning(
        "not all ranks connected to rank 0's host NIC in time",
        "check the host NIC and the firewall (FWL101, FWL104), and find a rank that never started",
    ),
    "EI0016": Meaning("the TLS switch differs between devices", "set the same TLS switch on all devices (NPU108)"),
    "EI0017": Meaning("an item is missing in the rank table", "complete the rank table (NPU127)"),
    "EI0018": Meaning("a transfer on the UB bus failed", "check the device's health (NPU113)"),
    "EI0019": Meaning("another process holds a port that HCCL needs on the host NIC", _PORTS),
    "EI0020": _TWICE,
    "EJ0001": _LEFT_BEHIND,
    "EJ0002": Meaning(
        "the device's network port is down", "check the cable, the optical module and the switch port (NPU107)"
    ),
    "EJ0003": Meaning("another process holds a port that HCCL needs", _PORTS),
    "EJ0004": Meaning("the device's address is not set, or differs from the rank table", _ADDRESS),
}

_NUMBER = Meaning(
    "the host has no device with the requested number",
    "compare ASCEND_RT_VISIBLE_DEVICES with the devices on the host",
    ("npu-smi info -m",),
)
_WAITED = Meaning(
    "the device's task timed out, usually because another rank did not join",
    "find the rank that stopped or logged no error (PRB101)",
)
_OPERATOR = "check the operator's input (shape, type, range). Then check the device's health (NPU113)"
_DAMAGED = (
    "read the ECC counters (-i takes npu-smi's own NPU number), then restart the device. If the error comes back, "
    "replace the device (NPU113)"
)
_ECC = ("npu-smi info -t ecc -i {device}",)
_HEALTH = ("check the device's health and the kernel log (NPU113)", (_NPU_SMI, _KERNEL_LOG))
_COMPILER = Meaning(
    "CANN's compiler failed",
    "source set_env.sh, then install the Python packages that the compiler needs",
    ("pip install attrs decorator scipy sympy psutil cloudpickle",),
)

_RUNTIME = {  # numbers of ACL and the runtime, as in CANN's rt_error_codes.h
    107001: _NUMBER,
    107002: Meaning("the thread has no device context", "call torch.npu.set_device before the first operation"),
    107003: Meaning("a stream was used in another device's context", "call torch.npu.set_device in every thread"),
    107019: _WAITED,
    107020: _WAITED,
    107022: Meaning("the device's tasks were stopped after an earlier error", "find the first error in the log"),
    207001: Meaning("the device has no memory left", _HOLDER, (_NPU_SMI,)),
    207004: _NUMBER,
    207006: Meaning("the process is not allowed to use the device", "add the user to the HwHiAiUser group"),
    500001: _COMPILER,
    500002: _COMPILER,
    507000: Meaning("CANN's runtime reported an internal error", "read the first ERROR line of that process's plog"),
    507001: Meaning(
        "the device's task scheduler reported an internal error",
        "read the first ERROR line of that process's plog, then the kernel log (NPU113)",
        (_KERNEL_LOG,),
    ),
    507010: Meaning("the device's task scheduler stopped responding", "restart the device or the host (NPU113)"),
    507011: Meaning("an operator of the model failed on the device", _OPERATOR),
    507012: Meaning("the device's task scheduler did not report in time", *_HEALTH),
    507013: Meaning("a copy by the device's DMA engine failed", *_HEALTH),
    507014: Meaning("an operator on the device's AI Core did not end in time", _OPERATOR),
    507015: Meaning("an operator failed on the device's AI Core", _OPERATOR),
    507016: Meaning("an operator failed on the device's AI Core (trap)", _OPERATOR),
    507017: Meaning("an operator on the device's AI CPU did not end in time", _OPERATOR),
    507018: Meaning("an operator failed on the device's AI CPU", _OPERATOR),
    507033: Meaning(
        "the device could not be opened: it is in use, lost or unhealthy",
        "check the device and the permissions of its files (NPU109, NPU113)",
        (_NPU_SMI, "ls -l /dev/davinci*"),
    ),
    507034: Meaning("an operator on the device's vector core did not end in time", _OPERATOR),
    507035: Meaning("an operator failed on the device's vector core", _OPERATOR),
    507036: Meaning("an operator failed on the device's vector core (trap)", _OPERATOR),
    507046: _WAITED,
    507047: _WAITED,
    507048: _WAITED,
    507049: _TWICE,
    507053: Meaning("the device's memory is damaged (uncorrectable error)", _DAMAGED, _ECC),
    507054: Meaning("the device's memory is damaged (multi-bit HBM error)", _DAMAGED, _ECC),
    507055: Meaning("the memory of the copy's source device may be damaged", "read the errors of that device (NPU113)"),
    507056: Meaning(
        "the link between two devices broke", "check the link and the optics of both devices (NPU107, NIC102)"
    ),
    507057: Meaning(
        "the peer's memory may be damaged, or the access was out of range", "read the peer's own errors (NPU113)"
    ),
    507899: Meaning(
        "the driver reported an internal error. In a container, the usual cause is a missing mount",
        "mount /usr/local/dcmi, /etc/ascend_install.info and the driver (HST111)",
    ),
    507900: Meaning("the device's AI CPU reported an internal error", *_HEALTH),
    507901: Meaning("the connection to the device was lost", *_HEALTH),
}

_RESULTS = {  # HcclResult: only values that say more than that something failed
    2: Meaning("HCCL was given a null pointer (2): the releases are incompatible", _MATRIX),
    3: Meaning("HCCL could not allocate memory (3)", _HOLDER),
    5: Meaning(
        "HCCL does not support this on this product (5), most often a data type",
        "compare the data type with the types that the product supports",
    ),
    7: Meaning("HCCL found a resource in use (7)", "end the processes that hold the device and HCCL's ports (PRT103)"),
    9: Meaning("HCCL timed out (9)", "find the rank that did not join"),
    11: Meaning("HCCL could not open a TCP connection (11)", "check the host NIC and the firewall (FWL101, FWL104)"),
    12: Meaning("HCCL could not open an RDMA connection (12)", _RAIL),
    13: Meaning("an HCCL TCP connection broke (13)", "check the host network"),
    14: Meaning("an HCCL RDMA transfer failed (14)", _RAIL),
    16: Meaning(
        "the driver rejected a call from HCCL (16)", "check the device's health and the driver (NPU113, VER101)"
    ),
    19: Meaning("HCCL's network failed (19)", _RAIL),
    21: Meaning("another rank failed (21)", "read that rank's own log"),
    24: Meaning("the device has no memory left (24)", _HOLDER),
}
