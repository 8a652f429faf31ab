"""Bounded reads of ssh's own files: configuration, known_hosts, keys."""

import errno
import os
from pathlib import Path

from preflight.bounded_file import read_bounded
from preflight.model.errors import UsageError

LARGEST_CONFIG = 16 << 20  # bytes
LARGEST_KNOWN_HOSTS = 128 << 20  # 10,000 hosts with three hashed keys each have 12 MB
LARGEST_KEY = 1 << 20


def text_of(path: Path, largest: int) -> str:
    """Return the text of a file. As in ssh, a missing or unreadable file and /dev/null count as empty.

    Raises UsageError for a file of more than `largest` bytes, and for a device or a pipe, which may be endless.
    """
    try:
        if path.resolve() == Path(os.devnull):
            return ""
        return read_bounded(path, largest).decode("utf-8", "replace")
    except OSError as error:
        if error.errno in (errno.EFBIG, errno.EINVAL):
            raise UsageError(
                f"{path} cannot be read: {error.strerror}. Use another file, or move this file away"
            ) from None
        return ""
