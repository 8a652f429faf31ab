"""Text of a plan's results, for people: successes are counted, everything else is named. Pure."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from preflight.model.change import StepResult, StepState
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.provision.plan import subject
from preflight.provision.render import COLUMNS, Line, file_diff, wrapped

_LINES = 6  # of the difference between a file's expected and observed text
_WELL = (StepState.DONE, StepState.ALREADY)
_WORDS = {
    StepState.MOVED: "somebody changed it meanwhile, so it was left alone",
    StepState.DID_NOT_STICK: "was written without an error, and is not so",
    StepState.FAILED: "failed",
    StepState.NOT_RUN: "not tried, because of the one before",
    StepState.REVERTED: "taken back",
}


def render_results(results: Sequence[StepResult], *, fold: Callable[[Iterable[str]], str]) -> list[Line]:
    """Return lines that count the changes that succeeded and name all others."""
    successes = [result for result in results if result.state is StepState.DONE]
    hosts = {result.change.host for result in successes}
    lines = (
        [Line(f"{_count(len(successes), 'change')} made on {_count(len(hosts), 'host')}", "pass")] if successes else []
    )
    already = sum(result.state is StepState.ALREADY for result in results)
    lines += [Line(f"{_count(already, 'change')} not needed: so already")] if already else []
    for names, of_host in _same_end([result for result in results if result.state not in _WELL]):
        first, more_count = of_host[0], len(of_host) - 1
        target = subject(first.change) + (f" and {_count(more_count, 'more change')}" if more_count else "")
        text = first.message.removeprefix(f"{first.change.host}: ")
        state = _WORDS.get(first.state, "")
        words = f"{fold(names)}: {target}: " + (text if first.state is StepState.NOT_RUN and text else state)
        words += f": {text}" if text and first.state is not StepState.NOT_RUN else ""
        words += _found(first, names)
        style = "dim" if first.state is StepState.NOT_RUN else "fail"
        lines += [Line(line, style) for line in wrapped(words, "", "  ")]
        lines += _difference(first)
    return lines


def _found(result: StepResult, names: Sequence[str]) -> str:
    """Return the observed value if it is short, else the words before the difference."""
    observed, expected = result.found, result.change.before
    if result.state is StepState.MOVED:
        if _is_short(observed) and _is_short(expected):
            return f"; expected {expected or 'nothing'}, found {observed or 'nothing'}"
        where = f" on {result.change.host}" if len(names) > 1 else ""
        return f"; expected (-) and found (+){where}:"
    return f"; found {observed or 'nothing'}" if observed is not None and _is_short(observed) else ""


def _difference(result: StepResult) -> list[Line]:
    """Return the first lines in which the host differs from the expected text, none for short values."""
    if result.state is not StepState.MOVED or (_is_short(result.found) and _is_short(result.change.before)):
        return []
    lines = [line for line in file_diff(result.change.before, result.found) if line.style in ("add", "remove")]
    hidden_count = len(lines) - _LINES
    return lines[:_LINES] + (
        [Line(f"      … and {_count(hidden_count, 'more line')}", "dim")] if hidden_count > 0 else []
    )


def _is_short(value: str | None) -> bool:
    return value is None or (len(value) <= COLUMNS and "\n" not in value)


def _same_end(results: Iterable[StepResult]) -> list[tuple[list[str], list[StepResult]]]:
    """Group each host's results that ended alike, then the hosts that have the same to report."""
    by_host: dict[tuple[str, StepState, str | None, str], list[StepResult]] = {}
    for result in results:
        text = result.message.removeprefix(f"{result.change.host}: ")
        # of files, one host is an example
        observed = result.found if _is_short(result.found) else subject(result.change)
        by_host.setdefault((result.change.host, result.state, observed, text), []).append(result)
    hosts_by_end: dict[tuple[object, ...], list[str]] = {}
    examples: dict[tuple[object, ...], list[StepResult]] = {}
    for (host, *end), of_host in by_host.items():
        key = (*end, *(subject(result.change) for result in of_host))
        hosts_by_end.setdefault(key, []).append(host)
        examples.setdefault(key, of_host)
    return [(hosts, examples[key]) for key, hosts in hosts_by_end.items()]


def render_fixed(
    before: Sequence[Finding],
    after: Sequence[Finding],
    titles: Mapping[str, str],
    *,
    fold: Callable[[Iterable[str]], str],
) -> list[Line]:
    """Return a line for each check that reported a problem before and none now, with the hosts that are fixed."""
    good_outcomes, bad_outcomes = (Outcome.PASS, Outcome.SKIP), (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)
    failing = {(finding.check, finding.host) for finding in after if finding.outcome in bad_outcomes}
    passing = {(finding.check, finding.host) for finding in after if finding.outcome in good_outcomes} - failing
    fixed: dict[str, list[str]] = {}
    for check, host in dict.fromkeys((f.check, f.host) for f in before if f.outcome in bad_outcomes):
        if host is not None and (check, host) in passing:
            fixed.setdefault(check, []).append(host)
    return [
        Line(line, "pass")
        for check, names in sorted(fixed.items())
        for line in wrapped(f"fixed   {check}  {titles.get(check, '')} ({fold(names)})", "", "                ")
    ]


def stale(result: StepResult) -> str:
    """Return the sentence about a target that has changed since the plan was made."""
    change = result.change
    values = (_short_value(value) for value in (change.before, change.after, result.found))
    return "{}: {}: expected {} (or {} already), found {}".format(change.host, subject(change), *values)


def _short_value(value: str | None) -> str:
    """Return a value on one line. A long one is cut, with a hash that tells it from others of its length."""
    if value is None:
        return "nothing"
    text = " ".join(value.split())
    if len(text) <= COLUMNS:
        return repr(text)
    return f"{text[:COLUMNS]!r}… ({len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()[:12]})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
