"""Jump hosts of ssh's options as an inventory has them: user@jump.example:22."""

import re
from collections.abc import Iterator, Sequence

_JUMP_HOST = re.compile(r"(?:[^\s@:,/-][^\s@:,/]*@)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*)(?::[0-9]{1,5})?")
_OPTION = re.compile(r"-J(?P<j>.+)|-o\s*ProxyJump\s*[= ]\s*(?P<o>.+)", re.IGNORECASE)


def of_arguments(arguments: Sequence[str], notes: set[str]) -> str | None:
    """Return the jump host of `-J jump` or `-o ProxyJump=jump` among arguments of ssh. Notes the others as left out."""
    jump = None
    for option in _options(arguments):
        if match := _OPTION.fullmatch(option):
            jump = of_value(match["j"] or match["o"], notes)
        else:
            notes.add(f"ssh option not copied to the inventory: {option[:80]}")
    return jump


def of_value(text: str, notes: set[str]) -> str | None:
    """Return the jump host of a ProxyJump value. An inventory has no place for more than one."""
    if text.lower() == "none":
        return None
    if _JUMP_HOST.fullmatch(text):
        return text
    notes.add(
        f"ProxyJump {text[:80]} was left out. To use it, put it into ~/.ssh/config and set "
        'transport = "openssh" under [ssh]'
    )
    return None


def _options(arguments: Sequence[str]) -> Iterator[str]:
    """Join -J and -o with the arguments that follow them."""
    words = iter(arguments)
    for word in words:
        yield word + next(words, "") if word in ("-J", "-o") else word
