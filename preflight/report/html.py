"""The Report as one HTML file: findings first, then hosts × devices, pairs and bandwidths. It loads nothing, runs no
script, and follows the reader's choice of light or dark. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape

from preflight.model.finding import Finding
from preflight.model.measure import Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome, overall
from preflight.model.report import Report
from preflight.report.text import Group, count_line, folded, printable

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1f23; --dim: #5d6670; --line: #d5dae0; --fail: #c62828;
  --unknown: #7b3fa0; --warn: #a86400; --pass: #2e7d32; --skip: #9aa3ad; --none: #eef1f4; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e6e9ec; --dim: #9aa3ad; --line: #343a41;
  --fail: #ff6b5e; --unknown: #c792ea; --warn: #ffb74d; --pass: #66bb6a; --skip: #6b747d; --none: #22272c; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; } .dim { color: var(--dim); }
code, .mono { font-family: ui-monospace, monospace; font-size: .92em; overflow-wrap: anywhere; }
.word { border-radius: 3px; color: var(--paper); font-size: .8rem; font-weight: 600; padding: .1rem .45rem; }
.finding { border-left: 4px solid; margin: .8rem 0; padding: .1rem 0 .1rem .8rem; }
.finding p { margin: .25rem 0; } .next { border: 1px solid var(--line); padding: .6rem .8rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; } th { color: var(--dim); font-weight: 500; }
td, th { padding: .15rem .5rem; text-align: left; } td.n, th.n { text-align: right; }
.map td { border: 2px solid var(--paper); height: 1.1rem; min-width: 1.6rem; padding: 0 .2rem; }
.map td.n { color: var(--paper); font-size: .75rem; } th.down { writing-mode: vertical-rl; }
.bar { background: var(--pass); display: inline-block; height: .7rem; }
""" + "".join(
    f".{word} {{ border-color: var(--{word}); }} .word.{word}, .map td.{word} {{ background: var(--{word}); }}\n"
    for word in (*Outcome, "none")
)
_SHOWN = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)
_WORST_FIRST = tuple(Outcome)
_TESTS = {
    TestOutcome.PASS: Outcome.PASS, TestOutcome.UNCHECKED: Outcome.PASS, TestOutcome.SLOW: Outcome.WARN,
    TestOutcome.FAIL: Outcome.FAIL, TestOutcome.HANG: Outcome.FAIL, TestOutcome.WRONG_DATA: Outcome.FAIL,
}  # fmt: skip
MOST_GROUPS = 50  # findings shown of one check; the JSON has them all
MOST_IN_A_MATRIX = 64  # devices; beyond, the slowest pairs are a list
MOST_PAIRS = 50
LARGE = 4096  # bytes

Fold = Callable[[Iterable[str]], str]


def html(report: Report, titles: Mapping[str, str], *, fold: Fold, next_step: str) -> str:
    """The whole file. `titles`: check id → title; `fold`: host names → node[01-16]."""
    sections = (
        ("Findings", _findings(report, titles, fold)),
        ("Hosts and devices", _places(report)),
        ("Pairs", _pairs(report.tests)),
        ("Bandwidth", _bandwidth(report.tests)),
        ("Rounds of the probe", _rounds(report.tests)),
        ("Notes", _notes(report)),
    )
    body = "".join(f"<h2>{title}</h2>\n{text}" for title, made in sections if (text := "".join(made)))
    head = f"preflight {report.command} {report.run}"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{_safe(head)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>{_word(report.verdict)} {_safe(head)}</h1>\n"
        f'<p class="dim">{_safe(report.started)}, {report.seconds:.0f} s, {len(report.hosts)} hosts</p>\n'
        f"<p>{_safe(count_line(report))}</p>\n"
        f'<p class="next">next: <code>{_safe(next_step)}</code></p>\n{body}</body>\n</html>\n'
    )


def _safe(text: str) -> str:
    return escape(printable(text))


def _word(outcome: Outcome) -> str:
    return f'<span class="word {outcome}">{outcome}</span>'


def _findings(report: Report, titles: Mapping[str, str], fold: Fold) -> Iterator[str]:
    same: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        if finding.outcome in _SHOWN:
            same[finding.check].append(finding)
    worst = {check: overall(finding.outcome for finding in findings) for check, findings in same.items()}
    for check in sorted(same, key=lambda check: (_WORST_FIRST.index(worst[check]), check)):
        groups = folded(same[check])
        yield f'<div class="finding {worst[check]}"><p>{_word(worst[check])} <b>{check}</b> '
        yield f"{_safe(titles.get(check, ''))}</p>\n"
        for group in groups[:MOST_GROUPS]:
            yield from _group(group, fold)
        if len(groups) > MOST_GROUPS:
            yield f'<p class="dim">… and {len(groups) - MOST_GROUPS} more; the JSON report has them all</p>\n'
        yield "</div>\n"


def _group(group: Group, fold: Fold) -> Iterator[str]:
    first = group.first
    subject = f"{fold(group.hosts)}: " if group.hosts else ""
    yield f"<p>{_safe(subject + group.summary)}</p>\n"
    if group.cause:
        yield f'<p class="dim">likely: {_safe(group.cause)}</p>\n'
    if first.evidence:
        lines = "<br>".join(_safe(line) for line in first.evidence)
        yield f'<details><summary class="dim">evidence</summary><p class="mono">{lines}</p></details>\n'
    if group.remedy:
        yield f"<p>→ <code>{_safe(group.remedy)}</code></p>\n"


