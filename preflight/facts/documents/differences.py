"""Differences in the facts of two runs over the same hosts. Pure.

A difference has a name as in the JSON of the facts, without positions in lists: `versions.driver`, `hccn.devices.mtu`,
`network.interfaces.mtu`, `job.variables.HCCL_IF_IP`. Its place names the host and the device or interface.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from itertools import chain, filterfalse
from typing import Any, TypeVar

from preflight.facts.documents.capture import clean
from preflight.facts.documents.stable_fields import KNOWN_BY, RESTLESS, UNORDERED, is_passing, steady_text
from preflight.facts.reading import Found, Missing
from preflight.facts.redaction.redact import REDACTED, redact
from preflight.facts.types import SECTIONS, ClusterFacts, HostFacts, Unreachable

T = TypeVar("T", str, list[str])

ABSENT = "(missing)"
UNSEEN = "(could not be checked)"
_WORDS = (ABSENT, UNSEEN)
_REORDERED = "(in another order)"
LONGEST = 200  # characters of a value
_ID = re.compile(rf"{re.escape(REDACTED)}(?: \d+)?")


@dataclass(frozen=True)
class DifferencePlace:
    """A host, or a part of it. `element`: a device's number or an interface's name, empty for the host as a whole."""

    host: str
    element: str = ""

    def __str__(self) -> str:
        return f"{self.host}/{self.element}" if self.element else self.host


@dataclass(frozen=True)
class Difference:
    """A difference that is the same on all `places`.

    For texts and lists, `before` and `after` hold only the parts that one run has and the other lacks.
    """

    name: str
    before: str
    after: str
    places: tuple[DifferencePlace, ...]


@dataclass(frozen=True)
class FactsCompared:
    """Differences of the hosts that both runs have.

    `unseen`: section → hosts for which one run lacks it. `sections`: how many sections of hosts both runs have.
    """

    differences: tuple[Difference, ...]
    unseen: Mapping[str, tuple[str, ...]]
    sections: int = 0


_Found = tuple[str, str, str, str]  # name, element, before, after


def compared(before: ClusterFacts, after: ClusterFacts) -> FactsCompared:
    """Return the differences, the most widespread first."""
    comparison = _Comparison()
    for host, was in before.hosts.items():
        if now := after.hosts.get(host):
            comparison.add(host, was, now)
    differences = (Difference(*key, tuple(places)) for key, places in comparison.places.items())
    return FactsCompared(
        tuple(sorted(differences, key=_rank)),
        {section: tuple(hosts) for section, hosts in comparison.unseen.items()},
        comparison.sections,
    )


def _rank(difference: Difference) -> tuple[int, str]:
    return -len({place.host for place in difference.places}), difference.name


@dataclass
class _Comparison:
    """Differences so far by (name, before, after). `unseen`: sections that one of the runs lacks."""

    places: dict[tuple[str, str, str], list[DifferencePlace]] = field(default_factory=lambda: defaultdict(list))
    unseen: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    sections: int = 0

    def add(self, host: str, was: HostFacts | Unreachable, now: HostFacts | Unreachable) -> None:
        if isinstance(was, HostFacts) and isinstance(now, HostFacts):
            for section in (section for section in SECTIONS if section not in RESTLESS[HostFacts]):
                self._add_section(host, section, was.section(section), now.section(section))
            return
        self.unseen["all"].append(host)
        if was.__class__ is not now.__class__:
            self.places["reached", _reached(was), _reached(now)].append(DifferencePlace(host))

    def _add_section(self, host: str, section: str, was: Any, now: Any) -> None:
        if was is None and now is None:
            return
        if any(value is None or isinstance(value, Missing) for value in (was, now)):
            self.unseen[section].append(host)
            return
        self.sections += 1
        for name, element, before, after in _walk(section, "", was, now):
            self.places[name, before, after].append(DifferencePlace(host, element))


def _reached(host: HostFacts | Unreachable) -> str:
    return f"no: {host.trouble}" if isinstance(host, Unreachable) else "yes"


@cache
def _steady_fields(type_: type) -> tuple[str, ...]:
    """Return the names of the compared fields of a dataclass."""
    return tuple(field.name for field in fields(type_) if field.name not in RESTLESS.get(type_, ()))


def _walk(name: str, element: str, was: Any, now: Any) -> Iterator[_Found]:
    if was == now:
        return
    if isinstance(was, Found):
        yield from _readings(name, element, was, now)
    elif is_dataclass(was) and was.__class__ is now.__class__:
        for part in _steady_fields(was.__class__):
            yield from _walk(f"{name}.{part}", element, getattr(was, part), getattr(now, part))
    elif _are(dict, was, now):
        for key, old, new in _value_pairs(was, now):
            yield from _pair(f"{name}.{key}", element, old, new)
    elif _are(tuple, was, now):
        yield from _lists(name, element, was, now)
    elif _are(str, was, now):
        yield from _texts(name, element, was, now)
    else:
        yield from _leaf(name, element, _text(was), _text(now))


def _texts(name: str, element: str, was: str, now: str) -> Iterator[_Found]:
    if "\n" in was + now:
        was, now = _alike_redacted(was, now)
        yield from _sequences(name, element, was.splitlines(), now.splitlines())
    else:
        yield from _leaf(name, element, _text(was), _text(now))


def _are(type_: type, was: object, now: object) -> bool:
    return isinstance(was, type_) and isinstance(now, type_)


def _readings(name: str, element: str, was: Found[Any], now: Any) -> Iterator[_Found]:
    """Yield the differences of two readings. Two errors are no difference: a finding explains them."""
    if isinstance(now, Found) and not (was.error and now.error):
        old, new = (UNSEEN if reading.error else reading.value for reading in (was, now))
        yield from _walk(name, element, old, new)


def _value_pairs(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in dict.fromkeys(chain(was, now)):
        yield key, was.get(key, ABSENT), now.get(key, ABSENT)


def _pair(name: str, element: str, was: Any, now: Any) -> Iterator[_Found]:
    """Yield the differences of values that one of the runs may lack."""
    if ABSENT in (was, now):
        yield from _leaf(name, element, _text(was), _text(now))
    else:
        yield from _walk(name, element, was, now)


def _leaf(name: str, element: str, was: str, now: str) -> Iterator[_Found]:
    if was not in _WORDS and now not in _WORDS:
        if _is_secret(was) or _is_secret(now):
            return  # unknown: the redacted value may have changed
        was, now = _alike_redacted(was, now)
    if was != now:
        yield name, element, *cut(redact(was), redact(now), LONGEST)


def _is_secret(text: str) -> bool:
    """Return whether the whole text is redacted. An id also has a number (shareable.py), which differs by bundle."""
    return _ID.fullmatch(text) is not None


def _alike_redacted(was: T, now: T) -> tuple[T, T]:
    """Return both redacted if one of them is, as in a support bundle: a secret is no difference."""
    return (clean(was), clean(now)) if REDACTED in f"{was}{now}" else (was, now)


def cut(was: str, now: str, most: int) -> tuple[str, str]:
    """Return at most `most` characters of each, around the first difference."""
    char_pairs = zip(was, now, strict=False)
    first = next((index for index, (old, new) in enumerate(char_pairs) if old != new), min(len(was), len(now)))
    begin = max(0, first - most // 4) if first > most // 2 and max(len(was), len(now)) > most else 0
    return _part(was, begin, most), _part(now, begin, most)


def _part(text: str, begin: int, most: int) -> str:
    head = "… " if begin else ""
    part = head + text[begin:]
    return part if len(part) <= most else part[: most - 2] + " …"


def _lists(name: str, element: str, was: tuple[Any, ...], now: tuple[Any, ...]) -> Iterator[_Found]:
    was, now = (tuple(item for item in items if not is_passing(item)) for items in (was, now))
    first, second = map(_by_identity, (was, now))
    if first is None or second is None:
        lines = _alike_redacted([*map(_text, was)], [*map(_text, now)])
        yield from _sequences(name, element, *lines)
        return
    for key, old, new in _value_pairs(first, second):
        yield from _pair(name, f"{element} {key}".strip(), old, new)


def _by_identity(items: Sequence[Any]) -> dict[str, Any] | None:
    """Return the elements by their number or name; None if they have none, or share one."""
    elements = {}
    for item in items:
        if (parts := KNOWN_BY.get(type(item))) is not None:
            elements[" ".join(str(getattr(item, part)) for part in parts)] = item
    return elements if len(elements) == len(items) else None


def _sequences(name: str, element: str, was: Sequence[str], now: Sequence[str]) -> Iterator[_Found]:
    """Yield the lines that only one of the runs has."""
    was, now = ([steady_text(line) for line in lines] for lines in (was, now))
    if name.startswith(UNORDERED):
        was, now = sorted(was), sorted(now)
    if was == now:
        return
    removed, added = _without(was, set(now)), _without(now, set(was))
    if not removed and not added:
        yield name, element, _REORDERED, _REORDERED
    else:
        yield name, element, *cut(_joined(removed), _joined(added), LONGEST)


def _joined(lines: Sequence[str]) -> str:
    """Return the lines in one, redacted, as many as may be shown."""
    return ", ".join(map(redact, lines[:LONGEST])) or ABSENT


def _without(lines: Sequence[str], excluded: Collection[str]) -> list[str]:
    return [line for line in lines if line not in excluded]


def _text(value: Any) -> str:
    """Return one line for any value of the facts."""
    if isinstance(value, Found):
        return UNSEEN if value.error else _text(value.value)
    if is_dataclass(value):
        parts = (getattr(value, part) for part in _steady_fields(value.__class__))
        return " ".join(map(_text, filterfalse(_is_empty, parts)))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(part)}" for key, part in value.items()) or "empty"
    if isinstance(value, tuple):
        return ", ".join(map(_text, value)) or "empty"
    return steady_text(value)


def _is_empty(value: Any) -> bool:
    return value in (None, "", ())
