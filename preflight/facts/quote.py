"""How host output is quoted in a sentence: one line, bounded, harmless to a terminal."""

LONGEST = 100  # characters


def quote(text: str) -> str:
    """The first line of `text` that says something, with control characters escaped; `nothing` if there is none."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not line:
        return "nothing"
    return repr(line[:LONGEST] + ("…" if len(line) > LONGEST else ""))
