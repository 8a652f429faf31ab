"""A diagnosis as lines of text. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from preflight.diagnose.errors.launchers import LAUNCHER
from preflight.diagnose.types import Diagnosis, Group, Role, Seen, Sign, Who

_NAMES = 6  # processes that are named one by one
_KINDS = 5  # of errors that are told of after the first
_QUOTED = 300  # characters of a line
_LAST_QUOTED = 160  # of a last line


def who(who: Who) -> str:
    """rank 3 (node01, device 3, process 17528): what is known of them."""
    parts = [
        who.host,
        f"device {who.device}" if who.device else "",
        f"process {who.pid}" if who.pid is not None else "",
    ]
    rest = ", ".join(filter(None, parts))
    if who.rank is not None:
        return f"rank {who.rank} ({rest})" if rest else f"rank {who.rank}"
    return rest or who.file


def when(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def lines(found: Diagnosis) -> list[tuple[str, str, str]]:
    """Return each line's style (see report.text.Line), indent and text."""
    told: list[tuple[str, str, str]] = []
    if found.cause:
        told += _block("FIRST   ", found.cause, "fail")
    for group in found.others[:_KINDS]:
        told += _block("THEN    ", group, "warn")
    if len(found.others) > _KINDS:
        told.append(("warn", "", f"THEN    {len(found.others) - _KINDS} more kinds of errors (-o json has them all)"))
    for group in found.echoes:
        told += _echo(group, leads=not found.cause and group is found.echoes[0])
    if found.unexplained:
        told.append(("warn", "", "The job ended early, and these logs do not tell why."))
    elif found.echoes and not found.cause:
        told.append(("warn", "", _no_culprit(found)))
    told += _last(found)
    told += [("", "", text) for text in _silent(found)]
    told += [("dim", "", text) for text in _named(found)]
    for group in found.hints:
        told.append(
            (
                "dim",
                "",
                f"note: {group.sign.cause} ({group.sign.id}, {_place(group.first)}"
                f"{_times(sum(seen.count for seen in group.seen))})",
            )
        )
    told += [("dim", "", f"note: {note}") for note in found.notes]
    return told


def _no_culprit(found: Diagnosis) -> str:
    if found.echoes[0].sign.role is Role.ENDED:
        return "No rank is the culprit: the job was ended from outside."
    return "No culprit is identified: every rank that logged an error waited for others, or lost them."


def _last(found: Diagnosis) -> list[tuple[str, str, str]]:
    """Return the last lines of ranks that stopped first, or of logs without an error."""
    if not found.last:
        return []
    what = (
        "of each rank that stopped first"
        if found.unexplained
        else "of each log without an error, the first to end first"
    )
    told = [("", "", f"last lines {what}:")]
    for last in found.last:
        at = f", {when(last.time)}" if last.time is not None else ""
        name = who(last.who)
        told.append(("", "    ", f"{name}{at}" if name == last.file else f"{name}{at} ({last.file})"))
        told += [("dim", "    | ", line[:_LAST_QUOTED]) for line in last.lines]
    return told


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
    told = [(style, "", f"{label}{sign.id}  {who(first.who)}{at}")]
    told.append(("", "    ", sign.cause))
    told.append(("dim", "    | ", first.text[:_QUOTED]))
    told.append(("dim", "    ", _place(first)))
    if len(group.seen) > 1:
        told.append(("", "    ", f"the same on {_others(group.seen[1:])}"))
    if sign.role is Role.LINK:
        told.append(("", "    ", "The fault is between two ends: neither is identified as the culprit."))
    told.append(("next", "    -> ", sign.step))
    if sign.checks:
        told.append(("next", "    -> ", f"proved by: preflight check --only {','.join(sign.checks)}"))
    return told


def _label(sign: Sign) -> str:
    if sign.role is Role.ENDED or sign.id == LAUNCHER:
        return "ENDED   "
    return "WAITED  " if sign.role is Role.WAIT else "LATER   "


def _echo(group: Group, *, leads: bool) -> list[tuple[str, str, str]]:
    sign = group.sign
    label = _label(sign)
    since = f", from {when(group.first.time)} on" if group.first.time is not None else ""
    told = [("dim", "", f"{label}{sign.id}  {_all(group.seen)}{since}")]
    told.append(("dim", "    ", sign.cause))
    if leads:
        told.append(("dim", "    | ", group.first.text[:_QUOTED]))
        told.append(("dim", "    ", _place(group.first)))
        told.append(("next", "    -> ", sign.step))
        if sign.checks:
            told.append(("next", "    -> ", f"checked by: preflight check --only {','.join(sign.checks)}"))
    return told


def _place(seen: Seen) -> str:
    return f"{seen.file}:{seen.number}"


def _times(count: int) -> str:
    return f", {count} times" if count > 1 else ""


def _counted(count: int, one: str, many: str) -> str:
    return f"1 {one}" if count == 1 else f"{count} {many}"


def _all(seen: Sequence[Seen]) -> str:
    """Ranks as ranges, where all have one."""
    ranks = sorted({one.who.rank for one in seen if one.who.rank is not None})
    if len(ranks) == 1 and len(seen) == 1:
        return who(seen[0].who)
    unnamed = list(dict.fromkeys(who(one.who) for one in seen if one.who.rank is None))
    told = [f"rank{'s' if len(ranks) > 1 else ''} {_ranges(ranks)}"] if ranks else []
    told += unnamed[:_NAMES]
    if len(unnamed) > _NAMES:
        told.append(f"{len(unnamed) - _NAMES} more")
    return ", ".join(told)


def _others(seen: Sequence[Seen]) -> str:
    """With the hosts of ranks, where they are known: they are where to look."""
    hosts = list(dict.fromkeys(one.who.host for one in seen if one.who.rank is not None and one.who.host))
    if not hosts:
        return _all(seen)
    if len(seen) <= _NAMES:
        return ", ".join(who(one.who) for one in seen)
    more = f" and {len(hosts) - _NAMES} more" if len(hosts) > _NAMES else ""
    return f"{_all(seen)} (ranks on {', '.join(hosts[:_NAMES])}{more})"


def _ranges(numbers: Sequence[int]) -> str:
    """0-3,6 of ascending numbers."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ",".join(f"{low}-{high}" if low != high else f"{low}" for low, high in ranges)
