"""The plan as a file: `plan --out` writes it, `apply` reads it. Pure.

Its keys are `schema` ("preflight.plan/1"), `created`, `cluster`, `inventory`, `held_back` (a list of texts) and
`changes` (a list of objects). The changes are those of preflight/model/change.py, in the order in which they are
applied.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields

import msgspec

from preflight.facts.documents.refused_document import KINDS, PLAN, refusal, schema_of
from preflight.model.change import Change, Plan
from preflight.model.errors import UsageError
from preflight.provision.accept import plan_refusal, repeated

SCHEMA = "preflight.plan/1"
LARGEST = 1 << 28  # bytes; 4,096 hosts with 8 devices, 4 changes each, have 50 MB


@dataclass(frozen=True)
class SavedPlan:
    """A plan and its origin. `inventory` is an absolute path."""

    created: str
    cluster: str
    inventory: str
    plan: Plan
    held_back: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()  # of each change, in the file that it was read from


def _strict(type_: type, **types: object) -> type[msgspec.Struct]:
    """Return a dataclass as a type that refuses unknown fields; `types` replaces the types of some fields."""
    parts = [
        (part.name, types.get(part.name, part.type), *(() if part.default is MISSING else (part.default,)))
        for part in fields(type_)
    ]
    return msgspec.defstruct(type_.__name__, parts, forbid_unknown_fields=True)


@dataclass(frozen=True)
class _PlanDocument:
    schema: str
    created: str
    cluster: str
    inventory: str
    changes: list[Change]
    held_back: list[str]


_StrictPlanDocument = _strict(_PlanDocument, changes=list[_strict(Change)])  # type: ignore[misc]  # the type is made at import


def dump(saved: SavedPlan) -> str:
    changes = list(saved.plan.changes)
    document = _PlanDocument(SCHEMA, saved.created, saved.cluster, saved.inventory, changes, list(saved.held_back))
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def load(text: bytes, name: str) -> SavedPlan:
    """Return the plan of the file `name`.

    Raises UsageError that names the fault and its line, also for a change that no check of preflight makes.
    """
    try:
        document = msgspec.json.decode(text, type=_PlanDocument) if schema_of(text) == SCHEMA else None
        if document is None:
            msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            raise UsageError(refusal(name, PLAN, SCHEMA, text))
        msgspec.json.decode(text, type=_StrictPlanDocument)
        json.loads(text, object_pairs_hook=_each_once)
        lines = _lines(text.decode(), len(document.changes))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(refusal(f"{name}{_line_of(error, text)}", PLAN, SCHEMA, text, error)) from None
    _refuse_strange(document.changes, lines, name)
    plan, held_back = Plan(tuple(document.changes)), tuple(document.held_back)
    return SavedPlan(document.created, document.cluster, document.inventory, plan, held_back, lines)


def _refuse_strange(changes: Sequence[Change], lines: Sequence[int], name: str) -> None:
    """Raise UsageError for the first change that preflight does not make."""
    anew = f"To write a new plan: {KINDS[PLAN].command}"
    for change, line in zip(changes, lines, strict=True):
        if objection := plan_refusal(change):
            raise UsageError(f"{name}:{line}: {objection}\n{anew}")
    if (number := next(repeated(changes), None)) is not None:
        kind, target, host = changes[number].kind, changes[number].target, changes[number].host
        raise UsageError(f"{name}:{lines[number]}: {kind} {target} of {host} is changed twice\n{anew}")


def _each_once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object as a dict. Raises ValueError for a repeated key: readers differ in which value counts."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError(f'the key "{next(key for key in keys if keys.count(key) > 1)}" occurs twice in one object')
    return dict(pairs)


def _line_of(error: Exception, text: bytes) -> str:
    """Return ":LINE" of the change that a decoder's error names, empty if it names none."""
    match = re.search(r"- at `\$\.changes\[(\d+)\]", str(error))
    try:
        return f":{_lines(text.decode(), int(match[1]) + 1)[-1]}" if match else ""
    except (ValueError, RecursionError):
        return ""


def _lines(text: str, count: int) -> tuple[int, ...]:
    """Return the lines on which the first `count` changes begin."""
    decoder = json.JSONDecoder()
    start = re.search(r'"changes"\s*:\s*\[', text)
    if start is None:
        raise ValueError('it has no list with the key "changes"')
    end, line, lines = start.end(), 1, []
    counted = 0
    for _ in range(count):
        begin = text.index("{", end)
        line, counted = line + text.count("\n", counted, begin), begin
        lines.append(line)
        end = decoder.raw_decode(text, begin)[1]
    return tuple(lines)


def is_plan(text: bytes) -> bool:
    """Return whether this is a plan, of any version."""
    return schema_of(text).partition("/")[0] == PLAN


def limited(plan: Plan, hosts: Sequence[str]) -> Plan:
    """Return the plan for these hosts alone."""
    return Plan(tuple(change for change in plan.changes if change.host in hosts))
