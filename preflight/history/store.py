"""The one SQLite file, its tables, and what becomes of a bad day: one sentence.

No WAL: its shared memory does not work on NFS, where homes often are. Several runs may write at once; each waits for
the other's transaction. sqlite3 is imported only here, and only when the file is used.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from preflight.model.errors import PreflightError
from preflight.model.places import state_home

if TYPE_CHECKING:
    import sqlite3

PATIENCE = 5.0  # seconds to wait for another run that writes

# What leads from each version of the tables (PRAGMA user_version) to the next. Entries are added, never edited.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE runs (
            number INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, command TEXT NOT NULL, owner TEXT NOT NULL,
            started TEXT NOT NULL, finished TEXT NOT NULL, verdict TEXT NOT NULL, exit INTEGER NOT NULL,
            inventory TEXT NOT NULL, cluster TEXT NOT NULL, product TEXT NOT NULL, backend TEXT NOT NULL,
            checks TEXT NOT NULL, next_step TEXT NOT NULL, dropped INTEGER NOT NULL, rows INTEGER NOT NULL)""",
        """CREATE TABLE hosts (
            number INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, host TEXT NOT NULL,
            PRIMARY KEY (number, host)) WITHOUT ROWID""",
        "CREATE INDEX runs_of_a_host ON hosts (host, number)",
        """CREATE TABLE findings (
            number INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, check_id TEXT NOT NULL, outcome TEXT NOT NULL,
            host TEXT, device INTEGER, rail INTEGER, peer TEXT, summary TEXT NOT NULL, expected TEXT NOT NULL,
            found TEXT NOT NULL, cause TEXT NOT NULL, remedy TEXT NOT NULL)""",
        "CREATE INDEX findings_of_a_run ON findings (number)",
        """CREATE TABLE figures (
            number INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, op TEXT NOT NULL, reduction TEXT NOT NULL,
            form TEXT NOT NULL, dtype TEXT NOT NULL, bytes INTEGER NOT NULL, scope TEXT NOT NULL, place TEXT NOT NULL,
            hosts INTEGER NOT NULL, ranks INTEGER NOT NULL, busbw REAL NOT NULL, seconds REAL NOT NULL)""",
        "CREATE INDEX figures_of_a_run ON figures (number)",
        """CREATE TABLE baselines (
            cluster TEXT NOT NULL, product TEXT NOT NULL, backend TEXT NOT NULL, name TEXT NOT NULL,
            number INTEGER NOT NULL REFERENCES runs, PRIMARY KEY (cluster, product, backend, name)) WITHOUT ROWID""",
    ),
    ("ALTER TABLE runs ADD COLUMN asked TEXT NOT NULL DEFAULT ''",),
    (
        """CREATE TABLE kept (
            number INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, what TEXT NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY (number, what))""",
    ),
)


class HistoryError(PreflightError):
    """The file cannot be read or written. A report says so in a note, and its verdict stands."""

    exit_code = 3


def path() -> Path:
    """Where the file is, or will be. Raises HistoryError."""
    try:
        return state_home() / "history.sqlite"
    except RuntimeError:  # no HOME, and no entry in /etc/passwd
        raise HistoryError("there is no history: no home directory is known; XDG_STATE_HOME names a place") from None


@contextmanager
def reading() -> "Iterator[sqlite3.Connection]":
    """The tables; empty ones where nothing was written yet. Raises HistoryError."""
    place = path()
    try:
        there = place.exists()
    except OSError as error:
        raise HistoryError(f"the history {place} cannot be read: {error.strerror}") from None
    with _connected(str(place) if there else ":memory:") as db:
        yield db


@contextmanager
def writing() -> "Iterator[sqlite3.Connection]":
    """The tables, within one transaction: whole or not at all. Raises HistoryError."""
    place = path()
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(place, os.O_RDWR | os.O_CREAT, 0o600))  # its owner's alone, from the first byte on
    except OSError as error:
        raise HistoryError(
            f"the history {place} cannot be written: {error.strerror}; XDG_STATE_HOME names another place for it"
        ) from None
    with _connected(str(place)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")


@contextmanager
def _connected(place: str) -> "Iterator[sqlite3.Connection]":
    """Closed after; a transaction that was not ended is rolled back by that."""
    try:
        import sqlite3
    except ImportError:
        raise HistoryError("there is no history: this Python was built without sqlite3") from None
    try:
        with closing(sqlite3.connect(place, timeout=PATIENCE, isolation_level=None)) as db:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA foreign_keys = ON")
            _bring_up_to_date(db)
            yield db
    except sqlite3.OperationalError as error:
        raise HistoryError(f"the history {path()} cannot be used: {error}") from None
    except sqlite3.DatabaseError as error:
        raise HistoryError(
            f"the history {path()} is damaged ({error}): move it away, and the next run begins a new one"
        ) from None


@contextmanager
def understanding() -> Iterator[None]:
    """Makes a HistoryError of what a row's values cannot be turned into."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise HistoryError(
            f"the history {path()} holds what is not understood ({error}): move it away, and the next run begins a new"
            " one"
        ) from None


def _bring_up_to_date(db: "sqlite3.Connection") -> None:
    """Raises HistoryError where a newer preflight has written the file: what it means is not known here."""
    if _version(db) == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    found = _version(db)  # again: another run may have been faster
    if found > len(MIGRATIONS):
        raise HistoryError(f"the history {path()} was written by a newer preflight: use that one, or move it away")
    for migration in MIGRATIONS[found:]:
        for statement in migration:
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    db.execute("COMMIT")


def _version(db: "sqlite3.Connection") -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
