"""Facts and reports of the newest runs, compressed. Their text is opaque here.

Documents are large: 1,000 hosts with eight devices have 111 MB of facts, 0.3 to 8 MB when compressed. So only some runs
keep them. Each cluster keeps its newest run and the last ones that passed, whatever came after them. That holds for the
clusters that were checked last, because a site may have an inventory, and so a cluster name, for each job.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from preflight.history.store import HistoryError, path, reading

if TYPE_CHECKING:
    import sqlite3
    from types import ModuleType

FACTS, REPORT = "facts", "report"  # JSON documents of docs/contracts.md
MOST_RUNS = 20
MOST_BYTES = 100 << 20  # of all documents, compressed; the newest cluster's alone may be more
MOST_CLUSTERS = 20
LARGEST = 2 << 30  # bytes of a document; 1,000 hosts have 111 MB
LARGEST_COMPRESSED = 256 << 20

# The newest run of each of the newest clusters, and the last one that passed of each command. `preflight diff` begins
# with them.
_CLUSTERS = f"SELECT cluster FROM runs GROUP BY cluster ORDER BY max(number) DESC LIMIT {MOST_CLUSTERS}"  # noqa: S608
GOOD_AND_NEW = f"""SELECT max(number) AS number FROM runs WHERE cluster IN ({_CLUSTERS}) GROUP BY cluster
    UNION SELECT max(number) FROM runs WHERE exit = 0 AND cluster IN ({_CLUSTERS})
    GROUP BY cluster, command"""  # noqa: S608 - constants

_FORGET = f"""WITH good AS ({GOOD_AND_NEW}), sizes AS (
        SELECT number, sum(length(body)) AS bytes, number IN good AS good, latest
        FROM kept JOIN runs USING (number) JOIN (
            SELECT cluster, max(number) AS latest FROM runs GROUP BY cluster) USING (cluster)
        GROUP BY number), places AS (
        SELECT number, good, latest, row_number() OVER (ORDER BY number DESC) AS place,
            sum(bytes) OVER (ORDER BY good DESC, good * latest DESC, number DESC) AS total FROM sizes)
    DELETE FROM kept WHERE number IN (
        SELECT number FROM places WHERE (place > ? AND NOT good)
            OR (total > ? AND NOT (good AND latest = (SELECT max(number) FROM runs))))"""  # noqa: S608 - constants


def compress(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the documents compressed, by name. Raises HistoryError."""
    lzma = _lzma()
    return {name: lzma.compress(text, preset=0) for name, text in documents.items()}


def _lzma() -> "ModuleType":
    """Import lzma, which compresses facts far better than zlib: hosts resemble each other over megabytes."""
    try:
        import lzma
    except ImportError:
        raise HistoryError("facts and reports are not stored: this Python was built without lzma") from None
    return lzma


def keep(db: "sqlite3.Connection", number: int, documents: Mapping[str, bytes]) -> None:
    """Insert a run's compressed documents, within its transaction, and delete the oldest beyond the limits."""
    db.executemany("INSERT INTO kept VALUES (?, ?, ?)", ((number, name, body) for name, body in documents.items()))
    db.execute(_FORGET, (MOST_RUNS, MOST_BYTES))


def kept(run: str, name: str) -> bytes | None:
    """Return a document of a run, None if it was not kept or is deleted. Raises HistoryError."""
    lzma = _lzma()
    with reading() as db:
        row = db.execute(
            "SELECT CASE WHEN length(body) <= ? THEN body END AS body FROM kept JOIN runs USING (number)"
            " WHERE run = ? AND what = ?",
            (LARGEST_COMPRESSED, run, name),
        ).fetchone()
    try:
        return None if row is None else _decompress(lzma, row["body"])
    except (lzma.LZMAError, EOFError, TypeError) as error:
        raise HistoryError(
            f"cannot read the {name} of run {run} in the history: {error}. Move {path()} away. The next run starts a "
            "new history."
        ) from None


def _decompress(lzma: "ModuleType", body: bytes | None) -> bytes:
    """Return the document. `body` is None if it is too large to be read. Raises EOFError if it is cut or too large."""
    if body is None:
        raise EOFError(f"it is larger than {LARGEST_COMPRESSED >> 20} MiB")
    decompressor = lzma.LZMADecompressor()
    text: bytes = decompressor.decompress(body, max_length=LARGEST)
    if not decompressor.eof:
        raise EOFError("it is truncated" if decompressor.needs_input else f"it is larger than {LARGEST >> 20} MiB")
    return text
