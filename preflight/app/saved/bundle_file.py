"""A support bundle: one zip of documents, written whole, and read without trusting it (docs/contracts.md).

    bundle.json           schema, preflight's version, time, run, contents, and missing contents
    facts.json            preflight.facts/1
    report.json           preflight.report/1
    inventory.toml        without the way to the hosts
    history.json          preflight.history/1, the newest runs
    journals/RUN.jsonl    of the runs that changed hosts
    logs/…

Nothing is ever unpacked to a disk. Only the first four are read back, each up to a size.
"""

import io
import stat
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import msgspec

from preflight.app.files import write_whole
from preflight.bounded_file import read_bounded
from preflight.model.errors import UsageError

SCHEMA = "preflight.bundle/1"
ABOUT, FACTS, REPORT, INVENTORY = "bundle.json", "facts.json", "report.json", "inventory.toml"
_READ = {ABOUT: 16 << 20, FACTS: 512 << 20, REPORT: 256 << 20, INVENTORY: 16 << 20}  # name → bytes at most
_LARGEST = 512 << 20  # bytes of the whole file
_LARGEST_LIST = 16 << 20  # bytes of its list of members
_SMALL, _RATIO = 64 << 20, 100  # limit of size to packed size for members over _SMALL; facts reach 30
_END, _END_OF_64 = b"PK\x05\x06", b"PK\x06\x07"
_MOST_MEMBERS = 50_000
_MAGIC = b"PK\x03\x04"
_BAD = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError, OverflowError)


class _About(msgspec.Struct):
    schema: str


def write(path: Path, members: Mapping[str, bytes]) -> None:
    """Write the bundle whole or not at all, readable by its owner alone. Raise PreflightError if that fails."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)  # dated 1980, so that the same content gives the same file
            entry.external_attr = (stat.S_IFREG | 0o600) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    write_whole(path, packed.getvalue(), "the support bundle", 0o600)


def is_bundle(path: Path) -> bool:
    """Return whether the path is an ordinary file that begins like a zip."""
    try:
        with path.open("rb") if path.is_file() else io.BytesIO() as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False


def read(path: Path) -> dict[str, bytes]:
    """Return the documents that are read back, by name.

    Raise UsageError for a file that is no bundle, is cut, or cannot be trusted.
    """
    documents: dict[str, bytes] = {}
    try:
        packed = read_bounded(path, _LARGEST)
        _refuse_long_list(path, packed)
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            entries = archive.infolist()
            _refuse_strange(path, entries)
            for entry in entries:
                if entry.filename in _READ:
                    documents[entry.filename] = _content(path, archive, entry)
    except _BAD as error:
        raise UsageError(
            f"cannot read {path} as a support bundle: {error}. If it is truncated, copy it again."
        ) from error
    except MemoryError:
        raise UsageError(f"{path} does not fit into this machine's memory") from None
    schema = _schema(documents.get(ABOUT, b""))
    if not schema.startswith("preflight.bundle/"):
        raise UsageError(f"{path} is not a support bundle. To write one: preflight support-bundle")
    if schema != SCHEMA:
        raise UsageError(
            f"{path} has the schema {schema!r:.80}, but this preflight reads {SCHEMA}. To write a new bundle: "
            "preflight support-bundle"
        )
    return documents


def _content(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the content of one member. Unpack no more than its largest allowed size."""
    largest = min(_READ[entry.filename], max(_SMALL, _RATIO * entry.compress_size))
    with archive.open(entry) as member:
        content = member.read(largest + 1)
    if len(content) > largest:
        raise UsageError(f"{path} is not a support bundle: {entry.filename} is larger than {largest >> 20} MiB")
    return content


def _refuse_long_list(path: Path, packed: bytes) -> None:
    """Raise UsageError if the list of members, which is read whole, would take much memory."""
    end = packed.rfind(_END)
    size = int.from_bytes(packed[end + 12 : end + 16], "little") if end >= 0 else 0
    if size > _LARGEST_LIST or packed[max(end - 20, 0) :].startswith(_END_OF_64):
        raise UsageError(f"{path} is not a support bundle: it lists too many files")


def _schema(about: bytes) -> str:
    """Return the schema that bundle.json names, or "" if it names none."""
    try:
        return msgspec.json.decode(about, type=_About).schema
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""


def _refuse_strange(path: Path, entries: list[zipfile.ZipInfo]) -> None:
    """Raise UsageError for members that are unsafe to unpack. We do not unpack them, but users may."""
    if len(entries) > _MOST_MEMBERS:
        raise UsageError(f"{path} is not a support bundle, because it has {len(entries)} files")
    names: set[str] = set()
    for entry in entries:
        name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
        place = PurePosixPath(name)
        why = ""
        if place.is_absolute() or ".." in place.parts or "\\" in name:
            why = "has a path outside the bundle"
        elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):  # some packers write 0; other programs add folders
            why = "is not a regular file"
        elif entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            why = "has an unexpected compression"
        elif name in names:
            why = "occurs twice"
        if why:
            raise UsageError(f"{path} is not a support bundle: {name!r:.80} {why}. Do not unpack it.")
        names.add(name)
