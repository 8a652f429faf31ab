"""Scripts within a command: `bash -c '…'`, and ssh's command for another host. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from preflight.launch.lint.expand import assignment, in_pieces
from preflight.launch.lint.types import Word, WordPart

_SHELLS = ("bash", "sh", "zsh")
# Keywords and programs in front of a command.
_BEFORE = frozenset(
    ["do", "then", "else", "elif", "if", "while", "until", "{", "!", "time", "exec", "nohup", "sudo", "setsid", "env"]
)
_WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"  # options of ssh, ssh(1)
# The outer shell puts these in. The inner one gets another text, and no name that it knows.
_PUT_IN = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}|\$\w+|\$|`[^`]*`")


@dataclass(frozen=True)
class NestedScript:
    """The `parts` of a script's text, and the words of the command outside of it. `host` is where ssh starts it."""

    outside: tuple[Word, ...]
    parts: tuple[WordPart, ...]
    host: str = ""


def nested_script(words: Sequence[Word]) -> NestedScript | None:
    """Return the script within a command. The outer script's variables are put in already."""
    return _of_ssh(words) or _of_shell(words)


def _of_shell(words: Sequence[Word]) -> NestedScript | None:
    """Return the script of `bash -c`, also behind a launcher or in a container. Words behind it are its arguments."""
    for at, word in enumerate(words):
        if _program(word) not in _SHELLS:
            continue
        for number in range(at + 1, len(words) - 1):
            option = words[number].text
            if re.fullmatch(r"-[a-z]*c[a-z]*", option):
                return NestedScript(tuple(words[: number + 1]), _parts(words[number + 1 : number + 2]))
            if not option.startswith("-"):
                break
    return None


def _of_ssh(words: Sequence[Word]) -> NestedScript | None:
    at = _program_at(words)
    if at >= len(words) or _program(words[at]) != "ssh":
        return None
    at += 1
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if _takes_value(words[at].text) else 1
    if at + 1 >= len(words):
        return None
    return NestedScript(tuple(words[: at + 1]), _parts(words[at + 1 :]), words[at].text.rpartition("@")[2])


def _program_at(words: Sequence[Word]) -> int:
    """Return where a command's program is, behind assignments, timeout and sshpass."""
    at = next((at for at, word in enumerate(words) if not (word.text in _BEFORE or assignment(word))), len(words))
    if at < len(words) and words[at].text == "timeout":
        at += 2
    if at < len(words) and _program(words[at]) == "sshpass":
        at = next((at for at, word in enumerate(words) if word.text == "ssh"), len(words))
    return at


def _program(word: Word) -> str:
    return word.text.rpartition("/")[2]


def _takes_value(option: str) -> bool:
    """Return whether the value of a group of ssh's short options is the next word: -p, -Tp, but not -p22."""
    letter = next((at for at, letter in enumerate(option) if at and letter in _WITH_VALUE), 0)
    return bool(letter) and letter == len(option) - 1


def _parts(words: Sequence[Word]) -> tuple[WordPart, ...]:
    """Return the parts of the words, with a blank between each two, as ssh joins them."""
    parts = list(words[0].parts)
    for first, second in pairwise(words):
        parts += [WordPart(" ", "'", first.spot, put=True), *second.parts]
    return tuple(
        piece for part in parts for piece in ([part] if part.literal else in_pieces(part, _PUT_IN, lambda _: "$?"))
    )
