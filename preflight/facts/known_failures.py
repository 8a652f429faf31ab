"""Known causes of missing facts other than an unknown format: a hung tool, a missing right, a busy device. Pure.

Any other error means that an answer was not understood. So a parser that changes its messages cannot hide that.
"""

import re

from preflight.facts.parsers.ascend.hccn_tool.tool_output import failure
from preflight.facts.parsers.ascend.npu_smi.error_messages import explained
from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import known, lacks
from preflight.facts.refusal import refused

_KNOWN = tuple(
    re.compile(pattern)
    for pattern in (
        # from the collector: a program that did not run to its end, a file that cannot be read
        r".* (?:did not finish in time|was not started because the time was up|does not start: .*"
        r"|printed more than \d+ KiB|closed its output but did not exit|is not installed, or not on PATH"
        r"|cannot be (?:read|listed|checked): .*|is larger than \d+ KiB|was not resolved in time)",
        r"no result within .*",
        r"the result is larger than .*",
        r"no device: .*",
        r".*, where the jobs run, exited with -?\d+: .*",
        r"ip .* failed: .*",
        r"the (?:program on the host exited with|host sent more than|answer of the program on the host is cut).*",
        # from the controller, about such answers
        r"\S+(?: nvlink -e)? was not (?:queried|run).*|\S+ did not answer in time",
        r"hccn_tool printed nothing and exited with -?\d+",
        r"(?:ss|nft list ruleset|firewall-cmd --list-all-zones|\S+ -S INPUT) ended with -?\d+: .*",
        r"the Python of the jobs is not installed.*|the collector did not (?:check|query).*|not in .*",
        r"the facts do not hold it",
        r"the kernel settings under .* are not visible.*|the host's clock shows no valid time",
        r"root is needed: .*",
    )
)
_BEFORE = re.compile(r"which chip is which device is not known: |hccn_tool -\w{1,30}: |(?:driver|firmware|cann): ")
_AFTER = re.compile(r" \(checked .{0,80}: root may be needed\)$")
_OWN_WORDS = re.compile(
    r"hccn_tool(?:'s| printed| reports| reported| has| counts| answered| never)\b|the output of hccn_tool"
)


def is_known(error: str) -> bool:
    """Return whether the error has one of these causes."""
    error = _AFTER.sub("", error)
    if match := _BEFORE.match(error):
        error = error[match.end() :]
    if any(pattern.fullmatch(error) for pattern in _KNOWN):
        return True
    if refused(error) or explained(error) or known(error) or (error.startswith("nvidia-smi ") and lacks(error)):
        return True
    return bool(failure(error) and not _OWN_WORDS.match(error))
