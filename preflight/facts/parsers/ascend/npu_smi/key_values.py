"""The lines of `npu-smi info -l` and of most `-t` queries: an indented key, padded to 30, a colon, the value."""

_LONGEST = 100_000  # characters; the longest known answer, of a card with two chips, has two thousand


def pairs(text: str) -> list[tuple[str, str]]:
    """Return (key, value) of every such line, in order. Other lines are ignored."""
    entries = []
    for line in text[:_LONGEST].split("\n"):
        key, colon, value = line.partition(":")
        if colon and 0 < len(key.strip()) <= 60 and len(value.strip()) <= 400:
            entries.append((key.strip(), value.strip()))
    return entries
