"""What was done about a node, beside the gate's answers: one more line of gate.jsonl."""

import json
import time

from gate.ask import RECORD, Child
from gate.record import LINE, PLACE, append


def write(fields, root="/"):
    """Write it down, if that does not take long: a disk may hang as everything else may."""
    fields = {name: value[: LINE // 8] if isinstance(value, str) else value for name, value in fields.items()}
    line = json.dumps(dict(fields, time=round(time.time(), 3))).encode() + b"\n"
    writer = Child(lambda _: append(root + PLACE, line))
    writer.said(time.monotonic() + RECORD)
    writer.end()
