"""Differences of two runs, as folded lines and as JSON (docs/contracts.md, `preflight.diff/1`)."""

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import msgspec

from preflight.cli.history.baseline_output import alike, what, who
from preflight.cli.history.history_document import figure_row
from preflight.facts.documents.differences import Difference, DifferencePlace, cut
from preflight.inventory import fold
from preflight.model.figures import Comparison, shown_GBps
from preflight.model.outcome import Outcome
from preflight.model.text import printable
from preflight.provision.journal import PastRun
from preflight.report.blocks import folded
from preflight.report.diff import Diff, FindingChange, Side, moved
from preflight.report.text import Line, clipped

_FACTS = 30  # lines
_VALUES = 3  # pairs of values of one fact
_FINDINGS = 20  # lines
_FIGURES = 8  # of one kind of test
_SHOWN = 60  # characters of a value


def lines(diff: Diff, changing: Sequence[PastRun], columns: int) -> Iterator[Line]:
    """Yield the lines of the comparison. `changing` are the runs between the two that changed hosts."""
    for word, side in (("before", diff.before), ("after", diff.after)):
        yield from _wrapped(f"{word:8}{_named(side)}", "dim", columns)
    for past in changing:
        yield from _wrapped(f"{past.command} changed hosts in between: preflight history {past.run}", "warn", columns)
    yield Line("")
    yield from _facts(diff.facts.differences, columns)
    yield from _findings(diff.findings, columns)
    yield from _figures(diff.figures)
    for text in _not_compared(diff):
        yield from _wrapped(f"not compared: {text}", "dim", columns)
    yield Line(_verdict(diff), {0: "pass", 1: "warn"}.get(diff.exit_code, "unknown"))
    yield Line(f"next: {clipped(_next(diff))}", "next")  # not wrapped, so that it can be copied


def _wrapped(text: str, style: str, columns: int, indent: str = "") -> Iterator[Line]:
    deeper = indent + "  "
    for line in textwrap.wrap(
        clipped(text), columns, initial_indent=indent, subsequent_indent=deeper, break_on_hyphens=False
    ):
        yield Line(line, style)


def _named(side: Side) -> str:
    verdict = side.verdict.value if side.verdict else ""
    hosts = f"{len(side.hosts)} {'host' if len(side.hosts) == 1 else 'hosts'}"
    return ", ".join(filter(None, (side.name, side.command, verdict, side.started, hosts)))


def _facts(differences: Sequence[Difference], columns: int) -> Iterator[Line]:
    """Yield the changed facts, the ones that changed on most hosts first."""
    if not differences:
        return
    yield Line("facts", "title")
    by_name: dict[str, list[Difference]] = defaultdict(list)
    for difference in differences:
        by_name[difference.name].append(difference)
    texts: list[str] = []
    for name, same in sorted(by_name.items(), key=lambda item: (-_hosts(item[1]), item[0])):
        for difference in same[:_VALUES]:
            was, now = cut(difference.before, difference.after, _SHOWN)
            texts.append(f"{_places(difference.places)}: {name} {was} -> {now}")
        if len(same) > _VALUES:
            places = {place for difference in same[_VALUES:] for place in difference.places}
            texts.append(f"… and {len(same) - _VALUES} other changes of {name} in {len(places)} places")
    for text in texts[:_FACTS]:
        yield from _wrapped(text, "", columns, "  ")
    if len(texts) > _FACTS:
        yield Line(f"  … and {len(texts) - _FACTS} more (-o json lists all)", "dim")
    yield Line("")


def _hosts(same: Sequence[Difference]) -> int:
    return len({place.host for difference in same for place in difference.places})


def _places(places: Sequence[DifferencePlace]) -> str:
    """Return the places, folded: "node[01-63]", "node07 device 3", or "node[01-02] eth0" for equal elements."""
    elements: dict[str, list[str]] = defaultdict(list)  # host → its elements
    for place in places:
        elements[place.host].append(place.element)
    hosts: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host, host_elements in elements.items():
        hosts[tuple(host_elements)].append(host)
    parts = [f"{fold(names)}{_elements(host_elements)}" for host_elements, names in hosts.items()]
    remainder = [f"{len(parts) - _VALUES} more places"] if len(parts) > _VALUES else []
    return ", ".join([*parts[:_VALUES], *remainder])


def _elements(names: tuple[str, ...]) -> str:
    if names == ("",):
        return ""
    if all(word.isdigit() for word in names):
        return f" device{'s' if len(names) > 1 else ''} {fold(names).replace('[', '').replace(']', '')}"
    return f" {', '.join(names[:_VALUES])}{' …' if len(names) > _VALUES else ''}"


def _findings(changes: Sequence[FindingChange], columns: int) -> Iterator[Line]:
    if not changes:
        return
    yield Line("findings", "title")
    texts = list(_finding_texts(changes))
    for text, style in texts[:_FINDINGS]:
        yield from _wrapped(text, style, columns, "  ")
    if len(texts) > _FINDINGS:
        yield Line(f"  … and {len(texts) - _FINDINGS} more (-o json lists all)", "dim")
    yield Line("")


