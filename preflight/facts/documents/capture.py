"""Raw output of a whole site as one JSON document, `preflight.capture/1` (docs/contracts.md), and facts from it.

    {"schema": "preflight.capture/1", "preflight", "taken", "anonymous", "inventory": TOML,
     "not_understood": [{"command", "hosts", "answers", "error"}],
     "hosts": {NAME: {"devices", "sent", "received", "refused", "sections": {NAME: {"value"} or {"error"}}}
                     or {"unreachable": …} or {"error": "…"}}}

It holds the collector's answers, without likely secrets and without serial numbers. The parsers of the running version
read facts from it, so a later version understands more of it.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from preflight.facts import round_trip
from preflight.facts.answers.host import HostAnswer
from preflight.facts.documents.refused_document import CAPTURE, JSON_ERRORS, json_error, refusal
from preflight.facts.redaction.anonymity import left
from preflight.facts.redaction.pseudonyms import Pseudonyms
from preflight.facts.redaction.redact import may_match, redact, redacted, without_value
from preflight.facts.round_trip import Seen
from preflight.facts.types import Missing, Unreachable
from preflight.facts.unknown_formats import UnknownFormat
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import PreflightError, UsageError

SCHEMA = "preflight.capture/1"
_MOST_LEAKS = 3  # places with a remaining name that the error lists

# A serial number follows such a key at the start of a line, or in quotes after a key in quotes.
_CALLED = (
    r"(?:[\w /-]{0,30}serial(?:[ _-]?(?:no|num|number))?\.?|(?:[\w /-]{0,30}\b)?S/?N"
    r"|[VN]?Die[ _]ID|UUID|Barcode|E-?label)"
)
_SERIALS = (
    re.compile(rf"^([ \t]{{0,40}}{_CALLED}[ \t]{{0,40}}[:=][ \t]{{0,40}})(\S.*)$", re.IGNORECASE | re.MULTILINE),
    re.compile(r"(<(?:\w{1,30}_)?serial(?:_number)?>)([^<\n]{1,80})", re.IGNORECASE),  # of nvidia-smi's XML
    re.compile(rf"([\"']{_CALLED}\\?[\"'][ \t]{{0,9}}[:=][ \t]{{0,9}})(\\?\"[^\"\n]*\"|'[^'\n]*')", re.IGNORECASE),
)
_SERIAL_HINTS = ("serial", "sn", "s/n", "die", "uuid", "barcode", "label")


@dataclass(frozen=True)
class Capture:
    """The content of a capture. `taken`: its time, in UTC.

    `inventory`: the text of a hosts.toml for checks of the facts, without secrets already.
    """

    preflight: str
    taken: str
    anonymous: bool
    inventory: str
    hosts: Mapping[str, HostAnswer | Unreachable]
    not_understood: Sequence[UnknownFormat] = ()


def clean(value: Any) -> Any:
    """Return a JSON value without secrets and serial numbers, at any depth."""
    return redacted(value, _clean)


def _clean(text: str) -> str:
    text = redact(text)
    if may_match(text, _SERIAL_HINTS):
        for pattern in _SERIALS:
            text = pattern.sub(without_value, text)
    return text


def _machine_id(sections: dict[str, Any], salt: str) -> None:
    """Replace the machine id by a salted hash: machine-id(5) is confidential, but equal ids must stay visible."""
    system = sections.get("os", {}).get("value")
    if isinstance(system, dict) and isinstance(id_ := system.get("machine_id"), str) and id_:
        system["machine_id"] = hashlib.sha256((salt + id_).encode()).hexdigest()[:32]


def _digests(sections: dict[str, Any], salt: str) -> None:
    """Replace digests of files by salted hashes, which are equal on hosts with equal files.

    The digest of a rank table would confirm a guess of its addresses.
    """
    job = sections.get("job", {}).get("value")
    deep = job.get("deep") if isinstance(job, dict) else None
    files = deep.get("files") if isinstance(deep, dict) else None
    for file in files if isinstance(files, list) else ():
        if isinstance(file, dict) and isinstance(digest := file.get("digest"), str) and digest:
            file["digest"] = hashlib.sha256((salt + digest).encode()).hexdigest()


def _host(answer: HostAnswer | Unreachable, salt: str, pseudonyms: Pseudonyms | None) -> dict[str, Any]:
    disguise = pseudonyms.value if pseudonyms else _unchanged
    if isinstance(answer, Unreachable):
        return {"unreachable": disguise(msgspec.to_builtins(answer))}
    common_fields = {
        "devices": answer.devices,
        "sent": answer.sent,
        "received": answer.received,
        "refused": disguise(msgspec.to_builtins(answer.refused)),
    }
    if isinstance(answer.raw, Missing):
        return {**common_fields, "error": disguise(clean(answer.raw.error))}
    sections: dict[str, Any] = {}
    for name, part in answer.raw.items():
        try:
            sections[name] = clean(msgspec.json.decode(part))
        except JSON_ERRORS as error:
            sections[name] = {"error": f"what the collector sent cannot be kept: {json_error(error)}"}
    _machine_id(sections, salt)
    if pseudonyms:
        _digests(sections, salt)
    return {**common_fields, "sections": disguise(sections)}


def documents(hosts: Mapping[str, HostAnswer | Unreachable]) -> Iterator[Any]:
    """Yield the hosts' answers, section by section, as JSON values without secrets."""
    for contact in hosts.values():
        for part in (
            contact.raw.values() if isinstance(contact, HostAnswer) and not isinstance(contact.raw, Missing) else ()
        ):
            try:
                yield clean(msgspec.json.decode(part))
            except JSON_ERRORS:
                continue  # a capture does not keep it


