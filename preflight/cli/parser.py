"""Parser of a command, which imports the command's module only when the command is requested."""

import argparse
import importlib
from collections.abc import Iterable
from itertools import groupby
from typing import Any, NoReturn

from preflight.model.text import printable


class Help(argparse.HelpFormatter):
    """Formatter that wraps prose to the terminal. Lines that begin with a blank are examples and are kept unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = groupby(text.strip().splitlines(), lambda line: bool(line.strip()) and not line.startswith(" "))
        return "\n".join(
            super(Help, self)._fill_text(" ".join(lines), width, indent) if prose else "\n".join(lines)
            for prose, lines in blocks
        )


class Parser(argparse.ArgumentParser):
    """Parser that reports wrong usage in one line, without the usage, which would hide that line.

    `module` has `add_arguments(parser)` and `run(args) -> int`; its docstring is the command's description. It is
    imported when the command is requested, so that `--help` loads none of paramiko, rich, pydantic or torch.
    """

    asked = ""  # the command named in errors on unknown options, which argparse finds at the top level

    def __init__(self, *args: Any, module: str = "", **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", Help)
        super().__init__(*args, **options)
        self._module = module

    def load(self) -> None:
        """Import the module, once."""
        if self._module:
            module = importlib.import_module(self._module)
            self._module = ""
            self.description = module.__doc__
            self.set_defaults(run=module.run)
            module.add_arguments(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.load()
        namespace, unknown = super().parse_known_args(args, namespace)
        known_options = self._option_string_actions  # argparse has no public access to them
        words = (word.partition("=")[0] for word in unknown if word.startswith("--"))
        if suggestion := next(filter(None, (nearest(word, known_options) for word in words)), ""):
            self.error(f"unrecognized arguments: {' '.join(unknown)}{suggestion}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        stop = "" if message.endswith(("?", ".")) else "."
        self.exit(2, f"preflight: {harmless(message)}{stop} See {self.asked or self.prog} --help\n")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return an addition to an error about an unknown word: "; did you mean check?", or "" if none is close."""
    import difflib  # only for mistyped words

    matches = difflib.get_close_matches(word, known, 1, 0.75)
    return f". Did you mean {matches[0]}?" if matches else ""


def harmless(text: str) -> str:
    """Return the sentence made safe for a terminal, line by line. It may quote the user, a file or a host."""
    return "\n".join(map(printable, text.splitlines()))
