"""`preflight parse`: the result of a parser, from saved tool output."""

import argparse
import difflib
import sys
from pathlib import Path
from typing import Any

import msgspec

from preflight.cli.outline import outline
from preflight.cli.pipe import reader_may_leave
from preflight.diagnose.reading import encoding_of
from preflight.facts.parsers.registry import PARSERS
from preflight.model.errors import UsageError

LONGEST = 16 << 20  # bytes read


def _text(name: str, parser: str) -> str:
    """Return the saved output. It may be UTF-16, which `>` of PowerShell and some editors write."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(LONGEST)
        else:
            with Path(name).open("rb") as file:
                data = file.read(LONGEST)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}. To parse saved output: preflight parse {parser} FILE") from error
    return data.decode(encoding_of(data[:4096]) or "utf-8", "replace").removeprefix("\ufeff")


def errors_in(value: Any) -> list[str]:
    """Return every error in a parser's result, at any depth. `value` is plain lists, dicts and texts."""
    if isinstance(value, dict):
        own = [value["error"]] if value.get("error") else []
        return own + [error for item in value.values() for error in errors_in(item)]
    if isinstance(value, list):
        return [error for item in value for error in errors_in(item)]
    return []


def run(args: argparse.Namespace) -> int:
    if args.list:
        width = max(map(len, PARSERS)) + 1
        for name, function in sorted(PARSERS.items()):
            print(f"{name:{width}}{(function.__doc__ or '').splitlines()[0]}")
        return 0
    if args.parser not in PARSERS:
        matches = difflib.get_close_matches(args.parser or "", PARSERS, n=1)
        hint = f"Did you mean {matches[0]}?" if matches else "To list the parsers: preflight parse --list"
        raise UsageError(f"there is no parser {args.parser!r}. {hint}" if args.parser else f"PARSER is missing. {hint}")

    document = msgspec.json.encode(PARSERS[args.parser](_text(args.file, args.parser)))
    value = msgspec.json.decode(document)
    with reader_may_leave():
        if args.output == "json":
            print(msgspec.json.format(document, indent=1).decode())
        else:
            print("\n".join(outline(value)))
    return 3 if errors_in(value) else 0
