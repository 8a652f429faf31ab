"""Lint step for the package's structure: count what makes code hard to read, and hold each count at a limit.

Run as `python tests/structure.py`. It prints one line for each figure, and ends with 1 if a figure is over its limit.
`--worst N` lists the N worst places of each figure. A limit is only ever lowered; the aim is docs/design.md's.
"""

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "preflight"
VAGUE_NAMES = re.compile(
    "found|seen|said|told|ones?|it|them|those|these|others?|another|things?|what|who|whom|given|taken|made|asked|left|"
    "gone|known|had|got|rest|more|most|all_|any_|so|then|here|there"
)
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.ExceptHandler, ast.Assert, ast.match_case)
SUPPRESSION = re.compile(r"#\s*(?:fmt: skip|noqa|type: ignore)")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Figure:
    """One figure: places over `threshold` are counted, and there may be at most `limit` of them."""

    name: str
    threshold: int
    limit: int


COMPLEX = Figure("functions over complexity 10", 10, 30)
WIDE = Figure("functions over 5 parameters", 5, 1)
VAGUE = Figure("vague local names", 0, 1)
REPEATED_CLASSES = Figure("class names used twice or more", 1, 2)
LARGE_FOLDERS = Figure("folders over 25 modules", 25, 0)
SUPPRESSIONS = Figure("fmt: skip, noqa, type: ignore", 0, 33)
LOCAL_IMPORTS = Figure("imports inside functions", 0, 80)
FIGURES = (COMPLEX, WIDE, VAGUE, REPEATED_CLASSES, LARGE_FOLDERS, SUPPRESSIONS, LOCAL_IMPORTS)

Measured = tuple[Figure, int, str]  # figure, value, place


def complexity(function: ast.AST) -> int:
    """Return the cyclomatic complexity: branches, boolean operators, comprehensions and cases, plus one."""
    score = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            score += 1
        elif isinstance(node, ast.BoolOp):
            score += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            score += 1 + len(node.ifs)
    return score


def parameters(function: Function) -> int:
    """Return the number of parameters without self and cls."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in arguments)


def measure_function(function: Function, place: str) -> Iterator[Measured]:
    """Yield the figures of one function. Nodes of a nested function count for both."""
    yield COMPLEX, complexity(function), place
    yield WIDE, parameters(function), place
    for node in ast.walk(function):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield LOCAL_IMPORTS, 1, place
        elif (
            isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and VAGUE_NAMES.fullmatch(node.id.strip("_"))
        ):
            yield VAGUE, 1, f"{place}: {node.id}"


def measure(paths: list[Path]) -> Iterator[Measured]:
    """Yield every measured value of the modules at `paths`."""
    classes: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        source = path.read_text(encoding="utf-8")
        name = str(path.relative_to(PACKAGE.parent))
        for _ in SUPPRESSION.finditer(source):
            yield SUPPRESSIONS, 1, name
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name)
            elif isinstance(node, Function):
                yield from measure_function(node, f"{name}:{node.lineno} {node.name}")
    for class_name, modules in classes.items():
        yield REPEATED_CLASSES, len(modules), f"{class_name} ({', '.join(sorted(set(modules)))})"
    for folder, count in Counter(path.parent for path in paths).items():
        yield LARGE_FOLDERS, count, str(folder.relative_to(PACKAGE.parent))


def main() -> int:
    """Print the figures. Return 1 if one of them is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="list the N worst places of each figure")
    worst = parser.parse_args().worst
    places: dict[Figure, list[tuple[int, str]]] = defaultdict(list)
    for figure, value, place in measure(sorted(p for p in PACKAGE.rglob("*.py") if "standins" not in p.parts)):
        if value > figure.threshold:
            places[figure].append((value, place))
    for figure in FIGURES:
        over = len(places[figure]) > figure.limit
        print(f"{'over' if over else 'ok':4} {figure.name}: {len(places[figure])}, at most {figure.limit}")
        for value, place in sorted(places[figure], reverse=True)[:worst]:
            print(f"       {value:3} {place}")
    return int(any(len(places[figure]) > figure.limit for figure in FIGURES))


if __name__ == "__main__":
    sys.exit(main())
