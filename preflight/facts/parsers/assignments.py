"""Values in files of `key=value` lines."""

import re


def value_of(text: str, key: str) -> str | None:
    """Return the value of the first line `key=value`, without quotes. None: there is no such line."""
    match = re.search(rf"^{key}=[\"']?([^\"'\n]{{1,80}}?)[\"']?[ \t\r]{{0,40}}$", text, re.MULTILINE)
    return match.group(1).strip() if match else None
