"""List all checks with their id, default severity and title.

  preflight list-checks
  preflight list-checks -o json

`preflight explain ID` explains a check.
"""

import argparse
import json
import textwrap
from collections.abc import Iterable

from preflight.checks.engine.catalogue import CheckEntry, catalogue
from preflight.cli.options import FORM_HELP

WIDTH = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("console", "json", "markdown"), default="console", help=FORM_HELP)


def run(args: argparse.Namespace) -> int:
    render = {"console": console, "json": document, "markdown": markdown}[args.output]
    print(render(catalogue().values()))
    return 0


def by_area(checks: Iterable[CheckEntry]) -> dict[str, list[CheckEntry]]:
    """Return the checks of each area. Areas are in the order of their first check."""
    areas: dict[str, list[CheckEntry]] = {}
    for check in checks:
        areas.setdefault(check.area, []).append(check)
    return areas


def console(checks: Iterable[CheckEntry]) -> str:
    """Return one line for each check, wrapped at 80 columns and grouped by area."""
    lines: list[str] = []
    for area, members in by_area(checks).items():
        lines.append(area)
        for check in members:
            start = f"  {check.id}  {check.severity:<5} "
            lines += textwrap.wrap(check.title, WIDTH, initial_indent=start, subsequent_indent=" " * len(start))
        lines.append("")
    return "\n".join([*lines, "preflight explain ID says why a check matters and how to look by hand."])


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
    parts = [
        "# Checks\n\n"
        "Made by `preflight list-checks -o markdown` from the docstrings of the checks; a test compares the two.\n\n"
        "The severity is what a finding of the check has unless it says otherwise. A check that could not look (a tool "
        "failed, no permission) says `unknown`, and one that does not apply to the product or to a single host `skip`. "
        "`check --only`, `check --skip` and `check --ignore` take ids, the start of one (`NPU`) or an area (`ports`)."
    ]
    for area, members in by_area(checks).items():
        parts.append(f"## {area}")
        for check in members:
            several = "; compares hosts, so it is skipped for a single one" if check.several else ""
            parts.append(f"### {check.id} {check.title}\n\nSeverity `{check.severity}`; for {check.for_whom}{several}.")
            for paragraph in check.explanation.split("\n\n"):
                label, _, text = " ".join(paragraph.split()).partition(": ")
                parts.append(f"*{label}:* {f'`{text}`' if label == 'Check manually' and '`' not in text else text}")
    return "\n\n".join(parts)
