"""The Report as one HTML file: findings first, then hosts × devices, pairs and bandwidths.

The file loads nothing, runs no script, and follows the reader's choice of light or dark. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain

from preflight.model.measure import Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome, overall, worst_by
from preflight.model.report import Report
from preflight.report.blocks import LINES_A_CHECK, FindingGroup, Fix, Fold, blocks, fixes, folded, retests
from preflight.report.slowest import slowest_groups
from preflight.report.text import clipped, count_line, evidence

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1f23; --dim: #5d6670; --line: #d5dae0; --fail: #c62828;
  --unknown: #7b3fa0; --warn: #a86400; --pass: #2e7d32; --skip: #9aa3ad; --none: #eef1f4;
  --time: #1565c0; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e6e9ec; --dim: #9aa3ad; --line: #343a41;
  --fail: #ff6b5e; --unknown: #c792ea; --warn: #ffb74d; --pass: #66bb6a; --skip: #6b747d; --none: #22272c;
  --time: #64a8f0; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; } .dim { color: var(--dim); }
code, pre, .mono { font-family: ui-monospace, monospace; font-size: .92em; overflow-wrap: anywhere; }
pre { background: var(--none); border-radius: 3px; margin: .3rem 0 .6rem; padding: .4rem .7rem; white-space: pre-wrap; }
.word { border-radius: 3px; color: var(--paper); font-size: .8rem; font-weight: 600; padding: .1rem .45rem; }
.finding { border-left: 4px solid; margin: .8rem 0; padding: .1rem 0 .1rem .8rem; }
.finding p { margin: .25rem 0; } .next { border: 1px solid var(--line); padding: .6rem .8rem; }
.scroll { max-height: 90vh; overflow: auto; }
table { border-collapse: collapse; } th { color: var(--dim); font-weight: 500; }
td, th { padding: .15rem .5rem; text-align: left; } td.n, th.n { text-align: right; }
.map td { border: 2px solid var(--paper); height: 1.1rem; min-width: 1.6rem; padding: 0 .2rem; }
.map td.n { color: var(--paper); font-size: .75rem; } th.down { writing-mode: vertical-rl; }
.bar { background: var(--pass); display: inline-block; height: .7rem; }
.time { width: 100%; } .time td, .time th { white-space: nowrap; }
.time td:nth-child(2) { min-width: 12rem; width: 100%; }
.track { background: var(--none); height: .8rem; } .span { background: var(--time); height: .8rem; min-width: 2px; }
.span.some { background: var(--unknown); }
""" + "".join(
    f".{word} {{ border-color: var(--{word}); }} .word.{word}, .map td.{word} {{ background: var(--{word}); }}\n"
    for word in (*Outcome, "none")
)
_SHOWN = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)
_TESTS = {
    TestOutcome.PASS: Outcome.PASS,
    TestOutcome.UNCHECKED: Outcome.PASS,
    TestOutcome.SLOW: Outcome.WARN,
    TestOutcome.FAIL: Outcome.FAIL,
    TestOutcome.HANG: Outcome.FAIL,
    TestOutcome.WRONG_DATA: Outcome.FAIL,
}
MOST_GROUPS = 50  # further findings of one check, which can be unfolded; the JSON has all
MOST_IN_A_MATRIX = 64  # devices; above it, the slowest pairs are listed
MOST_PAIRS = 50
MOST_PHASES = 100
MOST_DEVICES = 64  # on one host
LARGE = 4096  # bytes
NOTHING = "no separate result"


