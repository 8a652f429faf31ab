"""Print a shell script that completes commands, options and files.

  preflight completion bash > /etc/bash_completion.d/preflight
  preflight completion zsh > /usr/share/zsh/vendor-completions/_preflight

A new shell reads the script from that file.
"""

import argparse
from collections.abc import Iterator

import shtab

from preflight.cli.main import parser
from preflight.cli.parser import Parser

SHELLS = ("bash", "zsh", "tcsh", "fish")
PATHS = ("FILE", "DIR", "PLAN", "LOG")  # metavars of options that take a path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="shell to print the script for")


def run(args: argparse.Namespace) -> int:
    whole = parser()
    for option in _options(whole):
        if option.metavar in PATHS:
            option.complete = shtab.DIRECTORY if option.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(whole, args.shell))
    return 0


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options of all commands. This imports every command."""
    if isinstance(parser, Parser):
        parser.load()
    for action in parser._actions:  # argparse has no public access to them
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _options(command)
        else:
            yield action
