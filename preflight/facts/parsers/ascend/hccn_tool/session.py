"""Files with the answers to many queries, each below its echoed command line.

`script`, copied terminals and the collectors of support teams write such files.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO

from preflight.facts.parsers.ascend.hccn_tool.queries import QUERIES
from preflight.facts.parsers.ascend.hccn_tool.tool_output import not_understood, too_long
from preflight.facts.reading import Found
from preflight.model.text import quote


@dataclass(frozen=True)
class Echoed:
    """A command line, and the output below it."""

    command: str
    output: str


@dataclass(frozen=True)
class DeviceAnswer:
    """The answer to one query. `query`: as in QUERIES.

    `device` None: the command was a loop, and `values` has an entry per device.
    """

    device: int | None
    query: str
    values: tuple[object, ...]


# A command line follows a prompt (`[root@node1 ~]# `, `root@node1:~$ `, `# `), or begins with a program.
_PROMPT = r"(?:\(\w{1,40}\) ?)?(?:\[[^\]]{1,80}\]|[\w.@:~/-]{1,80})?[#$] +"
_PROGRAMS = r"(?:\S{0,100}/)?(?:hccn_tool|npu-smi|lspci|cat|pip3?|ls|uname|dmesg|sudo|for)"
_COMMAND = re.compile(rf"{_PROMPT}\S.*|{_PROGRAMS} +[-\w/$|].*|/\S{{1,100}}/bin/\S.*")
_CALL = re.compile(
    r"hccn_tool +-i +(?:(?P<device>[0-9]{1,2})|\"?\$\{?\w+\}?\"?) +-(?P<option>[a-z_]+)(?: +(?P<rest>[-\w .:$]*))?"
    r"|hccn_tool +-a +-cfg +(?P<all>recovery)"
)
_LONGEST_COMMAND = 300


def echoed(text: str) -> Iterator[Echoed]:
    """Yield the command lines in `text` with their outputs. Text before the first one is ignored."""
    command: str | None = None
    output: list[str] = []
    for line in StringIO(text):
        bare = line.strip()
        if len(bare) <= _LONGEST_COMMAND and not bare.startswith("hccn_tool is busy") and _COMMAND.fullmatch(bare):
            if command is not None:
                yield Echoed(command, "".join(output))
            command, output = bare, []
        else:
            output.append(line)
    if command is not None:
        yield Echoed(command, "".join(output))


def _query(option: str, arguments: str) -> str:
    """Return the parser's name: the option, or "recovery" for all commands that change settings."""
    if option == "cfg":
        return "recovery" if arguments.startswith("recovery") else "cfg"
    return "recovery" if arguments.startswith("-s ") else option


def session(text: str) -> tuple[DeviceAnswer | Found[str], ...]:
    """Parse many queries in one file, each below its command line (`hccn_tool -i 0 -ip -g`); others are passed over."""
    if error := too_long(text):
        return (Found(error=error),)
    answers: list[DeviceAnswer | Found[str]] = []
    for part in echoed(text):
        match = _CALL.search(part.command)
        if match is None:
            continue
        query = "recovery" if match["all"] else _query(match["option"], match["rest"] or "")
        if read := QUERIES.get(query):
            answers.append(DeviceAnswer(int(match["device"]) if match["device"] else None, query, read(part.output)))
        else:
            answers.append(Found(error=f"the output of {quote(part.command)} cannot be parsed"))
    return tuple(answers) or (Found(error=f"no command line of hccn_tool: {not_understood(text)}"),)