def html(report: Report, titles: Mapping[str, str], *, fold: Fold, next_step: str) -> str:
    """Return the whole file. `titles` maps check ids to titles; `fold` folds host names to node[01-16]."""
    sections = (
        ("Findings", _findings(report, titles, fold)),
        ("Hosts and devices", _places(report)),
        ("Bandwidth of pairs", _pairs(report.tests)),
        ("Bandwidth by size", _bandwidth(report.tests)),
        ("Probe rounds", _rounds(report.tests)),
        ("Timeline", _timeline(report)),
        ("Notes", _notes(report)),
    )
    body = "".join(f"<h2>{title}</h2>\n{text}" for title, parts in sections if (text := "".join(parts)))
    head = f"preflight {report.command} {report.run}"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{_safe(head)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>{_word(report.verdict)} {_safe(head)}</h1>\n"
        f'<p class="dim">{_safe(report.started)}, {report.seconds:.0f} s, {_hosts(report)}</p>\n'
        f"<p>{_safe(count_line(report))}</p>\n"
        f'<div class="next"><b>Next</b>\n<pre>{_safe(next_step)}</pre></div>\n{body}</body>\n</html>\n'
    )


def _hosts(report: Report) -> str:
    return f"{len(report.hosts)} host{'' if len(report.hosts) == 1 else 's'}"


def _safe(text: str) -> str:
    return escape(clipped(text))


def _word(outcome: Outcome) -> str:
    return f'<span class="word {outcome}">{outcome}</span>'


def _findings(report: Report, titles: Mapping[str, str], fold: Fold) -> Iterator[str]:
    for block in blocks(finding for finding in report.findings if finding.outcome in _SHOWN):
        checks, worst = block.checks, overall(finding.outcome for finding in block.findings)
        yield f'<div class="finding {worst}"><p>{_word(worst)} <b>{", ".join(checks)}</b> '
        yield f"{_safe(titles.get(checks[0], '') if len(checks) == 1 else '')}</p>\n"
        yield from _groups(folded(block.findings), fold)
        yield from _more_groups(folded(block.explained), "that follow from this", fold)
        yield "</div>\n"


def _groups(groups: Sequence[FindingGroup], fold: Fold) -> Iterator[str]:
    """Yield the first few groups, their remedies, and the other groups, folded away."""
    for group in groups[:LINES_A_CHECK]:
        yield from _group(group, fold)
    first_fixes, further_fixes = fixes(groups)
    for fix in first_fixes:
        yield _fix(fix)
    if further_fixes:
        yield f'<p class="dim">{further_fixes}</p>\n'
    for command in retests(groups):
        yield f"<p><b>Retest</b></p>\n<pre>{_safe(command)}</pre>\n"
    yield from _more_groups(groups[LINES_A_CHECK:], "like these", fold)


def _more_groups(groups: Sequence[FindingGroup], words: str, fold: Fold) -> Iterator[str]:
    """Yield groups that can be unfolded, if there are any."""
    if not groups:
        return
    yield f'<details><summary class="dim">{len(groups)} more {words}</summary>\n'
    for group in groups[:MOST_GROUPS]:
        yield from _group(group, fold)
    if len(groups) > MOST_GROUPS:
        yield f'<p class="dim">… and {len(groups) - MOST_GROUPS} more (-o json lists all)</p>\n'
    yield "</details>\n"


def _fix(fix: Fix) -> str:
    commands = "\n".join(_safe(command) for command in fix.commands)
    return f"<p><b>Fix:</b> {_safe(fix.remedy)}</p>\n" + (f"<pre>{commands}</pre>\n" if commands else "")


def _group(group: FindingGroup, fold: Fold) -> Iterator[str]:
    subject = f"{fold(group.hosts)}: " if group.hosts else ""
    yield f"<p>{_safe(subject + group.summary)}</p>\n"
    for line in filter(None, (group.compared, group.cause and f"likely cause: {group.cause}")):
        yield f'<p class="dim">{_safe(line)}</p>\n'
    if group.first.evidence:
        lines = "<br>".join(escape(line) for line in evidence(group.first.evidence))
        yield f'<details><summary class="dim">evidence</summary><p class="mono">{lines}</p></details>\n'


def _said(report: Report) -> Iterator[tuple[tuple[str, int | None], Outcome]]:
    """Yield the outcomes of checks and tests that concern one host (device: None) or one device alone."""
    for finding in report.findings:
        if finding.host and (finding.outcome is not Outcome.SKIP or finding.device is None):
            yield (finding.host, finding.device), finding.outcome
    for test in report.tests:  # with several members the fault is not located; findings name culprits
        if test.outcome in _TESTS and (len(test.members) == 1 or _TESTS[test.outcome] is Outcome.PASS):
            for member in test.members:
                yield (member.host, member.device), _TESTS[test.outcome]
    for culprit in report.culprits:
        for place in culprit.members:
            host, _, device = place.partition("/")
            yield (host, int(device) if device.isdecimal() else None), Outcome.FAIL


