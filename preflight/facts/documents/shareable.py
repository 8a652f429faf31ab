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
    numbers: dict[str, str] = {}
    clean_short, clean_long = lru_cache(maxsize=1 << 16)(clean), lru_cache(maxsize=1 << 8)(clean)

    def of_text(text: str) -> Any:
        return (clean_short if len(text) <= _SHORT else clean_long if len(text) <= _LONG else clean)(text)

    def value(found: Any) -> Any:
        if isinstance(found, dict):
            return {key: named(key, item) for key, item in found.items()}
        if isinstance(found, list) and any(isinstance(item, dict | list) for item in found):
            return [value(item) for item in found]
        return redacted(found, of_text)

    def named(key: str, item: Any) -> Any:
        if key in IDS and isinstance(item, str):
            return numbers.setdefault(item, f"{REDACTED} {len(numbers) + 1}") if item else item
        return REDACTED if isinstance(item, str) and item and is_secret(key) else value(item)

    return value


def shared(text: bytes, clean_: Callable[[Any], Any]) -> bytes:
    """Return a JSON document without secrets. Raises msgspec.MsgspecError for any other text."""
    return msgspec.json.format(msgspec.json.encode(clean_(msgspec.json.decode(text))), indent=1) + b"\n"
