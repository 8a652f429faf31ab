"""What host lists say, in the middle between all formats."""

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
    """One host; what its list does not say is None or empty. `address`: only where it is another one than the name."""

    name: str
    address: str | None = None
    slots: int | None = None  # processes, by custom one a device
    user: str | None = None
    port: int | None = None
    key: str | None = None  # path of a private key
    bastion: str | None = None  # user@jump:22
    sudo: bool | None = None
    device_ips: tuple[IPv4Address, ...] = ()  # of all its devices in order, without their netmask
    path: Path = field(default=(), compare=False)  # leads to the first of them in the list


@dataclass(frozen=True)
class Listed:
    """Hosts in the order of the list, each once. `product`: what the list tells of it; `notes`: sentences on what was
    assumed, or left out."""

    hosts: tuple[ListedHost, ...]
    name: str = ""  # of the cluster
    product: str = ""
    superpod: bool = False
    slots_are_devices: bool = False  # by the list's own words
    notes: tuple[str, ...] = ()


class TextError(ValueError):
    """A sentence on what is wrong in a text, and the offset at which it stands."""

    def __init__(self, at: int, sentence: str) -> None:
        super().__init__(sentence)
        self.at = at


class Line(NamedTuple):
    """A line that says something: without comment and outer blanks. `at`: the offset of its first character."""

    number: int
    at: int
    text: str


@dataclass(frozen=True)
class Source:
    """The text of a list; `name` is the file's in errors, `group` the one that was asked for."""

    name: str
    text: str
    group: str = ""

    def wrong(self, at: int, sentence: str) -> NoReturn:
        """Raises InventoryError with the line and column of an offset, both from 1 on."""
        line, column = position(self.text, at)
        raise InventoryError(f"{self.name}:{line}:{column}: {sentence}") from None

    def lines(self, *, indented: bool = False) -> Iterator[Line]:
        """Those that are neither empty nor a comment; `#` begins one, also behind a blank. `indented`: with the blanks
        in front."""
        at = 0
        for number, line in enumerate(self.text.split("\n"), 1):
            text = (_COMMENT.sub("", line) if "#" in line else line).rstrip()
            begin = 0 if indented else len(text) - len(text.lstrip())
            if text:
                yield Line(number, at + begin, text[begin:])
            at += len(line) + 1

    def checked(self, name: str, at: int) -> str:
        """A host's name or address; raises InventoryError for what can be neither."""
        try:
            check_name(name)
        except ValueError as error:
            self.wrong(at, str(error))
        return name

    def listed(self, listed: Listed) -> Listed:
        """Raises InventoryError unless there are hosts, and not too many."""
        if not listed.hosts:
            raise InventoryError(f"{self.name}: names no host; name another file, or its format with --from")
        if len(listed.hosts) > MOST_HOSTS:
            raise InventoryError(f"{self.name}: more than {MOST_HOSTS} hosts")
        return listed


def whole_number(text: str, low: int, high: int) -> int | None:
    """None unless the text is a number of these."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) and low <= int(text) <= high else None
