"""What a line says, by all that is known. Pure."""

import re

from preflight.diagnose import hccl, host, launchers, nccl, torch
from preflight.diagnose.types import Role, Sign
from preflight.facts.last_words import meaning

SIGNS = (*nccl.SIGNS, *torch.SIGNS, *launchers.SIGNS, *host.SIGNS, *hccl.SIGNS)

# A line without any of these says nothing that is known. They are few, rare in logs of healthy jobs, and looked for
# in whole blocks: that is what makes a gigabyte a matter of seconds.
TRIGGERS = (
    b"Error", b"RROR", b"Failed to ", b"failed to bind", b"CUDA fail", b"I/O error", b"dcmi", b"WARN", b"imed out",
    b"EI0", b"EJ0", b"Xid", b"xception", b"Out of memory", b"oom_", b"oom-", b"(SIG", b"segfault", b"ost carrier",
    b"cgroup out of", b": Out Of Mem",
    b"file-max", b"No such file", b"dead node", b"no socket interface", b"neither AF_INET", b"GLOO_SOCKET_IFNAME",
    b"NET/IB : No", b"Heartbeat", b"Watchdog", b"device handle", b"cannot be re", b" nranks ", b"Entry-HcclComm",
    b"LocalRank Key", b"TLS SWITCH", b"HCCL_CONNECT_T", b"medium error",
    b"srun: err", b"exited on sig", b"with non-zero st", b"BAD TERM", b"with return code",
)  # fmt: skip

_CODE = re.compile(r"\bE[IJ]\d{4}\b")
_NUMBER = re.compile(r"(?:error code is|retcode:?|ErrCode=)\s*\[?(\d{1,6})\b")
_ERRORS_OF = re.compile(r"\[ERROR\] ?(?:HCCL|HCCP|ROCE|RUNTIME)\(")
# MeanSquaredError and the like are figures of a training. Prefixes of torchrun and mpirun end with ]: and >:.
_EXCEPTION = re.compile(
    r"(?:^|\s|[\]>]:)(?:[A-Za-z_]\w{0,40}\.){0,6}(?!\w{0,40}(?:Squared|Absolute|Percentage|Calibration)\w{0,20}Error)"
    r"([A-Z]\w{0,60}(?:Error|Exception))(?:: |$)"
)
# Counters of errors that say there were none, with what they count.
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


def _by_first_word() -> dict[str, list[Sign]]:
    """In the order of SIGNS."""
    found: dict[str, list[Sign]] = {}
    for sign in SIGNS:
        found.setdefault(sign.words[0], []).append(sign)
    return found


_BY_FIRST_WORD = _by_first_word()


def recognise(text: str) -> Sign | None:
    """What the line says; None where it says nothing of errors, or only that there were none."""
    sign = _recognised(text)
    if sign and _NONE.search(text) and not _ERRORS_OF.search(text):
        return _recognised(_NONE.sub(" ", text))
    return sign


def _recognised(text: str) -> Sign | None:
    if found := host.XID.search(text):
        return host.xid(int(found[2]))
    if (found := _CODE.search(text)) and (known := hccl.of_code(found[0])):
        return known
    for word, signs in _BY_FIRST_WORD.items():
        if word in text and (known := next((sign for sign in signs if _fits(sign, text)), None)):
            return known
    return _by_last_words(text) or _unknown(text)


def _fits(sign: Sign, text: str) -> bool:
    return all(word in text for word in sign.words[1:]) and (not sign.pattern or bool(re.search(sign.pattern, text)))


def _by_last_words(text: str) -> Sign | None:
    """A line of torch_npu, HCCL, the runtime or CANN's Python."""
    exception = _EXCEPTION.search(text)
    if not exception and not _HINT_OF_ASCEND.search(text):
        return None
    known = meaning(text)
    if known is None:
        return None
    number = _NUMBER.search(text)
    id_ = number[1] if number else exception[1] if exception else "Ascend"
    return Sign(id_, hccl.role_of(id_), (), known.cause, known.remedy)


def is_exception(text: str) -> bool:
    """Whether it is the last line of a Python traceback, which a program may have caught."""
    return "NCCL WARN" not in text and _EXCEPTION.search(text) is not None


def _unknown(text: str) -> Sign | None:
    if exception := _EXCEPTION.search(text):
        return Sign(exception[1], Role.UNKNOWN, (), "the program failed there", "read what stands above that line")
    if _ERRORS_OF.search(text):
        return Sign("plog", Role.UNKNOWN, (), "CANN logged an error that is not known here",
                    "look it up in the vendor's pages, and at the lines around it")  # fmt: skip
    return None
