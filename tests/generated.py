"""The pages of docs that are made from the code.

`python -m tests.generated` writes all of them again.
"""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"

# Page → the arguments of `python -m` that print it.
GENERATED = {
    "checks.md": "preflight list-checks -o markdown",
    "commands.md": "tests.commands",
    "failures.md": "tests.failures",
    "failures-gpu.md": "tests.failures gpu",
    "preflight.1": "tests.man_page",
    "inventory.schema.json": "preflight.inventory",
    "real-output.md": "tests.real_output",
    "report.schema.json": "tests.report_schema",
}


def made(page: str) -> str:
    """Return the text of a page, as its command prints it."""
    command = [sys.executable, "-m", *GENERATED[page].split()]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=DOCS.parent).stdout


if __name__ == "__main__":
    for name in GENERATED:
        (DOCS / name).write_text(made(name), encoding="utf-8")
