"""Mistakes from pydantic's validation errors, in our words."""

import difflib
import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from preflight.inventory.errors import Location, Mistake, shown
from preflight.inventory.schema import Document, FourSubnets, OneSubnet
from preflight.model.product_names import not_known

_PLANS: dict[str, type[BaseModel]] = {"four-subnets": FourSubnets, "one-subnet": OneSubnet}

_FIXED_SENTENCES = {
    "missing": "required key is missing",
    "string_too_short": "is empty",
    "union_tag_not_found": f"required key is missing: {' or '.join(_PLANS)}",
}
_BOUNDS = {"ge": "at least", "le": "at most"}
_EXPECTED = {
    "string_type": "should be text in quotes",
    "int_type": "should be a whole number",
    "bool_type": "should be true or false",
    "list_type": "should be a list in [ ]",
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
    "date_type": "should be a date such as 2027-01-31, without quotes",
}


def mistakes(error: ValidationError) -> list[Mistake]:
    """Return each error once. A missing key is left out if a misspelled key in its table explains it."""
    result: list[Mistake] = []
    explained: set[Location] = set()
    details = error.errors(include_url=False)
    for detail in details:
        if detail["type"] == "extra_forbidden":
            at = location(detail["loc"])
            close = difflib.get_close_matches(str(at[-1]), model_of(detail["loc"][:-1]).model_fields, 1)
            explained |= {(*at[:-1], key) for key in close}
            result.append(Mistake(at, f'unknown key. Did you mean "{close[0]}"?' if close else "unknown key"))
    for detail in details:
        at = location(detail["loc"])
        if detail["type"] != "extra_forbidden" and not (detail["type"] == "missing" and at in explained):
            result.append(Mistake((*at, "plan") if "union_tag" in detail["type"] else at, _sentence(detail, at)))
    return result


def location(loc: tuple[str | int, ...]) -> Location:
    """Return pydantic's `loc` without the name of the address plan, which is not a key."""
    return loc[:1] + loc[2:] if loc[1:2] and loc[1] in _PLANS else loc


def _sentence(detail: Any, at: Location) -> str:
    kind, value, context = detail["type"], detail.get("input"), detail.get("ctx", {})
    if kind == "list_type" and len(at) == 1:
        return f"should be tables, each starting with [[{at[0]}]]"
    if kind in _FIXED_SENTENCES:
        return _FIXED_SENTENCES[kind]
    match kind:
        case "value_error":
            return str(context["error"])
        case "too_short" | "too_long":
            return _wrong_length(context.get("min_length", context.get("max_length")), value, at)
        case "greater_than_equal" | "less_than_equal":
            ((bound, number),) = context.items()
            return f"should be {_BOUNDS[bound]} {number}, found {shown(value)}"
        case "enum" | "literal_error":
            return _wrong_choice(value, str(context["expected"]), at)
        case "union_tag_invalid":
            return _none_of(value["plan"], list(_PLANS))
    return f"{_EXPECTED.get(kind, detail['msg'])}, found {shown(value)}"


def _wrong_length(length: int, value: Any, at: Location) -> str:
    limit = "exactly" if at[0] == "device_addresses" else "at least"
    return f"should have {limit} {length} {'entry' if length == 1 else 'entries'}, found {len(value or ())}"


def _wrong_choice(value: Any, expected: str, at: Location) -> str:
    if at == ("cluster", "product") and isinstance(value, str):
        return not_known(value)
    return _none_of(value, re.findall(r"'([^']*)'", expected))


def _none_of(value: object, choices: list[str]) -> str:
    close = difflib.get_close_matches(str(value), choices, 1)
    return f"{shown(value)} is not one of {', '.join(choices)}" + (f". Did you mean {close[0]}?" if close else "")


def model_of(table: tuple[str | int, ...]) -> type[BaseModel]:
    """Return the model of the table at one of pydantic's `loc`."""
    model: type[BaseModel] = Document
    for part in table:
        if part in _PLANS:
            model = _PLANS[str(part)]
        elif isinstance(part, str):
            model = next(_models(model.model_fields[part].annotation))
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in `list[HostTable]`, `FourSubnets | OneSubnet | None` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
