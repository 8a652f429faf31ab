"""A diagnosis as lines of text. Pure."""

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from preflight.diagnose.errors.launchers import LAUNCHER
from preflight.diagnose.types import Diagnosis, ErrorGroup, LoggedError, Role, Sign, Who
from preflight.model.cluster import Host
from preflight.model.host_command import on_host
from preflight.model.number_ranges import number_ranges

_StyledLine = tuple[str, str, str]  # style (see report.text.Line), indent and text
_NAMES = 6  # processes that are named individually
_KINDS = 5  # kinds of errors that are shown after the first
_QUOTED = 300  # characters of a line
_LAST_QUOTED = 160  # of a last line
_HERE = ("preflight ", "scontrol ", "sinfo ")  # commands that are not for the host of the error
_NAME = re.compile(r"[A-Za-z0-9][\w.:-]*")  # a host that a command may name
_PCI = re.compile(r"[\da-fA-F]{4,8}:[\da-fA-F]{2}:[\da-fA-F]{2}")


def writer_name(writer: Who) -> str:
    """Return the name of a writer, as far as it is known: rank 3 (node01, device 3, process 17528)."""
    parts = [
        writer.host,
        f"device {writer.device}" if writer.device else "",
        f"process {writer.pid}" if writer.pid is not None else "",
    ]
    details = ", ".join(filter(None, parts))
    if writer.rank is not None:
        return f"rank {writer.rank} ({details})" if details else f"rank {writer.rank}"
    return details or writer.file


