"""A diagnosis as lines of text. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from preflight.diagnose.errors.launchers import LAUNCHER
from preflight.diagnose.types import Diagnosis, Group, Role, Seen, Sign, Who

_NAMES = 6  # processes that are named individually
_KINDS = 5  # kinds of errors that are shown after the first
_QUOTED = 300  # characters of a line
_LAST_QUOTED = 160  # of a last line


def who(who: Who) -> str:
    """Return the name of a writer, as far as it is known: rank 3 (node01, device 3, process 17528)."""
    parts = [
        who.host,
        f"device {who.device}" if who.device else "",
        f"process {who.pid}" if who.pid is not None else "",
    ]
    details = ", ".join(filter(None, parts))
    if who.rank is not None:
        return f"rank {who.rank} ({details})" if details else f"rank {who.rank}"
    return details or who.file


def when(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def lines(found: Diagnosis) -> list[tuple[str, str, str]]:
    """Return each line's style (see report.text.Line), indent and text."""
    output: list[tuple[str, str, str]] = []
    if found.cause:
        output += _block("FIRST   ", found.cause, "fail")
    for group in found.others[:_KINDS]:
        output += _block("THEN    ", group, "warn")
    if len(found.others) > _KINDS:
        output.append(("warn", "", f"THEN    {len(found.others) - _KINDS} more kinds of errors (-o json has them all)"))
    for group in found.echoes:
        output += _echo(group, leads=not found.cause and group is found.echoes[0])
    if found.unexplained:
        output.append(("warn", "", "The job ended early, and these logs do not tell why."))
    elif found.echoes and not found.cause:
        output.append(("warn", "", _no_culprit(found)))
    output += _last(found)
    output += [("", "", text) for text in _silent(found)]
    output += [("dim", "", text) for text in _named(found)]
    for group in found.hints:
        output.append(
            (
                "dim",
                "",
                f"note: {group.sign.cause} ({group.sign.id}, {_place(group.first)}"
                f"{_times(sum(error.count for error in group.seen))})",
            )
        )
    output += [("dim", "", f"note: {note}") for note in found.notes]
    return output


def _no_culprit(found: Diagnosis) -> str:
    if found.echoes[0].sign.role is Role.ENDED:
        return "No rank is the culprit: the job was ended from outside."
    return "No culprit is identified: every rank that logged an error waited for others, or lost them."


def _last(found: Diagnosis) -> list[tuple[str, str, str]]:
    """Return the last lines of ranks that stopped first, or of logs without an error."""
    if not found.last:
        return []
    subject = (
        "of each rank that stopped first"
        if found.unexplained
        else "of each log without an error, the first to end first"
    )
    block = [("", "", f"last lines {subject}:")]
    for last in found.last:
        at = f", {when(last.time)}" if last.time is not None else ""
        name = who(last.who)
        block.append(("", "    ", f"{name}{at}" if name == last.file else f"{name}{at} ({last.file})"))
        block += [("dim", "    | ", line[:_LAST_QUOTED]) for line in last.lines]
    return block


def _silent(found: Diagnosis) -> list[str]:
    """Return which ranks logged no error, and of which there is no log."""
    logged = sorted(set(found.silent) - set(found.unlogged))
    texts = []
    if logged:
        texts.append(f"no error in the logs of rank{_plural(logged)} {_ranges(logged)}: check {_these(logged)} first")
    if found.unlogged:
        texts.append(f"no log here of rank{_plural(found.unlogged)} {_ranges(found.unlogged)}")
    return texts


def _named(found: Diagnosis) -> list[str]:
    """Return which ranks, hosts and devices others waited for."""
    quiet = {f"rank {rank}" for rank in set(found.silent) - set(found.unlogged)}
    texts = []
    for name, count in found.named:
        reason = "it logged no error" if name in quiet else "which alone does not make it the culprit"
        texts.append(f"named by {_counted(count, 'process', 'processes')}: {name} ({reason})")
    return texts


def _plural(items: Sequence[int]) -> str:
    return "" if len(items) == 1 else "s"


def _these(items: Sequence[int]) -> str:
    return "it" if len(items) == 1 else "them"


def _block(label: str, group: Group, style: str) -> list[tuple[str, str, str]]:
    first, sign = group.first, group.sign
    at = f", {when(first.time)}" if first.time is not None else ""
    block = [(style, "", f"{label}{sign.id}  {who(first.who)}{at}")]
    block.append(("", "    ", sign.cause))
    block.append(("dim", "    | ", first.text[:_QUOTED]))
    block.append(("dim", "    ", _place(first)))
    if len(group.seen) > 1:
        block.append(("", "    ", f"the same on {_others(group.seen[1:])}"))
    if sign.role is Role.LINK:
        block.append(("", "    ", "The fault is between two ends: neither is identified as the culprit."))
    block.append(("next", "    -> ", sign.step))
    if sign.checks:
        block.append(("next", "    -> ", f"proved by: preflight check --only {','.join(sign.checks)}"))
    return block


def _label(sign: Sign) -> str:
    if sign.role is Role.ENDED or sign.id == LAUNCHER:
        return "ENDED   "
    return "WAITED  " if sign.role is Role.WAIT else "LATER   "


def _echo(group: Group, *, leads: bool) -> list[tuple[str, str, str]]:
    sign = group.sign
    label = _label(sign)
    since = f", from {when(group.first.time)} on" if group.first.time is not None else ""
    block = [("dim", "", f"{label}{sign.id}  {_all(group.seen)}{since}")]
    block.append(("dim", "    ", sign.cause))
    if leads:
        block.append(("dim", "    | ", group.first.text[:_QUOTED]))
        block.append(("dim", "    ", _place(group.first)))
        block.append(("next", "    -> ", sign.step))
        if sign.checks:
            block.append(("next", "    -> ", f"checked by: preflight check --only {','.join(sign.checks)}"))
    return block


def _place(seen: Seen) -> str:
    return f"{seen.file}:{seen.number}"


def _times(count: int) -> str:
    return f", {count} times" if count > 1 else ""


def _counted(count: int, one: str, many: str) -> str:
    return f"1 {one}" if count == 1 else f"{count} {many}"


def _all(seen: Sequence[Seen]) -> str:
    """Return the writers of errors, with ranks as ranges."""
    ranks = sorted({error.who.rank for error in seen if error.who.rank is not None})
    if len(ranks) == 1 and len(seen) == 1:
        return who(seen[0].who)
    unnamed = list(dict.fromkeys(who(error.who) for error in seen if error.who.rank is None))
    parts = [f"rank{'s' if len(ranks) > 1 else ''} {_ranges(ranks)}"] if ranks else []
    parts += unnamed[:_NAMES]
    if len(unnamed) > _NAMES:
        parts.append(f"{len(unnamed) - _NAMES} more")
    return ", ".join(parts)


def _others(seen: Sequence[Seen]) -> str:
    """Return the writers of errors, with the hosts of ranks if they are known: they are to be checked."""
    hosts = list(dict.fromkeys(error.who.host for error in seen if error.who.rank is not None and error.who.host))
    if not hosts:
        return _all(seen)
    if len(seen) <= _NAMES:
        return ", ".join(who(error.who) for error in seen)
    suffix = f" and {len(hosts) - _NAMES} more" if len(hosts) > _NAMES else ""
    return f"{_all(seen)} (ranks on {', '.join(hosts[:_NAMES])}{suffix})"


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ranges: 0-3,6."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ",".join(f"{low}-{high}" if low != high else f"{low}" for low, high in ranges)
