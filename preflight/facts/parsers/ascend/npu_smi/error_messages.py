"""Error messages of npu-smi and their meaning: "npu-smi printed '…': meaning; remedy".

The shell sees only the low byte of the codes (-8005 ends with 187), so the texts are read instead of the exit code.
"""

import re

from preflight.model.text import quote

_NO_DRIVER = (
    "the driver cannot be reached. Either the user has no permission for the device files (ls -l /dev/davinci*, "
    "usual group HwHiAiUser), the driver is not loaded (lsmod | grep drv_), or the container has no devices"
)
_USED = (
    "another container uses the same device (`Conflict open udevid` in dmesg of the host). Or the container has no "
    "/usr/local/dcmi, /etc/ascend_install.info or the driver's lib64 and version.info"
)
_NO_TOPOLOGY = "this tool or product does not report the topology. List the cards with npu-smi info and lspci"

# The first match counts: messages that name the cause come before those of its consequences.
_KNOWN = (
    (re.compile(r"ret is -8005"), _NO_DRIVER),
    (re.compile(r"ret is -8020"), _USED),
    (re.compile(r"ret is -9005"), f"the board does not answer, as after -8020 ({_USED})"),
    (re.compile(r"DrvMngGetConsoleLogLevel failed"), _NO_DRIVER),
    (
        re.compile(r"There is no NPU card on this server"),
        "the driver finds no card. If lspci lists cards, the driver has lost them. Then power-cycle the host",
    ),
    (re.compile(r"Invalid card id"), "no card has this number. npu-smi info -l lists the cards"),
    (re.compile(r"Failed to query \"topo\" info"), _NO_TOPOLOGY),
    (re.compile(r"does not support querying topo"), _NO_TOPOLOGY),
    (re.compile(r"NPU can not query topo"), _NO_TOPOLOGY),
    (
        re.compile(r"Error parameter of -t"),
        "this version of the tool does not support the query. npu-smi info -h lists the supported ones",
    ),
    (
        re.compile(r"driver package may not be completely installed"),
        "/etc/ascend_install.info is missing or is a folder. In a container, bind it from the host",
    ),
)


def trouble(text: str, question: str = "") -> str:
    """Return why `text` is no answer. `question`: for an unknown text, the arguments, as in `npu-smi info -t board`."""
    for pattern, meaning in _KNOWN:
        if match := pattern.search(text):
            start = max(text.rfind("\n", 0, match.start()) + 1, match.start() - 60)
            return f"npu-smi printed {quote(text[start : match.end() + 60])}: {meaning}"
    return f"npu-smi {question} printed {quote(text)}" if question else f"npu-smi printed {quote(text)}"


def explained(error: str) -> bool:
    """Return whether the error is a result of `trouble` with a known meaning."""
    return error.startswith("npu-smi printed ") and any(error.endswith(f": {meaning}") for _, meaning in _KNOWN)
