"""Files that a user names, read with a bound: the one way to read them whole."""

import errno
import os
import stat
from pathlib import Path
from typing import IO

_MIB = 1 << 20


def read_bounded(path: Path, largest: int, *, pipes: bool = False) -> bytes:
    """Return the content of an ordinary file of at most `largest` bytes, or of a pipe where `pipes` allows one.

    Raises OSError, with a clause for the user as its `strerror`: also for a larger file, and for a device or a socket,
    which may have no end.
    """
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
        raise OSError(errno.EINVAL, "this is not a regular file", str(path))
    with path.open("rb") as file:
        return up_to(file, largest)


def up_to(file: IO[bytes], largest: int) -> bytes:
    """Return the content of an open file. Raises OSError where there are more than `largest` bytes."""
    content = file.read(largest + 1)
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"larger than {_size(largest)}")
    return content


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except ValueError as error:  # a NUL byte in the name
        raise OSError(errno.EINVAL, "this is no name of a file") from error


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= _MIB else f"{count >> 10} KiB"
