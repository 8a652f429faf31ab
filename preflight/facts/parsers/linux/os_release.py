"""/etc/os-release: distribution and release."""

from preflight.facts.parsers.assignments import value_of


def os_release(text: str) -> tuple[str, str]:
    """Return ID and VERSION_ID, each empty where the file does not have it."""
    return value_of(text, "ID") or "", value_of(text, "VERSION_ID") or ""
