"""Reader of hosts.toml: from file to TOML to the document's valid part to Cluster. Reports all mistakes with lines."""

import errno
import re
import tomllib
from pathlib import Path
from typing import Any

from preflight.bounded_file import read_bounded
from preflight.inventory.errors import InventoryError, Mistake, dotted
from preflight.inventory.key_lines import KeyLines
from preflight.model.cluster import Cluster

_LARGEST_FILE = 16 << 20  # bytes; a table for one host with all its addresses takes about 400


def load(path: Path, option: str = "--inventory") -> Cluster:
    """Return the cluster of the file. `option` is its option on the command line. Raises InventoryError."""
    return parse(_read(path, option), path)


def tables(path: Path) -> dict[str, Any]:
    """Return the file's TOML document without checks. Raises InventoryError."""
    return _toml(path, _read(path))


def parse(text: str, path: Path) -> Cluster:
    """Return the cluster of a file with this text. Errors name `path`, and relative paths start at its folder."""
    data = _toml(path, text)
    # pydantic takes a tenth of a second to import, so only a command that reads an inventory imports it.
    from preflight.inventory.resolve import resolve

    cluster, mistakes = resolve(data, path.absolute().parent)
    if cluster is None:
        raise InventoryError(_message(path, KeyLines(text), mistakes))
    return cluster


def _read(path: Path, option: str = "--inventory") -> str:
    try:
        content = read_bounded(path, _LARGEST_FILE, pipes=True)
        return content.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InventoryError(f"{path}:{line}: not UTF-8 text. Save the file as UTF-8.") from error
    except FileNotFoundError as error:
        raise InventoryError(
            f"{path}: no such file. Write one with preflight init, or choose another with {option}."
        ) from error
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise InventoryError(f"{path}: {error.strerror}") from error
        raise InventoryError(f"{path}: {error.strerror}. Choose another inventory with {option}.") from error


def _toml(path: Path, text: str) -> dict[str, Any]:
    data = toml_of(path, text)
    if not data:
        raise InventoryError(f"{path}: the file is empty. To print an example, run: preflight init --example")
    return data


def toml_of(path: Path, text: str) -> dict[str, Any]:
    """Return the text's TOML document, which may be empty. Raises InventoryError, with the line of the mistake."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        if position:
            reason = str(error)[: position.start()]
            raise InventoryError(f"{path}:{position[1]}:{position[2]}: not valid TOML: {reason}") from error
        raise InventoryError(f"{path}:{len(text.splitlines())}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise InventoryError(f"{path}: brackets are nested too deeply") from error
    except ValueError as error:
        raise InventoryError(f"{path}: a number has too many digits") from error


def _message(path: Path, lines: KeyLines, mistakes: list[Mistake]) -> str:
    text = []
    for line, mistake in sorted(((lines.of(mistake.at), mistake) for mistake in mistakes), key=lambda pair: pair[0]):
        reference = f" (first on line {lines.of(mistake.first)})" if mistake.first else ""
        text.append(f"{path}:{line}: {dotted(mistake.at)}: {mistake.text}{reference}")
    return "\n".join([f"{len(text)} {'error' if len(text) == 1 else 'errors'} in the inventory", *text])
