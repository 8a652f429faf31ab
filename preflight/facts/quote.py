"""Quotes of host output for sentences: one line, bounded, harmless to a terminal."""

LONGEST = 100  # characters


def quote(text: str) -> str:
    """Return the first line of `text` that is not blank, control characters escaped; `nothing` if there is none."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not line:
        return "nothing"
    return repr(line[:LONGEST] + ("…" if len(line) > LONGEST else ""))
