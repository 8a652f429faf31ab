"""All texts that a user reads, cut into passages, each with its place in the repository."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
HOLE = "\ue000"  # stands for a value that the program fills in

_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_INDENTED = re.compile(r"^ {2}\S(?:.*\\\n)*.*$", re.MULTILINE)
_FENCE = re.compile(r"\s*(?:```|~~~)")
_PERCENT = re.compile(r"%(?:\(\w+\))?[sdrgf]|%\.\d+f")
_COMMENT = re.compile(r"(?:^|\s)#+\s(.*)$")


class Kind(Enum):
    """How strictly a passage reads: a sentence may go on in words where a command has ended."""

    PROSE = "sentences"
    SPAN = "code within a sentence"
    LINE = "a line of a code block or a script"


@dataclass(frozen=True)
class Passage:
    """One text. `shown`: whether users read it; docstrings that only developers read are not. `function`: the Python
    function that holds it. `source`: its lines as they are in the file, where `words` differ from them."""

    path: str
    line: int
    words: str
    kind: Kind = Kind.PROSE
    shown: bool = True
    function: str = ""
    source: tuple[str, ...] = ()

    def line_of(self, snippet: str) -> int:
        """Return the number of the line on which a part of the passage begins."""
        if not self.source:
            return self.line + self.words[: max(self.words.find(snippet), 0)].count("\n")
        start = re.split(rf"[{HOLE}\n]", snippet)[0].strip()
        while len(start) > 3:
            for number, line in enumerate(self.source):
                if start in line:
                    return self.line + number
            start = start.rpartition(" ")[0]
        return self.line


@dataclass(frozen=True)
class Mistake:
    """A text that names what does not exist."""

    path: str
    line: int
    snippet: str
    reason: str

    def __str__(self) -> str:
        shown = " ".join(self.snippet.replace(HOLE, "{}").split())
        return f"{self.path}:{self.line}: {self.reason}: {shown}"


def mistake(passage: Passage, snippet: str, reason: str) -> Mistake:
    """Return the mistake that a part of a passage is."""
    return Mistake(passage.path, passage.line_of(snippet), snippet, reason)


@cache
def syntax_tree(text: str) -> ast.Module:
    """Return the tree of a Python program, parsed once."""
    return ast.parse(text)


@cache
def all_passages() -> tuple[Passage, ...]:
    """Return the passages of the package, the documentation, the examples and the playbooks."""
    return tuple(passage for path in _files() for passage in passages_of(path, (ROOT / path).read_text("utf-8")))


def _files() -> Iterator[str]:
    pages = ("docs/**/*.md", "README*.md", "CONTRIBUTING.md")
    patterns = ("preflight/**/*.py", *pages, "inventory.example.toml", "Makefile", "examples/**/*", "playbooks/*")
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and path.suffix != ".pyc":
                yield str(path.relative_to(ROOT))


def passages_of(path: str, text: str) -> Iterator[Passage]:
    """Yield the passages of a file by its kind."""
    if path.endswith(".py"):
        yield from with_spans(_of_python(path, text))
    elif path.endswith(".md"):
        yield from _of_markdown(path, text)
    else:
        yield from _of_script(path, text)


def with_spans(passages: Iterator[Passage]) -> Iterator[Passage]:
    """Yield each passage without its code spans and indented lines, and these by themselves."""
    for passage in passages:
        words = passage.words
        for code in _INDENTED.finditer(words):
            place = passage if passage.source else replace(passage, line=passage.line_of(code[0]))
            yield from _of_line(replace(place, words=re.sub(r"\\\n\s*", "", code[0])))
        words = _INDENTED.sub(lambda code: "\n" * code[0].count("\n"), words)
        for span in _SPAN.finditer(words):
            place = passage if passage.source else replace(passage, line=passage.line_of(span[0]))
            yield replace(place, words=span[1], kind=Kind.SPAN)
        yield replace(passage, words=_SPAN.sub(lambda span: HOLE + "\n" * span[0].count("\n"), words))


def _of_line(passage: Passage) -> Iterator[Passage]:
    """Yield a line of code and, by itself, its comment."""
    comment = _COMMENT.search(passage.words)
    code = passage.words[: comment.start()] if comment else passage.words
    yield replace(passage, words=code, kind=Kind.LINE)
    if comment:
        yield from with_spans(iter([replace(passage, words=comment[1])]))


# ---- Python


def _of_python(path: str, text: str) -> Iterator[Passage]:
    lines = text.splitlines()
    for node, function, shown in _strings(syntax_tree(text), path, ""):
        words = _words(node)
        if words.strip():
            source = tuple(lines[node.lineno - 1 : node.end_lineno])
            yield Passage(path, node.lineno, words, shown=shown, function=function, source=source)


def _strings(node: ast.AST, path: str, function: str) -> Iterator[tuple[ast.expr, str, bool]]:
    """Yield each string of a tree, its function, and whether users read it."""
    docstring = _docstring(node)
    if docstring is not None and not (isinstance(node, ast.FunctionDef) and node.name.startswith("_")):
        yield docstring, function, _is_shown(node, path)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = function or node.name
    for child in ast.iter_child_nodes(node):
        if _is_regex(child) or (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            continue
        if isinstance(child, ast.expr) and _is_text(child):
            yield child, function, True
            for hole in _holes(child):
                yield from _strings(hole, path, function)
        else:
            yield from _strings(child, path, function)


def _docstring(node: ast.AST) -> ast.expr | None:
    body = getattr(node, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return body[0].value if isinstance(body[0].value.value, str) else None
    return None


def _is_shown(node: ast.AST, path: str) -> bool:
    """Return whether a docstring is printed, by `explain` or as a command's description. Those of playbooks count."""
    if isinstance(node, ast.Module):
        return path.startswith("preflight/cli/commands/") or not path.startswith("preflight/")
    decorators = getattr(node, "decorator_list", ())
    return any(ast.unparse(decorator).partition("(")[0].endswith("_check") for decorator in decorators)


