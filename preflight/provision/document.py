"""The plan as a file: `plan --out` writes it, `apply` reads it. Pure.

`{"schema": "preflight.plan/1", "created", "cluster", "inventory", "held_back": ["…"], "changes": [{…}]}`; the changes
are those of preflight/model/change.py, in the order in which they are applied.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from preflight.facts.refused_document import PLAN, refusal, schema_of
from preflight.model.change import Change, Plan
from preflight.model.errors import UsageError

SCHEMA = "preflight.plan/1"


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
        document = msgspec.json.decode(text, type=_Document) if schema_of(text) == SCHEMA else None
        if document is None:
            msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            raise UsageError(refusal(name, PLAN, SCHEMA, text))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(refusal(name, PLAN, SCHEMA, text, error)) from None
    plan = Plan(tuple(document.changes))
    return SavedPlan(document.created, document.cluster, document.inventory, plan, tuple(document.held_back))


def is_plan(text: bytes) -> bool:
    """Whether this is a plan, of whatever version."""
    return schema_of(text).partition("/")[0] == PLAN


def limited(plan: Plan, hosts: Sequence[str]) -> Plan:
    """The plan for these hosts alone."""
    return Plan(tuple(change for change in plan.changes if change.host in hosts))
