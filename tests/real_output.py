"""Which real output each check of NPUs was held against: docs/real-output.md, from the tests' own tables.

    python -m tests.real_output > docs/real-output.md

tests/cases/real_output.toml says which parsers a check rests on; tests/cases/captures says which captures of real tools
a parser has been held against.
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
# What has been held against real output

Made by `python -m tests.real_output`; a test compares the two.

No NPU and no GPU was at hand when preflight was written. Its parsers are held against output that real machines have
printed, in public pastes, vendor documents and the tests of other tools (`pytest --captures DIR`, with the expected
values of `tests/cases/captures`, which were read from them by eye). Where the format of a command is known only from
the tool's source, or from nothing but a description, this page says so, and no check fails for it.

A capture named "-format" or "-keys" holds formats of the source, too; "-doc" is a vendor document's sample. "none" is
said of queries that nobody has pasted.

`preflight capture` collects what your machines print and names what it did not understand: that is how this list grows.
"""


def data() -> dict[str, Any]:
    return tomllib.loads((CASES / "real_output.toml").read_text(encoding="utf-8"))


def captures() -> dict[str, list[str]]:
    """Parser → the captures that it is held against."""
    found: dict[str, list[str]] = defaultdict(list)
    for table in sorted((CASES / "captures").glob("*.json")):
        for name, expected in json.loads(table.read_text(encoding="utf-8")).items():
            found[expected["parser"]].append(name)
    return found


def page() -> str:
    said, held = data(), captures()
    lines = [HEAD, "## Checks", "", "| check | rests on | held against |", "| --- | --- | --- |"]
    for id_, parsers in said["checks"].items():
        evidence = [f"{len(held[parser])} of `{parser}`" for parser in parsers if held.get(parser)]
        evidence += [f"`{parser}`: {said['without_capture'][parser]}" for parser in parsers if not held.get(parser)]
        rests = ", ".join(f"`{parser}`" for parser in parsers)
        lines.append(f"| {id_} {all_checks()[id_].title} | {rests} | {'; '.join(evidence)} |")
    lines += ["", "## Parsers", "", "| parser | captures |", "| --- | --- |"]
    lines += [f"| `{parser}` | {', '.join(names)} |" for parser, names in sorted(held.items())]
    lines += [f"| `{parser}` | none: {why} |" for parser, why in sorted(said["without_capture"].items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
