"""Runs of check and probe: written down when they end, and read again."""

from collections.abc import Callable, Iterable, Iterator, Mapping
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
_TELLING = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)


class Setting(NamedTuple):
    """What figures have to have in common to be compared at all. `backend` is empty where no probe ran."""

    cluster: str
    product: str
    backend: str = ""


@dataclass(frozen=True)
class Look:
    """A run of check or probe. `findings`: those that are neither pass nor skip, without their changes and evidence;
    `dropped`: how many more there were. `checks`: the ids of all that have looked, whatever they found."""

    run: str
    command: str
    owner: str
    started: str  # ISO 8601, UTC, ends in Z
    finished: str
    verdict: Outcome
    exit: int
    inventory: str  # absolute path
    setting: Setting
    hosts: tuple[str, ...]
    checks: frozenset[str]
    findings: tuple[Finding, ...]
    figures: tuple[Figure, ...]
    next_step: str
    dropped: int = 0
    asked: str = ""  # what a probe was told beside its backend: "--quick --scope pair"


def telling(findings: Iterable[Finding]) -> list[Finding]:
    """What is worth remembering, the worst first."""
    return sorted((f for f in findings if f.outcome in _TELLING), key=lambda f: _TELLING.index(f.outcome))


def remember(look: Look, documents: Mapping[str, bytes] | None = None) -> None:
    """Write the run down, and forget the oldest where there are too many. `documents`: `packed`, what is kept of it
    besides. Raises HistoryError."""
    findings = look.findings[:MOST_FINDINGS]
    dropped = look.dropped + len(look.findings) - len(findings)
    rows = len(look.hosts) + len(findings) + len(look.figures)
    with writing() as db:
        number = db.execute(
            "INSERT INTO runs VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (look.run, look.command, look.owner, look.started, look.finished, look.verdict.value, look.exit,
             _text(look.inventory), *map(_text, look.setting), " ".join(sorted(look.checks)), _text(look.next_step),
             dropped, rows, look.asked),
        ).lastrowid  # fmt: skip
        db.executemany("INSERT INTO hosts VALUES (?, ?)", ((number, host) for host in dict.fromkeys(look.hosts)))
        db.executemany(
            "INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((number, *_finding_row(one)) for one in findings),
        )
        db.executemany(
            "INSERT INTO figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((number, *_figure_row(one)) for one in look.figures),
        )
        _forget_the_oldest(db)
        if number is not None:
            keep(db, number, documents or {})


def _forget_the_oldest(db: "sqlite3.Connection") -> None:
    """Runs beyond the limits, but for the newest, those that passed last, and those that a baseline needs."""
    db.execute(
        f"""DELETE FROM runs WHERE number NOT IN (SELECT number FROM baselines UNION {GOOD_AND_NEW}) AND number IN (
            SELECT number FROM (
                SELECT number, row_number() OVER newest AS place, sum(rows) OVER newest AS total FROM runs
                WINDOW newest AS (ORDER BY number DESC))
            WHERE place > ? OR (place > 1 AND total > ?))""",  # noqa: S608 - constants of these files
        (MOST_RUNS, MOST_ROWS),
    )


