"""Text of a plan's results, for people: successes are counted, everything else is listed. Pure."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from preflight.grouping import grouped
from preflight.model.change import StepResult, StepState
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.provision.plan import subject
from preflight.provision.render import COLUMNS, PlanLine, file_diff, wrapped

_LINES = 6  # of the difference between a file's expected and observed text
_WELL = (StepState.DONE, StepState.ALREADY)
_GOOD = (Outcome.PASS, Outcome.SKIP)
_BAD = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)
_WORDS = {
    StepState.MOVED: "left alone, since it was changed in the meantime",
    StepState.DID_NOT_STICK: "written without an error, but without effect",
    StepState.FAILED: "failed",
    StepState.NOT_RUN: "not tried, since an earlier change failed",
    StepState.REVERTED: "undone",
}


def render_results(results: Sequence[StepResult], *, fold: Callable[[Iterable[str]], str]) -> list[PlanLine]:
    """Return lines that count the changes that succeeded and name all others."""
    lines = list(_counts(results))
    for names, of_host in _same_end([result for result in results if result.state not in _WELL]):
        style = "dim" if of_host[0].state is StepState.NOT_RUN else "fail"
        text = f"{fold(names)}: {_failure(of_host)}{_found(of_host[0], names)}"
        lines += [PlanLine(line, style) for line in wrapped(text, "", "  ")]
        lines += _difference(of_host[0])
    return lines


def _counts(results: Sequence[StepResult]) -> Iterator[PlanLine]:
    """Yield the numbers of changes that were made, and that were not needed."""
    hosts = [result.change.host for result in results if result.state is StepState.DONE]
    if hosts:
        yield PlanLine(f"{_count(len(hosts), 'change')} made on {_count(len(set(hosts)), 'host')}", "pass")
    already = sum(result.state is StepState.ALREADY for result in results)
    if already:
        yield PlanLine(f"{_count(already, 'change')} already in place")


def _failure(of_host: Sequence[StepResult]) -> str:
    """Return the target of a host's first result, its state and the host's message, and the number of the others."""
    first, more_count = of_host[0], len(of_host) - 1
    target = subject(first.change) + (f" and {_count(more_count, 'more change')}" if more_count else "")
    state, message = _WORDS.get(first.state, ""), _message(first)
    if not message:
        return f"{target}: {state}"
    return f"{target}: {message}" if first.state is StepState.NOT_RUN else f"{target}: {state}: {message}"


def _message(result: StepResult) -> str:
    return result.message.removeprefix(f"{result.change.host}: ")


def _found(result: StepResult, names: Sequence[str]) -> str:
    """Return the observed value if it is short, else the words before the difference."""
    observed, expected = result.found, result.change.before
    if result.state is StepState.MOVED:
        if _is_short(observed) and _is_short(expected):
            return f"; expected {expected or 'nothing'}, found {observed or 'nothing'}"
        where = f" on {result.change.host}" if len(names) > 1 else ""
        return f"; expected (-) and found (+){where}:"
    return f"; found {observed or 'nothing'}" if observed is not None and _is_short(observed) else ""


def _difference(result: StepResult) -> list[PlanLine]:
    """Return the first lines in which the host differs from the expected text, none for short values."""
    if result.state is not StepState.MOVED or (_is_short(result.found) and _is_short(result.change.before)):
        return []
    lines = [line for line in file_diff(result.change.before, result.found) if line.style in ("add", "remove")]
    hidden_count = len(lines) - _LINES
    return lines[:_LINES] + (
        [PlanLine(f"      … and {_count(hidden_count, 'more line')}", "dim")] if hidden_count > 0 else []
    )


def _is_short(value: str | None) -> bool:
    return value is None or (len(value) <= COLUMNS and "\n" not in value)


def _same_end(results: Iterable[StepResult]) -> list[tuple[list[str], list[StepResult]]]:
    """Group each host's results that ended alike, then the hosts that have the same to report."""
    by_host = grouped(((result.change.host, _end(result)), result) for result in results)
    same = grouped(
        ((end, *(subject(result.change) for result in of_host)), (host, of_host))
        for (host, end), of_host in by_host.items()
    )
    return [([host for host, _ in hosts], hosts[0][1]) for hosts in same.values()]


def _end(result: StepResult) -> tuple[StepState, str | None, str]:
    """Return the state, the observed value and the message; of files, one host is an example."""
    observed = result.found if _is_short(result.found) else subject(result.change)
    return result.state, observed, _message(result)


def render_fixed(
    before: Sequence[Finding],
    after: Sequence[Finding],
    titles: Mapping[str, str],
    *,
    fold: Callable[[Iterable[str]], str],
) -> list[PlanLine]:
    """Return a line for each check that reported a problem before and none now, with the hosts that are fixed."""
    passing = _reported(after, _GOOD).keys() - _reported(after, _BAD).keys()
    fixed = grouped((check, host) for check, host in _reported(before, _BAD) if host and (check, host) in passing)
    return [
        PlanLine(line, "pass")
        for check, names in sorted(fixed.items())
        for line in wrapped(f"fixed   {check}  {titles.get(check, '')} ({fold(names)})", "", "                ")
    ]


def _reported(findings: Iterable[Finding], outcomes: Collection[Outcome]) -> dict[tuple[str, str | None], None]:
    """Return the checks and hosts with these outcomes, in order, each once."""
    return dict.fromkeys((finding.check, finding.host) for finding in findings if finding.outcome in outcomes)


def stale(result: StepResult) -> str:
    """Return the sentence about a target that has changed since the plan was made."""
    change = result.change
    values = (_short_value(value) for value in (change.before, change.after, result.found))
    return "{}: {}: expected {} (or {} already), found {}".format(change.host, subject(change), *values)


def _short_value(value: str | None) -> str:
    """Return a value on one line. A long one is cut, with a hash that distinguishes it from others of its length."""
    if value is None:
        return "nothing"
    text = " ".join(value.split())
    if len(text) <= COLUMNS:
        return repr(text)
    return f"{text[:COLUMNS]!r}… ({len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()[:12]})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
