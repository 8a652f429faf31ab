"""Lookup of a log's lines in the catalogue of errors (`errors/`). Pure."""

import re

from preflight.diagnose.errors import cann, crashes, cuda, hccl, host, launchers, nccl, schedulers, torch
from preflight.diagnose.types import Role, Sign, Weight
from preflight.facts.error_meanings import meaning
from preflight.model.text import without_escapes

# In the order in which they are tried. torch passes on errors of NCCL, CUDA and HCCL, so its lines may be any of them.
_OF_CANN = (*hccl.SIGNS, *cann.SIGNS)
_ANYWHERE = (*torch.SIGNS, *schedulers.SIGNS, *crashes.SIGNS, *launchers.SIGNS, *host.SIGNS)
SIGNS = (*nccl.SIGNS, *cuda.SIGNS, *_ANYWHERE, *_OF_CANN)

# A line without any of these, and without a code of CANN, reports no known error. They are rare in logs of healthy
# jobs, and are searched for in whole blocks: so a gigabyte takes seconds.
CODE_TRIGGER = re.compile(rb"E[1-9A-Z]\d\d\d\d(?![0-9A-Za-z_])")
TRIGGERS = (
    b"Error",
    b"RROR",
    b"Failed to ",
    b"failed to bind",
    b"CUDA fail",
    b"CUDA error",
    b"I/O error",
    b"dcmi",
    b"WARN",
    b"imed out",
    b"Xid",
    b"xception",
    b"Out of memory",
    b"oom_",
    b"oom-",
    b"(SIG",
    b"segfault",
    b"ost carrier",
    b"cgroup out",
    b": Out Of Mem",
    b"OOMKilled",
    b"emory limit",
    b"file-max",
    b"No such file",
    b"dead node",
    b"no socket interface",
    b"neither AF_INET",
    b"GLOO_SOCKET_IFNAME",
    b"NET/IB : No",
    b"Heartbeat",
    b"Watchdog",
    b"device handle",
    b"cannot be re",
    b" nranks ",
    b"Entry-HcclComm",
    b"LocalRank Key",
    b"TLS SWITCH",
    b"HCCL_CONNECT_T",
    b"medium error",
    b"rankNum[",
    b"srun: err",
    b"exited on sig",
    b"with non-zero st",
    b"BAD TERM",
    b"with return code",
    b"xit status",
    b"xit code",
    b"xitcode",
    b"exited with",
    b"(local_rank: ",
    b"non-zero exit",
    b"(core dumped)",
    b"egmentation fault",
    b"Bus error",
    b"Killed",
    b"Aborted",
    b"Fatal Python",
    b"terminate called",
    b"aught signal",
    b"Signal: ",
    b"signal SIG",
    b"Signals.SIG",
    b"(): ",
    b"llegal instruction",
    b"double free",
    b"corrupted ",
    b"detected ***",
    b"bad_alloc",
    b"Terminated",
    b"BY SIGNAL",
    b"EXIT STRING",
    b"RUNNING AT ",
    b"quota exceeded",
    b"CANCELLED",
    b"TERM_",
    b"job killed",
    b"DeadlineEx",
    b"low on resource",
    b"worker died",
    b"running low on memory",
    b"t join collective",
    b"t finish collective",
    b"lagging ranks",
    b"CUBLAS_STATUS_",
    b"CUDNN_STATUS_",
    b"error code",
    b"halMemAlloc",
    b"last completed",
    b"event wait timeout",
    b"gaierror",
    b"death signal",
    b"watchdog got stuck",
    b"TsdOpen",
    b"Traceback (most",
    b"t open file",
    b"unrecognized arguments",
    b"arguments are required",
    b"command not found",
    b"noticed that process",
    b"terminated by signal",
    b"fftsplus",
    b"kernel execute failed",
    b"error exception",
    b"occupying this card",
    b"store->get()",
    b"sync timeout",
    b"user_rank",
    b"|  server  |",
    b"|  client  |",
)

