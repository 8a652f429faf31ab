"""Shell text from words. Pure."""

import shlex

_COLUMNS = 80 - len("    ") - len(" \\")
LONGEST = (128 << 10) - 1  # bytes of one argument: MAX_ARG_STRLEN of Linux (execve(2)), with the zero at its end


class RawText(str):
    """Shell text of ours that is not to be quoted: "$NODE_RANK"."""

    __slots__ = ()


NODE_RANK = RawText('"$NODE_RANK"')


def folded(*groups: tuple[str, ...]) -> str:
    """Return one command with each group of its words on a new line. All words but RawText are quoted."""
    return " \\\n    ".join(line for group in groups for line in _lines(group))


def _lines(group: tuple[str, ...]) -> list[str]:
    """Return a group's lines, no wider than a terminal if its words allow it. An option keeps its first value."""
    pieces: list[str] = []
    for at, word in enumerate(group):
        text = word if isinstance(word, RawText) else shlex.quote(word)
        if at and group[at - 1].startswith("-") and not word.startswith("-"):
            pieces[-1] += f" {text}"
        else:
            pieces.append(text)
    lines: list[str] = []
    for piece in pieces:  # which may have lines of their own
        if lines and len(lines[-1].rpartition("\n")[2]) + len(piece.partition("\n")[0]) + 1 <= _COLUMNS:
            lines[-1] += f" {piece}"
        else:
            lines.append(piece)
    return lines
