"""The page of the real tool output that the parsers of each NPU check are tested with.

    python -m tests.real_output > docs/real-output.md

tests/cases/real_output.toml lists the parsers that a check uses. tests/cases/captures lists the captures of real tools
for each parser.
"""

import json
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

from preflight.checks.engine.registry import all_checks

CASES = Path(__file__).parent / "cases"
OF_NPUS = {"hccn", "hccn_conf", "npu_smi", "nic", "chips", "device_nodes", "versions", "pings"}  # sections

HEAD = """\
# Parsers tested with real output

`python -m tests.real_output` makes this page. A test compares the two.

No NPU and no GPU was available when preflight was written. Its parsers are tested with output that real machines have
printed. The sources are public pastes, vendor documents and the tests of other tools. `pytest --captures DIR` runs
these tests. Their expected values are in `tests/cases/captures`, and were read from the output by eye.

The format of some commands is known only from the tool's source, or only from a description. This page marks them, and
no check fails because of them.

A capture named "-format" or "-keys" also holds formats of the source. "-doc" is a sample from a vendor document.
"none" marks queries without any published output.

`preflight capture` collects the output of your machines and lists the parts that it did not understand. This is how the
list grows.
"""


def data() -> dict[str, Any]:
    """Return the tables of real_output.toml."""
    return tomllib.loads((CASES / "real_output.toml").read_text(encoding="utf-8"))


def captures() -> dict[str, list[str]]:
    """Return the names of the captures by parser."""
    found: dict[str, list[str]] = defaultdict(list)
    for table in sorted((CASES / "captures").glob("*.json")):
        for name, expected in json.loads(table.read_text(encoding="utf-8")).items():
            found[expected["parser"]].append(name)
    return found


def page() -> str:
    """Return the whole page."""
    said, held = data(), captures()
    lines = [HEAD, "## Checks", "", "| Check | Parsers | Number of captures, or format source |", "| --- | --- | --- |"]
    for id_, parsers in said["checks"].items():
        evidence = [f"{len(held[parser])} of `{parser}`" for parser in parsers if held.get(parser)]
        sources: dict[str, list[str]] = defaultdict(list)
        for parser in parsers:
            if not held.get(parser):
                sources[said["without_capture"][parser]].append(f"`{parser}`")
        evidence += [f"{source} ({', '.join(names)})" for source, names in sources.items()]
        rests = ", ".join(f"`{parser}`" for parser in parsers)
        lines.append(f"| {id_} {all_checks()[id_].title} | {rests} | {', '.join(evidence)} |")
    lines += ["", "## Parsers", "", "| Parser | Captures |", "| --- | --- |"]
    lines += [f"| `{parser}` | {', '.join(names)} |" for parser, names in sorted(held.items())]
    lines += [f"| `{parser}` | none: {source} |" for parser, source in sorted(said["without_capture"].items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
