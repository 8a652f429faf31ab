"""Explain a check: why it matters, how to check it manually, and how to fix it.

  preflight explain PRT101
  preflight explain prb103

The case of the id does not matter.
"""

import argparse
import textwrap

from preflight.checks.engine.catalogue import CheckEntry, catalogue
from preflight.cli.commands.list_checks import WIDTH
from preflight.model.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of a check, such as PRT101")


def run(args: argparse.Namespace) -> int:
    print(text(find(args.id)))
    return 0


def find(id_: str) -> CheckEntry:
    """Return the check with this id, in any case. Raise UsageError with the nearest id."""
    checks = catalogue()
    if id_.upper() in checks:
        return checks[id_.upper()]
    from preflight.checks.engine.run import nearest

    raise UsageError(f"there is no check {id_!r}; {nearest(checks, id_)}")


def text(check: CheckEntry) -> str:
    """Return the explanation, at most 80 columns wide where its words allow that."""
    scope = "compares hosts" if check.scope == "cluster" else "looks at each host by itself"
    about = f"severity {check.severity}; for {check.for_whom}; {scope}; needs {', '.join(check.needs)}"
    lines = [*_wrap(f"{check.id}  {check.title}", ""), *_wrap(about, "")]
    for paragraph in check.explanation.split("\n\n"):
        label, _, words = " ".join(paragraph.split()).partition(": ")
        lines += ["", f"{label}:", *_wrap(words, "  ")]
    return "\n".join(lines)


def _wrap(words: str, indent: str) -> list[str]:
    return textwrap.wrap(
        words, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
