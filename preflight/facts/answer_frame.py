"""The framed answer of a program of preflight/remote, among whatever else the host printed. Pure.

The frame is `\\n<marker> <length>\\n<document>\\n`. The marker is random for every call, so that no banner contains it.
"""

from preflight.model.text import quote
from preflight.transport.types import Answer


class NoAnswer(Exception):  # noqa: N818  (an outcome of the call, not a fault of preflight)
    """A missing or incomplete document, with one sentence that says so."""


def document(answer: Answer, marker: str) -> bytes:
    """Return the framed document, not decoded. Raises NoAnswer if it is missing or incomplete."""
    _, marker_line, framed = answer.stdout.partition(f"\n{marker} ".encode())
    if not marker_line:
        raise NoAnswer(_without_document(answer))
    size, newline, body = framed.partition(b"\n")
    if not newline or not size.isdigit() or len(size) > 12:
        raise NoAnswer("the answer of the program on the host is cut off in its first line")
    if len(body) < int(size):
        raise NoAnswer(f"the answer of the program on the host is cut off: {len(body)} of {int(size)} bytes arrived")
    return body[: int(size)]


def printed_before(answer: Answer, marker: str) -> str:
    """Return the last line that the host printed before the frame, unchanged; empty if there is none."""
    return _last_line(answer.stdout.partition(f"\n{marker} ".encode())[0])


def _last_line(text: bytes) -> str:
    return (text.decode("utf-8", "replace").strip().splitlines() or [""])[-1]


def _without_document(answer: Answer) -> str:
    if answer.truncated:
        return f"the host sent more than {len(answer.stdout)} bytes, but no answer"
    words = _last_line(answer.stderr) or _last_line(answer.stdout)
    return f"the program on the host exited with {answer.exit} and gave no answer; last output: {quote(words)}"
