"""A jump host out of ssh's ways to say it, as an inventory has it: user@jump.example:22."""

import re
from collections.abc import Sequence

_ONE = re.compile(r"(?:[^\s@:,/-][^\s@:,/]*@)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*)(?::[0-9]{1,5})?")


def of_arguments(arguments: Sequence[str], notes: set[str]) -> str | None:
    """Of `-J jump`, `-o ProxyJump=jump` among arguments of ssh; what else stands there is noted as left out."""
    jump = None
    words = list(arguments)
    while words:
        word = words.pop(0)
        option = word + words.pop(0) if word in ("-J", "-o") and words else word
        match = re.fullmatch(r"-J(?P<j>.+)|-o\s*ProxyJump\s*[= ]\s*(?P<o>.+)", option, re.IGNORECASE)
        if match:
            jump = of_value(match["j"] or match["o"], notes)
        else:
            notes.add(f"left out, an argument of ssh: {option[:80]}")
    return jump


def of_value(text: str, notes: set[str]) -> str | None:
    """Of ProxyJump's value. An inventory has one jump host; of more than one ssh alone knows the way."""
    if text.lower() == "none":
        return None
    if _ONE.fullmatch(text):
        return text
    notes.add(f'left out, ProxyJump {text[:80]}: put it into ~/.ssh/config and say transport = "openssh" under [ssh]')
    return None
