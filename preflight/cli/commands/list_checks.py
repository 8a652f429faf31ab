"""List the id, default severity and title of every check.

  preflight list-checks
  preflight list-checks -o json

`preflight explain ID` shows why a check matters, and how to check and fix it manually.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from itertools import groupby

from preflight.checks.engine.catalogue import CheckEntry, catalogue
from preflight.cli.option_texts import FORM_HELP

WIDTH = 80
AREAS = {
    "host": "Host",
    "network": "Network",
    "ports": "Job ports",
    "firewall": "Firewall",
    "environment": "Environment",
    "versions": "Versions",
    "ascend": "Ascend devices",
    "nvidia": "NVIDIA GPUs",
    "rdma": "RDMA",
    "probe": "Probe",
}
_HEAD = """\
# Checks

`preflight list-checks -o markdown` prints this page from the docstrings of the checks. A test compares the two.

The severity is the outcome of a finding, unless the check gives another one under *Result*. A check reports `UNKNOWN` \
if it has no data, for example because a tool failed or permission was denied. It reports `SKIP` if it does not apply \
to the product or to a single host.

`check --only`, `check --skip` and `check --ignore` take ids, the start of ids (`NPU`) and areas (`ports`)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("console", "json", "markdown"), default="console", help=FORM_HELP)


def run(args: argparse.Namespace) -> int:
    render = {"console": console, "json": document, "markdown": markdown}[args.output]
    print(render(catalogue().values()))
    return 0


def by_area(checks: Iterable[CheckEntry]) -> dict[str, list[CheckEntry]]:
    """Return the checks of each area, in the order of AREAS."""
    areas: dict[str, list[CheckEntry]] = {area: [] for area in AREAS}
    for check in checks:
        areas[check.area].append(check)
    return areas


def console(checks: Iterable[CheckEntry]) -> str:
    """Return one line for each check, grouped by area."""
    lines: list[str] = []
    for area, members in by_area(checks).items():
        lines.append(f"{AREAS[area]} (check --only {area})")
        lines += [f"  {check.id}  {check.severity:<4}  {check.title}" for check in members]
        lines.append("")
    return "\n".join([*lines, "next: preflight explain ID"])


def document(checks: Iterable[CheckEntry]) -> str:
    """Return JSON: a list with one object for each check."""
    rows = [
        {
            "id": check.id,
            "area": check.area,
            "title": check.title,
            "scope": check.scope,
            "severity": check.severity,
            "products": check.products,
            "needs": check.needs,
            "explanation": check.explanation,
        }
        for check in checks
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False)


def markdown(checks: Iterable[CheckEntry]) -> str:
    """Return the whole of docs/checks.md."""
    parts = [_HEAD]
    for area, members in by_area(checks).items():
        parts.append(f"## {AREAS[area]} (`{area}`)")
        for check in members:
            parts.append(f"### {check.id} {check.title}")
            parts.append(f"Severity `{check.severity}`; {check.product_words}; {check.scope_words}.")
            for label, lines in check.paragraphs().items():
                parts += _markdown_paragraph(label, lines)
    return "\n\n".join(parts)


def _markdown_paragraph(label: str, lines: list[str]) -> Iterator[str]:
    """Yield a paragraph's words, and each run of its commands as a code block."""
    blocks = [list(block) for _, block in groupby(lines, key=lambda line: line.startswith(" "))]
    if blocks[0][0].startswith(" "):
        yield f"*{label}:*"
    for number, block in enumerate(blocks):
        if block[0].startswith(" "):
            yield "\n".join(["```", *map(str.strip, block), "```"])
        else:
            yield f"*{label}:* {block[0]}" if number == 0 else block[0]
