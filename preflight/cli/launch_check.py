"""`preflight launch --check`: start scripts are read, never run."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from preflight.cli.common import DEFAULT_INVENTORY
from preflight.cli.text_file import text_of
from preflight.cli.wrapped import wrapped
from preflight.model.errors import UsageError
from preflight.report.console import width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from preflight.launch.lint.types import ScriptFault

_LARGEST = 64 << 10  # bytes of a script
_LARGEST_HOST_FILE = 1 << 20
_MOST = 100  # faults that are shown
_LONGEST = 120  # characters of what was found, and of what was expected


def check(args: argparse.Namespace) -> int:
    from preflight.inventory import limit, load
    from preflight.launch.lint.check import faults, host_files

    if args.dir or args.output == "scripts":
        raise UsageError("--check reads scripts and starts nothing; leave out --dir and -o scripts")
    scripts = [Path(name) for name in dict.fromkeys((*args.check, *args.program))]  # options may stand between them
    if not scripts:
        raise UsageError("name the scripts: preflight launch --check start-node01.sh start-node02.sh")
    asked = args.inventory is not DEFAULT_INVENTORY or args.limit
    cluster = load(args.inventory) if asked or DEFAULT_INVENTORY.is_file() else None
    hosts = () if not cluster else limit(cluster, args.limit) if args.limit else cluster.hosts
    texts = {path: text_of(str(path), _LARGEST, "start script").removeprefix("\ufeff") for path in scripts}
    named = list(dict.fromkeys(host_files(texts)))
    files = {path: text_of(str(path), _LARGEST_HOST_FILE, "host file") for path in named if path.is_file()}
    notes = [f"{path} is not here, and was not looked at" for path in named if path not in files]
    notes.append(f"held against {args.inventory}" if cluster else "no inventory to hold addresses and ports against")
    found = faults(texts, files, cluster, hosts)
    print(_document(found, notes, scripts) if args.output == "json" else _lines(found, notes, scripts))
    return 1 if found else 0


def _lines(found: "Sequence[ScriptFault]", notes: "Sequence[str]", scripts: "Sequence[Path]") -> str:
    columns = width()
    lines = []
    for it in found[:_MOST]:
        lines += wrapped(f"{it.path}:{it.spot.line}:{it.spot.column}: {it.what}", columns, "    ")
        for said in (f"found {_short(it.found)}; expected {_short(it.expected)}", it.do):
            lines += wrapped(f"    {said}", columns, "      ")
    lines += [f"… and {len(found) - _MOST} more"] if len(found) > _MOST else []
    lines += [line for note in notes for line in wrapped(f"note: {note}", columns)]
    of = "1 script" if len(scripts) == 1 else f"{len(scripts)} scripts"
    count = "nothing is wrong" if not found else f"{len(found)} {'thing is' if len(found) == 1 else 'things are'} wrong"
    return "\n".join([*lines, f"{of}: {count}"])


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _document(found: "Sequence[ScriptFault]", notes: "Sequence[str]", scripts: "Sequence[Path]") -> str:
    return json.dumps(
        {
            "schema": "preflight.launch-check/1",
            "scripts": [str(path) for path in scripts],
            "faults": [
                {"file": str(it.path), "line": it.spot.line, "column": it.spot.column, "what": it.what,
                 "found": it.found, "expected": it.expected, "do": it.do}
                for it in found
            ],
            "notes": list(notes),
        },
        indent=1,
    )  # fmt: skip
