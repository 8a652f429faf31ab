"""Error messages of nvidia-smi and their meaning: "nvidia-smi printed '…': meaning; remedy"."""

import re

from preflight.model.text import quote

# The first match counts: messages that name the cause come before general ones.
_KNOWN = tuple(
    (re.compile(pattern, re.IGNORECASE), meaning)
    for pattern, meaning in (
        (
            r"Driver/library version mismatch",
            "the driver's libraries were upgraded under the loaded kernel module",
        ),
        (
            r"GPU is lost",
            "a GPU no longer answers",
        ),
        (
            r"Unable to determine the device handle for GPU",
            "a GPU no longer answers",
        ),
        (
            r"couldn't communicate with the NVIDIA driver|Driver Not Loaded",
            "the kernel module is not loaded, for example after a kernel update",
        ),
        (
            r"couldn't find libnvidia-ml\.so|NVML Shared Library Not Found",
            "the driver's libraries are not installed here",
        ),
        (
            r"No devices were found",
            "the driver runs, but no GPU answers",
        ),
        (
            r"Insufficient Permissions",
            "this user has no permission to open the device files",
        ),
        (
            r"Failed to initialize NVML: Unknown Error",
            "the container lost its access to the GPUs, or a GPU does not answer",
        ),
        (
            r"all links are inactive",
            "no NVLink of a GPU is up. Fabric manager is not running, the bridge is missing, or the GPU has no NVLinks",
        ),
        (
            r"infoROM is corrupted",
            "the configuration memory (infoROM) of a GPU is damaged, so the error counts are not reliable",
        ),
        (
            r"is not a valid field to query",
            "this driver does not support a queried field. nvidia-smi --help-query-gpu lists the supported ones",
        ),
        (r"nvidia-smi: (command )?not found", "the driver tools are not installed, or not on PATH"),
    )
)
# Messages of drivers 470 to 595 on features that they lack, which are answers, too. The last ones are those of GPUs in
# MIG mode.
_LACKS = re.compile(
    r"is not recognized\. Please run 'nvidia-smi|does not have or support NVLink|all links are inactive"
    r"|\b(?:not|un)[ -]?supported\b|\bMIG (?:mode )?(?:is )?enabled\b|\bin MIG mode\b",
    re.IGNORECASE,
)


def lacks(text: str) -> bool:
    """Return whether the text says that the GPU or the tool lacks it: no NVLink, none up, MIG mode, no such option."""
    return bool(_LACKS.search(text))


def known(text: str) -> str:
    """Return the first known message in `text`, quoted, with its meaning; empty if it has none."""
    for pattern, meaning in _KNOWN:
        if match := pattern.search(text):
            start = max(text.rfind("\n", 0, match.start()) + 1, match.start() - 60)
            return f"nvidia-smi printed {quote(text[start : match.end() + 60])}: {meaning}"
    return ""


def trouble(text: str, question: str = "") -> str:
    """Return why `text` is no answer. `question`: for an unknown text, the arguments, as in `nvidia-smi topo -m`."""
    start = text[:100_000]
    if message := known(start):
        return message
    if re.match(r"\s*<(\?xml|!DOCTYPE|nvidia_smi_log)", start):
        return "this is the XML output of nvidia-smi -q -x, which the parser nvidia-smi.query reads"
    return f"nvidia-smi {question}".rstrip() + f" printed {quote(start)}"
