"""The page of all commands, made from their parsers.

python -m tests.commands > docs/commands.md
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from preflight.cli.main import parser
from preflight.cli.parser import Parser


class Option(NamedTuple):
    """An option or an argument: its names, each with its value, and its meaning."""

    names: tuple[str, ...]
    meaning: str


Options = dict[str, list[Option]]  # title of a group of options → the options

COMMON = 4  # commands that have an option in the same words, so that it is explained once
HEAD = """# Commands

`python -m tests.commands` makes this page from the parsers of the commands. A test compares the two. `--help` of every
command prints the same text. For exit codes, see [contracts](contracts.md#exit-codes)."""


def page() -> str:
    """Return the whole page, with the commands in the order of `preflight --help`."""
    commands = parser()
    common = common_options(commands)
    return "\n\n".join([HEAD, *_common_section(common), *_commands(commands, 2, common)]) + "\n"


def common_options(commands: argparse.ArgumentParser) -> Options:
    """Return the options that several commands have, by the title of their group."""
    counts = Counter(
        (title, option)
        for command in commands_below(commands)
        for title, options in option_groups(command)
        for option in options
    )
    common: Options = {}
    for (title, option), count in counts.items():
        if title and count >= COMMON:
            common.setdefault(title, []).append(option)
    return common


def _common_section(common: Options) -> Iterator[str]:
    yield "## Common options"
    yield "Many commands have these options. Their sections below refer to this one."
    for title, options in common.items():
        yield f"{title}:"
        yield "\n".join(map(_line, options))


def commands_below(above: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield every command of a parser, and those below it."""
    for command in _choices(above).values():
        if isinstance(command, Parser):
            command.load()
        yield command
        yield from commands_below(command)


def _choices(above: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in above._actions:  # argparse has no public access to them
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _commands(above: argparse.ArgumentParser, level: int, common: Options) -> Iterator[str]:
    """Yield a section for each command of a parser, followed by its subcommands."""
    for action in above._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield f"{'#' * level} {command.prog}"
                yield from _prose(command.description or f"{helps[name][:1].upper()}{helps[name][1:]}.")
                yield from _options(command, common)
                yield from _commands(command, level + 1, common)


def _prose(description: str) -> Iterator[str]:
    """Yield paragraphs. Lines that begin with a blank are examples, as in `--help`."""
    lines = description.strip().splitlines()
    for kind, group in groupby(lines, lambda line: "" if not line.strip() else "code" if line[0] == " " else "prose"):
        if kind == "code":
            yield "\n".join(["```", *(line.removeprefix("  ") for line in group), "```"])
        elif kind:
            yield _linked("\n".join(group))


def _options(command: argparse.ArgumentParser, common: Options) -> Iterator[str]:
    """Yield a list for each group of options, below its title. Common options have no text of their own there."""
    for title, options in option_groups(command):
        known = [option for option in options if option in common.get(title, ())]
        names = ", ".join(f"`{option.names[0].partition(' ')[0]}`" for option in known)
        if title:
            yield f"{title}:"
        yield "\n".join(
            [
                *([f"- {names}: [common options](#common-options)"] if known else []),
                *(_line(option) for option in options if option not in known),
            ]
        )


def option_groups(command: argparse.ArgumentParser) -> Iterator[tuple[str, list[Option]]]:
    """Yield the title and the options of each group of options. Options outside all groups have no title."""
    for group in command._action_groups:
        if options := [_option(command, each) for each in group._group_actions if _shown(each)]:
            is_own = group not in command._action_groups[:2]  # after positionals and options
            yield str(group.title).capitalize() if is_own else "", options


def _shown(action: argparse.Action) -> bool:
    hidden = isinstance(action, argparse._HelpAction | argparse._SubParsersAction) or action.help == argparse.SUPPRESS
    return not hidden


def _option(command: argparse.ArgumentParser, action: argparse.Action) -> Option:
    """Return an option with its meaning."""
    formatter = argparse.HelpFormatter(command.prog)
    value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
    if action.option_strings:
        names = tuple(f"{name} {value}".strip() for name in action.option_strings)
    else:
        names = (formatter._format_args(action, formatter._get_default_metavar_for_positional(action)),)
    return Option(names, formatter._expand_help(action) if action.help else "")


def _line(option: Option) -> str:
    """Return a list line with an option and its meaning."""
    typed = ", ".join(f"`{name}`" for name in option.names)
    return f"- {typed}: {_linked(option.meaning)}" if option.meaning else f"- {typed}"


def _linked(text: str) -> str:
    """Return text as Markdown, with "<" escaped and pages as links."""
    return re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text.replace("<", r"\<"))


if __name__ == "__main__":
    print(page(), end="")
