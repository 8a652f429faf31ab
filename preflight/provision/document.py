"""The plan as a file: `plan --out` writes it, `apply` reads it. Pure.

`{"schema": "preflight.plan/1", "created", "cluster", "inventory", "held_back": ["…"], "changes": [{…}]}`; the changes
are those of preflight/model/change.py, in the order in which they are applied.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from preflight.model.change import Change, Plan
from preflight.model.errors import UsageError

SCHEMA = "preflight.plan/1"
_KIND = SCHEMA.partition("/")[0]
_MADE = "a plan is a file that preflight plan --out FILE has written"


@dataclass(frozen=True)
class SavedPlan:
    """A plan, and what it was made from. `inventory` is an absolute path."""

    created: str
    cluster: str
    inventory: str
    plan: Plan
    held_back: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Document:
    schema: str
    created: str
    cluster: str
    inventory: str
    changes: list[Change]
    held_back: list[str]


def dump(saved: SavedPlan) -> str:
    changes = list(saved.plan.changes)
    document = _Document(SCHEMA, saved.created, saved.cluster, saved.inventory, changes, list(saved.held_back))
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def load(text: bytes, name: str) -> SavedPlan:
    """The plan of the file `name`. Raises UsageError with what is wrong and where."""
    try:
        schema = _schema_of(text)
        if not _is_ours(schema):
            raise UsageError(f"{name}: not a plan; {_MADE}")
        if schema != SCHEMA:
            raise UsageError(f"{name}: a plan of another version ({schema}); make it anew: preflight plan --out {name}")
        document = msgspec.json.decode(text, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name}: not a plan: {error}; {_MADE}") from None
    plan = Plan(tuple(document.changes))
    return SavedPlan(document.created, document.cluster, document.inventory, plan, tuple(document.held_back))


def is_plan(text: bytes) -> bool:
    """Whether this is a plan, of whatever version."""
    try:
        return _is_ours(_schema_of(text))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _schema_of(text: bytes) -> object:
    schema = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get("schema")
    return None if schema is None else msgspec.json.decode(schema)


def _is_ours(schema: object) -> bool:
    return isinstance(schema, str) and schema.partition("/")[0] == _KIND


def limited(plan: Plan, hosts: Sequence[str]) -> Plan:
    """The plan for these hosts alone."""
    return Plan(tuple(change for change in plan.changes if change.host in hosts))
