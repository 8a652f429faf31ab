"""`preflight diagnose`: the first error of a job, from its logs."""

import argparse
import json
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from preflight.app.options import DefaultPath
from preflight.cli.pipe import reader_may_leave
from preflight.diagnose import told
from preflight.diagnose.fetched import FetchedLog
from preflight.diagnose.gather import Gathered
from preflight.diagnose.judge import diagnosis
from preflight.diagnose.reading import Source, Unread, read, sources
from preflight.diagnose.types import Diagnosis, ErrorGroup, LastLines, LoggedError
from preflight.model.errors import UsageError
from preflight.model.text import printable
from preflight.report.console import show, width
from preflight.report.text import Line

_SHOWN = 8  # files named in lists of unread and of fetched files


@dataclass(frozen=True)
class _ReadLogs:
    """Logs that were read: their number, those that could not be read, and copies of hosts' files, if any were made."""

    gathered: Gathered
    files: int
    unread: Sequence[Unread]
    copies: Sequence[FetchedLog] | None = None
    notes: tuple[str, ...] = ()


def run(args: argparse.Namespace) -> int:
    logs = _read_fetched(args) if args.fetch else _read_local(args)
    result = diagnosis(logs.gathered)
    result = replace(result, notes=(*result.notes, *logs.notes))
    code = 1 if result.is_error else 3 if logs.unread else 0
    with reader_may_leave():
        if args.output == "json":
            print(json.dumps(_document(result, logs, code), indent=1))
        else:
            show(_lines(result, logs, _next(result, args.inventory)))
    return code


def _read_fetched(args: argparse.Namespace) -> _ReadLogs:
    """Read logs of hosts, whose copies are then removed."""
    from preflight.cli.jobs.fetched_logs import fetched_logs  # a run on local files loads no transport

    gathered = Gathered()
    with fetched_logs(args) as fetched:
        unread = [*fetched.unread, *_read(fetched.sources, gathered)]
    return _ReadLogs(gathered, len(fetched.sources), unread, fetched.copies, tuple(fetched.notes))


def _read_local(args: argparse.Namespace) -> _ReadLogs:
    """Read files of this machine. Raise UsageError for options that are about hosts."""
    if not args.log:
        raise UsageError("diagnose needs log files or folders, or --fetch to collect the logs of the hosts")
    if args.limit or args.since or args.most or not isinstance(args.inventory, DefaultPath):
        raise UsageError("-i, --limit, --since and --most need --fetch")
    gathered, files = Gathered(), sources([Path(name) for name in args.log])
    return _ReadLogs(gathered, len(files), _read(files, gathered))


def _read(files: Iterable[Source], gathered: Gathered) -> list[Unread]:
    """Read the files into `gathered`, and return those that could not be read."""
    return [unread for source in files if (unread := read(source, gathered))]


def _next(result: Diagnosis, inventory: Path) -> str:
    lead = result.cause or (result.echoes[0] if result.echoes else None)
    if lead and lead.sign.checks:
        return f"preflight explain {lead.sign.checks[0]}"
    if lead:
        return lead.sign.fix
    return shlex.join(["preflight", "check", "--inventory", str(inventory)])


def _lines(result: Diagnosis, logs: _ReadLogs, next_step: str) -> Iterator[Line]:
    columns = width()
    for style, indent, text in told.lines(result):
        yield from (Line(line, style) for line in _wrapped(text, indent, columns))
    if logs.copies:
        yield from (Line(line, "dim") for line in _wrapped(_fetched_files(logs.copies), "", columns))
    for log in logs.unread[:_SHOWN]:
        yield from (Line(line, "warn") for line in _wrapped(f"not read: {log.name}: {log.why}", "", columns))
    if len(logs.unread) > _SHOWN:
        yield Line(f"not read: {len(logs.unread) - _SHOWN} more files (-o json lists all)", "warn")
    yield _verdict(result, logs)
    yield from (Line(line, "next") for line in _wrapped(f"next: {next_step}", "", columns))


