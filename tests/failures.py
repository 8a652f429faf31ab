"""Pages of the failures that users reported.

    python -m tests.failures > docs/failures.md
    python -m tests.failures gpu > docs/failures-gpu.md

The rows come from tests/cases/failures*.toml, the links from the tests that are marked with a failure's number.
Ascend failures have the numbers 1 to 60, GPU failures "G1" to "G61". `@pytest.mark.failure(17, "G3")` marks a test,
`failures = [17, "G3"]` marks a case of tests/cases/checks.
"""

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
CASES = TESTS / "cases" / "checks"

Number = int | str


@dataclass(frozen=True)
class Table:
    """A page and the file of its rows. `intro` has the placeholders {rows} and {seen}."""

    data: str
    page: str
    title: str
    intro: str
    arguments: str = ""


_HOW = (
    "preflight finds {seen} of them before the job, or the condition that leads to them. "
    "For each of the others, the table gives the reason why no check finds it.\n\n"
    "Each test starts from a healthy cluster and makes one change. "
    "The check of that row must find the change, and no other check may change its result unless the case lists it. "
    "After the fix, all checks must pass again. "
    "Lab faults are made on the lab's real hosts, found there and fixed. "
)
ASCEND = Table(
    "failures.toml",
    "failures.md",
    "Failures that users reported",
    "Each of these {rows} failures cost users of Ascend clusters a day. "
    "The sources are the users' reports and the vendor's documents. "
    f"{_HOW}"
    "None of this has run on an NPU: the changes are made in the known output of the tools.\n\n"
    "For GPU clusters, see [failures-gpu.md](failures-gpu.md).",
)
GPU = Table(
    "failures-gpu.toml",
    "failures-gpu.md",
    "Failures that users of GPU clusters reported",
    "Each of these {rows} failures cost users of NVIDIA clusters a day. "
    "The sources are the users' reports and documents. "
    f"{_HOW}"
    "None of these tests has a GPU: the cases hold the output that its tools would print.\n\n"
    "`preflight diagnose` reads the job's messages of such a failure ([diagnose.md](diagnose.md)). "
    "For Ascend clusters, see [failures.md](failures.md).",
    " gpu",
)
TABLES = (ASCEND, GPU)


@dataclass(frozen=True)
class Failure:
    """A failure that users reported.

    `checks` find it, within the limits of `note`. Without checks, `cannot` gives the reason.
    The lab's `faults` cause it.
    """

    number: Number
    symptom: str
    seen: str
    cause: str
    checks: tuple[str, ...] = ()
    note: str = ""
    faults: tuple[str, ...] = ()
    cannot: str = ""


@dataclass(frozen=True)
class Marked:
    """A test that is marked with a failure's number.

    `check` is the check of a case. It is empty for a function in `path`.
    """

    name: str
    path: Path
    check: str = ""


def failures(table: Table) -> list[Failure]:
    """Return the rows of a page."""
    rows = tomllib.loads((TESTS / "cases" / table.data).read_text(encoding="utf-8"))["failure"]
    lists = ("checks", "faults")
    return [Failure(**{**row, **{key: tuple(row.get(key, ())) for key in lists}}) for row in rows]


@cache
def marked() -> dict[Number, list[Marked]]:
    """Return the marked tests by failure number."""
    found: dict[Number, list[Marked]] = defaultdict(list)
    for path in marked_cases():
        for number in tomllib.loads(path.read_text(encoding="utf-8"))["failures"]:
            found[number].append(Marked(f"{path.parent.name}/{path.stem}", path, path.parent.name))
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, number in _marks(ast.parse(path.read_text(encoding="utf-8"))):
            found[number].append(Marked(name, path))
    return found


def marked_cases() -> list[Path]:
    """Return the cases of checks that are marked with a failure's number."""
    return [path for path in sorted(CASES.glob("*/*.toml")) if "\nfailures = " in "\n" + path.read_text("utf-8")]


def _marks(tree: ast.Module) -> Iterator[tuple[str, Number]]:
    """Yield the test's name and the number for every `@pytest.mark.failure(…)`."""
    for test in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        for mark in test.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.failure":
                yield from ((test.name, ast.literal_eval(number)) for number in mark.args)


def page(table: Table) -> str:
    """Return the whole page."""
    tests, rows = marked(), failures(table)
    seen = sum(bool(row.checks) for row in rows)
    lines = [
        f"# {table.title}\n",
        f"`python -m tests.failures{table.arguments}` makes this page from `tests/cases/{table.data}` and the marks of "
        "the tests. A test compares the two.\n",
        table.intro.format(rows=len(rows), seen=seen) + "\n",
        "| # | Symptom | Reported in | Cause and fix | Found by | Tests |",
        "| ---: | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        how = ", ".join(row.checks) or row.cannot
        how += f" ({row.note})" if row.note else ""
        links = ", ".join(
            f"[{test.name}](../tests/{test.path.relative_to(TESTS)})" for test in tests.get(row.number, ())
        )
        if row.faults:
            links += f"; [lab](../tests/lab/test_faults.py): {', '.join(row.faults)}"
        lines.append(f"| {row.number} | {row.symptom} | {row.seen} | {row.cause} | {how} | {links} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(GPU if sys.argv[1:] == ["gpu"] else ASCEND))