_CODE = re.compile(r"\bE[IJ]\d{4}\b")
_ACL_DIGITS = 6  # of numbers of ACL and the runtime; those of HCCL have one or two
_NUMBER = re.compile(r"(?:error code(?: is|:)|retcode:?|ErrCode=)\s{0,9}\[?(\d{1,6})\b")
_ERRORS_OF = re.compile(r"\[ERROR\] ?(?:HCCL|HCCP|ROCE|RUNTIME|DRV|APP|GE|FE|TEFUSION|CCE|TDT|ASCENDCL|IDEDD|CCECPU)\(")
# Libraries that put their name into each line: no other library's entries are tried there.
_NCCL_LINE = re.compile(r"\bNCCL (?:WARN|INFO|TRACE)\b|^include/socket\.h:\d+ WARN")
_OTHER_LINE = re.compile(
    r"\bUCX  +(?:ERROR|WARN|INFO|DEBUG|DIAG|TRACE|FATAL)\b|\blibfabric:\d+:|\[mlx5_\d+\]|\bOFI (?:WARN|INFO)\b"
)
# Lines of other programs that a program cites.
_CITED = re.compile(r"[\"'`](?:(?:slurmstepd|srun)(?:-\S{1,64})?: |(?:Segmentation fault|Bus error|Aborted) \(core)")
_CANN_LINE = re.compile(r"\[(?:ERROR|EVENT|CRITICAL|EXCEPTION|WARNING|TRACE|INFO)\] ?[A-Z_]{2,16}\(\d+,")
# MeanSquaredError and the like are figures of a training. Prefixes of torchrun and mpirun end with ]: and >:.
_EXCEPTION = re.compile(
    r"(?:^|\s|[\]>]:)(?:[A-Za-z_]\w{0,40}\.){0,6}(?!\w{0,40}(?:Squared|Absolute|Percentage|Calibration)\w{0,20}Error)"
    r"([A-Z]\w{0,60}(?:Error|Exception))(?:: |$)|(?:^|[\]>)]:? ?|^ *\d{1,6}: )(Exception)(?:: |$)"
)
_LONGEST_TRACEBACK = 400  # lines, also of other writers among them
# The last line of a traceback: a class, its module in front unless it is of the program itself or built in.
_UNCOMMON = re.compile(r"(?:[A-Za-z_]\w{0,40}\.){0,8}([A-Z]\w{0,60})(?::(?: |$)|$)")
_NO_FAILURE = ("KeyboardInterrupt", "SystemExit", "GeneratorExit", "StopIteration")
# Counters of errors that are zero, with the errors that they count.
_NONE = re.compile(
    r"\b(?:errors|failures|exceptions|timeouts|(?:error|failure|exception|timeout|err|warn)[ _-](?:count|total|lines?))"
    r"['\"]?\s{0,9}[:=|]\s{0,9}0\b(?!\.\d)|\b(?:\w{1,40}\s)?count['\"]?\s{0,9}[:=]\s{0,9}0\b(?!\.\d)"
    r"|\b\w{1,60}(?:Error|Exception)=0\b(?!\.\d)"
    r"|\b(?:0|no|zero)\s(?:\w{1,30}\s){0,2}(?:errors|failures|exceptions|timeouts)\b",
    re.IGNORECASE,
)
_HINT_OF_ASCEND = re.compile(
    r"[a-z]CL\b|[nN]pu|NPU|acl|EE\d{4}|ERR\d{5}|\.so|ASCEND|dcmi|TsdClient|ra hdc|hrtRa|ErrCode=|retcode"
)


def _by_first_word(signs: tuple[Sign, ...]) -> dict[str, list[Sign]]:
    """Return signs by the first of their words, in their order."""
    by_word: dict[str, list[Sign]] = {}
    for sign in signs:
        by_word.setdefault(sign.words[0], []).append(sign)
    return by_word


_ALL_SIGNS = _by_first_word(SIGNS)
_NCCL_SIGNS = _by_first_word((*nccl.SIGNS, *cuda.SIGNS))
_CRASH_SIGNS = _by_first_word(crashes.SIGNS)
_CANN_SIGNS = _by_first_word((*_OF_CANN, *torch.SIGNS))


