"""What is wrong with a script by itself: names, values, addresses. Pure; a function a rule."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from preflight.launch.lint.types import Fault, Script, Word
from preflight.model.ip import is_address
from preflight.rules.variables.hccl import RULES, meant

LOOPBACK = re.compile(r"localhost|127(\.[0-9]+){3}|::1|0\.0\.0\.0|\[::1\]")
_URL = re.compile(r"tcp://(\[[0-9A-Fa-f:.]+\]|[^:/\s'\"]*):?([0-9]*)")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")  # of the environment; `x = 1` may be a piece of Python that stands there
_CURLY = re.compile("[‘’“”]")
_WRONG_PASSED = {"LD_LIBRARY": "LD_LIBRARY_PATH", "LIBRARY_PATH": "LD_LIBRARY_PATH", "LD_PATH": "LD_LIBRARY_PATH",
                 "PYTHON_PATH": "PYTHONPATH", "LD_LIBRARYPATH": "LD_LIBRARY_PATH"}  # fmt: skip


def carriage_returns(script: Script, text: str) -> Iterator[Fault]:
    at = text.find("\r\n")
    if at >= 0:
        line = text.count("\n", 0, at) + 1
        word = script.commands[0].words[0].spot if script.commands else None
        if word:
            yield Fault(
                script.path, word, f"the lines end as Windows ends them (line {line}); bash takes \\r for a character",
                "\\r\\n", "\\n", "dos2unix, or sed -i 's/\\r$//'",
            )  # fmt: skip


def curly_quotes(script: Script) -> Iterator[Fault]:
    for word in script.words:
        wrong = _CURLY.search(word.text)
        if wrong and not any(part.quote and _CURLY.search(part.text) for part in word.parts):
            yield Fault(
                script.path, word.spot, f"{wrong[0]} is no quote to bash, but a part of the word", word.text,
                _CURLY.sub("'", word.text), "type the quotes anew",
            )  # fmt: skip


def passed_names(script: Script) -> Iterator[Fault]:
    """Of mpirun's -x: names that nobody sets, next to one that is meant."""
    for start in script.starts:
        for word in start.passed:
            name = word.text.partition("=")[0]
            right = _WRONG_PASSED.get(name) or meant(name)
            if right:
                yield Fault(
                    script.path, word.spot, f"-x passes on {name}, which nobody sets; {right} is left behind",
                    name, right, f"-x {right}",
                )  # fmt: skip


def spaced_assignments(script: Script) -> Iterator[Fault]:
    """`NAME =value` is a command NAME; after export it is two names."""
    for command in script.commands:
        exported = bool(command.words) and command.words[0].text == "export"
        for name, sign in pairwise(command.words[1:] if exported else command.words[:2]):
            if _VARIABLE.fullmatch(name.text) and name.bare and sign.text[:1] == "=" and sign.text[:2] != "==":
                yield Fault(
                    script.path, sign.spot, f"{name.text} is not set: a blank stands before the =",
                    f"{name.text} {sign.text}", f"{name.text}=VALUE", "write name, = and value without blanks",
                )  # fmt: skip


def _set(script: Script) -> Iterator[tuple[str, str, Word]]:
    """(name, value, where) of every variable that it sets to a known value, for all or for one program."""
    yield from ((name, value, word) for name, (value, word) in script.settings.items())
    own = [(name, word.text, word) for start in script.starts for name, word in start.own.items()]
    yield from {(name, text, word.spot): (name, text, word) for name, text, word in own}.values()


def variable_names(script: Script) -> Iterator[Fault]:
    for name, value, word in _set(script):
        right = meant(name)
        if right:
            yield Fault(script.path, word.spot, f"{name} is no variable of HCCL", name, right, f"write {right}")
        elif name in RULES and "$" not in value and not any(rule.allows(value) for rule in RULES[name]):
            wants = " or ".join(dict.fromkeys(rule.wants for rule in RULES[name]))
            yield Fault(
                script.path, word.spot, f"{name} has a value that HCCL does not take", value, wants, f"correct {name}"
            )


