"""Record of the actions on a node, as further lines of gate.jsonl beside the gate's answers."""

import json
import time

from gate.ask import record_in_child
from gate.record import LINE, PLACE, append


def write(fields, root="/"):
    """Write the fields down, within a short time."""
    fields = {name: value[: LINE // 8] if isinstance(value, str) else value for name, value in fields.items()}
    line = json.dumps(dict(fields, time=round(time.time(), 3))).encode() + b"\n"
    record_in_child(lambda: append(root + PLACE, line))
