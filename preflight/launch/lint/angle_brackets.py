"""Angle brackets in a script that are no redirection: `--master_addr=<node_1 ip address>`. Pure."""

import re

FILL_IN = "replace it with the value, without < and >"
LONGEST = 80  # characters of a placeholder
_FORM = re.compile(rf"<(\w(?:[\w .:/'-]{{0,{LONGEST}}}[\w'])?)>")
_ENDS = re.compile(r"[ \t\r]*(?:\\\r?\n|\n|\Z|;|\)|[ \t]-|[ \t]#)")  # where a redirection would have no file
_FILE = re.compile(r"[^ ]*\.\w{1,5}")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_WORDS = frozenset(
    [
        "addr",
        "address",
        "device",
        "devices",
        "dir",
        "gpu",
        "gpus",
        "hca",
        "host",
        "hostname",
        "id",
        "interface",
        "ip",
        "job",
        "master",
        "name",
        "nic",
        "node",
        "nodes",
        "npu",
        "npus",
        "num",
        "number",
        "path",
        "port",
        "rank",
        "server",
        "size",
        "token",
        "user",
        "username",
        "worker",
        "workers",
        "world",
        "your",
    ]
)


def placeholder_end(text: str, at: int) -> int:
    """Return where the placeholder that begins at `at` ends, 0 where `<` is a redirection."""
    form = _FORM.match(text, at)
    if form is None or not _LETTERS.search(form[1]) or _in_braces(text, at):
        return 0
    joined = at > 0 and text[at - 1] in "=:@,/"
    return form.end() if joined or _ENDS.match(text, form.end()) or _is_obvious(form[1]) else 0


def _is_obvious(inside: str) -> bool:
    """Return whether no file has such a name. `sort <input.txt> output` reads one file and writes another."""
    if " " in inside or _CAPITALS.fullmatch(inside) or not inside.isascii():
        return True
    words = {word.lower() for word in _LETTERS.findall(inside)}
    return bool(words & _WORDS) and not _FILE.fullmatch(inside)


def _in_braces(text: str, at: int) -> bool:
    """Return whether a bracket is in `${NAME:-…}`, where it is a letter."""
    line = text[max(0, at - LONGEST) : at].rpartition("\n")[2]
    return line.rfind("${") > line.rfind("}")
