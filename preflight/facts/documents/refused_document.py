"""Error messages for JSON files that preflight did not write, in words instead of the decoder's type names. Pure."""

import re
from dataclasses import dataclass

import msgspec

JSON_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)  # of a decoder, for texts that are not valid

_NAMES = {
    "object": "an object in { }",
    "array": "a list in [ ]",
    "str": "text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}
_LONGEST = 120  # characters of a decoder's own sentence


@dataclass(frozen=True)
class DocumentKind:
    """A kind of document. `name`: with its article, for sentences. `command`: the command that writes one."""

    name: str
    command: str


FACTS, CAPTURE, REPORT, PLAN = "preflight.facts", "preflight.capture", "preflight.report", "preflight.plan"
KINDS = {
    FACTS: DocumentKind("a facts document", "preflight facts --out facts.json"),
    CAPTURE: DocumentKind("a capture", "preflight capture --out site.json"),
    REPORT: DocumentKind("a report", "preflight check --save report.json"),
    PLAN: DocumentKind("a plan", "preflight plan --out plan.json"),
    "preflight.diagnosis": DocumentKind("a diagnosis", "preflight diagnose -o json LOG"),
    "preflight.diff": DocumentKind("a comparison of runs", "preflight diff -o json"),
    "preflight.history": DocumentKind("a list of runs", "preflight history -o json"),
    "preflight.run": DocumentKind("a list of changes", "preflight configure -o json"),
}


class _Schema(msgspec.Struct):
    schema: str


def refusal(source: str, expected: str, version: str, text: str | bytes, error: Exception | None = None) -> str:
    """Return the error of the file `source`, and the command that writes the `expected` kind of document.

    `version`: the schema that this version reads. `error`: the decoder's exception, None if it raised none.
    """
    kind, schema = KINDS[expected], schema_of(text)
    family = schema.partition("/")[0]
    write = f"To write {kind.name}: {kind.command}"
    if family == expected and schema != version:
        return f"{source}: the schema is {schema[:80]!r}, but this preflight reads {version}. {write}"
    if family in KINDS and family != expected:
        return f"{source}: this is {KINDS[family].name}, not {kind.name}. {write}"
    reason = json_error(error, text) if error else 'it has no "schema" of preflight'
    return f"{source}: not {kind.name}: {reason}. {write}"


def schema_of(text: str | bytes) -> str:
    """Return the schema that the document names, such as preflight.facts/1; empty if it names none."""
    try:
        return msgspec.json.decode(text, type=_Schema).schema
    except JSON_ERRORS:
        return ""


def json_error(error: Exception, text: str | bytes = "") -> str:
    """Return the error of a JSON text and its place, as a clause."""
    if isinstance(error, UnicodeError):
        return "it is not UTF-8 text"
    if isinstance(error, RecursionError):
        return "its brackets are nested too deeply"
    if isinstance(error, msgspec.MsgspecError):
        return _decoder_error(error, text)
    return str(error)  # a sentence already


def _decoder_error(error: msgspec.MsgspecError, text: str | bytes) -> str:
    sentence, _, path = str(error).partition(" - at `")
    place = path.rstrip("`").removeprefix("$").lstrip(".")
    place = f"item {place}" if place.startswith("[") else place or "it"
    if match := re.fullmatch(r"Expected `(.+)`, got `(.+)`", sentence):
        return f"{place} should be {_type_names(match[1])}, but is {_type_names(match[2])}"
    if match := re.fullmatch(r"Object missing required field `(.+)`", sentence):
        return f'{place} has no "{match[1]}"'
    if match := re.fullmatch(r"Invalid enum value (.+)", sentence):
        return f"{place}: {match[1][:_LONGEST]} is not a known value"
    if sentence == "Input data was truncated":
        return "the file is truncated: the JSON is incomplete" if text.strip() else "it is empty"
    if match := re.fullmatch(r"JSON is malformed: .* \(byte (\d+)\)", sentence):
        return _not_json(text, int(match[1]))
    prefix = f"{place}: " if path else ""
    return prefix + sentence.replace("`", "'")[:_LONGEST]


def _type_names(types: str) -> str:
    return " or ".join(_NAMES.get(name, name) for name in types.split(" | "))


def _not_json(text: str | bytes, offset: int) -> str:
    data = text if isinstance(text, bytes) else text.encode(errors="replace")
    try:
        lines = data.decode()[:offset].split("\n") if data else []
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    return f"line {len(lines)}, column {len(lines[-1]) + 1} is not JSON" if lines else "it is not JSON"
