"""`preflight launch --check`: faults of start scripts, which are read and never run."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from preflight.app.options import DEFAULT_INVENTORY
from preflight.cli.text_file import text_of
from preflight.cli.wrapped import wrapped
from preflight.inventory import limit, load
from preflight.launch.lint.check import faults, host_files
from preflight.launch.lint.types import ScriptFault
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError
from preflight.report.console import width

_LARGEST = 64 << 10  # bytes of a script
_LARGEST_HOST_FILE = 1 << 20
_MOST = 100  # faults in the output
_LONGEST = 120  # characters of a value in the output


def check(args: argparse.Namespace) -> int:
    """Print the faults of the scripts. Return 1 if there are any."""
    if args.dir or args.output == "scripts":
        raise UsageError("--check cannot be combined with --dir or -o scripts")
    scripts = [Path(name) for name in dict.fromkeys((*args.check, *args.program))]  # options may be between them
    if not scripts:
        raise UsageError("--check needs scripts. Example: preflight launch --check start-node01.sh start-node02.sh")
    cluster, hosts = _inventory(args)
    texts = {path: text_of(str(path), _LARGEST, "start script").removeprefix("\ufeff") for path in scripts}
    files, notes = _host_files(texts)
    if not cluster:
        notes.append("addresses and ports were not checked, since there is no inventory")
    in_scripts = faults(texts, files, cluster, hosts)
    print((_document if args.output == "json" else _lines)(in_scripts, notes, scripts))
    return 1 if in_scripts else 0


def _inventory(args: argparse.Namespace) -> tuple[Cluster | None, Sequence[Host]]:
    """Return the inventory's cluster and the hosts of --limit; none without an inventory in the default place."""
    required = args.inventory is not DEFAULT_INVENTORY or args.limit
    if not (required or DEFAULT_INVENTORY.is_file()):
        return None, ()
    cluster = load(args.inventory)
    return cluster, limit(cluster, args.limit) if args.limit else cluster.hosts


def _host_files(texts: Mapping[Path, str]) -> tuple[dict[Path, str], list[str]]:
    """Return the host files that the scripts name, and a note for each missing one."""
    paths = dict.fromkeys(host_files(texts))
    files = {path: text_of(str(path), _LARGEST_HOST_FILE, "host file") for path in paths if path.is_file()}
    return files, [f"{path} was not checked, since it is not on this machine" for path in paths if path not in files]


def _lines(in_scripts: Sequence[ScriptFault], notes: Sequence[str], scripts: Sequence[Path]) -> str:
    columns = width()
    lines = []
    for fault in in_scripts[:_MOST]:
        lines += wrapped(f"{fault.path}:{fault.spot.line}:{fault.spot.column}: {fault.what}", columns, "    ")
        for text in (f"expected {_short(fault.expected)}; found {_short(fault.found)}", fault.do):
            lines += wrapped(f"    {text}", columns, "      ")
    count = len(in_scripts)
    lines += [f"… and {count - _MOST} more"] if count > _MOST else []
    lines += [line for note in notes for line in wrapped(f"note: {note}", columns)]
    of = "1 script" if len(scripts) == 1 else f"{len(scripts)} scripts"
    verdict = "no errors" if not count else f"{count} error{'' if count == 1 else 's'}"
    return "\n".join([*lines, f"{of}: {verdict}"])


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _document(in_scripts: Sequence[ScriptFault], notes: Sequence[str], scripts: Sequence[Path]) -> str:
    document = {
        "schema": "preflight.launch-check/1",
        "scripts": [str(path) for path in scripts],
        "faults": [
            {
                "file": str(fault.path),
                "line": fault.spot.line,
                "column": fault.spot.column,
                "what": fault.what,
                "found": fault.found,
                "expected": fault.expected,
                "do": fault.do,
            }
            for fault in in_scripts
        ],
        "notes": list(notes),
    }
    return json.dumps(document, indent=1)
