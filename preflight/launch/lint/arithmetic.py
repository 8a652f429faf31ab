"""Arithmetic of the shell: `$((NODE * 8 + i))`. Pure."""

import ast
import operator
import re
from collections.abc import Callable, Mapping

_LONGEST = 120  # characters of an expression
_LARGEST = 1 << 40
_DOLLAR = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(expression: str, value: Callable[[str], str | None]) -> int | None:
    """Return bash's result for whole numbers, names, + - * / % and parentheses.

    It is None for a negative result, a variable without a known `value`, and any other syntax.
    """
    if len(expression) > _LONGEST:
        return None
    try:
        tree = ast.parse(_DOLLAR.sub(r"\1", expression).strip(), mode="eval")
        number = _evaluate(tree.body, value)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return number if 0 <= number <= _LARGEST else None


def _evaluate(node: ast.expr, value: Callable[[str], str | None]) -> int:
    """Return a node's number. Raises ValueError for an unknown one."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        text = value(node.id) or ""
        if re.fullmatch(r"0|[1-9][0-9]{0,9}", text):  # a leading 0 makes a number octal
            return int(text)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        first, second = _evaluate(node.left, value), _evaluate(node.right, value)
        if min(first, second) >= 0 and max(first, second) <= _LARGEST:  # of these, // and % are those of bash
            return _OPERATORS[type(node.op)](first, second)
    raise ValueError(ast.dump(node))