def _verdict(result: Diagnosis, logs: _ReadLogs) -> Line:
    """Return the line on the result. Without an error it depends on whether all files were read."""
    files = "1 file" if logs.files == 1 else f"{logs.files} files"
    parts = ["error found"] if result.is_error else [] if logs.unread else ["no error found"]
    parts += ["some files could not be read"] if logs.unread else []
    return Line(f"{files}: {', '.join(parts)}", "fail" if result.is_error else "unknown" if logs.unread else "pass")


def _fetched_files(copies: Sequence[FetchedLog]) -> str:
    hosts = len({copy.host for copy in copies})
    size = sum(copy.size for copy in copies)
    amount = f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size} bytes"
    names = [f"{copy.host}:{copy.file}" for copy in copies[:_SHOWN]]
    remainder = [f"{len(copies) - _SHOWN} more (-o json lists all)"] if len(copies) > _SHOWN else []
    from_ = "1 host" if hosts == 1 else f"{hosts} hosts"
    return f"fetched {amount} from {from_}: {', '.join(names + remainder)}"


def _wrapped(text: str, indent: str, columns: int) -> list[str]:
    """Wrap the text at blanks. Quoted lines are also cut where they are too long for the terminal."""
    quoted = indent.endswith("| ")
    return textwrap.wrap(
        printable(text),
        columns,
        initial_indent=indent,
        subsequent_indent=indent if quoted else " " * max(len(indent), 2),
        break_long_words=quoted,
        break_on_hyphens=False,
    )


def _document(result: Diagnosis, logs: _ReadLogs, code: int) -> dict[str, Any]:
    """Return the preflight.diagnosis/1 document (docs/contracts.md)."""
    return {
        "schema": "preflight.diagnosis/1",
        "exit": code,
        "files": logs.files,
        "cause": _group(result.cause) if result.cause else None,
        "others": list(map(_group, result.others)),
        "echoes": list(map(_group, result.echoes)),
        "named": [{"who": name, "by": count} for name, count in result.named],
        "silent_ranks": list(result.silent),
        "unlogged_ranks": list(result.unlogged),
        "unexplained": result.unexplained,
        "last_lines": list(map(_last, result.last)),
        "hints": list(map(_group, result.hints)),
        "notes": list(result.notes),
        "unread": [{"file": log.name, "why": log.why} for log in logs.unread],
        **_fetched(logs.copies),
    }


def _fetched(copies: Sequence[FetchedLog] | None) -> dict[str, Any]:
    """Return the document's part on the hosts' files; empty if none were asked for."""
    if copies is None:
        return {}
    files = [{"host": copy.host, "file": copy.file, "bytes": copy.size, "from": copy.begin} for copy in copies]
    return {"fetched": files}


def _group(group: ErrorGroup) -> dict[str, Any]:
    sign = group.sign
    return {
        "error": sign.id,
        "kind": sign.role.value,
        "cause": sign.cause,
        "next": sign.fix,
        "commands": told.commands(group),
        "checks": list(sign.checks),
        "seen": [_seen(sighting) for sighting in group.seen],
    }


def _last(last: LastLines) -> dict[str, Any]:
    process = last.who
    time = told.when(last.time) if last.time is not None else None
    return {
        "rank": process.rank,
        "host": process.host or None,
        "device": process.device or None,
        "pid": process.pid,
        "file": last.file,
        "time": time,
        "lines": list(last.lines),
    }


def _seen(seen: LoggedError) -> dict[str, Any]:
    process = seen.who
    return {
        "rank": process.rank,
        "host": process.host or None,
        "device": process.device or None,
        "pid": process.pid,
        "time": told.when(seen.time) if seen.time is not None else None,
        "file": seen.file,
        "line": seen.number,
        "text": seen.text,
        "count": seen.count,
    }