def when(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def lines(result: Diagnosis) -> list[_StyledLine]:
    """Return the lines of a diagnosis."""
    return [
        *_causes(result),
        *_echoes(result),
        *_last(result),
        *(("", "", text) for text in _silent(result)),
        *(("dim", "", text) for text in _named_peers(result)),
        *(("dim", "", _hint(group)) for group in result.hints),
        *(("dim", "", f"note: {note}") for note in result.notes),
    ]


def _causes(result: Diagnosis) -> list[_StyledLine]:
    output = _block("FIRST   ", result.cause, "fail") if result.cause else []
    for group in result.others[:_KINDS]:
        output += _block("THEN    ", group, "warn")
    hidden = len(result.others) - _KINDS
    if hidden > 0:
        output.append(("warn", "", f"THEN    {hidden} more kinds of errors (-o json lists all)"))
    return output


def _echoes(result: Diagnosis) -> list[_StyledLine]:
    """Return the consequences, and that no cause is known if there is none."""
    output: list[_StyledLine] = []
    for group in result.echoes:
        output += _echo(group, leads=not result.cause and group is result.echoes[0])
    if result.unexplained:
        output.append(("warn", "", "The job ended early, and these logs do not show why."))
    elif result.echoes and not result.cause:
        output.append(("warn", "", _no_culprit(result)))
    return output


def _hint(group: ErrorGroup) -> str:
    times = _times(sum(error.count for error in group.seen))
    return f"note: {group.sign.cause} ({group.sign.id}, {_place(group.first)}{times})"


def _no_culprit(result: Diagnosis) -> str:
    if result.echoes[0].sign.role is Role.ENDED:
        return "No rank is the culprit. The job was stopped from outside."
    return "No culprit is identified. Every rank that logged an error had waited for other ranks or lost them."


def _last(result: Diagnosis) -> list[_StyledLine]:
    """Return the last lines of ranks that stopped first, or of logs without an error."""
    if not result.last:
        return []
    subject = "of each rank that stopped first" if result.unexplained else "of each log without an error, oldest first"
    block = [("", "", f"last lines {subject}:")]
    for last in result.last:
        name = writer_name(last.who)
        file = f" ({last.file})" if name != last.file else ""
        block.append(("", "    ", f"{name}{_time(last.time)}{file}"))
        block += [("dim", "    | ", line[:_LAST_QUOTED]) for line in last.lines]
    return block


def _silent(result: Diagnosis) -> list[str]:
    """Return which ranks logged no error, and of which there is no log."""
    logged = sorted(set(result.silent) - set(result.unlogged))
    texts = []
    if logged:
        texts.append(
            f"The logs of rank{_plural(logged)} {number_ranges(logged)} have no error. Check {_pronoun(logged)} first."
        )
    if result.unlogged:
        texts.append(f"There are no logs from rank{_plural(result.unlogged)} {number_ranges(result.unlogged)}.")
    return texts


def _named_peers(result: Diagnosis) -> list[str]:
    """Return which ranks, hosts and devices others waited for."""
    quiet = {f"rank {rank}" for rank in set(result.silent) - set(result.unlogged)}
    texts = []
    for name, count in result.named:
        reason = "This rank logged no error." if name in quiet else f"This does not prove that {name} is the culprit."
        texts.append(f"{count} process{'es' if count > 1 else ''} waited for {name} or lost it. {reason}")
    return texts


def _plural(items: Sequence[int]) -> str:
    return "" if len(items) == 1 else "s"


def _pronoun(items: Sequence[int]) -> str:
    return "this rank" if len(items) == 1 else "these ranks"


def _block(label: str, group: ErrorGroup, style: str) -> list[_StyledLine]:
    first, sign = group.first, group.sign
    block = [(style, "", f"{label}{sign.id}  {writer_name(first.who)}{_time(first.time)}")]
    block.append(("", "    ", sign.cause))
    block.append(("dim", "    | ", first.text[:_QUOTED]))
    block.append(("dim", "    ", _place(first)))
    if len(group.seen) > 1:
        block.append(("", "    ", f"same error: {_other_writers(group.seen[1:])}"))
    if sign.role is Role.LINK:
        block.append(("", "    ", "The fault is between two ends. Neither end is identified as the culprit."))
    return block + _fix(group)


def _fix(group: ErrorGroup) -> list[_StyledLine]:
    """Return the next step in words, its commands for the host of the first error, and the checks that prove it."""
    sign = group.sign
    block = [("next", "    ", f"fix: {sign.fix}"), *(("next", "      ", command) for command in commands(group))]
    if sign.checks:
        block.append(("next", "    ", f"check: preflight check --only {','.join(sign.checks)}"))
    return block


def commands(group: ErrorGroup) -> list[str]:
    """Return the commands of the next step, for the host and the device of the first error."""
    return [command for line in group.sign.commands if (command := _filled(line, group.first.who))]


def _filled(command: str, writer: Who) -> str:
    """Return a command as it is typed here, empty if it needs a device that is not known."""
    device = f"{writer.device}.0" if _PCI.fullmatch(writer.device) else writer.device
    if "{device}" in command and not device:
        return ""
    command = command.replace("{device}", shlex.quote(device))
    if command.startswith(_HERE) or not _NAME.fullmatch(writer.host):
        return command
    return on_host(Host(writer.host, writer.host), command)


def _label(sign: Sign) -> str:
    if sign.role is Role.ENDED or sign.id == LAUNCHER:
        return "ENDED   "
    return "WAITED  " if sign.role is Role.WAIT else "LATER   "


def _echo(group: ErrorGroup, *, leads: bool) -> list[_StyledLine]:
    sign = group.sign
    label = _label(sign)
    since = f", since {when(group.first.time)}" if group.first.time is not None else ""
    block = [("dim", "", f"{label}{sign.id}  {_all_writers(group.seen)}{since}")]
    block.append(("dim", "    ", sign.cause))
    if leads:
        block.append(("dim", "    | ", group.first.text[:_QUOTED]))
        block.append(("dim", "    ", _place(group.first)))
        block += _fix(group)
    return block


def _time(time: float | None) -> str:
    return "" if time is None else f", {when(time)}"


def _place(seen: LoggedError) -> str:
    return f"{seen.file}:{seen.number}"


def _times(count: int) -> str:
    return f", {count} times" if count > 1 else ""


def _all_writers(seen: Sequence[LoggedError]) -> str:
    """Return the writers of errors, with ranks as ranges."""
    ranks = sorted({error.who.rank for error in seen if error.who.rank is not None})
    if len(ranks) == 1 and len(seen) == 1:
        return writer_name(seen[0].who)
    unnamed = list(dict.fromkeys(writer_name(error.who) for error in seen if error.who.rank is None))
    parts = [f"rank{'s' if len(ranks) > 1 else ''} {number_ranges(ranks)}"] if ranks else []
    parts += unnamed[:_NAMES]
    if len(unnamed) > _NAMES:
        parts.append(f"{len(unnamed) - _NAMES} more")
    return ", ".join(parts)


def _other_writers(seen: Sequence[LoggedError]) -> str:
    """Return the writers of errors, with the hosts of ranks if they are known: they are to be checked."""
    hosts = list(dict.fromkeys(error.who.host for error in seen if error.who.rank is not None and error.who.host))
    if not hosts:
        return _all_writers(seen)
    if len(seen) <= _NAMES:
        return ", ".join(writer_name(error.who) for error in seen)
    suffix = f" and {len(hosts) - _NAMES} more" if len(hosts) > _NAMES else ""
    return f"{_all_writers(seen)} (ranks on {', '.join(hosts[:_NAMES])}{suffix})"