def _places(report: Report) -> Iterator[str]:
    """Yield one row for each host, with one cell for each device, coloured by the worst outcome that concerns it alone.

    The report has no list of devices, so the largest device number in it determines the number of columns.
    """
    worst = worst_by(_said(report))
    numbers = {device for _, device in worst} | {finding.device for finding in report.findings}
    numbers |= {member.device for test in report.tests for member in test.members}
    devices = _columns({device for device in numbers if device is not None})
    if not report.hosts:
        return
    yield '<div class="scroll"><table class="map"><tr><th></th><th>host</th>'
    yield "".join(f"<th>{device}</th>" for device in devices) + "</tr>\n"
    for line in report.hosts:
        cells = "".join(_cell(worst.get((line.name, device))) for device in devices)
        yield f"<tr><th>{_safe(line.name)}</th>{_cell(worst.get((line.name, None), line.verdict))}{cells}</tr>\n"
    yield "</table></div>\n"
    words = " ".join(map(_word, (Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN)))
    yield f'<p class="dim">One column per device. Colours: {words}. Grey: {NOTHING}.</p>\n'


def _columns(named: set[int]) -> Sequence[int]:
    """Return the device numbers from 0 on, without gaps; only those with results if a number is implausibly large."""
    return sorted(named) if max(named, default=0) >= MOST_DEVICES else range(max(named, default=-1) + 1)


def _cell(outcome: Outcome | None) -> str:
    return f'<td class="{outcome or "none"}" title="{outcome or NOTHING}"></td>'


def _pairs(tests: Sequence[TestResult]) -> Iterator[str]:
    """Yield the bandwidth of each pair at the largest size, for operations in both directions.

    The better of two measurements counts, since noise only ever makes a pair slower.
    """
    both_ways = [test for test in tests if test.scope is Scope.PAIR and test.busbw_GBps and test.root is None]
    if not both_ways:
        return
    largest = max(both_ways, key=lambda test: test.bytes)
    speeds = _speeds(test for test in both_ways if _size(test) == _size(largest))
    fastest = max(speeds.values())
    places = sorted(set(chain.from_iterable(speeds)))
    yield f'<p class="dim">Busbw of {largest.op} at {largest.bytes} B, in GB/s. Fastest pair: {fastest:.3g} GB/s.</p>\n'
    if len(places) > MOST_IN_A_MATRIX:
        slowest = sorted(speeds.items(), key=lambda item: item[1])[:MOST_PAIRS]
        yield f"<p>The slowest {len(slowest)} of {len(speeds)} pairs:</p>\n"
        yield from _bars([(f"{first} with {second}", speed) for (first, second), speed in slowest], fastest)
        return
    yield '<div class="scroll"><table class="map"><tr><th></th>'
    yield "".join(f'<th class="down">{_safe(place)}</th>' for place in places) + "</tr>\n"
    for row in places:
        cells = "".join(_speed(speeds.get((min(row, column), max(row, column))), fastest) for column in places)
        yield f"<tr><th>{_safe(row)}</th>{cells}</tr>\n"
    yield "</table></div>\n"


def _size(test: TestResult) -> tuple[object, ...]:
    return test.op, test.bytes, test.dtype


def _speeds(tests: Iterable[TestResult]) -> dict[tuple[str, str], float]:
    """Return the best busbw in GB/s of each pair of places."""
    speeds: dict[tuple[str, str], float] = {}
    for test in tests:
        if len(test.members) == 2:
            first, second = sorted(member.place for member in test.members)
            speeds[first, second] = max(test.busbw_GBps or 0.0, speeds.get((first, second), 0.0))
    return speeds


