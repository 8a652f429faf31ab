"""Scripts within a command: `bash -c '…'`, and what ssh starts on another host. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from preflight.launch.lint.expand import assignment, in_pieces
from preflight.launch.lint.types import Part, Word

_SHELLS = ("bash", "sh", "zsh")
_AROUND = ("do", "then", "else", "elif", "if", "while", "until", "{", "!", "time", "exec", "nohup", "sudo", "setsid",
           "env")  # fmt: skip
_WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"  # options of ssh, ssh(1)
# What the shell around would have put in: it is another text by then, and no name that the shell within knows.
_PUT_IN = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}|\$\w+|\$|`[^`]*`")


@dataclass(frozen=True)
class Nested:
    """`outside`: the words of the command without it; `parts`: of the text; `host`: where ssh starts it."""

    outside: tuple[Word, ...]
    parts: tuple[Part, ...]
    host: str = ""


def nested(words: Sequence[Word]) -> Nested | None:
    """The script that stands in a command, its outer variables put in already."""
    return _of_ssh(words) or _of_shell(words)


def _of_shell(words: Sequence[Word]) -> Nested | None:
    """`bash -c`, also behind a launcher or in a container. What stands behind the script are its arguments."""
    for at, word in enumerate(words):
        if word.text.rpartition("/")[2] not in _SHELLS:
            continue
        for number in range(at + 1, len(words) - 1):
            option = words[number].text
            if re.fullmatch(r"-[a-z]*c[a-z]*", option):
                return Nested(tuple(words[: number + 1]), _parts(words[number + 1 : number + 2]))
            if not option.startswith("-"):
                break
    return None


def _of_ssh(words: Sequence[Word]) -> Nested | None:
    at = next((at for at, word in enumerate(words) if not (word.text in _AROUND or assignment(word))), len(words))
    if at < len(words) and words[at].text == "timeout":
        at += 2
    if at < len(words) and words[at].text.rpartition("/")[2] == "sshpass":
        at = next((at for at, word in enumerate(words) if word.text == "ssh"), len(words))
    if at >= len(words) or words[at].text.rpartition("/")[2] != "ssh":
        return None
    at += 1
    while at < len(words) and words[at].text.startswith("-"):
        letter = next((place for place, one in enumerate(words[at].text) if place and one in _WITH_VALUE), 0)
        at += 2 if letter and letter == len(words[at].text) - 1 else 1
    if at + 1 >= len(words):
        return None
    return Nested(tuple(words[: at + 1]), _parts(words[at + 1 :]), words[at].text.rpartition("@")[2])


def _parts(words: Sequence[Word]) -> tuple[Part, ...]:
    """Of the words, with a blank between each two, as ssh joins them."""
    parts = list(words[0].parts)
    for one, other in pairwise(words):
        parts += [Part(" ", "'", one.spot, put=True), *other.parts]
    return tuple(
        piece for part in parts for piece in ([part] if part.literal else in_pieces(part, _PUT_IN, lambda _: "$?"))
    )
