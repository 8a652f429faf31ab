"""Output of commands that change settings: `-cfg recovery`, `-a -cfg recovery`, `-s`."""

import re
from dataclasses import dataclass

from preflight.facts.parsers.ascend.hccn_tool.tool_output import NotUnderstoodError, blocks
from preflight.facts.quote import quote
from preflight.facts.reading import Found


@dataclass(frozen=True)
class Done:
    """The result for one device. `device` None: the one in the command."""

    device: int | None
    success: bool


_DONE = "Cmd executed successfully!"
_DEVICE = re.compile(r"dev ?: ?([0-9]{1,3}) recovery (success|fail)")


def _done(block: list[str]) -> Done:
    if block[0] == _DONE:
        return Done(None, True)
    match = _DEVICE.fullmatch(block[0])
    if match is None:
        raise NotUnderstoodError(f"hccn_tool said {quote(block[0])}, which is not understood")
    return Done(int(match.group(1)), match.group(2) == "success")


def recovery(text: str) -> tuple[Found[Done], ...]:
    """Parse `-cfg recovery`, `-a -cfg recovery` and `-s`: the outcome, a device a line where all are restored."""

    def one(line: str) -> bool:
        return line == _DONE or _DEVICE.fullmatch(line) is not None

    return blocks(text, one, _done, closed=one)
