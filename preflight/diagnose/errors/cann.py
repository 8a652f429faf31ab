"""Errors of CANN besides HCCL's: codes of six characters (EE1001), numbers of ACL and the runtime (507015), and the
lines that are more precise than either.

A code's second character is the module, its last four are the error. From 9000 on it is an inner error, which shows
only which module failed (CANN, troubleshooting, "Error Code Reference"). Numbers: CANN's rt_error_codes.h.
"""

import re
from textwrap import shorten

from preflight.diagnose.types import Role, Sign, Weight
from preflight.facts.error_meanings import Meaning, meaning

_PROGRAM = "correct the program or its settings. No device, host or link is at fault"
_OPERATOR = "check the operator's input (shape, type, range). Then check the device's health (NPU113)\nnpu-smi info"
_COMPILER = "correct the network or its input. If the operator should support it, report it to the framework"
_PLOG = "read the first ERROR line in the plog of the process (~/ascend/log/debug/plog)"
_RESTART = "check the device's health and the kernel log. Then restart the device or the host"
_HEALTH = "\nnpu-smi info\ndmesg"
_MODULES = {  # the code's second character: cause, next step
    "1": ("the graph engine (GE) rejected the graph or its options", _COMPILER),
    "2": ("the fusion engine (FE) could not compile the graph", _COMPILER),
    "3": ("an operator on the AI CPU failed", _OPERATOR),
    "4": ("CANN's operator compiler (TE fusion) failed", _COMPILER),
    "5": ("an operator could not be compiled", _COMPILER),
    "6": ("an operator could not be compiled", _COMPILER),
    "7": ("an operator's plug-in rejected the model", _COMPILER),
    "8": ("an operator rejected its parameters at compile time", _COMPILER),
    "9": ("an operator rejected its parameters at compile time", _COMPILER),
    "B": ("an operator could not be compiled: TBE does not support this size or shape", _COMPILER),
    "C": ("automatic tuning failed", _COMPILER),
    "D": ("automatic tuning failed", _COMPILER),
    "E": ("CANN's runtime failed", _PLOG),
    "F": ("the graph could not be split across the devices", _COMPILER),
    "G": ("CANN's tuning engine (AOE) failed", _COMPILER),
    "H": ("the program called ACL with an invalid argument", _PROGRAM),
    "I": ("HCCL had an internal error", _PLOG),
    "J": ("HCCP, HCCL's process on the device, had an internal error", _PLOG),
    "K": ("the profiler rejected its settings: {message}", _PROGRAM),
    "L": ("the NPU driver failed", f"{_RESTART} (NPU113){_HEALTH}"),
    "M": ("a queue of the device failed", _PLOG),
    "N": ("image or video processing (DVPP) failed", _PLOG),
    "O": ("model compression (AMCT) failed", _PROGRAM),
    "P": ("a dump failed", _PROGRAM),
    "Z": ("an operator failed on the device", _OPERATOR),
}
_VISIBLE = "compare DEVICE_ID and ASCEND_RT_VISIBLE_DEVICES with the host's devices (ENV107)\nnpu-smi info -m"
_HELD = "find the process that holds the device. If it is a leftover, end it (NPU114, NPU118)\nnpu-smi info"
_SYNC = (
    "find the rank that stopped or logged no error (PRB101). Raise HCCL_EXEC_TIMEOUT only if all ranks were still "
    "computing"
)
_TASKS = "the device's tasks timed out, usually because another rank did not join"
_CODES = {
    "EE1001": (Role.OWN, "a call to CANN's runtime had an invalid argument", _PROGRAM),
    "EE1002": (Role.WAIT, _TASKS, _SYNC),
    "EL0001": (
        Role.OWN,
        "the driver cannot find the device, or the device is unhealthy",
        "check the device's health. Then restart the device or the host (NPU109, NPU113)\nnpu-smi info",
    ),
    "EL0002": (Role.OWN, "the program asked for a device that the driver does not have", _VISIBLE),
    "EL0003": (
        Role.OWN,
        "the device could not be opened because it is in use, lost or unhealthy",
        "check the device's health and the permissions of its device file (NPU109, NPU113)\n"
        "npu-smi info\nls -l /dev/davinci*",
    ),
    "EL0004": (Role.OWN, "the device is out of memory", _HELD),
    "EL0005": (Role.OWN, "another process is using the device", _HELD),
    "EL0006": (Role.OWN, "the device is out of resources", _HELD),
    "EL0007": (
        Role.OWN,
        "the process has no permission to use the device",
        "add the user to the group HwHiAiUser. In a container, pass the device through",
    ),
}
_DEVICE_RANGE = r"\bset device ?= ?(?P<device>\d{1,6}), valid device range is (?P<range>\[[\d, -]{1,20}[\])])"
# A code counts where CANN puts one: at the beginning of a line or of a message, in the brackets of TVM, or as errCode.
_AT_BEGINNING = r"(?:^(?:\[\w{1,20}\]:? ?|\d{1,6}: |\([^)]{1,80}\) ?)?|[Mm]essage: ?|ReportErrorMessage: ?)"
_CODE = re.compile(
    _AT_BEGINNING + r"(?P<code>E(?:[A-Z]\d{4}|[1-9]\d{4}))(?:: (?P<message>.{0,400})|  \S|:$)"
    r"|\[(?P<tvm>E[A-Z]\d{4})\] |['\"]errCode['\"]: ?['\"](?P<quoted>E[1-9A-Z]\d{4})['\"]"
)
_MESSAGE = 160  # characters of a message in a cause
_NO_NUMBER = re.compile(r"\bwarnings?\.warn\b|\bWarning\b")
_NUMBER = re.compile(
    r"(?:error code(?: is|:)|ErrCode=|retcode ?[:=]|\bret(?:Code)?(?:\[|: ?|=)|runtime result ?=|ret_code ?[:=])"
    r"\s{0,3}\[?(?P<number>[1-5]\d{5})\b"
)

