"""Documents that may leave the site: redacted like a capture, with numbers instead of machines' ids. Pure."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from preflight.facts.documents.capture import clean
from preflight.facts.redaction.redact import REDACTED, is_secret, redacted

IDS = frozenset({"machine_id", "serial", "uuid"})  # fields with confidential values, which are compared with each other
_SHORT, _LONG = 200, 1 << 16  # characters of a text that many hosts may have alike


def cleaner() -> Callable[[Any], Any]:
    """Return a function that redacts any JSON value, and replaces equal ids by the same number.

    It caches texts, because hosts have many texts in common.
    """
    return _Cleaner().value


class _Cleaner:
    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}  # of ids
        self._clean_short = lru_cache(maxsize=1 << 16)(clean)
        self._clean_long = lru_cache(maxsize=1 << 8)(clean)

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._field(key, item) for key, item in value.items()}
        if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            return [self.value(item) for item in value]
        return redacted(value, self._text)

    def _field(self, key: str, value: Any) -> Any:
        if not isinstance(value, str):
            return self.value(value)
        if value and key in IDS:
            return self._numbers.setdefault(value, f"{REDACTED} {len(self._numbers) + 1}")
        return REDACTED if value and is_secret(key) else self._text(value)

    def _text(self, text: str) -> Any:
        if len(text) <= _SHORT:
            return self._clean_short(text)
        return self._clean_long(text) if len(text) <= _LONG else clean(text)


def shared(text: bytes, clean_value: Callable[[Any], Any]) -> bytes:
    """Return a JSON document without secrets. Raises msgspec.MsgspecError for any other text."""
    return msgspec.json.format(msgspec.json.encode(clean_value(msgspec.json.decode(text))), indent=1) + b"\n"
