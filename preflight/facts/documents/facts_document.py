"""The facts as a JSON document, `preflight.facts/1` (docs/contracts.md), and back.

    {"schema": "preflight.facts/1", "hosts": {NAME: {SECTION: {"value": …} or {"error": "…"}}}}

A host that could not be reached is `{"unreachable": {"trouble", "summary", "remedy"}}`. A section that the product does
not have is left out. A section that was not requested is `{"skipped": "--basic"}`. If raw output is kept, it is "raw"
next to "value" or "error".
"""

import errno
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from preflight.bounded_file import read_bounded
from preflight.facts.documents.refused_document import FACTS, JSON_ERRORS, KINDS, json_error, refusal
from preflight.facts.redaction.redact import redacted
from preflight.facts.types import DEEP, ON_REQUEST, SECTIONS, ClusterFacts, HostFacts, Missing, Unreachable
from preflight.model.errors import UsageError

SCHEMA = "preflight.facts/1"
LARGEST = 1 << 29  # bytes of a document; the facts of 1,000 hosts with 8 devices have 111 MB

# Fact section → the collector's sections that it is read from, unless it is the one of the same name.
_RAW_OF = {"limits": ("job",), "versions": ("job", "driver"), "nic": ()}  # nic: with hccn

# Sections that other products do not have: those of all versions of preflight, and those that were added later.
_OF_A_PRODUCT = ("hccn", "hccn_conf", "npu_smi", "nvidia", "rdma")
_NEW_OF_NPUS = ("nic", "chips", "device_nodes")


def load_file(path: Path) -> ClusterFacts:
    """Return the facts of a saved document. Raises UsageError for a file that cannot be read or is no such document."""
    return load(text_of(path), str(path))


def text_of(path: Path) -> str:
    """Return the text of a file of saved facts. Raises UsageError for a file that cannot be read."""
    try:
        return read_bounded(path, LARGEST).decode()
    except OSError as error:
        is_missing = error.errno == errno.ENOENT
        command = f"preflight facts --out {shlex.quote(str(path))}" if is_missing else KINDS[FACTS].command
        raise UsageError(f"{path}: {error.strerror}. To write facts: {command}") from error
    except UnicodeDecodeError as error:
        raise UsageError(refusal(str(path), FACTS, SCHEMA, b"", error)) from error


def _raw(section: str, raw: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the raw output that the section was read from, by the collector's own names."""
    parts = {name: raw[name] for name in _RAW_OF.get(section, (section,)) if name in raw}
    try:
        return {name: redacted(msgspec.json.decode(part).get("value")) for name, part in parts.items()}
    except (*JSON_ERRORS, AttributeError):
        return {}  # the section's error says that it could not be read


def _host(host: HostFacts | Unreachable, raw: Mapping[str, bytes]) -> dict[str, Any]:
    if isinstance(host, Unreachable):
        return {"unreachable": host}
    sections: dict[str, Any] = {}
    for name in SECTIONS:
        value = host.section(name)
        if value is None:
            if name in DEEP and (host.hccn is not None or name not in _NEW_OF_NPUS):
                sections[name] = {"skipped": "--basic"}
            continue
        sections[name] = {"error": value.error} if isinstance(value, Missing) else {"value": value}
        if raw_output := _raw(name, raw):
            sections[name]["raw"] = raw_output
    return sections


def dump(facts: ClusterFacts, raw: Mapping[str, Mapping[str, bytes]] | None = None) -> str:
    """Return the document's text. `raw`: host → the collector's section → its JSON, kept redacted beside the values."""
    return msgspec.json.format(compact(facts, raw).decode(), indent=1) + "\n"


def compact(facts: ClusterFacts, raw: Mapping[str, Mapping[str, bytes]] | None = None) -> bytes:
    """Return the document of `dump` without blanks and line ends."""
    hosts = {name: _host(host, (raw or {}).get(name, {})) for name, host in facts.hosts.items()}
    return msgspec.json.encode({"schema": SCHEMA, "hosts": hosts})


class _FactsDocument(msgspec.Struct):
    schema: str
    hosts: dict[str, dict[str, msgspec.Raw]]


class _Section(msgspec.Struct):
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: str | None = None
    skipped: str | None = None


@cache
def _section_types() -> dict[str, Any]:
    """Return section → the type of its value: the first of `Os | Missing`, `Hccn | Missing | None`."""
    return {name: get_args(hint)[0] for name, hint in get_type_hints(HostFacts).items()}


def _read_section(raw: msgspec.Raw, type_: Any) -> Any:
    section = msgspec.json.decode(raw, type=_Section)
    if section.error is not None:
        return Missing(section.error)
    if section.skipped is not None:
        return None
    if section.value is msgspec.UNSET:
        raise msgspec.ValidationError('it has neither "value" nor "error"')
    return msgspec.json.decode(section.value, type=type_)


def _read_host(sections: Mapping[str, msgspec.Raw], source: str, place: str) -> HostFacts | Unreachable:
    """Return one host's facts. Unknown sections are ignored; those that the document lacks are `Missing`."""
    section = "unreachable"
    try:
        if section in sections:
            return msgspec.json.decode(sections[section], type=Unreachable)
        values = {}
        for section, type_ in _section_types().items():
            if section in sections:
                values[section] = _read_section(sections[section], type_)
            elif (
                section not in _OF_A_PRODUCT
                and section not in ON_REQUEST
                and ("hccn" in sections or section not in _NEW_OF_NPUS)
            ):
                values[section] = Missing(f"not in {source}")
        return HostFacts(**values)
    except JSON_ERRORS as error:
        message = f"{source}: {place}.{section} is not valid: {json_error(error)}"
        raise UsageError(f"{message}. To write the facts again: {KINDS[FACTS].command}") from error


def load(text: str | bytes, source: str = "the facts") -> ClusterFacts:
    """Return the facts of a document that `dump` wrote. `source` names it in errors.

    Raises UsageError for any other document, and for another schema.
    """
    try:
        document = msgspec.json.decode(text, type=_FactsDocument)
    except JSON_ERRORS as error:
        raise UsageError(refusal(source, FACTS, SCHEMA, text, error)) from error
    if document.schema != SCHEMA:
        raise UsageError(refusal(source, FACTS, SCHEMA, text))
    return ClusterFacts({name: _read_host(host, source, f"hosts.{name}") for name, host in document.hosts.items()})
