"""Rules for one script by itself: names, values and addresses. Pure; a function for each rule."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from preflight.launch.lint.master_addresses import addresses, ports
from preflight.launch.lint.types import Script, ScriptFault, Word
from preflight.model.ip import is_address
from preflight.rules.variables.hccl import RULES, meant

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")  # of the environment; `x = 1` may be a line of Python in a script
_CURLY = re.compile("[‘’“”]")
_MISNAMED = {
    "LD_LIBRARY": "LD_LIBRARY_PATH",
    "LIBRARY_PATH": "LD_LIBRARY_PATH",
    "LD_PATH": "LD_LIBRARY_PATH",
    "PYTHON_PATH": "PYTHONPATH",
    "LD_LIBRARYPATH": "LD_LIBRARY_PATH",
}


def carriage_returns(script: Script, text: str) -> Iterator[ScriptFault]:
    at = text.find("\r\n")
    if at >= 0 and script.commands:
        line = text.count("\n", 0, at) + 1
        message = f"line {line} has a Windows line ending, and bash reads \\r as part of the word"
        do = "convert the file with dos2unix or sed -i 's/\\r$//'"
        yield script.fault(script.commands[0].words[0], message, "\\r\\n", "\\n", do)


def curly_quotes(script: Script) -> Iterator[ScriptFault]:
    for word in script.words:
        quote = _CURLY.search(word.text)
        if quote and not any(part.quote and _CURLY.search(part.text) for part in word.parts):
            message = f"{quote[0]} is not a quote in bash, so it becomes part of the word"
            yield script.fault(word, message, word.text, _CURLY.sub("'", word.text), "retype the quotes")


def passed_names(script: Script) -> Iterator[ScriptFault]:
    """Yield names behind mpirun's -x that no script sets and that resemble a variable of the environment."""
    for start in script.starts:
        for word in start.passed:
            name = word.text.partition("=")[0]
            right = _MISNAMED.get(name) or meant(name)
            if right:
                message = f"-x passes {name}, which is not set, and {right} is not passed"
                yield script.fault(word, message, name, right, f"-x {right}")


def spaced_assignments(script: Script) -> Iterator[ScriptFault]:
    """Yield `NAME =value`, which is a command NAME; after export it is two names."""
    for command in script.commands:
        exported = bool(command.words) and command.words[0].text == "export"
        for name, sign in pairwise(command.words[1:] if exported else command.words[:2]):
            if _VARIABLE.fullmatch(name.text) and name.bare and sign.text[:1] == "=" and sign.text[:2] != "==":
                yield script.fault(
                    sign,
                    f"{name.text} is not set, because there is a blank before the =",
                    f"{name.text} {sign.text}",
                    f"{name.text}=VALUE",
                    "remove the blanks around the =",
                )


def _settings(script: Script) -> Iterator[tuple[str, str, Word]]:
    """Yield (name, value, place) of each variable with a known value, of the script or of one program."""
    yield from ((name, value, word) for name, (value, word) in script.settings.items())
    own = [(name, word.text, word) for start in script.starts for name, word in start.own.items()]
    yield from {(name, text, word.spot): (name, text, word) for name, text, word in own}.values()


def variable_names(script: Script) -> Iterator[ScriptFault]:
    for name, value, word in _settings(script):
        if right := meant(name):
            yield script.fault(word, f"HCCL has no variable {name}", name, right, f"write {right}")
        elif name in RULES and "$" not in value and not any(rule.allows(value) for rule in RULES[name]):
            wants = " or ".join(dict.fromkeys(rule.wants for rule in RULES[name]))
            yield script.fault(word, f"HCCL rejects this value of {name}", value, wants, f"correct {name}")


def port_numbers(script: Script) -> Iterator[ScriptFault]:
    for text, word in dict.fromkeys(ports(script)):
        if "$" in text:
            continue
        if not (text.isascii() and text.isdigit()) or not 0 < int(text[:9]) <= 65535:
            yield script.fault(word, "this is not a port", text, "1024 to 65535", "set a port number")
        elif int(text) < 1024:
            do = "use a free port above 1023, such as 29500"
            yield script.fault(word, f"only root may listen on port {text}", text, "1024 to 65535", do)


def half_addresses(script: Script) -> Iterator[ScriptFault]:
    """Yield addresses with digits replaced, as examples print them: 192.168.xx.22."""
    for address, _, word in addresses(script):
        if re.fullmatch(r"[0-9xX*.]+", address) and "." in address and not is_address(address):
            message, expected = f"{address[:60]} is not an address", "the address of the host of rank 0"
            yield script.fault(word, message, address, expected, "write the full address")


def relative_rank_table(script: Script) -> Iterator[ScriptFault]:
    """Yield a RANK_TABLE_FILE without its whole path, which HCCL's user guide demands."""
    name = "RANK_TABLE_FILE"
    settings = [script.setting(name, start) for start in script.starts] or [script.setting(name)]
    for value, word in filter(None, dict.fromkeys(settings)):
        if value and value[0] not in "/$~`":
            message = "HCCL needs the absolute path of the rank table"
            do = "write the absolute path, which is the same on every host"
            yield script.fault(word, message, value, f"/…/{value}", do)


Rule = Callable[[Script], Iterator[ScriptFault]]
RULES_OF_ONE: tuple[Rule, ...] = (
    curly_quotes,
    spaced_assignments,
    passed_names,
    variable_names,
    port_numbers,
    half_addresses,
    relative_rank_table,
)
