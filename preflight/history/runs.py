"""Runs of check and probe, saved when they end."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from preflight.history.documents import GOOD_AND_NEW, keep
from preflight.history.store import reading, understanding, writing
from preflight.model.figures import Figure, Shape
from preflight.model.finding import Finding
from preflight.model.measure import Scope
from preflight.model.outcome import Outcome

if TYPE_CHECKING:
    import sqlite3

MOST_RUNS = 1000
MOST_ROWS = 500_000  # hosts, findings and figures of all runs together: about 60 MB
MOST_FINDINGS = 20_000  # of one run
_NOTABLE = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)


class RunSetting(NamedTuple):
    """Properties that comparable figures share. `backend` is empty if no probe ran."""

    cluster: str
    product: str
    backend: str = ""


@dataclass(frozen=True)
class CheckRun:
    """A run of check or probe.

    `findings` are those that neither passed nor were skipped, without their changes and evidence. `dropped` counts
    those beyond the limit. `checks` are the ids of all checks that ran, whatever their outcome.
    """

    run: str
    command: str
    owner: str
    started: str  # ISO 8601, UTC, ends in Z
    finished: str
    verdict: Outcome
    exit: int
    inventory: str  # absolute path
    setting: RunSetting
    hosts: tuple[str, ...]
    checks: frozenset[str]
    findings: tuple[Finding, ...]
    figures: tuple[Figure, ...]
    next_step: str
    dropped: int = 0
    asked: str = ""  # options of a probe besides its backend: "--quick --scope pair"


def notable_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that are worth saving, the worst first."""
    notable = (finding for finding in findings if finding.outcome in _NOTABLE)
    return sorted(notable, key=lambda finding: _NOTABLE.index(finding.outcome))


def remember(run: CheckRun, documents: Mapping[str, bytes] | None = None) -> None:
    """Save the run with its compressed documents, and delete the oldest beyond the limits. Raises HistoryError."""
    findings = run.findings[:MOST_FINDINGS]
    with writing() as db:
        number = db.execute(_insert_into("runs", 16, "NULL, "), _run_row(run, findings)).lastrowid
        db.executemany(_insert_into("hosts", 2), ((number, host) for host in dict.fromkeys(run.hosts)))
        db.executemany(_insert_into("findings", 12), ((number, *_finding_row(finding)) for finding in findings))
        db.executemany(_insert_into("figures", 12), ((number, *_figure_row(figure)) for figure in run.figures))
        _delete_oldest(db)
        if number is not None:
            keep(db, number, documents or {})


def _insert_into(table: str, columns: int, first: str = "") -> str:
    return f"INSERT INTO {table} VALUES ({first}{', '.join('?' * columns)})"  # noqa: S608 - names of this file


def _delete_oldest(db: "sqlite3.Connection") -> None:
    """Delete runs beyond the limits, except the newest, those that passed last, and those that a baseline needs."""
    db.execute(
        f"""DELETE FROM runs WHERE number NOT IN (SELECT number FROM baselines UNION {GOOD_AND_NEW}) AND number IN (
            SELECT number FROM (
                SELECT number, row_number() OVER newest AS place, sum(rows) OVER newest AS total FROM runs
                WINDOW newest AS (ORDER BY number DESC))
            WHERE place > ? OR (place > 1 AND total > ?))""",  # noqa: S608 - constants of these files
        (MOST_RUNS, MOST_ROWS),
    )


def _text(text: str) -> str:
    """Return the text without lone surrogates, which a path may hold and SQLite refuses."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _run_row(run: CheckRun, findings: Sequence[Finding]) -> tuple[object, ...]:
    """Return the run's columns behind its number. `findings` are those that are saved."""
    return (
        *(run.run, run.command, run.owner, run.started, run.finished, run.verdict.value, run.exit),
        *map(_text, (run.inventory, *run.setting)),
        " ".join(sorted(run.checks)),
        _text(run.next_step),
        run.dropped + len(run.findings) - len(findings),
        len(run.hosts) + len(findings) + len(run.figures),
        run.asked,
    )


def _finding_row(finding: Finding) -> tuple[object, ...]:
    subject = (finding.check, finding.outcome.value, finding.host, finding.device, finding.rail, finding.peer)
    fix = "\n".join((finding.remedy, *finding.commands))
    texts = (finding.summary, finding.expected, finding.found, finding.cause, fix)
    return (*subject, *map(_text, texts))


def _figure_row(figure: Figure) -> tuple[object, ...]:
    shape = figure.shape
    operation = (shape.op, shape.reduction, shape.form, shape.dtype, shape.bytes)
    return (*operation, shape.scope.value, shape.place, shape.hosts, shape.ranks, figure.busbw, figure.seconds)


def check_runs(limit: int, host: str = "") -> list[CheckRun]:
    """Return the newest runs, newest first, without their figures; all, or those over a host. Raises HistoryError."""
    with reading() as db:
        rows = db.execute(
            """SELECT * FROM runs WHERE ? = '' OR number IN (SELECT number FROM hosts WHERE host = ?)
            ORDER BY run DESC LIMIT ?""",
            (host, host, limit),
        )
        return [_check_run(db, row, figures=False) for row in rows]


