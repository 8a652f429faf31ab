"""`preflight support-bundle`: what a run left, in one file without secrets."""

import argparse
import codecs
import os
import platform
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from preflight import __version__
from preflight.app.files import refuse_existing, refuse_place
from preflight.app.saved import bundle_file
from preflight.app.saved.bundle_file import ABOUT, FACTS, INVENTORY, REPORT
from preflight.app.saved.named_run import checking_run
from preflight.app.saved.saved_report import of_report
from preflight.bounded_file import read_bounded
from preflight.cli.history.history_document import document as history_document
from preflight.cli.hosts.capture import inventory_to_give
from preflight.cli.jobs.fetched_logs import fetched_logs
from preflight.cli.wrapped import wrapped
from preflight.diagnose.reading import SNIFFED, Source, Unread, encoding_of, packed, sources
from preflight.facts.documents import facts_document as document
from preflight.facts.documents.capture import clean
from preflight.facts.documents.shareable import cleaner, shared
from preflight.history import documents
from preflight.history.runs import CheckRun, check_runs
from preflight.history.store import HistoryError
from preflight.inventory import InventoryError, dump
from preflight.model.errors import PreflightError, UsageError
from preflight.model.text import without_escapes
from preflight.provision.journal import directory

Clean = Callable[[Any], Any]
_RUNS = 50  # in history.json
_JOURNALS = 20
_LARGEST_JOURNAL = 1 << 28  # bytes
_MIB = 1 << 20
_LOG, _LOGS = 8 * _MIB, 64 * _MIB  # bytes of one log, counted from its end, and of all logs
_SHOWN = 8  # lines on missing content


@dataclass
class _Bundle:
    """Contents of a support bundle. `lacking` has sentences on content that was requested but is missing."""

    members: dict[str, bytes] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)
    logs: int = 0  # bytes


def run(args: argparse.Namespace) -> int:
    created = datetime.now(UTC)
    path = args.out / f"preflight-support-{created:%Y%m%d-%H%M%S}.zip" if args.out.is_dir() else args.out
    refuse_existing(path, force=args.force)
    refuse_place(path, "--out")
    past_run = checking_run(args.run_id, args.inventory)
    bundle = _Bundle()
    clean_ = cleaner()
    _add_run(bundle, past_run, clean_)
    if past_run.inventory:
        _add_inventory(bundle, Path(past_run.inventory))
    else:
        bundle.lacking.append("the inventory: the run had none")
    _add_past(bundle, clean_)
    with _logs(args) as (files, unread):
        _add_logs(bundle, files, [] if args.fetch else [Path(name) for name in args.log])
        bundle.lacking += [f"{log_unread.name}: {log_unread.why}" for log_unread in unread]
    about = {
        "schema": bundle_file.SCHEMA,
        "preflight": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "taken": created.isoformat(timespec="seconds"),
        "run": past_run.run,
        "files": {name: len(content) for name, content in bundle.members.items()},
        "lacking": clean(bundle.lacking),
    }
    members = {ABOUT: msgspec.json.format(msgspec.json.encode(about), indent=1), **bundle.members}
    bundle_file.write(path, members)
    print("\n".join(_summary(path, past_run, bundle)))
    return 3 if bundle.lacking else 0


def _add_run(bundle: _Bundle, past: CheckRun, clean_: Clean) -> None:
    """Add the run's facts and report, as far as they are kept."""
    for kind, name in ((documents.FACTS, FACTS), (documents.REPORT, REPORT)):
        try:
            text = documents.kept(past.run, kind)
        except HistoryError as error:
            bundle.lacking.append(str(error))
            continue
        if text is None:
            bundle.lacking.append(f"the {kind} of run {past.run}: not stored, or no longer stored")
        else:
            bundle.members[name] = shared(text, clean_)
    try:
        if FACTS in bundle.members:
            document.load(bundle.members[FACTS], FACTS)
        if REPORT in bundle.members:
            of_report(bundle.members[REPORT], REPORT)
    except UsageError as error:  # an unreadable document is of no use
        raise PreflightError(
            f"nothing was written, since removing secrets broke a file: {error}. Report this as a bug in preflight."
        ) from error


def _add_inventory(bundle: _Bundle, path: Path) -> None:
    try:
        bundle.members[INVENTORY] = dump(inventory_to_give(path)).encode()
    except InventoryError as error:
        bundle.lacking.append(f"the inventory: {error}")


