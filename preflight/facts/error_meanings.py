"""Error messages of ranks: errors of torch_npu, HCCL, NCCL and the runtime → their usual cause and remedy.

Texts and codes are from torch_npu's wheel (2.1, 2.13) and from the fault pages of the HCCL user guide. Their most
frequent causes are from users' reports. Pure. An unknown text gives None, never a guess.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Meaning:
    """The usual cause and remedy. `cause` is a clause, `remedy` a sentence or a command; both without a full stop."""

    cause: str
    remedy: str


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
    "put CANN's set_env.sh into probe.setup (ENV110): source /usr/local/Ascend/cann/set_env.sh, before CANN 8.5 "
    "/usr/local/Ascend/ascend-toolkit/set_env.sh"
)
_MATRIX = "install the releases of torch, torch_npu and CANN that belong together (VER107, VER108)"
_ADDRESS = "compare the device's address with the inventory and the rank table (NPU101, NPU125)"
_RAIL = "check link, TLS switch and address of both devices (NPU107, NPU108, PNG101)"
_PORTS = "reserve HCCL's ports and end what holds them (PRT101, PRT103)"
_LEFT_BEHIND = Meaning(
    "a process of an earlier job still holds the device",
    "end it, wait 10 s, then check: npu-smi info; hccn_tool -i N -process -g (not exist) (NIC108, NPU114)",
)
_TWICE = Meaning(
    "two processes use one device",
    "give every rank a device of its own, or set HCCL_NPU_SOCKET_PORT_RANGE=auto (NPU114, NPU127)",
)

_SENTENCES = (
    (
        r"could not be started on the host",
        Meaning(
            "the Python of [probe] does not start there",
            "set python under [probe] of the inventory: the host has none there that runs",
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
        r"[Nn]o GPU is visible|GPU \d+ is not visible|built without NCCL",
        Meaning(
            "CUDA shows the jobs fewer GPUs than the inventory has: the driver, the container, or CUDA_VISIBLE_DEVICES",
            "nvidia-smi -L where jobs run; docker run --gpus all; unset CUDA_VISIBLE_DEVICES",
        ),
    ),
    (
        r"Duplicate GPU",
        Meaning(
            "two ranks have one GPU: two hosts of the inventory are containers of one machine, or it has one twice",
            "give each container GPUs of its own, and name each once in the inventory",
        ),
    ),
    (
        r"Got completion .*(?:error |status=)12\b",
        Meaning(
            "RDMA packets got no answer: the two NICs do not reach each other, though TCP may",
            "look at rails, GID index and switch ACLs; ib_write_bw between these two NICs",
        ),
    ),
    (
        r"no socket interface found",
        Meaning("NCCL_SOCKET_IFNAME fits no interface of the host", "see HST117; env | grep NCCL_SOCKET"),
    ),
    (
        r"Mismatched NCCL version",
        Meaning("ranks have different releases of NCCL", "install one torch on all hosts (VER113)"),
    ),
    (
        r"Two accelerators cannot be used",
        Meaning(
            "torch is a build for another accelerator (CUDA), and torch_npu refuses to work beside it",
            "install the CPU build of torch of the same release in the jobs' environment",
        ),
    ),
    (
        r"lib(?:hccl|ascendcl|acl_op_compiler|runtime|ge_\w+|graph\w*)\.so\S*: cannot open shared object",
        Meaning("CANN's libraries are not found: not installed, or its environment is not set", _SET_ENV),
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
            "add /usr/local/Ascend/driver/lib64/common and …/lib64/driver to LD_LIBRARY_PATH; "
            "in a container, mount /usr/local/Ascend/driver",
        ),
    ),
    (
        r"ASCEND_(?:OPP|HOME|RUNTIME|COMPILER)_PATH\b.*(?:is not set|does not exist)",
        Meaning("CANN's environment is set in part, or leads to a folder that is not there", _SET_ENV),
    ),
    (
        r"undefined symbol|GLIBCXX_\S+' not found|version `GLIBC_\S+' not found",
        Meaning("torch, torch_npu and CANN (or the C++ library) are not made for each other", _MATRIX),
    ),
    (
        r"No module named '(?:tbe|te|impl|attrs?|decorator|scipy|sympy|psutil|cloudpickle)\b",
        Meaning(
            "a Python package is missing that CANN's compiler needs",
            "source CANN's set_env.sh in probe.setup; pip install attrs decorator scipy sympy psutil (VER111)",
        ),
    ),
    (
        r"No module named 'torch'",
        Meaning(
            "torch is not installed in the Python that the probe uses",
            "set probe.python and probe.setup; where jobs do without torch: preflight probe --with hccl-test",
        ),
    ),
    (
        r"No module named 'torch_npu'",
        Meaning("torch_npu is not installed in the Python that the probe uses", "set probe.python and probe.setup"),
    ),
    (
        r"Can(?:not|'t) re-initialize NPU in forked subprocess",
        Meaning(
            "something in the jobs' environment loads torch_npu when Python starts",
            "look for torch_npu in sitecustomize and .pth files of that Python",
        ),
    ),
    (
        r"because the device is used|ret is -8020",
        Meaning(
            "the device is not this container's alone, or parts of the driver are not mounted",
            "mount /usr/local/dcmi, /etc/ascend_install.info and the driver (HST111); give the device to one container",
        ),
    ),
    (
        r"dcmi module initialize failed.*-8005",
        Meaning("the process may not use the devices", "add the user to the device's group; in a container, --device"),
    ),
    (
        r"input data rang|set ASCEND_RT_VISIBLE_DEVICES:\S* error",
        Meaning(
            "ASCEND_RT_VISIBLE_DEVICES names a device that is not there",
            "count from 0 inside a container; leave it unset for the probe (ENV107)",
        ),
    ),
    (
        r"Open TsdClient failed",
        _LEFT_BEHIND,
    ),
    (
        r"hrtRaAiQpCreate|hcclCommInitRootInfoConfig.*error code is 1\b",
        Meaning(
            "the driver is older than this CANN needs", "compare driver and CANN with the vendor's matrix (VER109)"
        ),
    ),
    (
        r"ra hdc message process failed ret\(-67\)|rdma init fail",
        Meaning("the device's network port was down when the process began", "hccn_tool -i N -cfg recovery; NPU107"),
    ),
    (
        r"EADDRINUSE|[Aa]ddress already in use",
        Meaning("the port is taken at which rank 0 has to listen", "end what listens there (PRT103): ss -ltnp"),
    ),
    (
        r"shared_dir \S+: it is not the directory",
        Meaning("the directory is not one and the same on all hosts", "findmnt --target DIR on both hosts; mount it"),
    ),
    (
        r"shared_dir \S+: ",
        Meaning("ranks cannot meet in a file there", "make the directory, writable for the probe's user on all hosts"),
    ),
    (
        r"retrieving hcclUniqueId from \[0\]",
        Meaning("rank 0 did not come, or its host is not reached", "look at rank 0 and at the way to it, not here"),
    ),
    (
        r"socket type\[0\].*listen on ip",
        _TWICE,
    ),
    (
        r"is not found in the nic list",
        Meaning("HCCL_IF_IP is no address of this host", "take it out of the profile, or set it host by host"),
    ),
    (
        r"ERR00008",
        Meaning("torch_npu does not find something of CANN", _SET_ENV),
    ),
)

_CODES = {
    "EI0001": Meaning(
        "a variable of HCCL has a value that it does not take", "correct the variable that is named (ENV104)"
    ),
    "EI0002": Meaning(
        "a rank waited in vain for another one inside a collective",
        "find the rank that did not join, then check its rail (PRB101)",
    ),
    "EI0003": Meaning(
        "the operation was called with what this product does not take, most often a data type",
        "compare the type with those of the product",
    ),
    "EI0004": Meaning(
        "the rank table cannot be read, or is invalid", "unset RANK_TABLE_FILE, or correct the file (ENV108)"
    ),
    "EI0005": Meaning(
        "ranks called different operations, or with different sizes",
        "compare the versions of CANN and torch_npu on the hosts (VER102, VER104)",
    ),
    "EI0006": Meaning("a device did not reach its peer's port 16666, or the peer had not started", _RAIL),
    "EI0007": Meaning("the device has no notifies, queue pairs or streams left", "end leftover processes (NIC108)"),
    "EI0008": Meaning("ranks have different releases of HCCL", "install one CANN everywhere (VER102)"),
    "EI0009": Meaning("two devices could not set up RDMA", "look at optics, link and address of both (NIC102, NPU107)"),
    "EI0010": Meaning(
        "devices of one host cannot reach each other over PCIe",
        "look at IOMMU and ACS in the firmware; HCCL_INTRA_ROCE_ENABLE=1 goes around it (NPU124)",
    ),
    "EI0011": Meaning("the device's memory is in use", "end what holds it (NPU118); npu-smi info"),
    "EI0012": Meaning(
        "a copy between devices of a host failed: the peer had gone, or memory is damaged",
        "look at the peer's own error, then at ECC counters and driver (NPU113, VER109)",
    ),
    "EI0013": Meaning(
        "RDMA packets were lost or refused on the way", "look at flaps, errors and priorities (NIC101, NIC107, NIC109)"
    ),
    "EI0014": Meaning("addresses in the rank table are not those of the devices", _ADDRESS),
    "EI0015": Meaning(
        "not all ranks met at rank 0's host NIC in time",
        "check the host NIC and the firewall (FWL101, FWL104), and find a rank that never started",
    ),
    "EI0016": Meaning("the TLS switch differs between devices", "set it alike everywhere (NPU108)"),
    "EI0017": Meaning("the rank table lacks an item", "complete the rank table (NPU127)"),
    "EI0018": Meaning("a transfer on the UB bus failed", "look at the device's health (NPU113)"),
    "EI0019": Meaning("a port that HCCL needs on the host NIC is taken", _PORTS),
    "EI0020": _TWICE,
    "EJ0001": _LEFT_BEHIND,
    "EJ0002": Meaning("the device's network port is down", "look at cable, module and switch port (NPU107)"),
    "EJ0003": Meaning("a port that HCCL needs is taken", _PORTS),
    "EJ0004": Meaning("the device's address is not what the rank table says, or not set", _ADDRESS),
}

_NUMBER = "compare with npu-smi info -m; ASCEND_RT_VISIBLE_DEVICES"
_WAITED = "the device's task did not end in time: as a rule another rank did not join"
_SILENT_RANK = "find the rank that stopped or logged no error (PRB101)"
_OPERATOR = "check that operator's input (shape, type, range), then the device's health (NPU113)"
_DAMAGED = "npu-smi info -t ecc -i N on that host; restart the device, then have it exchanged (NPU113)"

_RUNTIME = {  # numbers of ACL and the runtime, as in CANN's rt_error_codes.h
    107001: Meaning("there is no device with that number", _NUMBER),
    107002: Meaning("the thread has no device context", "call torch.npu.set_device before the first operation"),
    107003: Meaning("a stream was used in another device's context", "call torch.npu.set_device in every thread"),
    107019: Meaning(_WAITED, _SILENT_RANK),
    107020: Meaning(_WAITED, _SILENT_RANK),
    107022: Meaning("the device's tasks were stopped after an earlier error", "find the first error"),
    207001: Meaning("the device has no memory left", "end the process that holds it (NPU118): npu-smi info"),
    207004: Meaning("there is no device with that number", _NUMBER),
    207006: Meaning("the process may not use the device", "add the user to the group HwHiAiUser"),
    500001: Meaning(
        "CANN's compiler failed", "source set_env.sh; pip install attrs decorator scipy sympy psutil cloudpickle"
    ),
    500002: Meaning(
        "CANN's compiler failed", "source set_env.sh; pip install attrs decorator scipy sympy psutil cloudpickle"
    ),
    507000: Meaning("CANN's runtime failed inside", "read the first ERROR line of that process's plog"),
    507001: Meaning(
        "the device's task scheduler reported an internal error",
        "read the first ERROR line of that process's plog, and dmesg on that host (NPU113)",
    ),
    507010: Meaning("the device's task scheduler stopped answering", "restart the device or the host (NPU113)"),
    507011: Meaning("an operator of the model failed on the device", _OPERATOR),
    507012: Meaning("the device's task scheduler did not report in time", "npu-smi info; dmesg on that host (NPU113)"),
    507013: Meaning("a copy by the device's DMA engine failed", "npu-smi info; dmesg on that host (NPU113)"),
    507014: Meaning("an operator on the device's AI Core did not end in time", _OPERATOR),
    507015: Meaning("an operator failed on the device's AI Core", _OPERATOR),
    507016: Meaning("an operator failed on the device's AI Core (trap)", _OPERATOR),
    507017: Meaning("an operator on the device's AI CPU did not end in time", _OPERATOR),
    507018: Meaning("an operator failed on the device's AI CPU", _OPERATOR),
    507033: Meaning(
        "the device could not be opened: in use, lost or unhealthy",
        "npu-smi info; NPU109, NPU113; permissions of /dev/davinci*",
    ),
    507034: Meaning("an operator on the device's vector core did not end in time", _OPERATOR),
    507035: Meaning("an operator failed on the device's vector core", _OPERATOR),
    507036: Meaning("an operator failed on the device's vector core (trap)", _OPERATOR),
    507046: Meaning(_WAITED, _SILENT_RANK),
    507047: Meaning(_WAITED, _SILENT_RANK),
    507048: Meaning(_WAITED, _SILENT_RANK),
    507049: _TWICE,
    507053: Meaning("the device's memory is damaged (uncorrectable error)", _DAMAGED),
    507054: Meaning("the device's memory is damaged (HBM, more than one bit)", _DAMAGED),
    507055: Meaning("memory of the device that it copied from may be damaged", "read the peer's own errors (NPU113)"),
    507056: Meaning("the link between two devices broke", "check link and optics of both (NPU107, NIC102)"),
    507057: Meaning(
        "memory of the peer may be damaged, or the access was out of range", "read the peer's own errors (NPU113)"
    ),
    507899: Meaning(
        "the driver failed inside, in a container most often for want of a mount",
        "mount /usr/local/dcmi, /etc/ascend_install.info and the driver (HST111)",
    ),
    507900: Meaning("the device's AI CPU failed inside", "npu-smi info; dmesg on that host (NPU113)"),
    507901: Meaning("the connection to the device was lost", "npu-smi info; dmesg on that host (NPU113)"),
}

_RESULTS = {  # HcclResult: only values that say more than that something failed
    2: Meaning("HCCL was handed a null pointer (2): releases do not fit each other", _MATRIX),
    3: Meaning("HCCL got no memory (3)", "end what holds the device's memory (NPU118)"),
    5: Meaning("HCCL does not do that on this product (5), most often a data type", "compare with the product's types"),
    7: Meaning("HCCL found something it needs in use (7)", "end what holds the device and HCCL's ports (PRT103)"),
    9: Meaning("HCCL timed out (9)", "find the rank that did not join"),
    11: Meaning("HCCL got no TCP connection (11)", "check the host NIC and the firewall (FWL101, FWL104)"),
    12: Meaning("HCCL got no RDMA connection (12)", _RAIL),
    13: Meaning("a TCP connection of HCCL broke (13)", "look at the host network"),
    14: Meaning("an RDMA transfer of HCCL failed (14)", _RAIL),
    16: Meaning("the driver refused HCCL (16)", "look at the device's health and the driver (NPU113, VER101)"),
    19: Meaning("HCCL's network failed (19)", _RAIL),
    21: Meaning("another rank failed (21)", "read that rank's own log"),
    24: Meaning("the device's memory is used up (24)", "end what holds it (NPU118)"),
}
