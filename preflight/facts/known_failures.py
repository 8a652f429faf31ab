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
        r".* (?:was still running at its deadline|was not started: the time for it was over|does not start: .*"
        r"|printed more than \d+ KiB|closed its output but did not end|is not installed, or not on PATH"
        r"|cannot be (?:read|listed|looked at): .*|is larger than \d+ KiB|did not resolve, or fail to, in time)",
        r"nothing came of it within .*",
        r"what was found is larger than .*",
        r"no device: .*",
        r".*, where the jobs run, ends with -?\d+: .*",
        r"ip .* failed: .*",
        r"the (?:program on the host ended with|host sent more than|answer of the program on the host is cut).*",
        # from the controller, about such answers
        r"\S+(?: nvlink -e)? was not asked.*|\S+ did not answer in time|hccn_tool said nothing and ended with -?\d+",
        r"(?:ss|nft list ruleset|firewall-cmd --list-all-zones|\S+ -S INPUT) ended with -?\d+: .*",
        r"the Python of the jobs is not installed.*|the collector did not look.*|not in .*|the facts do not hold it",
        r"the kernel's settings under .* are not to be seen here.*|the host's clock shows no time at all",
        r"root is needed: .*",
    )
)
_BEFORE = re.compile(r"which chip is which device is not known: |hccn_tool -\w{1,30}: |(?:driver|firmware|cann): ")
_AFTER = re.compile(r" \(looked at .{0,80}: root may be needed\)$")
_OWN_WORDS = re.compile(
    r"hccn_tool(?:'s| said| says| told| tells| has| counts| answered| never)\b|the output of hccn_tool"
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