def _places(report: Report) -> Iterator[str]:
    """A row a host, a cell a device, coloured by the worst that checks and tests say of it alone."""
    worst: dict[tuple[str, int | None], Outcome] = {}

    def say(host: str, device: int | None, outcome: Outcome) -> None:
        worst[host, device] = overall((outcome, worst.get((host, device), outcome)))

    for finding in report.findings:
        if finding.host and (finding.outcome is not Outcome.SKIP or finding.device is None):
            say(finding.host, finding.device, finding.outcome)
    for test in report.tests:  # of several members nobody knows whose fault it is; findings name culprits
        if test.outcome in _TESTS and (len(test.members) == 1 or _TESTS[test.outcome] is Outcome.PASS):
            for member in test.members:
                say(member.host, member.device, _TESTS[test.outcome])
    for culprit in report.culprits:
        for place in culprit.members:
            host, _, device = place.partition("/")
            say(host, int(device) if device.isdecimal() else None, Outcome.FAIL)
    devices = sorted({device for _, device in worst if device is not None})
    if not report.hosts:
        return
    yield '<div class="scroll"><table class="map"><tr><th></th><th>host</th>'
    yield "".join(f"<th>{device}</th>" for device in devices) + "</tr>\n"
    for line in report.hosts:
        cells = "".join(_cell(worst.get((line.name, device))) for device in devices)
        yield f"<tr><th>{_safe(line.name)}</th>{_cell(worst.get((line.name, None), line.verdict))}{cells}</tr>\n"
    yield "</table></div>\n"


def _cell(outcome: Outcome | None) -> str:
    return f'<td class="{outcome or "none"}" title="{outcome or "not looked at"}"></td>'


def _pairs(tests: Sequence[TestResult]) -> Iterator[str]:
    """The bandwidth of each pair at the largest size, of what goes both ways. Measured twice, the better one counts:
    noise only ever makes a pair slower."""
    both_ways = [test for test in tests if test.scope is Scope.PAIR and test.busbw_GBps and test.root is None]
    if not both_ways:
        return
    largest = max(both_ways, key=lambda test: test.bytes)
    speeds: dict[tuple[str, str], float] = {}
    for test in both_ways:
        if (test.op, test.bytes, test.dtype) == (largest.op, largest.bytes, largest.dtype) and len(test.members) == 2:
            one, other = sorted(member.place for member in test.members)
            speeds[one, other] = max(test.busbw_GBps or 0.0, speeds.get((one, other), 0.0))
    fastest = max(speeds.values())
    places = sorted({place for pair in speeds for place in pair})
    yield f'<p class="dim">{largest.op} of {largest.bytes} B, busbw in GB/s; the fastest pair has {fastest:.3g}</p>\n'
    if len(places) > MOST_IN_A_MATRIX:
        slowest = sorted(speeds.items(), key=lambda item: item[1])[:MOST_PAIRS]
        yield f"<p>the slowest {len(slowest)} of {len(speeds)} pairs:</p>\n"
        yield from _bars([(f"{one} with {other}", speed) for (one, other), speed in slowest], fastest)
        return
    yield '<div class="scroll"><table class="map"><tr><th></th>'
    yield "".join(f'<th class="down">{_safe(place)}</th>' for place in places) + "</tr>\n"
    for row in places:
        cells = "".join(_speed(speeds.get((min(row, column), max(row, column))), fastest) for column in places)
        yield f"<tr><th>{_safe(row)}</th>{cells}</tr>\n"
    yield "</table></div>\n"


def _speed(speed: float | None, fastest: float) -> str:
    if speed is None:
        return '<td class="none"></td>'
    share = round(100 * speed / fastest)
    colour = f"color-mix(in oklab, var(--pass) {share}%, var(--fail))"
    return f'<td class="n" style="background: {colour}">{speed:.3g}</td>'


def _bandwidth(tests: Sequence[TestResult]) -> Iterator[str]:
    """The slowest group of each operation and scope, by size; smaller ones are run for values and latency."""
    speeds: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for test in tests:
        if test.busbw_GBps and test.bytes >= LARGE:
            sizes = speeds[test.op, test.scope.value]
            sizes[test.bytes] = min(test.busbw_GBps, sizes.get(test.bytes, test.busbw_GBps))
    for (op, scope), sizes in speeds.items():
        yield f"<p>{_safe(op)}, {_safe(scope)}: slowest group</p>\n"
        yield from _bars([(f"{size} B", sizes[size]) for size in sorted(sizes)], max(sizes.values()))


def _bars(values: Sequence[tuple[str, float]], most: float) -> Iterator[str]:
    yield "<table>\n"
    for label, value in values:
        bar = f'<span class="bar" style="width: {20 * value / most:.2f}rem"></span>'
        yield f'<tr><td class="n mono">{_safe(label)}</td><td class="n">{value:.3g} GB/s</td><td>{bar}</td></tr>\n'
    yield "</table>\n"


def _rounds(tests: Sequence[TestResult]) -> Iterator[str]:
    """In the order in which they were run: how many tests, and how they ended."""
    rounds: dict[str, list[TestResult]] = defaultdict(list)
    for test in tests:
        rounds[test.id.partition("-")[0]].append(test)
    if not rounds:
        return
    yield '<table><tr><th>round</th><th>groups</th><th class="n">tests</th><th>ended</th></tr>\n'
    for name, its in rounds.items():
        scopes = ", ".join(dict.fromkeys(test.scope.value for test in its))
        ends = ", ".join(
            f"{sum(test.outcome is end for test in its)} {end}" for end in dict.fromkeys(test.outcome for test in its)
        )
        yield f'<tr><td>{_safe(name)}</td><td>{scopes}</td><td class="n">{len(its)}</td><td>{ends}</td></tr>\n'
    yield "</table>\n"


def _notes(report: Report) -> Iterator[str]:
    lines = [f"left out: {left.host}: {left.why}" for left in report.left_out] + list(report.notes)
    yield from (f"<p>{_safe(line)}</p>\n" for line in lines)
