"""The text of every check, for `list-checks` and `explain`.

Importing the checks and the types of all facts takes 0.1 s. So their texts are kept in the user's cache, by Python's
rule for compiled code: a cache is valid until a source file has another time or size."""

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from preflight.bounded_file import read_bounded
from preflight.model.places import cache_home

FOLDER = Path(__file__).parents[1]
_LARGEST = 16 << 20  # bytes of the cache; all checks have 130 KB


@dataclass(frozen=True)
class CheckEntry:
    """One check in words. `products`: those it applies to. `several`: a single host gives nothing to compare."""

    id: str
    area: str
    title: str
    scope: str
    severity: str
    products: list[str]
    product_words: str
    several: bool
    needs: list[str]
    explanation: str
    module: str  # the path of its source file

    @property
    def scope_words(self) -> str:
        if self.several:
            return "compares all hosts (skipped for a single host)"
        return "checked on each host" if self.scope == "host" else "checks all hosts together"

    def paragraphs(self) -> dict[str, list[str]]:
        """Return the lines of each paragraph by its label: words without line breaks, and indented commands."""
        labelled = (paragraph.partition(":") for paragraph in self.explanation.split("\n\n"))
        return {label: _unwrapped(text) for label, _, text in labelled}


def _unwrapped(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.removeprefix(" ").strip("\n").splitlines():
        if lines and not line.startswith(" ") and not lines[-1].startswith(" "):
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return lines


def catalogue() -> dict[str, CheckEntry]:
    """Return every check by id, sorted."""
    sources = sorted([str(path), path.stat().st_mtime_ns, path.stat().st_size] for path in _modules())
    cache_file = cache_home() / f"checks-{zlib.crc32(bytes(FOLDER)):08x}.json"  # one file an installation
    try:
        saved = json.loads(read_bounded(cache_file, _LARGEST))
        if saved["sources"] == sources:
            return {row["id"]: CheckEntry(**row) for row in saved["entries"]}
    except (OSError, ValueError, KeyError, TypeError):
        pass  # missing, or of another version
    entries = _entries()
    _save(cache_file, {"sources": sources, "entries": [asdict(entry) for entry in entries.values()]})
    return entries


def _modules() -> Iterator[Path]:
    for folder, _, names in os.walk(FOLDER):
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _entries() -> dict[str, CheckEntry]:
    from preflight.checks.engine.registry import all_checks

    return {
        check.id: CheckEntry(
            check.id,
            check.area,
            check.title,
            check.scope,
            check.severity.value,
            sorted(check.products),
            check.product_words,
            check.several,
            list(check.needs),
            check.explanation,
            check.function.__module__.replace(".", "/") + ".py",
        )
        for check in all_checks().values()
    }


def _save(path: Path, document: dict[str, Any]) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(document), encoding="utf-8")
        unfinished.replace(path)
    except OSError:  # without a cache, the checks are imported each time
        with suppress(OSError):
            unfinished.unlink()
