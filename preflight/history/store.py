"""The SQLite file of the history and its tables. Every error ends in one sentence.

The file has no WAL: its shared memory does not work on NFS, where homes often are. Several runs may write at once. Each
waits for the other's transaction. sqlite3 is imported only here, and only when the file is used.
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

LOCK_TIMEOUT = 5.0  # seconds to wait for another run that writes

# Statements from each version of the tables (PRAGMA user_version) to the next. Entries are added, never edited.
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
    """The history cannot be read or written. A report notes it, and its verdict stays."""

    exit_code = 3


def path() -> Path:
    """Return the path of the file, which need not exist. Raises HistoryError."""
    try:
        return state_home() / "history.sqlite"
    except RuntimeError:  # no HOME, and no entry in /etc/passwd
        raise HistoryError("no folder for the history: there is no home directory. Set XDG_STATE_HOME.") from None


@contextmanager
def reading() -> "Iterator[sqlite3.Connection]":
    """Open the tables, empty ones if nothing was written yet. Raises HistoryError."""
    file = path()
    try:
        exists = file.exists()
    except OSError as error:
        raise HistoryError(f"cannot read the history {file}: {error.strerror}") from None
    with _connection(str(file) if exists else ":memory:") as db:
        yield db


@contextmanager
def writing() -> "Iterator[sqlite3.Connection]":
    """Open the tables within one transaction, which is written whole or not at all. Raises HistoryError."""
    file = path()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))  # readable by its owner alone from the first byte
    except OSError as error:
        raise HistoryError(
            f"cannot write the history {file}: {error.strerror}. To use another folder, set XDG_STATE_HOME."
        ) from None
    with _connection(str(file)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")


@contextmanager
def _connection(database: str) -> "Iterator[sqlite3.Connection]":
    """Open and close a connection. Closing rolls back a transaction that was not committed."""
    try:
        import sqlite3
    except ImportError:
        raise HistoryError("no history: this Python was built without sqlite3") from None
    try:
        with closing(sqlite3.connect(database, timeout=LOCK_TIMEOUT, isolation_level=None)) as db:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA foreign_keys = ON")
            _bring_up_to_date(db)
            yield db
    except sqlite3.OperationalError as error:
        raise HistoryError(f"cannot use the history {path()}: {error}") from None
    except sqlite3.DatabaseError as error:
        raise HistoryError(
            f"the history {path()} is damaged: {error}. Move it away. The next run starts a new history."
        ) from None


@contextmanager
def understanding() -> Iterator[None]:
    """Turn the errors of unusable values into a HistoryError."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise HistoryError(
            f"cannot parse the history {path()}: {error}. Move it away. The next run starts a new history."
        ) from None


def _bring_up_to_date(db: "sqlite3.Connection") -> None:
    """Migrate the tables. Raises HistoryError if a newer preflight has written the file."""
    if _version(db) == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    version = _version(db)  # read again: another run may have migrated it meanwhile
    if version > len(MIGRATIONS):
        raise HistoryError(f"a newer preflight wrote the history {path()}. Use that version, or move the file away.")
    for migration in MIGRATIONS[version:]:
        for statement in migration:
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    db.execute("COMMIT")


def _version(db: "sqlite3.Connection") -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
