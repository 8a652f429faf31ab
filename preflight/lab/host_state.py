"""What the devices of a lab host would hold in their own memory: key=value files below the host's state directory. The
stand-in tools read and write them, too (standins/vendor/lab.h)."""

import fcntl
from collections.abc import Mapping
from pathlib import Path

Values = Mapping[str, str | None]  # None: not there


def replace(file: Path, values: Values) -> dict[str, str | None]:
    """Set some keys of a file, or drop them; return what they were. A tool that writes at the same time waits."""
    with file.open("a+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.seek(0)
        lines = [line.partition("=") for line in handle.read().splitlines()]
        known = {key: value for key, _, value in lines}
        kept = {key: value for key, value in known.items() if key not in values}
        changed = {key: value for key, value in values.items() if value is not None}
        handle.truncate(0)
        handle.write("".join(f"{key}={value}\n" for key, value in {**kept, **changed}.items()))
    return {key: known.get(key) for key in values}