def _speed(speed: float | None, fastest: float) -> str:
    if speed is None:
        return '<td class="none"></td>'
    share = round(100 * speed / fastest)
    colour = f"color-mix(in oklab, var(--pass) {share}%, var(--fail))"
    return f'<td class="n" style="background: {colour}">{speed:.3g}</td>'


def _bandwidth(tests: Sequence[TestResult]) -> Iterator[str]:
    """Yield the slowest group of each operation and scope, by size. Small sizes test values and latency only."""
    speeds: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for (op, _, size, scope), speed in slowest_groups(tests).items():
        if speed and size >= LARGE:
            sizes = speeds[op, scope.value]
            sizes[size] = min(speed, sizes.get(size, speed))
    for (op, groups), sizes in speeds.items():
        yield f"<p>{_safe(op)}, slowest group of scope {_safe(groups)}</p>\n"
        yield from _bars([(f"{size} B", sizes[size]) for size in sorted(sizes)], max(sizes.values()))


def _bars(values: Sequence[tuple[str, float]], most: float) -> Iterator[str]:
    yield "<table>\n"
    for label, value in values:
        bar = f'<span class="bar" style="width: {20 * value / most:.2f}rem"></span>'
        yield f'<tr><td class="n mono">{_safe(label)}</td><td class="n">{value:.3g} GB/s</td><td>{bar}</td></tr>\n'
    yield "</table>\n"


def _rounds(tests: Sequence[TestResult]) -> Iterator[str]:
    """Yield the rounds in the order in which they ran, with the number of tests and their outcomes."""
    rounds: dict[str, list[TestResult]] = defaultdict(list)
    for test in tests:
        rounds[test.id.partition("-")[0]].append(test)
    if not rounds:
        return
    yield '<table><tr><th>round</th><th>scope</th><th class="n">tests</th><th>outcomes</th></tr>\n'
    for name, round_tests in rounds.items():
        scopes = ", ".join(dict.fromkeys(test.scope.value for test in round_tests))
        ends = ", ".join(
            f"{sum(test.outcome is end for test in round_tests)} {end}"
            for end in dict.fromkeys(test.outcome for test in round_tests)
        )
        yield f'<tr><td>{_safe(name)}</td><td>{scopes}</td><td class="n">{len(round_tests)}</td><td>{ends}</td></tr>\n'
    yield "</table>\n"


def _timeline(report: Report) -> Iterator[str]:
    """Yield one line for each phase, from the run's start to its end. Gaps are this machine's own work."""
    whole = max([report.seconds, *(phase.begin + phase.seconds for phase in report.phases)])
    if not report.phases or not whole:
        return
    yield f'<p class="dim">{whole:.1f} s from start to end. Gaps are work on this machine.</p>\n'
    yield '<div class="scroll"><table class="time"><tr><th>phase</th><th>when</th><th class="n">start</th>'
    yield '<th class="n">duration</th><th>longest wait for</th></tr>\n'
    for phase in report.phases[:MOST_PHASES]:
        start, length = (100 * min(1.0, part / whole) for part in (phase.begin, phase.seconds))
        some = " some" if phase.failed else ""
        failed = f", {phase.failed} of {phase.total} failed" if phase.failed else ""
        longest = f"{phase.longest}, {phase.waited:.1f} s" if phase.longest else ""
        yield f"<tr><td>{_safe(phase.name + failed)}</td>"
        yield f'<td><div class="track"><div class="span{some}" style="margin-left: {min(start, 99.7):.2f}%; '
        yield f'width: {min(length, 100 - start):.2f}%"></div></div></td><td class="n">{phase.begin:.1f} s</td>'
        yield f'<td class="n">{phase.seconds:.1f} s</td><td>{_safe(longest)}</td></tr>\n'
    yield "</table></div>\n"
    if len(report.phases) > MOST_PHASES:
        yield f'<p class="dim">… and {len(report.phases) - MOST_PHASES} more (-o json lists all)</p>\n'


def _notes(report: Report) -> Iterator[str]:
    lines = [f"left out: {entry.host}: {entry.why}" for entry in report.left_out] + list(report.notes)
    yield from (f"<p>{_safe(line)}</p>\n" for line in lines)