def check_run(run: str) -> CheckRun | None:
    """Return the run with this id, None if there is none. Raises HistoryError."""
    with reading() as db:
        row = db.execute("SELECT * FROM runs WHERE run = ?", (_text(run),)).fetchone()
        return _check_run(db, row) if row else None


def check_run_ids(prefix: str = "") -> list[str]:
    """Return the ids of all runs that begin with `prefix`, newest first. Raises HistoryError."""
    prefix = _text(prefix)
    with reading() as db:
        rows = db.execute("SELECT run FROM runs WHERE substr(run, 1, ?) = ? ORDER BY run DESC", (len(prefix), prefix))
        return [str(run) for (run,) in rows]


def newest_check_run(inventory: str = "") -> CheckRun | None:
    """Return the newest run, with `inventory` (an absolute path) the newest of it. Raises HistoryError."""
    with reading() as db:
        row = db.execute(
            "SELECT * FROM runs WHERE ? IN ('', inventory) ORDER BY run DESC LIMIT 1", (_text(inventory),)
        ).fetchone()
        return _check_run(db, row) if row else None


def last_passed_run(before: CheckRun) -> CheckRun | None:
    """Return the last run over the same cluster that passed before this one. Raises HistoryError.

    A run of the same command is preferred, because check and probe inspect different things.
    """
    with reading() as db:
        row = db.execute(
            """SELECT * FROM runs WHERE exit = 0 AND cluster = ? AND run < ?
            ORDER BY command = ? DESC, run DESC LIMIT 1""",
            (before.setting.cluster, before.run, before.command),
        ).fetchone()
        return _check_run(db, row) if row else None


def last_measured_run(accept: Callable[[CheckRun], bool] = lambda _: True) -> CheckRun | None:
    """Return the newest accepted run that measured a bandwidth. Raises HistoryError."""
    with reading() as db:
        rows = db.execute("SELECT * FROM runs WHERE number IN (SELECT number FROM figures) ORDER BY run DESC")
        return next((run for row in rows if accept(run := _check_run(db, row))), None)


_NUMBERS = {"number", "exit", "dropped", "rows", "device", "bytes", "hosts", "ranks", "busbw", "seconds", "rail"}


def _validate(rows: "Iterable[sqlite3.Row]") -> "Iterator[sqlite3.Row]":
    """Yield the rows. Raises ValueError for a value of another type, which SQLite takes in any column."""
    for row in rows:
        for name in row.keys():  # noqa: SIM118 - a Row iterates over its values
            if row[name] is not None and not isinstance(row[name], (int, float) if name in _NUMBERS else str):
                raise ValueError(f"{name} {row[name]!r:.40}")
        yield row


@understanding()
def figures_of(db: "sqlite3.Connection", number: int) -> tuple[Figure, ...]:
    """Return the figures of the run with this row number. Raises HistoryError."""
    rows = _validate(db.execute("SELECT * FROM figures WHERE number = ? ORDER BY rowid", (number,)))
    return tuple(Figure(_shape(row), row["busbw"], row["seconds"]) for row in rows)


def _shape(row: "sqlite3.Row") -> Shape:
    return Shape(
        op=row["op"],
        reduction=row["reduction"],
        form=row["form"],
        dtype=row["dtype"],
        bytes=row["bytes"],
        scope=Scope(row["scope"]),
        place=row["place"],
        hosts=row["hosts"],
        ranks=row["ranks"],
    )


@understanding()
def _findings_of(db: "sqlite3.Connection", number: int) -> tuple[Finding, ...]:
    rows = _validate(db.execute("SELECT * FROM findings WHERE number = ? ORDER BY rowid", (number,)))
    return tuple(map(_finding, rows))


def _finding(row: "sqlite3.Row") -> Finding:
    remedy, *commands = row["remedy"].split("\n")
    return Finding(
        check=row["check_id"],
        outcome=Outcome(row["outcome"]),
        summary=row["summary"],
        host=row["host"],
        device=row["device"],
        rail=row["rail"],
        peer=row["peer"],
        expected=row["expected"],
        found=row["found"],
        cause=row["cause"],
        remedy=remedy,
        commands=tuple(commands),
    )


@understanding()
def _check_run(db: "sqlite3.Connection", row: "sqlite3.Row", *, figures: bool = True) -> CheckRun:
    number = row["number"]
    (row,) = _validate([row])
    hosts = _validate(db.execute("SELECT host FROM hosts WHERE number = ? ORDER BY host", (number,)))
    return CheckRun(
        run=row["run"],
        command=row["command"],
        owner=row["owner"],
        started=row["started"],
        finished=row["finished"],
        verdict=Outcome(row["verdict"]),
        exit=row["exit"],
        inventory=row["inventory"],
        setting=RunSetting(row["cluster"], row["product"], row["backend"]),
        hosts=tuple(host for (host,) in hosts),
        checks=frozenset(row["checks"].split()),
        findings=_findings_of(db, number),
        figures=figures_of(db, number) if figures else (),
        next_step=row["next_step"],
        dropped=row["dropped"],
        asked=row["asked"],
    )
