"""`preflight ranktable --check`: a rank table, checked by HCCL's rules and, with an inventory, with live hosts."""

import argparse
import hashlib
import json
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from preflight.cli.text_file import LARGEST_RANK_TABLE, text_of
from preflight.cli.wrapped import wrapped
from preflight.model.cluster import Cluster
from preflight.model.errors import UsageError
from preflight.model.text import printable
from preflight.ranktable.live import TableComparison
from preflight.ranktable.planned import judge_planned
from preflight.ranktable.read import Reading, read
from preflight.ranktable.rules import judge
from preflight.ranktable.syntax import offset_of, places, position
from preflight.ranktable.types import HostDifference, TableProblem, format_path
from preflight.report.console import show, width
from preflight.report.text import Line

SCHEMA = "preflight.ranktable/1"
_SHOWN = 5  # problems of one rule, and hosts that could not be checked


@dataclass(frozen=True)
class CheckedTable:
    """A rank table in a file, and what it was read as."""

    path: Path
    text: str
    reading: Reading

    def judged(self, cluster: Cluster | None) -> tuple[TableProblem, ...]:
        """Return the table's problems. A symbolic link is one, whatever its target."""
        problems = judge_planned(self.reading, cluster) if cluster else judge(self.reading)
        if self.path.is_symlink():
            target = f"{self.path} is a link. HCCL needs the file itself as RANK_TABLE_FILE: {self.path.resolve()}"
            problems = (TableProblem("link", target, offset=0), *problems)
        return problems


def check(args: argparse.Namespace) -> int:
    """Check a rank table and return the exit code.

    It is 2 if the table itself is wrong; then no host is contacted. It is 1 if hosts differ, and 3 if one was not
    reached.
    """
    _refuse_wrong_usage(args)
    text = text_of(str(args.check), LARGEST_RANK_TABLE, "rank table")
    table = CheckedTable(args.check, text, read(text))
    if args.inventory is None and args.source is None:
        return _finish(args, table, table.judged(None))
    from preflight.cli.jobs.ranktable_compare import compare_with_hosts  # a table alone needs no session

    return _finish(args, table, *compare_with_hosts(args, table))