def _finding_texts(changes: Sequence[FindingChange]) -> Iterator[tuple[str, str]]:
    """Yield a text and its style for each kind of change, with equal findings folded."""
    same: dict[tuple[Outcome | None, Outcome | None, str], list[FindingChange]] = defaultdict(list)
    for change in changes:
        same[change.before, change.after, change.finding.check].append(change)
    for (before, after, check), group_changes in same.items():
        word, style = _change_word(before, after), after.value if after else "dim"
        for group in folded([change.finding for change in group_changes]):
            subject = f"{fold(group.hosts)}: " if group.hosts else ""
            yield f"{word} {check} {subject}{group.summary}", style


def _change_word(before: Outcome | None, after: Outcome | None) -> str:
    if after is None:
        return f"gone: {before.value if before else ''}"
    return f"{before.value} -> {after.value}" if before else f"new {after.value}"


def _figures(figures: Sequence[Comparison]) -> Iterator[Line]:
    """Yield one line for each kind of test, with the medians of its groups, and below it the groups that changed."""
    if not figures:
        return
    yield Line(f"{'before':>8}{'after':>9}{'ratio':>7}  bus bandwidth in GB/s", "title")
    for same in alike(figures, lambda comparison: comparison.now.shape):
        if len(same) == 1:
            yield _figure(same[0], f"{what(same[0].now.shape)}: {who([same[0].now.shape])}")
        else:
            yield from _figures_alike(same)
    yield Line("")


def _figure(comparison: Comparison, text: str) -> Line:
    return Line(_row(comparison.was.busbw, comparison.now.busbw, text), "warn" if moved(comparison) else "")


def _figures_alike(same: Sequence[Comparison]) -> Iterator[Line]:
    """Yield the medians of several groups, and below them the groups that changed."""
    shape = same[0].now.shape
    was = median(comparison.was.busbw for comparison in same)
    now = median(comparison.now.busbw for comparison in same)
    yield Line(_row(was, now, f"{what(shape)}: {len(same)} {shape.scope}s, medians"), "")
    changed = [comparison for comparison in same if moved(comparison)]
    for comparison in changed[:_FIGURES]:
        yield _figure(comparison, f"  {who([comparison.now.shape])}")
    if len(changed) > _FIGURES:
        yield Line(f"{'':26}  … and {len(changed) - _FIGURES} more (-o json lists all)", "dim")


def _row(was: float, now: float, text: str) -> str:
    return f"{shown_GBps(was):>8}{shown_GBps(now):>9}{now / was:>7.0%}  {printable(text)}"


def _not_compared(diff: Diff) -> Iterator[str]:
    yield from diff.not_compared
    sections: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for section, hosts in diff.facts.unseen.items():
        sections[hosts].append(section)
    for hosts, names in sections.items():
        yield f"{', '.join(names)} of {fold(hosts)} (missing in one or both)"
    both = set(diff.before.hosts) & set(diff.after.hosts)
    for side in (diff.before, diff.after):
        if single_hosts := [host for host in side.hosts if host not in both]:
            yield f"{fold(single_hosts)} (only in {side.name})"


def _verdict(diff: Diff) -> str:
    changed = sum(map(moved, diff.figures))
    if diff.is_blind:
        return "INCOMPLETE: nothing in common to compare"
    if not diff.is_different:
        return "SAME: no differences"
    facts, findings = len(diff.facts.differences), len(diff.findings)
    counts = [(facts, "fact"), (findings, "finding"), (changed, "figure")]
    return "DIFFERENT: " + ", ".join(f"{number} {word}{'' if number == 1 else 's'}" for number, word in counts)


def _next(diff: Diff) -> str:
    worse = (item for item in diff.findings if item.after in (Outcome.FAIL, Outcome.UNKNOWN))
    if first := next(worse, None):
        return f"preflight explain {first.finding.check}"
    if any(item.share < 1 and moved(item) for item in diff.figures):
        return "preflight explain PRB115"
    if diff.is_blind and diff.newer.verdict in (None, Outcome.PASS, Outcome.WARN):
        return "preflight history"  # to choose runs that have something in common
    return diff.newer.next_step or "preflight history"


def document(diff: Diff, changing: Sequence[PastRun]) -> str:
    facts = [
        {"name": item.name, "before": item.before, "after": item.after, "places": list(map(str, item.places))}
        for item in diff.facts.differences
    ]
    findings = [
        {
            "check": finding.check,
            "host": finding.host,
            "device": finding.device,
            "rail": finding.rail,
            "peer": finding.peer,
            "before": item.before,
            "after": item.after,
            "summary": finding.summary,
        }
        for item in diff.findings
        for finding in (item.finding,)
    ]
    figures = [
        {**figure_row(item.now), "before_GBps": item.was.busbw, "ratio": round(item.share, 4), "differs": moved(item)}
        for item in diff.figures
    ]
    body = {
        "schema": "preflight.diff/1",
        "exit": diff.exit_code,
        "before": _side(diff.before),
        "after": _side(diff.after),
        "facts": facts,
        "findings": findings,
        "figures": figures,
        "changed_by": [past.run for past in changing],
        "not_compared": list(_not_compared(diff)),
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()


def _side(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "run": side.run,
        "command": side.command,
        "started": side.started,
        "verdict": side.verdict,
        "hosts": side.hosts,
    }
