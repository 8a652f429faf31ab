"""Events of the agent and its workers, as text."""

import json

TEXT = 2000  # characters kept of an error


def line_of(event, nonce):
    """Return the event as a line of JSON.

    A character that is no text in a locale (half a character, in an error or a variable) becomes "?". JSON cannot
    express it in a way that its readers accept.
    """
    return json.dumps(dict(event, nonce=nonce), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def describe(error):
    """Return the error's type and message."""
    return ("%s: %s" % (type(error).__name__, error))[:TEXT]