def recognise(text: str) -> Sign | None:
    """Return the entry for a line; None if it reports no error, or only that there were none."""
    sign = _recognise_line(text)
    if sign and _NONE.search(text) and not _ERRORS_OF.search(text):
        return _recognise_line(_NONE.sub(" ", text))
    return sign


def _recognise_line(text: str) -> Sign | None:
    if _CITED.search(text):
        return None
    if _NCCL_LINE.search(text):
        return _first(_NCCL_SIGNS, text)
    if _OTHER_LINE.search(text):
        return _first(_CRASH_SIGNS, text)
    if match := host.XID.search(text):
        return host.xid(int(match[2]))
    if (match := _CODE.search(text)) and (sign := hccl.of_code(match[0])):
        return _first(_CANN_SIGNS, text, match[0]) or sign
    return _of_any_library(text)


def _of_any_library(text: str) -> Sign | None:
    signs = _CANN_SIGNS if _CANN_LINE.search(text) else _ALL_SIGNS
    return _first(signs, text) or cann.of_line(text) or _by_error_message(text) or _unknown(text)


def _first(signs: dict[str, list[Sign]], text: str, code: str = "") -> Sign | None:
    """Return the first sign that matches the line; with `code`, only of those with HCCL's code."""
    for word, same_word in signs.items():
        if word in text:
            for sign in same_word:
                if (not code or sign.id == code) and (filled_sign := sign.read_from(text)):
                    return filled_sign
    return None


def _by_error_message(text: str) -> Sign | None:
    """Return the sign of a line of torch_npu, HCCL, the runtime or CANN's Python, by its message."""
    exception = _EXCEPTION.search(text)
    if not exception and not _HINT_OF_ASCEND.search(text):
        return None
    entry = meaning(text)
    if entry is None:
        return None
    number = _NUMBER.search(text)
    if number and len(number[1]) == _ACL_DIGITS:
        return cann.of_number(number[1], entry)
    id_ = number[1] if number else _name(exception) if exception else "Ascend"
    role = hccl.role_of(id_)
    weight = Weight.SYMPTOM if number and role is not Role.WAIT else Weight.CAUSE  # a code of HCCL is more precise
    return Sign(id_, role, (), entry.cause, entry.step, weight=weight)


def _name(exception: re.Match[str]) -> str:
    """Return the name of an exception's class."""
    return exception[1] or exception[2]


def is_exception(text: str) -> bool:
    """Return whether it is the last line of a Python traceback, which a program may have caught."""
    return "NCCL WARN" not in text and _EXCEPTION.search(text) is not None


_READ = "read the traceback above the error line"


def unknown(name: str) -> Sign:
    """Return the sign of an exception that the catalogue does not have."""
    return Sign(name, Role.UNKNOWN, (), f"the program raised {name}", _READ)


def ends_traceback(sign: Sign, text: str) -> bool:
    """Return whether the line with this sign ends a traceback, even if its name does not show it."""
    return sign.step == _READ or is_exception(text)


def uncommon_exception(raw: str, after: str) -> tuple[str, str, int] | None:
    """Return class, line and distance in lines of the exception that ends a traceback, if its name does not show it.

    An example is queue.Empty. None if the exception is read as its own line, or is no failure. `raw`: the traceback's
    first line. `after`: the text below it.
    """
    begin = raw.partition("Traceback (most recent")[0]
    for below, text in enumerate(map(without_escapes, after.splitlines()[:_LONGEST_TRACEBACK])):
        if not text.startswith(begin):
            continue  # of another writer
        line = text[len(begin) :]
        if not line.strip() or line[0] in " \t|+":
            continue
        match = _UNCOMMON.match(line)
        if not match or match[1] in _NO_FAILURE or recognise(text):
            return None
        return match[1], text, below
    return None


def _unknown(text: str) -> Sign | None:
    if exception := _EXCEPTION.search(text):
        return unknown(_name(exception))
    if _ERRORS_OF.search(text):
        return Sign(
            "plog",
            Role.UNKNOWN,
            (),
            "CANN logged an error that is not in preflight's catalogue",
            "read the lines around it, and search for the message in the vendor's documentation",
        )
    return None
