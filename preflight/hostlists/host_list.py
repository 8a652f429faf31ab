"""Hosts as any format lists them, and the text of a list, which reports errors with line and column."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import NamedTuple, NoReturn

from preflight.inventory.errors import InventoryError
from preflight.inventory.hostset import MOST_HOSTS, check_name
from preflight.ranktable.syntax import position
from preflight.ranktable.types import Path

_COMMENT = re.compile(r"(^|\s)#.*")


@dataclass(frozen=True)
class ListedHost:
    """One host. Fields that its list does not have are None or empty, as is an `address` that is the name."""

    name: str
    address: str | None = None
    slots: int | None = None  # processes, usually one for each device
    user: str | None = None
    port: int | None = None
    key: str | None = None  # path of a private key
    bastion: str | None = None  # user@jump:22
    sudo: bool | None = None
    device_ips: tuple[IPv4Address, ...] = ()  # of all its devices in order, without their netmask
    path: Path = field(default=(), compare=False)  # of the first of them in a JSON list


@dataclass(frozen=True)
class HostList:
    """Hosts in the order of the list, each once. `notes`: sentences on assumptions, and on anything left out."""

    hosts: tuple[ListedHost, ...]
    name: str = ""  # of the cluster
    product: str = ""
    superpod: bool = False
    slots_are_devices: bool = False  # as the list itself says
    notes: tuple[str, ...] = ()


class TextError(ValueError):
    """A mistake in a text, as a sentence, and its offset."""

    def __init__(self, at: int, sentence: str) -> None:
        super().__init__(sentence)
        self.at = at


class TextLine(NamedTuple):
    """A line without comment and outer blanks. `at`: the offset of its first character."""

    number: int
    at: int
    text: str


@dataclass(frozen=True)
class ListSource:
    """The text of a list. `name`: the file's name in errors. `group`: the group that the user asked for, or empty."""

    name: str
    text: str
    group: str = ""

    def fail(self, at: int, sentence: str) -> NoReturn:
        """Raise InventoryError with the line and column of an offset, both from 1."""
        line, column = position(self.text, at)
        raise InventoryError(f"{self.name}:{line}:{column}: {sentence}") from None

    def lines(self, *, indented: bool = False) -> Iterator[TextLine]:
        """Yield lines that are neither empty nor a comment, which `#` begins. `indented`: keep leading blanks."""
        at = 0
        for number, line in enumerate(self.text.split("\n"), 1):
            text = (_COMMENT.sub("", line) if "#" in line else line).rstrip()
            begin = 0 if indented else len(text) - len(text.lstrip())
            if text:
                yield TextLine(number, at + begin, text[begin:])
            at += len(line) + 1

    def valid_host(self, name: str, at: int) -> str:
        """Return the name or address of a host. Raises InventoryError for anything else."""
        try:
            check_name(name)
        except ValueError as error:
            self.fail(at, str(error))
        return name

    def valid_list(self, host_list: HostList) -> HostList:
        """Return the list. Raises InventoryError if it has no hosts, or too many."""
        if not host_list.hosts:
            raise InventoryError(f"{self.name}: the file has no hosts. Use another file, or set its format with --from")
        if len(host_list.hosts) > MOST_HOSTS:
            raise InventoryError(f"{self.name}: more than {MOST_HOSTS} hosts")
        return host_list


def whole_number(text: str, low: int, high: int) -> int | None:
    """Return the number from `low` to `high`, or None for any other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) and low <= int(text) <= high else None
