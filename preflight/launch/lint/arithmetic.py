"""Numbers that a shell works out: `$((NODE * 8 + i))`. Pure."""

import ast
import operator
import re
from collections.abc import Callable, Mapping

_LONGEST = 120  # characters of an expression that is worked out
_LARGEST = 1 << 40
_DOLLAR = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip


def worked_out(expression: str, value: Callable[[str], str | None]) -> int | None:
    """What bash makes of whole numbers, names, + - * / % and parentheses; None where that is not known, or less than 0,
    or something else stands there. `value`: of a variable, None where it is not known."""
    if len(expression) > _LONGEST:
        return None
    try:
        tree = ast.parse(_DOLLAR.sub(r"\1", expression).strip(), mode="eval")
        found = _of(tree.body, value)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return found if 0 <= found <= _LARGEST else None


def _of(node: ast.expr, value: Callable[[str], str | None]) -> int:
    """Raises ValueError for what is not known."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        text = value(node.id) or ""
        if re.fullmatch(r"0|[1-9][0-9]{0,9}", text):  # a leading 0 makes a number octal
            return int(text)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _of(node.left, value), _of(node.right, value)
        if min(left, right) >= 0 and max(left, right) <= _LARGEST:  # of these // and % are those of bash
            return _OPERATORS[type(node.op)](left, right)
    raise ValueError(ast.dump(node))
