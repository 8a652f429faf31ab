"""The man page, made from the parsers of the commands.

python -m tests.man_page > docs/preflight.1
"""

import argparse
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from preflight import __version__
from preflight.cli.main import COMMANDS, parser
from tests.commands import Option, Options, commands_below, common_options, option_groups

CONTRACTS = Path(__file__).parents[1] / "docs" / "contracts.md"
ENVIRONMENT = {
    "PREFLIGHT_INVENTORY": "Inventory of commands without --inventory.",
    "XDG_CONFIG_HOME": "Folder of preflight/config.toml, in place of ~/.config.",
    "XDG_STATE_HOME": "Folder of the history and the journals, in place of ~/.local/state.",
}
FILES = {
    "hosts.toml": "The inventory, if no option, variable or configuration file gives another one.",
    "~/.config/preflight/config.toml": "Default inventory, pool and output.",
    "~/.local/state/preflight": "History and journals of runs.",
}


def page() -> str:
    """Return the whole page, with the commands in the order of `preflight --help`."""
    commands = parser()
    common = common_options(commands)
    return "\n".join([*_head(), *_common_section(common), *_commands(commands, common), *_end()]) + "\n"


def _head() -> Iterator[str]:
    yield f'.TH PREFLIGHT 1 "" "preflight {__version__}" "User Commands"'
    yield ".SH NAME"
    yield r"preflight \- check and configure clusters of NPU or GPU servers"
    yield ".SH SYNOPSIS"
    yield r"\fBpreflight\fR [\fB\-\-version\fR] \fICOMMAND\fR [\fIOPTION\fR ...]"
    yield ".SH DESCRIPTION"
    yield "Check and configure clusters of NPU or GPU servers before distributed training."
    for name, text in COMMANDS.items():
        yield from _entry([name], text)


def _common_section(common: Options) -> Iterator[str]:
    yield ".SH COMMON OPTIONS"
    yield "Many commands have these options. Their sections below name them."
    for title, options in common.items():
        yield f".SS {roff_text(title)}"
        for option in options:
            yield from _entry(option.names, option.meaning)


def _commands(commands: argparse.ArgumentParser, common: Options) -> Iterator[str]:
    yield ".SH COMMANDS"
    for command in commands_below(commands):
        yield f".SS {roff_text(command.prog)}"
        yield from _prose(command.description or "")
        for title, options in option_groups(command):
            yield from _options(options, common.get(title, ()))


def _options(options: Iterable[Option], common: Iterable[Option]) -> Iterator[str]:
    known = [option.names[0].partition(" ")[0] for option in options if option in common]
    for option in options:
        if option not in common:
            yield from _entry(option.names, option.meaning)
    if known:
        yield from _entry(known, "See COMMON OPTIONS.")


def _prose(description: str) -> Iterator[str]:
    """Yield paragraphs. Lines that begin with a blank are examples, as in `--help`."""
    lines = description.strip().splitlines()
    for kind, group in groupby(lines, lambda line: "" if not line.strip() else "code" if line[0] == " " else "prose"):
        if kind == "code":
            yield from (".PP", ".nf", ".RS 4", *map(roff_text, (line.strip() for line in group)), ".RE", ".fi")
        elif kind:
            yield from (".PP", *map(roff_text, group))


def _entry(names: Iterable[str], meaning: str) -> Iterator[str]:
    """Yield an option, a variable or a file with its meaning."""
    yield ".TP"
    yield ", ".join(rf"\fB{roff_text(name)}\fR" for name in names)
    yield roff_text(meaning)


def _end() -> Iterator[str]:
    for title, entries in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES), ("EXIT STATUS", _exit_codes())):
        yield f".SH {title}"
        for name, meaning in entries.items():
            yield from _entry([name], meaning)


def _exit_codes() -> dict[str, str]:
    """Return the exit codes of all commands, as docs/contracts.md lists them."""
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", CONTRACTS.read_text(encoding="utf-8"), re.MULTILINE)
    return {code: meaning.replace("`", "") for code, meaning in rows}


def roff_text(text: str) -> str:
    """Return text with the characters escaped that have a meaning for roff, and those outside of ASCII."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("`", r"\(ga").replace("'", r"\(aq")
    escaped = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    print(page(), end="")
