"""A JSON text, looked into with the place of every value at hand: the sentence on a wrong one has line and column."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from preflight.hostlists.listed import Source
from preflight.inventory.errors import shown
from preflight.inventory.hostset import check_name
from preflight.ranktable.syntax import NotJsonError, find, parse, places
from preflight.ranktable.types import Path


@dataclass(frozen=True)
class Node:
    """A value of the text; `path` leads to it: ("all", "hosts", 0)."""

    source: Source
    value: Any
    path: Path = ()

    def wrong(self, sentence: str) -> NoReturn:
        self.source.wrong(find(places(self.source.text), self.path), sentence)

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
    """The whole text; raises InventoryError for what is no JSON, or has a key twice."""
    try:
        value, problems = parse(source.text)
    except NotJsonError as error:
        problems = (error.problem,)
    for problem in problems:
        source.wrong(problem.offset or 0, problem.text)
    return Node(source, value)