def dump(capture: Capture, salt: str, pseudonyms: Pseudonyms | None = None) -> str:
    """Return the document's text. `salt`: a random text for this document alone.

    `pseudonyms`: for names and addresses, which the inventory has replaced by marks already. Raises PreflightError if a
    known name or address would remain.
    """
    disguise = pseudonyms.value if pseudonyms else _unchanged
    hosts = {
        pseudonyms.name(name) if pseudonyms else name: _host(contact, salt, pseudonyms)
        for name, contact in capture.hosts.items()
    }
    document = {
        "schema": SCHEMA,
        "preflight": capture.preflight,
        "taken": capture.taken,
        "anonymous": capture.anonymous,
        "inventory": capture.inventory,
        "not_understood": disguise(clean(msgspec.to_builtins(capture.not_understood))),
        "hosts": hosts,
    }
    text = msgspec.json.format(msgspec.json.encode(document).decode(), indent=1) + "\n"
    if pseudonyms is None:
        return text
    if leaks := list(islice(left({**document, "inventory": _tables(capture.inventory)}, pseudonyms), _MOST_LEAKS + 1)):
        raise PreflightError(
            f"nothing was written, since the capture would still contain {'; '.join(leaks[:_MOST_LEAKS])}"
            f"{' and more' if len(leaks) > _MOST_LEAKS else ''}. "
            "Report this as a bug in preflight. Until it is fixed, capture without --anonymous"
        )
    return pseudonyms.shown(text)


def _tables(inventory: str) -> Any:
    try:
        return tomllib.loads(inventory)
    except tomllib.TOMLDecodeError:
        return inventory


def _unchanged(value: Any) -> Any:
    return value


class _CapturedHost(msgspec.Struct):
    devices: tuple[int, ...] = ()
    sent: float = 0.0
    received: float = 0.0
    refused: Unreachable | None = None
    sections: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    error: str | None = None
    unreachable: Unreachable | None = None


class _CaptureDocument(msgspec.Struct):
    schema: str
    preflight: str
    taken: str
    anonymous: bool
    inventory: str
    hosts: dict[str, _CapturedHost]
    not_understood: tuple[UnknownFormat, ...] = ()


def is_capture(text: str) -> bool:
    """Return whether the text begins like a capture, which is enough to tell it from a facts document."""
    return SCHEMA in text[:200]


def load(text: str, source: str) -> Capture:
    """Return the capture that `dump` wrote. `source` names it in errors. Raises UsageError for any other document."""
    try:
        document = msgspec.json.decode(text, type=_CaptureDocument)
    except JSON_ERRORS as error:
        raise UsageError(refusal(source, CAPTURE, SCHEMA, text, error)) from error
    if document.schema != SCHEMA:
        raise UsageError(refusal(source, CAPTURE, SCHEMA, text))
    return Capture(
        document.preflight,
        document.taken,
        document.anonymous,
        document.inventory,
        {name: _host_answer(host) for name, host in document.hosts.items()},
        document.not_understood,
    )


def _host_answer(host: _CapturedHost) -> HostAnswer | Unreachable:
    if host.unreachable:
        return host.unreachable
    raw = Missing(host.error) if host.error is not None else host.sections
    return HostAnswer(raw, host.devices, host.sent, host.received, host.refused)


def read(capture: Capture, cluster: Cluster, hosts: Sequence[Host]) -> dict[str, Seen | Unreachable]:
    """Return the facts of those `hosts` that the capture holds, as `collect_answers` would return them."""
    results = {
        host.name: round_trip.read(contact, cluster.product, deep=True) if isinstance(contact, HostAnswer) else contact
        for host in hosts
        if (contact := capture.hosts.get(host.name)) is not None
    }
    return round_trip.with_arrivals(results, round_trip.targets(cluster, hosts))
