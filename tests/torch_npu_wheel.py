"""The vendor's torch_npu as text, from its unzipped wheel.

The wheel is fetched once per machine and never installed. An installed torch_npu would break every `import torch` of
the lab, since torch loads it automatically and it needs CANN.
"""

import ast
import re
import sys
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tests.wheels import unpacked


def fetch() -> Path:
    """Return the folder `torch_npu` of the wheel for the installed torch, or of the newest wheel.

    Fail the test with pytest.fail if there is none, as it cannot check the names that the worker uses.
    """
    base = re.match(r"\d+\.\d+\.\d+", version("torch"))
    assert base
    name = f"torch_npu-for-{base[0]}-python-{sys.version_info.major}.{sys.version_info.minor}"
    return unpacked(name, f"torch_npu=={base[0]}.*", "torch_npu>=2") / "torch_npu"


@cache
def parsed(path: Path) -> ast.Module:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        return ast.parse(path.read_text(encoding="utf-8"))


class Wheel:
    """The names that the package defines. They are dotted, as in code: "torch_npu.npu.set_device"."""

    def __init__(self, package: Path) -> None:
        self._package = package

    def has(self, name: str) -> bool:
        """Return whether a name is defined.

        The compiled part, `_C`, has no source here. Its names count as defined if the package's Python code uses them.
        """
        _, *rest = name.split(".")
        if rest[:1] == ["_C"]:
            return name in self._used_of_compiled
        if not rest:
            return True
        return self._find(".".join(rest[:-1]), rest[-1]) is not None

    def parameters(self, name: str) -> list[str] | None:
        """Return the positional parameters of a function, or None if the package's Python code does not define it."""
        _, *rest = name.split(".")
        found = self._find(".".join(rest[:-1]), rest[-1])
        return [arg.arg for arg in found.args.args] if isinstance(found, ast.FunctionDef) else None

    def has_module(self, name: str) -> bool:
        return self._file(name.partition(".")[2]) is not None

    def calls(self, function: str) -> list[str]:
        """Return the arguments, as source, of every call of a function such as `torch._register_device_module`."""
        return [
            ", ".join(ast.unparse(arg) for arg in [*node.args, *(word.value for word in node.keywords)])
            for path in self._package.rglob("*.py")
            if function.encode() in path.read_bytes()
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == function
        ]

    def contains(self, text: str) -> bool:
        """Return whether a compiled library of the package contains a string."""
        return any(text.encode() in path.read_bytes() for path in (self._package / "lib").glob("lib*.so"))

    def header(self, name: str) -> str:
        return next(self._package.rglob(name)).read_text(encoding="utf-8")

    def _file(self, module: str) -> Path | None:
        stem = self._package.joinpath(*module.split(".")) if module else self._package
        candidates = (stem / "__init__.py", stem.with_suffix(".py"))
        return next((path for path in candidates if path.is_file()), None)

    def _find(self, module: str, name: str, seen: frozenset[str] = frozenset()) -> ast.stmt | None:
        """Return the statement that defines a name in a module of the package, also through its imports."""
        path = self._file(module)
        if path is None or module in seen:  # modules may import each other
            return None
        submodule = f"{module}.{name}".strip(".")
        for node in reversed(parsed(path).body):
            if isinstance(node, ast.ImportFrom):
                found = self._imported(path, module, node, name, seen | {module})
            else:
                found = node if name in _defined(node) else None
            if found is not None:
                return found
        return ast.Pass() if self._file(submodule) else None

    def _imported(
        self, path: Path, module: str, node: ast.ImportFrom, name: str, seen: frozenset[str]
    ) -> ast.stmt | None:
        """Return the statement that defines an imported name, or the import if its source is not in the package."""
        source = self._source(path, module, node)
        foreign = source is None or source.split(".")[0] == "_C"
        for alias in node.names:
            if (alias.asname or alias.name) == name:
                return node if foreign else self._find(source or "", alias.name, seen)
            if alias.name == "*" and not foreign and (found := self._find(source or "", name, seen)):
                return found
        return None

    def _source(self, path: Path, module: str, node: ast.ImportFrom) -> str | None:
        """Return the module that a `from … import` reads, or None if it is of another package."""
        if node.level:
            parts = module.split(".") if module else []
            package = parts if path.name == "__init__.py" else parts[:-1]
            package = package[: len(package) - node.level + 1]
            return ".".join([*package, *([node.module] if node.module else [])])
        first, _, rest = (node.module or "").partition(".")
        return rest if first == "torch_npu" else None

    @property
    def _used_of_compiled(self) -> set[str]:
        return {
            ast.unparse(node)
            for path in self._package.rglob("*.py")
            if b"torch_npu._C" in path.read_bytes()
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch_npu._C.")
        } | {"torch_npu._C"}


def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement at the top level of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}