_AI_CORE = "an operator failed on the device's AI Core"
_SDMA = "a copy by the SDMA engine failed, on this device or on its peer"
_WAITED = "the device timed out in a collective, waiting for another rank"
_TABLE = "check the memory and health of the device, then of its peer (NPU113)\nnpu-smi info -t ecc -i {device}"

HCCL_FAILED = "hccl-failed"
# Lines that name a cause, of the runtime, the driver, the device's AI CPU and MindSpore.
SIGNS = (
    Sign(
        "EE1001",
        Role.OWN,
        ("invalid device",),
        "the program asked for device {device}, but the valid range is {range}",
        _VISIBLE,
        pattern=_DEVICE_RANGE,
    ),
    Sign(
        "npu-memory",
        Role.OWN,
        ("may be other processes occupying this card",),
        "device {device} has no room for {size} bytes, because another process uses its memory",
        _HELD,
        pattern=r"size\[(?P<size>\d{1,15})\].{0,60}Device (?P<device>\d{1,4}) may be other",
    ),
    Sign(
        "npu-memory",
        Role.OWN,
        ("may be other processes occupying this card",),
        "the device's memory is full, because another process uses it",
        _HELD,
    ),
    Sign(
        "npu-memory",
        Role.OWN,
        ("halMemAlloc failed",),
        "the device's memory is full: this process or another one uses it",
        _HELD,
        weight=Weight.SYMPTOM,
    ),
    Sign(
        "npu-memory",
        Role.OWN,
        ("NPU out of memory",),
        "the device's memory is full: this process or another one on the device uses it",
        _HELD,
    ),
    Sign(
        "npu-memory",
        Role.OWN,
        ("driver error:out of memory",),
        "the device is out of memory",
        _HELD,
        weight=Weight.SYMPTOM,
    ),
    Sign("EI0002-task", Role.WAIT, ("fftsplus task timeout",), _WAITED, _SYNC),
    Sign("EI0002-task", Role.WAIT, ("type:NOTIFY WAIT",), _WAITED, _SYNC),
    Sign("EI0002-task", Role.WAIT, ("notify wait", "timeout"), _WAITED, _SYNC),
    Sign("EI0002-task", Role.WAIT, ("event wait timeout",), _WAITED, _SYNC),
    Sign("EI0002-task", Role.WAIT, ("rocess group work", "dispatch timeout"), _WAITED, _SYNC),
    Sign(
        "EE1002",
        Role.WAIT,
        ("stream sync timeout",),
        _TASKS,
        _SYNC,
    ),
    Sign("sdma", Role.OWN, ("type:SDMA", "[TaskException]"), _SDMA, _TABLE),
    Sign(
        "sdma",
        Role.OWN,
        ("sdma error",),
        _SDMA,
        _TABLE,
        pattern=r"there is (?:a|an) sdma error|sdma error (?:occurred|exception)",
    ),
    Sign(
        "npu-open",
        Role.OWN,
        ("TsdOpen failed",),
        "the device could not be opened: an earlier process holds it, or it is unhealthy",
        "end leftover processes on the device, then restart it (NPU114, NPU113)\nnpu-smi info",
    ),
    Sign(
        "ai-core",
        Role.OWN,
        ("core kernel execute failed",),
        f"{_AI_CORE} ({{kernel}})",
        _OPERATOR,
        pattern=r"fault kernel_name=(?P<kernel>[^,\s]{1,120})",
    ),
    Sign("ai-core", Role.OWN, ("core kernel execute failed",), _AI_CORE, _OPERATOR),
    Sign("ai-core", Role.OWN, ("core error exception",), _AI_CORE, _OPERATOR),
    Sign("ai-core", Role.OWN, ("vec error exception",), "an operator failed on the device's vector core", _OPERATOR),
    Sign(
        "ai-core", Role.OWN, ("fftsplus aivector error",), "an operator failed on the device's vector core", _OPERATOR
    ),
    Sign("ai-core", Role.OWN, ("fftsplus aicore error",), _AI_CORE, _OPERATOR),
    Sign(
        "ai-cpu",
        Role.OWN,
        ("cpu kernel execute failed",),
        "an operator failed on the device's AI CPU ({kernel})",
        _OPERATOR,
        pattern=r"(?:fault )?(?:op_name|kernel_name|func_name)=(?P<kernel>[^,\s]{1,120})",
    ),
    Sign("ai-cpu", Role.OWN, ("cpu kernel execute failed",), "an operator failed on the device's AI CPU", _OPERATOR),
    Sign(
        "npu-memory-error",
        Role.OWN,
        ("HBM MULTI BIT ECC",),
        "the device's memory is damaged (multi-bit HBM ECC error)",
        _TABLE,
    ),
    Sign(
        "npu-heartbeat",
        Role.OWN,
        ("ts lost heartbeat",),
        "the device's task scheduler stopped answering",
        f"{_RESTART} (NPU113){_HEALTH}",
    ),
    Sign(
        "data-queue",
        Role.OWN,
        ("ot unsupported acl datatype",),
        "the input pipeline produced a data type that the device does not support",
        _PROGRAM,
    ),
    Sign(
        "hccl-id-wait",
        Role.WAIT,
        ("store->get() got error",),
        "rank 0 did not write the communicator's id to the store in time: it died, hung or never started",
        "check whether rank 0 started, and where it stopped (PRB101)",
    ),
    Sign(
        HCCL_FAILED,
        Role.WAIT,
        ("HCCL error in: ",),
        "HCCL reported an error to torch_npu. HCCL's own log lines have the details",
        _PLOG,
        weight=Weight.SYMPTOM,
    ),
    Sign("npu-distributed", Role.UNKNOWN, ("ERR0", "DIST internal error"), "torch_npu's process group failed", _PLOG),
)