def _is_regex(node: ast.AST) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "re"


def _is_text(node: ast.expr) -> bool:
    """Return whether an expression is one text: a string, strings that are added, or a list that begins a command."""
    if isinstance(node, ast.List | ast.Tuple):
        first = node.elts[0] if len(node.elts) > 1 else None
        return isinstance(first, ast.Constant) and first.value == "preflight"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [side for side in (node.left, node.right) if isinstance(side, ast.Constant | ast.JoinedStr)]
        return any(map(_is_text, sides))
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _holes(node: ast.expr) -> Iterator[ast.AST]:
    """Yield what a text is filled in with: its strings are texts of their own."""
    if isinstance(node, ast.List | ast.Tuple):
        for part in node.elts:
            yield from _holes(part)
    elif isinstance(node, ast.BinOp):
        yield from _holes(node.left)
        yield from _holes(node.right)
    elif isinstance(node, ast.JoinedStr):
        yield from (part for part in node.values if isinstance(part, ast.FormattedValue))
    elif not isinstance(node, ast.Constant):
        yield ast.Expr(node)


def _words(node: ast.expr) -> str:
    """Return an expression's text, HOLE for what is filled in."""
    if isinstance(node, ast.List | ast.Tuple):
        return " ".join(map(_words, node.elts))
    if isinstance(node, ast.BinOp):
        return _words(node.left) + _words(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_words, node.values))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = inspect.cleandoc(node.value) if "\n    " in node.value else node.value
        return _PERCENT.sub(HOLE, text)
    return HOLE


# ---- Markdown, scripts and TOML


def _of_markdown(path: str, text: str) -> Iterator[Passage]:
    paragraph: list[str] = []
    for number, line, is_code in _lines_of_markdown(text):
        if is_code or not line.strip():
            yield from _paragraph(path, number, paragraph)
            paragraph = []
        if is_code:
            yield from _of_line(Passage(path, number, line))
        elif line.strip():
            paragraph.append(line)
    yield from _paragraph(path, len(text.splitlines()) + 1, paragraph)


def _paragraph(path: str, after: int, lines: list[str]) -> Iterator[Passage]:
    if lines:
        words = "\n".join(line.lstrip() for line in lines)
        yield from with_spans(iter([Passage(path, after - len(lines), words)]))


def _lines_of_markdown(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield number, line, and whether it is code; a code line that goes on after a backslash is one line."""
    fenced, before, begun = False, "", ("", 0)
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
            yield number, "", False
            continue
        indented = line.startswith("    ") and (not before.strip() or before.startswith("    "))
        before = line
        if not (fenced or indented):
            yield number, line, False
            continue
        line, start = (begun[0] + line.strip(), begun[1]) if begun[0] else (line, number)
        begun = (line[:-1].rstrip() + " ", start) if line.endswith("\\") else ("", 0)
        if not begun[0]:
            yield start, line, True


def _of_script(path: str, text: str) -> Iterator[Passage]:
    """Yield the lines of a script, a Makefile or a TOML file, and its comments."""
    begun = ("", 0)
    for number, line in enumerate(text.splitlines(), 1):
        line, start = (begun[0] + line.strip(), begun[1]) if begun[0] else (line, number)
        begun = (line[:-1].rstrip() + " ", start) if line.endswith("\\") else ("", 0)
        if not begun[0] and line.strip():
            yield from _of_line(Passage(path, start, line))
