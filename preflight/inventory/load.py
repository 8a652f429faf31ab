"""Read hosts.toml: file → TOML → sound document → Cluster, with every error at once and its line."""

import errno
import re
import tomllib
from pathlib import Path
from typing import Any

from preflight.bounded_file import read_bounded
from preflight.inventory.errors import InventoryError, Mistake, dotted
from preflight.inventory.key_lines import KeyLines
from preflight.model.cluster import Cluster

_LARGEST_FILE = 16 << 20  # bytes; a host in a table of its own with all addresses written out takes about 400


def load(path: Path, option: str = "--inventory") -> Cluster:
    """The cluster that the file describes; `option` names it on the command line. Raises InventoryError; nothing is
    contacted."""
    return parse(_read(path, option), path)


def tables(path: Path) -> dict[str, Any]:
    """The file as TOML has it, not looked into. Raises InventoryError."""
    return _toml(path, _read(path))


def parse(text: str, path: Path) -> Cluster:
    """The cluster that a file of this text describes. `path`: where relative paths start, and the name in errors."""
    data = _toml(path, text)
    # pydantic takes a tenth of a second to load, so only a command that reads an inventory pays for it.
    from preflight.inventory.device_addresses import give
    from preflight.inventory.resolve import cluster_of, contradictions_in, entries_of
    from preflight.inventory.valid_part import examine

    sound, problems = examine(data)
    if sound:
        entries, mismatches = entries_of(sound)
        given = give(sound.document, entries)
        problems += [*mismatches, *contradictions_in(sound, entries, given)]
    if sound is None or problems:
        raise InventoryError(_told(path, KeyLines(text), problems))
    return cluster_of(sound.document, entries, given, path.absolute().parent)


def _read(path: Path, option: str = "--inventory") -> str:
    try:
        content = read_bounded(path, _LARGEST_FILE, pipes=True)
        return content.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InventoryError(f"{path}:{line}: not text in UTF-8; save the file as UTF-8") from error
    except FileNotFoundError as error:
        raise InventoryError(
            f"{path}: no such file; copy inventory.example.toml to it and edit it, or name another with {option}"
        ) from error
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise InventoryError(f"{path}: {error.strerror}, so hardly an inventory") from error
        raise InventoryError(f"{path}: {error.strerror}; name another with {option}") from error


def _toml(path: Path, text: str) -> dict[str, Any]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        if place:
            what = str(error)[: place.start()]
            raise InventoryError(f"{path}:{place[1]}: column {place[2]}: not TOML: {what}") from error
        raise InventoryError(f"{path}:{len(text.splitlines())}: not TOML: {error}") from error
    except RecursionError as error:
        raise InventoryError(f"{path}: brackets are nested too deeply") from error
    except ValueError as error:
        raise InventoryError(f"{path}: a number has thousands of digits") from error
    if not data:
        raise InventoryError(f"{path}: empty; copy inventory.example.toml and edit it")
    return data


def _told(path: Path, lines: KeyLines, problems: list[Mistake]) -> str:
    told = []
    for line, problem in sorted(((lines.of(problem.at), problem) for problem in problems), key=lambda pair: pair[0]):
        other = f"; first on line {lines.of(problem.first)}" if problem.first else ""
        told.append(f"{path}:{line}: {dotted(problem.at)}: {problem.text}{other}")
    return "\n".join([f"{len(told)} {'error' if len(told) == 1 else 'errors'} in the inventory", *told])