def of_line(text: str) -> Sign | None:
    """Return the sign of a CANN line by its code or number, None if it has neither, or no known one."""
    if match := _CODE.search(text):
        code = match["code"] or match["tvm"] or match["quoted"]
        if sign := _of_known_code(code) or _of_module(code, match["message"] or code):
            return sign
    return _of_number(text)


def _of_known_code(code: str) -> Sign | None:
    if code not in _CODES:
        return None
    role, cause, step = _CODES[code]
    return Sign(code, role, (), cause, step, weight=Weight.SYMPTOM if code == "EE1001" else Weight.CAUSE)


def _of_module(code: str, message: str) -> Sign | None:
    """Return the sign of a code of which only the module is known."""
    module = _MODULES.get(code[1])
    if module is None or (code[1] in "IJ" and meaning(code)):
        return None
    cause, step = module
    cause = cause.replace("{message}", shorten(message, _MESSAGE, placeholder=" …"))
    weight = Weight.SYMPTOM if code[2] == "9" or code[2:] == "8888" else Weight.CAUSE
    return Sign(code, Role.OWN, (), cause, step, weight=weight)


WAITING_NUMBERS = frozenset({107019, 107020, 507046, 507047, 507048})
LINK_NUMBERS = frozenset({507055, 507056, 507057})
# Numbers that report that a task failed, but not why: lines around them, or another rank, do.
_VAGUE_NUMBERS = frozenset({107001, 107002, 107003, 107022, 207001, 507000, 507001, 507011, 507017, 507018, 507899})


def _of_number(text: str) -> Sign | None:
    match = _NUMBER.search(text)
    if not match or _NO_NUMBER.search(text):
        return None
    entry = meaning(f"error code is {match['number']}")
    return None if entry is None else of_number(match["number"], entry)


def of_number(number: str, known: Meaning) -> Sign:
    """Return the sign of a number of ACL or the runtime."""
    value = int(number)
    role = Role.WAIT if value in WAITING_NUMBERS else Role.LINK if value in LINK_NUMBERS else Role.OWN
    weight = Weight.SYMPTOM if value in _VAGUE_NUMBERS else Weight.CAUSE
    return Sign(number, role, (), known.cause, known.step, weight=weight)
