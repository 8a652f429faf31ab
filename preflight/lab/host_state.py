"""The memory of a lab host's devices: key=value files below the host's state directory.

The stand-in tools read and write them, too (standins/vendor/lab.h).
"""

import fcntl
from collections.abc import Mapping
from pathlib import Path

Values = Mapping[str, str | None]  # None: no such key


def replace(file: Path, values: Values) -> dict[str, str | None]:
    """Set some keys of a file, or drop them. Return their old values. A tool that writes at the same time waits."""
    with file.open("a+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.seek(0)
        lines = [line.partition("=") for line in handle.read().splitlines()]
        current = {key: value for key, _, value in lines}
        kept = {key: value for key, value in current.items() if key not in values}
        changed = {key: value for key, value in values.items() if value is not None}
        handle.truncate(0)
        handle.write("".join(f"{key}={value}\n" for key, value in {**kept, **changed}.items()))
    return {key: current.get(key) for key in values}
