"""A JSON text, looked into with the place of every value at hand: the sentence on a wrong one has line and column."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from preflight.inventory.errors import shown
from preflight.inventory.hostset import check_name
from preflight.inventory.lists.listed import Source

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')


@dataclass(frozen=True)
class Node:
    """A value of the text; `path` leads to it: ("server_list", 0, "server_id")."""

    source: Source
    value: Any
    path: tuple[str | int, ...] = ()

    def wrong(self, sentence: str) -> NoReturn:
        self.source.wrong(_offset(self.source.text, self.path), sentence)

    def members(self) -> "dict[str, Node]":
        """Of an object; raises InventoryError where it is none."""
        if not isinstance(self.value, dict):
            self.wrong(f"{self._what} should be an object {{…}}, found {shown(self.value)}")
        return {key: Node(self.source, value, (*self.path, key)) for key, value in self.value.items()}

    def elements(self) -> "Iterator[Node]":
        """Of a list; raises InventoryError where it is none."""
        if not isinstance(self.value, list):
            self.wrong(f"{self._what} should be a list […], found {shown(self.value)}")
        return (Node(self.source, value, (*self.path, n)) for n, value in enumerate(self.value))

    def member(self, key: str) -> "Node":
        found = self.members().get(key)
        if found is None:
            self.wrong(f"{self._what} has no {key!r}")
        return found

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.wrong(f"{self._what} should be text in quotes, found {shown(self.value)}")
        return self.value

    def host(self) -> str:
        """A host's name or address; raises InventoryError for what can be neither."""
        return self.checked(self.text())

    def checked(self, name: str) -> str:
        """A host's name that stands here; raises InventoryError for what can be none."""
        try:
            check_name(name)
        except ValueError as error:
            self.wrong(str(error))
        return name

    @property
    def _what(self) -> str:
        return ".".join(map(str, self.path[-2:])) or "the text"


def read(source: Source) -> Node:
    """The whole text; raises InventoryError for what is no JSON, among it the comments of manuals."""
    try:
        return Node(source, json.loads(source.text))
    except json.JSONDecodeError as error:
        comment = (
            source.text[error.pos : error.pos + 2] in ("//", "/*") or source.text[error.pos : error.pos + 1] == "#"
        )
        hint = "; JSON has no comments: take them out" if comment else ""
        source.wrong(error.pos, f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}{hint}")
    except RecursionError:
        source.wrong(0, "not JSON that anybody wrote: brackets are nested too deeply")
    except ValueError:
        source.wrong(0, "a number has thousands of digits")


def _offset(text: str, path: tuple[str | int, ...]) -> int:
    """Where the value begins to which `path` leads, in a text that is JSON."""
    at: list[str | int | None] = []  # the path to the value that comes next; None: its key comes first
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in ("]", "}"):
            at.pop()
        elif mark == ",":
            last = at.pop()
            at.append(last + 1 if isinstance(last, int) else None)
        elif at and at[-1] is None:
            at[-1] = json.loads(mark)
        elif mark != ":":
            if at == list(path):
                return token.start()
            at += [None] if mark == "{" else [0] if mark == "[" else []
    return 0
