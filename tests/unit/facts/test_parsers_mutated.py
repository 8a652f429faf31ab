"""Every parser of foreign text on mutations of its cases: tools' output, host lists, ssh_config and start scripts."""

import json
import random
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.facts.parsers.registry import PARSERS
from preflight.hostlists.formats import FORMATS
from preflight.hostlists.host_list import ListSource
from preflight.inventory import InventoryError
from preflight.launch.lint.check import faults, host_files
from preflight.model.cluster import Host, Ssh
from preflight.model.errors import UsageError
from preflight.transport.ssh_config import SshConfig
from preflight.transport.types import TransportError

CASES = Path(__file__).parents[2] / "cases"
LONGEST_SCRIPT = 64 << 10  # characters; a longer one is refused before it is read
USUAL, FEW = 300, 30  # mutations of a parser where --mutations says nothing; of start scripts, which take longest

# Name → what reads a text and returns the sentences on what is wrong with it.
Reader = Callable[[str, Path], Sequence[str]]


def _of_tool(name: str) -> Reader:
    return lambda text, _: list(errors(json.loads(msgspec.json.encode(PARSERS[name](text)))))


def _of_list(name: str) -> Reader:
    def read(text: str, _: Path) -> list[str]:
        try:
            return list(FORMATS[name].read(ListSource("hosts", text)).notes)
        except InventoryError as error:
            return [str(error)]

    return read


def _connections(text: str, home: Path) -> list[str]:
    """Where an ssh_config sends the connection to three hosts."""
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh/config").write_text(text, encoding="utf-8")
    notices: list[str] = []
    try:
        config = SshConfig(notices.append, home)
        for name in ("node01", "n1", "1"):
            config.endpoint(Host(name, name, ssh=Ssh()))
    except (UsageError, TransportError) as error:
        return [*notices, str(error)]
    return notices


def _start_script(text: str, _: Path) -> list[str]:
    path, text = Path("train.sh"), text[:LONGEST_SCRIPT]
    host_files({path: text})
    return [fault.what for fault in faults({path: text}, {}, None, ())]


READERS: dict[str, Reader] = {
    **{name: _of_tool(name) for name in PARSERS},
    **{f"hosts.{name}": _of_list(name) for name in FORMATS},
    "ssh_config": _connections,
    "start-script": _start_script,
}


@cache
def texts(reader: str) -> tuple[str, ...]:
    """The texts that are mutated: the cases that the parser understands."""
    if reader in PARSERS:
        return tuple(path.read_bytes().decode("utf-8") for path in sorted((CASES / "parsers" / reader).glob("*.txt")))
    if reader == "start-script":
        files = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted((CASES / "launch").glob("*.toml"))]
        return tuple(text for file in files for text in file["scripts"].values())
    form = FORMATS[reader.removeprefix("hosts.") if reader in READERS and "." in reader else "ssh-config"]
    cases = tomllib.loads((CASES / "lists/import.toml").read_text(encoding="utf-8"))["case"]
    return tuple(case["text"] for case in cases if "text" in case and _is_read(form.read, case["text"]))


def _is_read(read: Callable[[ListSource], object], text: str) -> bool:
    try:
        read(ListSource("hosts", text))
    except InventoryError:
        return False
    return True


def mutation(text: str, chance: random.Random) -> str:
    """Return the text cut, doubled, or with bytes of any kind and terminal escapes inside."""
    at = chance.randrange(len(text) + 1)
    junk = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 40))).decode("utf-8", "replace")
    return chance.choice(
        [
            text[:at],
            text[at:],
            text[:at] + junk + text[at:],
            text[:at] + "\x1b[2J\x1b]0;x\x07\u2028\x00" + text[at:],
            text + text,
            text.replace("1", chance.choice(["9" * 5000, "-1", "\u0663", "1e999", ""])),
            junk * chance.randrange(1, 50),
            "[" * chance.randrange(1, 100_000),
        ]
    )


def errors(value: Any) -> Iterator[str]:
    """Yield every error of a parser's result."""
    if isinstance(value, dict):
        if "error" in value:
            yield value["error"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from errors(item)


class NoCommand:
    """In the place of invoke, with which paramiko runs the command of a `Match exec`: a mutated one is not run."""

    ok = False

    def run(self, *_: object, **__: object) -> "NoCommand":
        return self


@pytest.mark.parametrize("reader", sorted(READERS))
def test_no_text_raises_and_every_error_is_short_and_printable(
    reader: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paramiko.config.invoke", NoCommand())
    chance, slowest = random.Random(20), 0.0
    count = request.config.getoption("--mutations") or (FEW if reader == "start-script" else USUAL)
    for _ in range(count):
        text = mutation(chance.choice(texts(reader)), chance)
        started = time.process_time()
        sentences = READERS[reader](text, tmp_path)
        slowest = max(slowest, time.process_time() - started)
        assert all(len(sentence) < 400 for sentence in sentences), sentences
        if reader in PARSERS:  # the others' sentences are escaped where they are printed
            assert all(sentence.isprintable() for sentence in sentences), sentences
    print(f"{reader}: {count} mutations, the slowest read in {slowest:.3f} s")
