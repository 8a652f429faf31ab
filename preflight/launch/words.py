"""Shell text from words. Pure."""

import shlex

LONGEST = (128 << 10) - 1  # bytes of one argument: MAX_ARG_STRLEN of Linux (execve(2)), with the zero at its end


class Raw(str):
    """Shell text of ours that is not to be quoted: "$NODE_RANK"."""

    __slots__ = ()


NODE_RANK = Raw('"$NODE_RANK"')


def folded(*groups: tuple[str, ...]) -> str:
    """One command, a group of its words a line; everything but Raw is quoted."""
    lines = [" ".join(word if isinstance(word, Raw) else shlex.quote(word) for word in group) for group in groups]
    return " \\\n    ".join(line for line in lines if line)
