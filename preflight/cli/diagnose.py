"""Read the logs of a job that failed, and say who was first, why, and what to do.

  preflight diagnose job.log
  preflight diagnose logs/ -o json
  preflight diagnose node01/ascend/log node02/ascend/log

Reads output of torch and torchrun, NCCL and HCCL, CANN's plogs and kernel logs, files and folders of them; nothing
is contacted. Give it the logs of one run. The first error that differs stands first, then what others waited for.
Who is named by others alone is not convicted. What is read, and how it is judged: docs/diagnose.md.
"""

import argparse
import json
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from preflight.diagnose import told
from preflight.diagnose.gather import Gathered
from preflight.diagnose.judge import diagnosis
from preflight.diagnose.reading import Unread, read, sources
from preflight.diagnose.types import Diagnosis, Group, Seen
from preflight.report.console import show, width
from preflight.report.text import Line, printable

_SHOWN = 8  # files that could not be read, named one by one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", nargs="+", type=Path, metavar="LOG", help="a file, or a folder of them")
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")


def run(args: argparse.Namespace) -> int:
    gathered = Gathered()
    files = sources(args.log)
    unread = [why for source in files if (why := read(source, gathered))]
    found = diagnosis(gathered)
    code = 1 if found.is_error else 3 if unread else 0
    if args.output == "json":
        print(json.dumps(document(found, unread, len(files), code), indent=1))
    else:
        show(_lines(found, unread, len(files), _next(found)))
    return code


def _next(found: Diagnosis) -> str:
    lead = found.cause or (found.echoes[0] if found.echoes else None)
    if lead and lead.sign.checks:
        return f"preflight explain {lead.sign.checks[0]}"
    if lead:
        return lead.sign.step
    return "preflight check --inventory hosts.toml"


def _lines(found: Diagnosis, unread: Sequence[Unread], files: int, then: str) -> Iterator[Line]:
    columns = width()
    for style, indent, text in told.lines(found):
        yield from (Line(line, style) for line in _wrapped(text, indent, columns))
    for one in unread[:_SHOWN]:
        yield from (Line(line, "warn") for line in _wrapped(f"not read: {one.name}: {one.why}", "", columns))
    if len(unread) > _SHOWN:
        yield Line(f"not read: {len(unread) - _SHOWN} more files (-o json has them all)", "warn")
    of = "1 file" if files == 1 else f"{files} files"
    verdict = "an error was found" if found.is_error else "not all could be read" if unread else "no error was found"
    yield Line(f"{of}: {verdict}", "fail" if found.is_error else "unknown" if unread else "pass")
    yield from (Line(line, "next") for line in _wrapped(f"next: {then}", "", columns))


def _wrapped(text: str, indent: str, columns: int) -> list[str]:
    """Quoted lines are cut where they are too long for a terminal, all else is wrapped at blanks."""
    quoted = indent.endswith("| ")
    return textwrap.wrap(
        printable(text), columns, initial_indent=indent,
        subsequent_indent=indent if quoted else " " * max(len(indent), 2), break_long_words=quoted,
        break_on_hyphens=False,
    )  # fmt: skip


def document(found: Diagnosis, unread: Sequence[Unread], files: int, code: int) -> dict[str, Any]:
    """preflight.diagnosis/1 (docs/contracts.md)."""
    return {
        "schema": "preflight.diagnosis/1",
        "exit": code,
        "files": files,
        "cause": _group(found.cause) if found.cause else None,
        "others": [_group(group) for group in found.others],
        "echoes": [_group(group) for group in found.echoes],
        "named": [{"who": name, "by": count} for name, count in found.named],
        "silent_ranks": list(found.silent),
        "hints": [_group(group) for group in found.hints],
        "notes": list(found.notes),
        "unread": [{"file": one.name, "why": one.why} for one in unread],
    }


def _group(group: Group) -> dict[str, Any]:
    sign = group.sign
    return {"error": sign.id, "kind": sign.role.value, "cause": sign.cause, "next": sign.step,
            "checks": list(sign.checks), "seen": [_seen(seen) for seen in group.seen]}  # fmt: skip


def _seen(seen: Seen) -> dict[str, Any]:
    who = seen.who
    return {"rank": who.rank, "host": who.host or None, "device": who.device or None, "pid": who.pid,
            "time": told.when(seen.time) if seen.time is not None else None, "file": seen.file, "line": seen.number,
            "text": seen.text, "count": seen.count}  # fmt: skip