def _add_past(bundle: _Bundle, clean_: Clean) -> None:
    """Add the history and journals of this machine."""
    bundle.members["history.json"] = shared(history_document(check_runs(_RUNS), whole=False).encode(), clean_)
    for path in sorted(directory().glob("*.jsonl"), reverse=True)[:_JOURNALS]:
        lines = []
        try:
            content = read_bounded(path, _LARGEST_JOURNAL)
        except OSError as error:
            bundle.lacking.append(f"the journal {path}: {error.strerror}")
            continue
        for line in content.splitlines():
            try:
                lines.append(msgspec.json.encode(clean_(msgspec.json.decode(line))))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue  # cut off when the machine went down
        bundle.members[f"journals/{_safe(path.name)}"] = b"".join(line + b"\n" for line in lines)


@contextmanager
def _logs(args: argparse.Namespace) -> Iterator[tuple[Sequence[Source], Sequence[Unread]]]:
    """Yield the requested logs, and those that could not be fetched."""
    if args.fetch:
        with fetched_logs(args) as fetched:
            yield fetched.sources, fetched.unread
        return
    if args.limit or args.since or args.most:
        raise UsageError("--limit, --since and --most need --fetch")
    yield (sources([Path(name) for name in args.log]) if args.log else ()), ()


def _add_logs(bundle: _Bundle, files: Sequence[Source], named_paths: Sequence[Path]) -> None:
    """Add logs, but no links: in a folder of logs they may lead to files that their author may not read."""
    for log in files:
        if not log.path.is_symlink() or log.path in named_paths:
            _add_log(bundle, log)
        elif not any(log.path.resolve().is_relative_to(folder.resolve()) for folder in named_paths):
            bundle.lacking.append(f"{log.name}: a link to outside the folder. To include it, give its own path.")


def _add_log(bundle: _Bundle, log: Source) -> None:
    """Add the end of a log, as much of it as there is room for."""
    room = min(_LOG, _LOGS - bundle.logs)
    if room <= 0:
        bundle.lacking.append(f"{log.name}: {_LOGS // _MIB} MiB of logs are included already")
        return
    try:
        with log.path.open("rb") as file:
            head = file.read(SNIFFED)
            encoding = encoding_of(head)
            if why := packed(head, log.path) or ("not text" if encoding is None else ""):
                bundle.lacking.append(f"{log.name}: {why}")
                return
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - room) // 2 * 2)  # whole letters of UTF-16
            content = file.read(room)
    except OSError as error:
        bundle.lacking.append(f"{log.name}: {error.strerror}")
        return
    bundle.logs += len(content)
    text = _text(content, head, encoding)
    if size > room:
        text = text.partition("\n")[2]
        part = f"the first {(size - room) / _MIB:.1f} of {size / _MIB:.1f} MiB" if text else "all of it, one long line"
        bundle.lacking.append(f"{log.name}: {part}")
    name = f"logs/{_safe(log.name)}"
    while name in bundle.members:
        name += "-"
    bundle.members[name] = clean(text).encode("utf-8", "backslashreplace")


def _text(content: bytes, head: bytes, encoding: str | None) -> str:
    """Return the text as consecutive letters, without which no secret would be recognized.

    Traces of log rotation, colours and other encodings between the letters are removed. The byte order is only in the
    head.
    """
    if encoding == "utf-16":
        encoding = "utf-16-be" if head.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
    errors = "replace" if encoding else "backslashreplace"
    text = content.decode(encoding or "utf-8", errors).removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(map(without_escapes, text.split("\n")))


def _safe(name: str) -> str:
    """Return a path below a folder: `node01:/var/log/messages` → node01/var/log/messages."""
    parts = clean(name).replace(":", "/").replace("\\", "_").split("/")
    safe_parts = ["".join(c if c.isprintable() else "_" for c in part) for part in parts if part not in ("", ".", "..")]
    return "/".join(safe_parts) or "log"


def _summary(path: Path, past: CheckRun, bundle: _Bundle) -> Iterator[str]:
    size = path.stat().st_size
    amount = f"{size / _MIB:.1f} MiB" if size >= _MIB else f"{max(1, size >> 10)} KiB"
    yield from wrapped(f"saved run {past.run} ({past.command}, {past.verdict.value}) in {path}")
    count = len(bundle.members)
    yield f"{amount}, {count} file{'' if count == 1 else 's'}, readable by you alone"
    for text in bundle.lacking[:_SHOWN]:
        yield from wrapped(f"not included: {text}")
    if len(bundle.lacking) > _SHOWN:
        yield f"not included: {len(bundle.lacking) - _SHOWN} more (see bundle.json)"
    yield from wrapped("Secrets are redacted, host names and addresses are not. Read the files before you share them.")
    command = f"check --from {shlex.quote(str(path))}" if FACTS in bundle.members else f"history {past.run}"
    yield f"next: preflight {command}"
