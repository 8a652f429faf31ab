"""The pages of failures that users reported, made of tests/cases/failures*.toml and of the tests that are marked with a
failure's number:

    python -m tests.failures > docs/failures.md
    python -m tests.failures gpu > docs/failures-gpu.md

Numbers of Ascend's are 1 to 60, of GPUs' "G1" to "G61". A test is marked by `@pytest.mark.failure(17, "G3")`, a case of
tests/cases/checks by `failures = [17, "G3"]`.
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
    """A page and where its rows stand; `intro` has {rows} and {seen} of them."""

    data: str
    page: str
    title: str
    intro: str
    arguments: str = ""


_HOW = (
    "{rows} failures, of which preflight sees {seen} before the job, or what leads to them; of the others it says why "
    "not. Each test starts from a healthy cluster, makes the one difference, and holds that the named check finds "
    "it, that no other one changes its mind unless the case says so, and that all is well again after the fix. "
    "The faults of the lab are made on its real hosts, found there, and fixed. "
)
ASCEND = Table(
    "failures.toml", "failures.md", "Failures that users reported",
    f"What cost users of Ascend clusters a day, as their reports and the vendor's documents have it: {_HOW}"
    "Nothing of this has run on an NPU: the differences are made in what the tools are known to print. Those of GPU "
    "clusters: [failures-gpu.md](failures-gpu.md).",
)  # fmt: skip
GPU = Table(
    "failures-gpu.toml", "failures-gpu.md", "Failures that users of GPU clusters reported",
    f"What cost users of NVIDIA clusters a day, as their reports and documents have it: {_HOW}"
    "None of these tests has a GPU: what its tools would print is in the cases. What a job says at such a failure is "
    "read by `preflight diagnose` ([diagnose.md](diagnose.md)). Those of Ascend clusters: [failures.md](failures.md).",
    " gpu",
)  # fmt: skip
TABLES = (ASCEND, GPU)


@dataclass(frozen=True)
class Failure:
    """A failure that users reported. `checks` see it, `note` says how far; or `cannot` is a clause that says why none.
    `faults` of the lab make it."""

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
    """A test that stands for a failure. `check`: whose case it is; empty: a function in `path`."""

    name: str
    path: Path
    check: str = ""


def failures(table: Table) -> list[Failure]:
    rows = tomllib.loads((TESTS / "cases" / table.data).read_text(encoding="utf-8"))["failure"]
    lists = ("checks", "faults")
    return [Failure(**{**row, **{key: tuple(row.get(key, ())) for key in lists}}) for row in rows]


@cache
def marked() -> dict[Number, list[Marked]]:
    """Failure number → the tests that are marked with it."""
    found: dict[Number, list[Marked]] = defaultdict(list)
    for path in marked_cases():
        for number in tomllib.loads(path.read_text(encoding="utf-8"))["failures"]:
            found[number].append(Marked(f"{path.parent.name}/{path.stem}", path, path.parent.name))
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, number in _marks(ast.parse(path.read_text(encoding="utf-8"))):
            found[number].append(Marked(name, path))
    return found


def marked_cases() -> list[Path]:
    return [path for path in sorted(CASES.glob("*/*.toml")) if "\nfailures = " in "\n" + path.read_text("utf-8")]


def _marks(tree: ast.Module) -> Iterator[tuple[str, Number]]:
    """(name of the test, number) of every `@pytest.mark.failure(…)`."""
    for test in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        for mark in test.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.failure":
                yield from ((test.name, ast.literal_eval(number)) for number in mark.args)


def page(table: Table) -> str:
    """The page, whole."""
    tests, rows = marked(), failures(table)
    seen = sum(bool(row.checks) for row in rows)
    lines = [
        f"# {table.title}\n",
        f"Made by `python -m tests.failures{table.arguments}` from `tests/cases/{table.data}` and the marks of the "
        "tests; a test compares the two.\n",
        table.intro.format(rows=len(rows), seen=seen) + "\n",
        "| # | What one sees | Reported in | Why, and what helps | Seen by | Tests |",
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
