"""What the newest runs keep whole, packed: their facts and their report. Opaque text here; others read it.

Not of all runs, because they are large: 1,000 hosts with eight devices have 111 MB of facts, 0.3 to 8 MB when
packed. The newest run and the last ones that passed are kept of each cluster, whatever came after them, but only of the
clusters that were looked at last: a site may have an inventory, and with it a name, for each job.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from preflight.history.store import HistoryError, path, reading

if TYPE_CHECKING:
    import sqlite3
    from types import ModuleType

FACTS, REPORT = "facts", "report"  # JSON documents, as docs/contracts.md has them
MOST_RUNS = 20
MOST_BYTES = 100 << 20  # of all of them, packed; the newest cluster's alone may be more
MOST_CLUSTERS = 20
LARGEST = 2 << 30  # bytes of a document, unpacked: 1,000 hosts have 111 MB
LARGEST_PACKED = 256 << 20


def packed(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """What is kept by name → the same, packed. Raises HistoryError."""
    lzma = _lzma()
    return {what: lzma.compress(text, preset=0) for what, text in documents.items()}


def _lzma() -> "ModuleType":
    """It packs facts far better than zlib: hosts resemble each other, over megabytes."""
    try:
        import lzma
    except ImportError:
        raise HistoryError("what was seen is not kept: this Python was built without lzma") from None
    return lzma


def keep(db: "sqlite3.Connection", number: int, documents: Mapping[str, bytes]) -> None:
    """Of the run `number`, within its transaction; the oldest ones that are too many are forgotten."""
    db.executemany("INSERT INTO kept VALUES (?, ?, ?)", ((number, what, body) for what, body in documents.items()))
    db.execute(
        f"""WITH good AS ({GOOD_AND_NEW}), sizes AS (
            SELECT number, sum(length(body)) AS bytes, number IN good AS good, latest
            FROM kept JOIN runs USING (number) JOIN (
                SELECT cluster, max(number) AS latest FROM runs GROUP BY cluster) USING (cluster)
            GROUP BY number), places AS (
            SELECT number, good, latest, row_number() OVER (ORDER BY number DESC) AS place,
                sum(bytes) OVER (ORDER BY good DESC, good * latest DESC, number DESC) AS total FROM sizes)
        DELETE FROM kept WHERE number IN (
            SELECT number FROM places WHERE (place > ? AND NOT good)
                OR (total > ? AND NOT (good AND latest = (SELECT max(number) FROM runs))))""",  # noqa: S608 - a constant
        (MOST_RUNS, MOST_BYTES),
    )


# Of each of the newest clusters, the newest run and the last one that passed of each command: what `preflight diff`
# begins with.
_CLUSTERS = f"SELECT cluster FROM runs GROUP BY cluster ORDER BY max(number) DESC LIMIT {MOST_CLUSTERS}"  # noqa: S608
GOOD_AND_NEW = f"""SELECT max(number) AS number FROM runs WHERE cluster IN ({_CLUSTERS}) GROUP BY cluster
    UNION SELECT max(number) FROM runs WHERE exit = 0 AND cluster IN ({_CLUSTERS})
    GROUP BY cluster, command"""  # noqa: S608 - constants


def kept(run: str, what: str) -> bytes | None:
    """A document of a run; None where it was not kept, or is forgotten. Raises HistoryError."""
    lzma = _lzma()
    with reading() as db:
        row = db.execute(
            "SELECT CASE WHEN length(body) <= ? THEN body END AS body FROM kept JOIN runs USING (number)"
            " WHERE run = ? AND what = ?",
            (LARGEST_PACKED, run, what),
        )
        found = row.fetchone()
    try:
        return None if found is None else _unpacked(lzma, found["body"])
    except (lzma.LZMAError, EOFError, TypeError) as error:
        raise HistoryError(
            f"the {what} of run {run} in the history {path()} cannot be read ({error}): move it away, and the next run "
            "begins a new one"
        ) from None


def _unpacked(lzma: "ModuleType", body: bytes | None) -> bytes:
    """`body`: None where it was too large to be read. Raises EOFError for one that is cut, or too large unpacked."""
    if body is None:
        raise EOFError(f"it is larger than {LARGEST_PACKED >> 20} MiB")
    unpacker = lzma.LZMADecompressor()
    text: bytes = unpacker.decompress(body, max_length=LARGEST)
    if not unpacker.eof:
        raise EOFError("it is cut" if unpacker.needs_input else f"it is larger than {LARGEST >> 20} MiB")
    return text
