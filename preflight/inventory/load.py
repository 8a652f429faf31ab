"""Read hosts.toml: file → TOML → checked document → Cluster, with every error at once and its line."""

import difflib
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from preflight.inventory.errors import InventoryError, Location, Problem, dotted
from preflight.inventory.locate import Lines
from preflight.model.cluster import Cluster

if TYPE_CHECKING:
    from pydantic import ValidationError

_WANTED = {
    "string_type": "should be text in quotes",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "bool_type": "should be true or false",
    "list_type": "should be a list in [ ]",
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
    "date_type": "should be a date such as 2027-01-31, without quotes",
    "date_from_datetime_parsing": "should be a date such as 2027-01-31, without quotes",
    "string_too_short": "is empty",
}


def load(path: Path) -> Cluster:
    """The cluster that the file describes. Raises InventoryError; nothing is contacted."""
    text = _read(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InventoryError(_not_toml(path, text, str(error))) from error
    if not data:
        raise InventoryError(f"{path}: empty; copy inventory.example.toml and edit it")
    lines = Lines(text)
    # pydantic takes a tenth of a second to load, so only a command that reads an inventory pays for it.
    from pydantic import ValidationError

    from preflight.inventory.resolve import resolve
    from preflight.inventory.schema import Document

    try:
        document = Document.model_validate(data)
    except ValidationError as error:
        raise InventoryError(_told(path, lines, _problems(error, Document))) from error
    cluster, problems = resolve(document, path.absolute().parent)
    if problems:
        raise InventoryError(_told(path, lines, problems))
    return cluster


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InventoryError(f"{path}: not text in UTF-8 (byte {error.start})") from error
    except FileNotFoundError as error:
        raise InventoryError(
            f"{path}: no such file; copy inventory.example.toml to it and edit it, or name another with --inventory"
        ) from error
    except OSError as error:
        raise InventoryError(f"{path}: {error.strerror}") from error


def _not_toml(path: Path, text: str, message: str) -> str:
    place = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if place:
        return f"{path}:{place[1]}: column {place[2]}: not TOML: {message[: place.start()]}"
    return f"{path}:{len(text.splitlines()) or 1}: not TOML: {message}"


def _told(path: Path, lines: Lines, problems: list[Problem]) -> str:
    placed = sorted(((lines.of(problem.at), index, problem) for index, problem in enumerate(problems)))
    told = []
    for line, _, problem in placed:
        other = f"; first on line {lines.of(problem.first)}" if problem.first else ""
        told.append(f"{path}:{line}: {dotted(problem.at)}: {problem.text}{other}")
    return "\n".join([f"{len(told)} {'error' if len(told) == 1 else 'errors'} in the inventory", *told])


def _problems(error: "ValidationError", document: type[Any]) -> list[Problem]:
    """pydantic's errors in our words; a missing key is not told where a misspelling beside it explains it."""
    details = error.errors(include_url=False)
    problems: list[Problem] = []
    explained: set[Location] = set()
    for detail in details:
        if detail["type"] == "extra_forbidden":
            at = _location(detail["loc"])
            hint = ""
            close = difflib.get_close_matches(str(at[-1]), _keys(document, at[:-1]), 1)
            if close:
                hint = f'; did you mean "{close[0]}"?'
                explained.add((*at[:-1], close[0]))
            problems.append(Problem(at, f"unknown key{hint}"))
    for detail in details:
        at = _location(detail["loc"])
        if detail["type"] == "extra_forbidden" or (detail["type"] == "missing" and at in explained):
            continue
        problems.append(Problem(at, _sentence(detail)))
    return problems


def _location(loc: tuple[str | int, ...]) -> Location:
    """pydantic's `loc` without the tag of the address plan, which is no key."""
    return tuple(part for part in loc if part not in ("four-subnets", "one-subnet"))


def _sentence(detail: Any) -> str:
    kind, found = detail["type"], detail.get("input")
    if kind == "missing":
        return "required, but not there"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind in ("enum", "literal_error", "union_tag_invalid"):
        expected = str(detail["ctx"].get("expected") or detail["ctx"].get("expected_tags"))
        values = re.findall(r"'([^']*)'", expected)
        tag = found.get("plan") if isinstance(found, dict) else found
        close = difflib.get_close_matches(str(tag), values, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"{tag!r} is none of {', '.join(values)}{hint}"
    if kind == "union_tag_not_found":
        return 'needs plan = "one-subnet" or plan = "four-subnets"'
    if kind in _WANTED:
        return _WANTED[kind] if kind == "string_too_short" else f"{_WANTED[kind]}, found {found!r}"
    text = str(detail["msg"])
    return f"{text[:1].lower()}{text[1:]}, found {found!r}"


def _keys(document: type[Any], table: Location) -> list[str]:
    """The keys that a table of the document knows."""
    models: list[Any] = [document]
    for part in table:
        if isinstance(part, str):
            models = [
                m
                for model in models
                if part in model.model_fields
                for m in _models(model.model_fields[part].annotation)
            ]
    return [name for model in models for name in model.model_fields]


def _models(annotation: Any) -> list[Any]:
    from typing import get_args

    if hasattr(annotation, "model_fields"):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]