def _refuse_wrong_usage(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not belong to --check."""
    if args.out not in (None, "console", "json"):
        raise UsageError(f"with --check, -o is console or json, not {args.out}")
    if args.push or args.dry_run or args.force or args.devices or args.format:
        raise UsageError("--check cannot be combined with --push, --dry-run, --force, --devices or --format")
    if args.limit and args.inventory is None and args.source is None:
        raise UsageError("--check with --limit needs --inventory FILE or --from FACTS")


def is_wrong(problems: Sequence[TableProblem]) -> bool:
    return any(not problem.warning for problem in problems)


def refuse_without_rank_table(cluster: Cluster) -> None:
    """Raise UsageError for a product without rank tables."""
    if not cluster.product.is_npu:
        raise UsageError(f"{cluster.product} devices have no rank table: only Ascend NPUs use one")


def described(text: str) -> str:
    """Describe a text as a rank table in a few words."""
    table = read(text).table
    if table is None:
        return "not a readable rank table"
    version = f"version {table.version}" if table.version != "0" else "a group_list"
    servers = f"{_count(len(table.servers), 'server')}, " if table.servers else ""
    return f"{version}, {servers}{_count(table.size, 'rank')}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _finish(
    args: argparse.Namespace,
    table: CheckedTable,
    problems: Sequence[TableProblem],
    comparison: TableComparison | None = None,
) -> int:
    """Show the result and return the exit code."""
    exit_code = _exit_code(problems, comparison)
    where = places(table.text) if table.reading.is_json else {}
    everything = (*problems, *(comparison.differences if comparison else ()))
    placed = [(problem, position(table.text, offset_of(problem, where))) for problem in everything]
    if args.out == "json":
        print(_document(table, exit_code, [_entry(problem, place) for problem, place in placed], comparison))
        return exit_code
    lines = [Line(f"{table.path}: {described(table.text)}", "title"), Line(f"sha256 {digest(table.text)}", "dim")]
    lines += _lines(table.path, placed, width())
    lines += _unseen_hosts(comparison)
    lines += _ending(args, table, problems, comparison)
    show(Line(printable(line.text), line.style) for line in lines)
    return exit_code


def _exit_code(problems: Sequence[TableProblem], comparison: TableComparison | None) -> int:
    if is_wrong(problems):
        return 2
    if comparison and is_wrong(comparison.differences):
        return 1
    return 3 if comparison and comparison.unseen else 0


def _lines(path: Path, placed: Sequence[tuple[TableProblem, tuple[int, int]]], width: int) -> Iterator[Line]:
    """Yield the first problems of each rule, and the number of further ones."""
    rules: dict[tuple[str, bool, bool], list[tuple[TableProblem, tuple[int, int]]]] = defaultdict(list)
    for problem, place in placed:
        rules[problem.rule, isinstance(problem, HostDifference), problem.warning].append((problem, place))
    for (rule, _, warning), of_rule in rules.items():
        style = "warn" if warning else "fail"
        for problem, (line, column) in of_rule[:_SHOWN]:
            sentence = f"{path}:{line}:{column}: {'warning: ' if warning else ''}{problem.text} [{rule}]"
            yield from (Line(text, style) for text in wrapped(sentence, width))
        if remainder := of_rule[_SHOWN:]:
            yield Line(f"  … and {len(remainder)} more [{rule}]{_ranks([problem for problem, _ in remainder])}", style)


def _ranks(problems: Sequence[TableProblem]) -> str:
    """Return the first and the last rank of the problems, if they have several."""
    ranks = sorted({problem.rank for problem in problems if problem.rank is not None})
    return f": ranks {ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else ""


def _unseen_hosts(comparison: TableComparison | None) -> Iterator[Line]:
    """Yield the hosts that could not be checked."""
    unseen = comparison.unseen if comparison else ()
    for sentence in unseen[:_SHOWN]:
        yield from (Line(text, "unknown") for text in wrapped(f"! not checked: {sentence}", width()))
    if len(unseen) > _SHOWN:
        yield Line(f"! … and {len(unseen) - _SHOWN} more", "unknown")


def _ending(
    args: argparse.Namespace,
    table: CheckedTable,
    problems: Sequence[TableProblem],
    comparison: TableComparison | None,
) -> Iterator[Line]:
    """Yield the verdict and the next command."""
    name, inventory = shlex.quote(str(table.path)), shlex.quote(str(args.inventory or args.default_inventory))
    if is_wrong(problems):
        not_contacted = " The hosts were not checked." if args.inventory else ""
        yield Line(f"HCCL would reject this table.{not_contacted}", "fail")
        yield Line(f"next: preflight ranktable --inventory {inventory} -o FILE", "next")
    elif comparison is None:
        yield Line("The table is valid. The hosts were not checked.", "pass")
        yield Line(f"next: preflight ranktable --check {name} --inventory {inventory}", "next")
    elif is_wrong(comparison.differences):
        yield Line("The hosts differ from the table.", "fail")
        option = "--push PATH" if _only_copies(comparison.differences) else f"-o {name} --force"
        yield Line(f"next: preflight ranktable --inventory {inventory} {option}", "next")
    elif not comparison.unseen:
        hosts = f"the hosts of --limit {args.limit}" if args.limit else "the hosts"
        yield Line(f"The table is valid and agrees with {hosts}.", "pass")
        yield Line(f"next: preflight check --inventory {inventory}", "next")


def _only_copies(differences: Sequence[HostDifference]) -> bool:
    """Return whether the hosts only lack the table, or have another copy of it."""
    return all(difference.warning or difference.rule == "copy" for difference in differences)


def _entry(problem: TableProblem, place: tuple[int, int]) -> dict[str, object]:
    line, column = place
    entry: dict[str, object] = {
        "rule": problem.rule,
        "severity": "warning" if problem.warning else "error",
        "text": problem.text,
        "line": line,
        "column": column,
        "path": format_path(problem.path) if problem.path else "",
        "rank": problem.rank,
    }
    if isinstance(problem, HostDifference):
        entry |= {
            "host": problem.host,
            "server": problem.server,
            "device": problem.device,
            "listed": problem.listed,
            "live": problem.live,
        }
    return entry


def _document(
    table: CheckedTable, exit_code: int, problems: Sequence[dict[str, object]], comparison: TableComparison | None
) -> str:
    """Return the `preflight.ranktable/1` document (docs/contracts.md)."""
    held = table.reading.table
    body = {
        "schema": SCHEMA,
        "file": str(table.path),
        "sha256": digest(table.text),
        "version": held.version if held else None,
        "servers": len(held.servers) if held else None,
        "ranks": held.size if held else None,
        "exit": exit_code,
        "compared": comparison is not None,
        "problems": list(problems),
        "unseen": list(comparison.unseen) if comparison else [],
    }
    return json.dumps(body, indent=2, ensure_ascii=False)