def addresses(script: Script) -> Iterator[tuple[str, str, Word]]:
    """(address, port or "", where) of everybody's master that the script names."""
    for start in script.starts:
        for name in ("master-addr", "rdzv-endpoint"):
            if value := start.value(name):
                address, _, port = value.text.rpartition(":") if name == "rdzv-endpoint" else (value.text, "", "")
                yield (address, port, value) if address else (port, "", value)
        for _, (url, port), word in urls(start.program, "tcp"):
            yield url, port, word
        if start.family == "python" and "MASTER_ADDR" in start.own:
            yield start.own["MASTER_ADDR"].text, "", start.own["MASTER_ADDR"]
    for name in ("MASTER_ADDR", "PET_MASTER_ADDR"):
        if name in script.settings:
            value_, word = script.settings[name]
            yield value_, "", word


def urls(words: Iterable[Word], scheme: str) -> Iterator[tuple[str, tuple[str, str], Word]]:
    """(whole, (host, port), word) of each `tcp://host:port`, or (whole, (path, ""), word) of each `file://path`."""
    for word in words:
        if scheme == "tcp":
            for found in _URL.finditer(word.text):
                yield found[0], (found[1], found[2]), word
        elif "file://" in word.text:
            path = re.split(r"[\s'\"‘’“”,)]", word.text.partition("file://")[2], maxsplit=1)[0]
            yield f"file://{path}", (path, ""), word


def ports(script: Script) -> Iterator[tuple[str, Word]]:
    """The ports on which somebody's master listens."""
    for start in script.starts:
        if value := start.value("master-port"):
            yield value.text, value
        if start.family == "python" and "MASTER_PORT" in start.own:
            yield start.own["MASTER_PORT"].text, start.own["MASTER_PORT"]
    for _, port, word in addresses(script):
        if port:
            yield port, word
    for name in ("MASTER_PORT", "PET_MASTER_PORT"):
        if name in script.settings:
            yield script.settings[name]


def port_numbers(script: Script) -> Iterator[Fault]:
    for text, word in dict.fromkeys(ports(script)):
        if "$" in text:
            continue
        if not (text.isascii() and text.isdigit()) or not 0 < int(text[:9]) <= 65535:
            yield Fault(script.path, word.spot, "this is no port", text, "1024 to 65535", "name a port")
        elif int(text) < 1024:
            yield Fault(
                script.path, word.spot, f"only root may listen on port {text}", text, "1024 to 65535",
                "take a port above 1023 that nobody uses, such as 29500",
            )  # fmt: skip


def half_addresses(script: Script) -> Iterator[Fault]:
    """Addresses with digits replaced, as examples print them: 192.168.xx.22."""
    for address, _, word in addresses(script):
        if re.fullmatch(r"[0-9xX*.]+", address) and "." in address and not is_address(address):
            yield Fault(
                script.path, word.spot, f"{address[:60]} is no address", address, "the address of the host of rank 0",
                "write the address out",
            )  # fmt: skip


def relative_rank_table(script: Script) -> Iterator[Fault]:
    """HCCL's user guide: RANK_TABLE_FILE is the whole path."""
    told = [script.setting("RANK_TABLE_FILE", start) for start in script.starts] or [script.setting("RANK_TABLE_FILE")]
    for value, word in filter(None, dict.fromkeys(told)):
        if value and value[0] not in "/$~`":
            yield Fault(
                script.path, word.spot, "HCCL wants the whole path of the rank table", value, f"/…/{value}",
                "write the path from / on; it is the same on every host",
            )  # fmt: skip


Rule = Callable[[Script], Iterator[Fault]]
RULES_OF_ONE: tuple[Rule, ...] = (
    curly_quotes, spaced_assignments, passed_names, variable_names, port_numbers, half_addresses, relative_rank_table,
)  # fmt: skip
