"""Addresses and ports of a job's master in a script. Pure."""

import re
from collections.abc import Iterable, Iterator

from preflight.launch.lint.types import JobStart, Script, Word

LOOPBACK = re.compile(r"localhost|127(\.[0-9]+){3}|::1|0\.0\.0\.0|\[::1\]")
_TCP = re.compile(r"tcp://(\[[0-9A-Fa-f:.]+\]|[^:/\s'\"]*):?([0-9]*)")
_PATH_END = re.compile(r"[\s'\"‘’“”,)]")


def addresses(script: Script) -> Iterator[tuple[str, str, Word]]:
    """Yield (address, port, place) of each master, with an empty port where there is none."""
    for start in script.starts:
        yield from _of_options(start)
        yield from _of_urls(start.program)
        if start.family == "python" and "MASTER_ADDR" in start.own:
            yield start.own["MASTER_ADDR"].text, "", start.own["MASTER_ADDR"]
    for name in ("MASTER_ADDR", "PET_MASTER_ADDR"):
        if name in script.settings:
            text, word = script.settings[name]
            yield text, "", word


def _of_options(start: JobStart) -> Iterator[tuple[str, str, Word]]:
    if value := start.value("master-addr"):
        yield value.text, "", value
    if value := start.value("rdzv-endpoint"):
        address, _, port = value.text.rpartition(":")
        yield (address, port, value) if address else (port, "", value)


def ports(script: Script) -> Iterator[tuple[str, Word]]:
    """Yield the ports on which a master listens, each with its place."""
    for start in script.starts:
        if value := start.value("master-port"):
            yield value.text, value
        if start.family == "python" and "MASTER_PORT" in start.own:
            yield start.own["MASTER_PORT"].text, start.own["MASTER_PORT"]
    yield from ((port, word) for _, port, word in addresses(script) if port)
    for name in ("MASTER_PORT", "PET_MASTER_PORT"):
        if name in script.settings:
            yield script.settings[name]


def _of_urls(words: Iterable[Word]) -> Iterator[tuple[str, str, Word]]:
    """Yield (host, port, place) of each `tcp://HOST:PORT`."""
    for word in words:
        yield from ((url[1], url[2], word) for url in _TCP.finditer(word.text))


def file_urls(words: Iterable[Word]) -> Iterator[tuple[str, Word]]:
    """Yield (path, place) of the first `file://PATH` of each word."""
    for word in words:
        _, scheme, text = word.text.partition("file://")
        if scheme:
            yield _PATH_END.split(text, maxsplit=1)[0], word
