"""docs/failures.md, made of tests/cases/failures.toml and of the tests that are marked with a failure's number:

    python -m tests.failures > docs/failures.md

A test is marked by `@pytest.mark.failure(17)`, a case of tests/cases/checks by `failures = [17]`.
"""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
DATA = TESTS / "cases" / "failures.toml"
CASES = TESTS / "cases" / "checks"


@dataclass(frozen=True)
class Failure:
    """A failure that users reported. `checks` see it, `note` says how far; or `cannot` is a clause that says why none.
    `faults` of the lab make it."""

    number: int
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


def failures() -> list[Failure]:
    rows = tomllib.loads(DATA.read_text(encoding="utf-8"))["failure"]
    lists = ("checks", "faults")
    return [Failure(**{**row, **{key: tuple(row.get(key, ())) for key in lists}}) for row in rows]


def marked() -> dict[int, list[Marked]]:
    """Failure number → the tests that are marked with it."""
    found: dict[int, list[Marked]] = defaultdict(list)
    for path in marked_cases():
        for number in tomllib.loads(path.read_text(encoding="utf-8"))["failures"]:
            found[number].append(Marked(f"{path.parent.name}/{path.stem}", path, path.parent.name))
    for path in sorted(TESTS.glob("*/test_*.py")):
        for name, number in _marks(ast.parse(path.read_text(encoding="utf-8"))):
            found[number].append(Marked(name, path))
    return found


def marked_cases() -> list[Path]:
    return [path for path in sorted(CASES.glob("*/*.toml")) if "\nfailures = " in "\n" + path.read_text("utf-8")]


def _marks(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(name of the test, number) of every `@pytest.mark.failure(…)`."""
    for test in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        for mark in test.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.failure":
                yield from ((test.name, ast.literal_eval(number)) for number in mark.args)


def page() -> str:
    """docs/failures.md, whole."""
    tests, rows = marked(), failures()
    seen = sum(bool(row.checks) for row in rows)
    lines = [
        "# Failures that users reported\n",
        "Made by `python -m tests.failures` from `tests/cases/failures.toml` and the marks of the tests; a test "
        "compares the two.\n",
        f"What cost users of Ascend clusters a day, as their reports and the vendor's documents have it: {len(rows)} "
        f"failures, of which preflight sees {seen} before the job, or what leads to them; of the others it says why "
        "not. Each test starts from a healthy cluster, makes the one difference, and holds that the named check finds "
        "it, that no other one changes its mind unless the case says so, and that all is well again after the mend. "
        "The faults of the lab are made on its real hosts, found there, and mended. "
        "Nothing of this has run on an NPU: the differences are made in what the tools are known to print.\n",
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
    print(page())
