"""Values of a JSON text that know their place, so that errors have line and column."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from preflight.hostlists.host_list import ListSource
from preflight.inventory.errors import shown
from preflight.inventory.hostset import check_name
from preflight.ranktable.syntax import NotJsonError, offset_at, parse, places
from preflight.ranktable.types import Path


@dataclass(frozen=True)
class Node:
    """A value of the text, and its path: ("all", "hosts", 0). Methods raise InventoryError for the wrong kind."""

    source: ListSource
    value: Any
    path: Path = ()

    def fail(self, sentence: str) -> NoReturn:
        self.source.fail(offset_at(places(self.source.text), self.path), sentence)

    def members(self) -> "dict[str, Node]":
        if not isinstance(self.value, dict):
            self.fail(f"{self._name} should be an object {{…}}, found {shown(self.value)}")
        return {key: Node(self.source, value, (*self.path, key)) for key, value in self.value.items()}

    def elements(self) -> "Iterator[Node]":
        if not isinstance(self.value, list):
            self.fail(f"{self._name} should be a list […], found {shown(self.value)}")
        return (Node(self.source, value, (*self.path, n)) for n, value in enumerate(self.value))

    def member(self, key: str) -> "Node":
        node = self.members().get(key)
        if node is None:
            self.fail(f"{self._name} has no {key!r}")
        return node

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.fail(f"{self._name} should be text in quotes, found {shown(self.value)}")
        return self.value

    def host(self) -> str:
        """Return the name or address of a host."""
        return self.valid_host(self.text())

    def valid_host(self, name: str) -> str:
        """Return a host's name or address, which is in the text at this value."""
        try:
            check_name(name)
        except ValueError as error:
            self.fail(str(error))
        return name

    @property
    def _name(self) -> str:
        return ".".join(map(str, self.path[-2:])) or "the text"


def read(source: ListSource) -> Node:
    """Return the root of the text. Raises InventoryError unless it is JSON without repeated keys."""
    try:
        value, problems = parse(source.text)
    except NotJsonError as error:
        problems = (error.problem,)
    for problem in problems:
        source.fail(problem.offset or 0, problem.text)
    return Node(source, value)
