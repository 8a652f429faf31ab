"""Output of commands that change settings: `-cfg recovery`, `-a -cfg recovery`, `-s`."""

import re
from dataclasses import dataclass

from preflight.facts.parsers.ascend.hccn_tool.tool_output import NotUnderstoodError, blocks
from preflight.facts.reading import Found
from preflight.model.text import quote


@dataclass(frozen=True)
class RecoveryResult:
    """The result for one device. `device` None: the one in the command."""

    device: int | None
    success: bool


_DONE = "Cmd executed successfully!"
_DEVICE = re.compile(r"dev ?: ?([0-9]{1,3}) recovery (success|fail)")


def _result(block: list[str]) -> RecoveryResult:
    if block[0] == _DONE:
        return RecoveryResult(None, True)
    match = _DEVICE.fullmatch(block[0])
    if match is None:
        raise NotUnderstoodError(f"hccn_tool printed {quote(block[0])}, which is not recognized")
    return RecoveryResult(int(match.group(1)), match.group(2) == "success")


def recovery(text: str) -> tuple[Found[RecoveryResult], ...]:
    """Parse `-cfg recovery`, `-a -cfg recovery` and `-s`: the outcome, a device a line where all are restored."""

    def is_result(line: str) -> bool:
        return line == _DONE or _DEVICE.fullmatch(line) is not None

    return blocks(text, is_result, _result, closed=is_result)
