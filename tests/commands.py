"""The page of all commands, made from their parsers.

python -m tests.commands > docs/commands.md
"""

import argparse
import re
from collections.abc import Iterator
from itertools import groupby

from preflight.cli.main import parser
from preflight.cli.parser import Parser

HEAD = """# Commands

`python -m tests.commands` makes this page from the parsers of the commands. A test compares the two. `--help` of every
command prints the same text. For exit codes, see [contracts](contracts.md#exit-codes)."""


def page() -> str:
    """Return the whole page, with the commands in the order of `preflight --help`."""
    return "\n\n".join([HEAD, *_commands(parser(), 2)]) + "\n"


def _commands(above: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """Yield a section for each command of a parser, followed by its subcommands."""
    for action in above._actions:  # argparse has no public access to them
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                if isinstance(command, Parser):
                    command.load()
                yield f"{'#' * level} {command.prog}"
                yield from _prose(command.description or f"{helps[name][:1].upper()}{helps[name][1:]}.")
                if options := [_option(command, each) for each in command._actions if _shown(each)]:
                    yield "\n".join(options)
                yield from _commands(command, level + 1)


def _prose(description: str) -> Iterator[str]:
    """Yield paragraphs. Lines that begin with a blank are examples, as in `--help`."""
    lines = description.strip().splitlines()
    for kind, group in groupby(lines, lambda line: "" if not line.strip() else "code" if line[0] == " " else "prose"):
        if kind == "code":
            yield "\n".join(["```", *(line.removeprefix("  ") for line in group), "```"])
        elif kind:
            yield _linked("\n".join(group))


def _shown(action: argparse.Action) -> bool:
    hidden = isinstance(action, argparse._HelpAction | argparse._SubParsersAction) or action.help == argparse.SUPPRESS
    return not hidden


def _option(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return a list line with an option and its meaning."""
    formatter = argparse.HelpFormatter(command.prog)
    value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
    if action.option_strings:
        typed = ", ".join(f"`{f'{name} {value}'.strip()}`" for name in action.option_strings)
    else:
        typed = f"`{formatter._format_args(action, formatter._get_default_metavar_for_positional(action))}`"
    meaning = _linked(formatter._expand_help(action)) if action.help else ""
    return f"- {typed}: {meaning}" if meaning else f"- {typed}"


def _linked(text: str) -> str:
    """Return text as Markdown, with "<" escaped and pages as links."""
    return re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text.replace("<", r"\<"))


if __name__ == "__main__":
    print(page(), end="")