def _text(text: str) -> str:
    """Without lone surrogates, which a path may hold and SQLite refuses."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _finding_row(one: Finding) -> tuple[object, ...]:
    words = (one.summary, one.expected, one.found, one.cause, one.remedy)
    return (one.check, one.outcome.value, one.host, one.device, one.rail, one.peer, *map(_text, words))


def _figure_row(one: Figure) -> tuple[object, ...]:
    shape = one.shape
    return (shape.op, shape.reduction, shape.form, shape.dtype, shape.bytes, shape.scope.value, shape.place,
            shape.hosts, shape.ranks, one.busbw, one.seconds)  # fmt: skip


def past_looks(most: int, host: str = "") -> list[Look]:
    """The newest runs, without their figures, the newest first; only those over `host`, if one is named. Raises
    HistoryError."""
    with reading() as db:
        found = db.execute(
            """SELECT * FROM runs WHERE ? = '' OR number IN (SELECT number FROM hosts WHERE host = ?)
            ORDER BY run DESC LIMIT ?""",
            (host, host, most),
        )
        return [_look(db, row, figures=False) for row in found]


def past_look(run: str) -> Look | None:
    """One run, None if it is not known. Raises HistoryError."""
    with reading() as db:
        row = db.execute("SELECT * FROM runs WHERE run = ?", (_text(run),)).fetchone()
        return _look(db, row) if row else None


def known_runs(beginning: str = "") -> list[str]:
    """The ids of all runs, or of those that begin so, the newest first. Raises HistoryError."""
    with reading() as db:
        beginning = _text(beginning)
        found = db.execute(
            "SELECT run FROM runs WHERE substr(run, 1, ?) = ? ORDER BY run DESC", (len(beginning), beginning)
        )
        return [str(run) for (run,) in found]


def newest(inventory: str = "") -> Look | None:
    """The newest run; of an inventory (absolute path), if one is named. Raises HistoryError."""
    with reading() as db:
        row = db.execute(
            "SELECT * FROM runs WHERE ? IN ('', inventory) ORDER BY run DESC LIMIT 1", (_text(inventory),)
        ).fetchone()
        return _look(db, row) if row else None


def last_passed(before: Look) -> Look | None:
    """The last run over the same cluster that passed before this one; of the same command, where there is one, because
    check and probe look at different things. Raises HistoryError."""
    with reading() as db:
        row = db.execute(
            """SELECT * FROM runs WHERE exit = 0 AND cluster = ? AND run < ?
            ORDER BY command = ? DESC, run DESC LIMIT 1""",
            (before.setting.cluster, before.run, before.command),
        ).fetchone()
        return _look(db, row) if row else None


def last_measured(wanted: Callable[[Look], bool] = lambda _: True) -> Look | None:
    """The newest run that measured a bandwidth and is `wanted`. Raises HistoryError."""
    with reading() as db:
        found = db.execute("SELECT * FROM runs WHERE number IN (SELECT number FROM figures) ORDER BY run DESC")
        return next((look for row in found if wanted(look := _look(db, row))), None)


_NUMBERS = {"number", "exit", "dropped", "rows", "device", "bytes", "hosts", "ranks", "busbw", "seconds", "rail"}


def _sound(rows: "Iterable[sqlite3.Row]") -> "Iterator[sqlite3.Row]":
    """SQLite keeps text in a column of numbers, if somebody puts it there. Raises ValueError."""
    for row in rows:
        for name in row.keys():  # noqa: SIM118 - a Row iterates over its values
            if row[name] is not None and not isinstance(row[name], (int, float) if name in _NUMBERS else str):
                raise ValueError(f"{name} {row[name]!r:.40}")
        yield row


@understanding()
def figures_of(db: "sqlite3.Connection", number: int) -> tuple[Figure, ...]:
    return tuple(
        Figure(
            Shape(row["op"], row["reduction"], row["form"], row["dtype"], row["bytes"], Scope(row["scope"]),
                  row["place"], row["hosts"], row["ranks"]),
            row["busbw"], row["seconds"],
        )
        for row in _sound(db.execute("SELECT * FROM figures WHERE number = ? ORDER BY rowid", (number,)))
    )  # fmt: skip


@understanding()
def _findings_of(db: "sqlite3.Connection", number: int) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            row["check_id"], Outcome(row["outcome"]), row["summary"], row["host"], row["device"], row["rail"],
            row["peer"], row["expected"], row["found"], row["cause"], row["remedy"],
        )
        for row in _sound(db.execute("SELECT * FROM findings WHERE number = ? ORDER BY rowid", (number,)))
    )  # fmt: skip


@understanding()
def _look(db: "sqlite3.Connection", row: "sqlite3.Row", *, figures: bool = True) -> Look:
    number = row["number"]
    (row,) = _sound([row])
    hosts = _sound(db.execute("SELECT host FROM hosts WHERE number = ? ORDER BY host", (number,)))
    return Look(
        row["run"], row["command"], row["owner"], row["started"], row["finished"], Outcome(row["verdict"]),
        row["exit"], row["inventory"], Setting(row["cluster"], row["product"], row["backend"]),
        hosts=tuple(host for (host,) in hosts),
        checks=frozenset(row["checks"].split()),
        findings=_findings_of(db, number),
        figures=figures_of(db, number) if figures else (),
        next_step=row["next_step"],
        dropped=row["dropped"],
        asked=row["asked"],
    )  # fmt: skip
