"""pydantic's errors in our words."""

import difflib
import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from preflight.inventory.errors import Location, Mistake, shown
from preflight.inventory.schema import Document, FourSubnets, OneSubnet
from preflight.model.product_names import not_known

_PLANS: dict[str, type[BaseModel]] = {"four-subnets": FourSubnets, "one-subnet": OneSubnet}

_WANTED = {
    "string_type": "should be text in quotes",
    "int_type": "should be a whole number",
    "bool_type": "should be true or false",
    "list_type": "should be a list in [ ]",
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
    "date_type": "should be a date such as 2027-01-31, without quotes",
}


def problems(error: ValidationError) -> list[Mistake]:
    """Every error once; a missing key is not told where a misspelling beside it explains it."""
    found: list[Mistake] = []
    explained: set[Location] = set()
    details = error.errors(include_url=False)
    for detail in details:
        if detail["type"] == "extra_forbidden":
            at = location(detail["loc"])
            close = difflib.get_close_matches(str(at[-1]), model_of(detail["loc"][:-1]).model_fields, 1)
            explained |= {(*at[:-1], key) for key in close}
            found.append(Mistake(at, f'unknown key; did you mean "{close[0]}"?' if close else "unknown key"))
    for detail in details:
        at = location(detail["loc"])
        if detail["type"] != "extra_forbidden" and not (detail["type"] == "missing" and at in explained):
            found.append(Mistake((*at, "plan") if "union_tag" in detail["type"] else at, _sentence(detail, at)))
    return found


def location(loc: tuple[str | int, ...]) -> Location:
    """pydantic's `loc` without the name of the address plan, which is no key."""
    return loc[:1] + loc[2:] if loc[1:2] and loc[1] in _PLANS else loc


def _sentence(detail: Any, at: Location) -> str:
    kind, found, context = detail["type"], detail.get("input"), detail.get("ctx", {})
    if kind == "list_type" and len(at) == 1:
        return f"should be tables, each beginning with [[{at[0]}]]"
    match kind:
        case "missing":
            return "required, but not there"
        case "value_error":
            return str(context["error"])
        case "string_too_short":
            return "is empty"
        case "too_short" | "too_long":
            wanted = context.get("min_length", context.get("max_length"))
            limit = "exactly" if at[0] == "device_addresses" else "at least"
            return f"should have {limit} {wanted} {'entry' if wanted == 1 else 'entries'}, found {len(found or ())}"
        case "greater_than_equal":
            return f"should be at least {context['ge']}, found {shown(found)}"
        case "less_than_equal":
            return f"should be at most {context['le']}, found {shown(found)}"
        case "enum" if at == ("cluster", "product") and isinstance(found, str):
            return not_known(found)
        case "enum" | "literal_error":
            return _none_of(found, re.findall(r"'([^']*)'", str(context["expected"])))
        case "union_tag_invalid":
            return _none_of(found["plan"], list(_PLANS))
        case "union_tag_not_found":
            return f"required, but not there: {' or '.join(_PLANS)}"
    if kind in _WANTED:
        return f"{_WANTED[kind]}, found {shown(found)}"
    return f"{detail['msg']}, found {shown(found)}"


def _none_of(found: object, values: list[str]) -> str:
    close = difflib.get_close_matches(str(found), values, 1)
    return f"{shown(found)} is none of {', '.join(values)}" + (f"; did you mean {close[0]}?" if close else "")


def model_of(table: tuple[str | int, ...]) -> type[BaseModel]:
    """The model that describes the table at a `loc` of pydantic's."""
    model: type[BaseModel] = Document
    for part in table:
        if part in _PLANS:
            model = _PLANS[str(part)]
        elif isinstance(part, str):
            model = next(_models(model.model_fields[part].annotation))
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in `list[HostTable]`, `FourSubnets | OneSubnet | None` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
