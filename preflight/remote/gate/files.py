"""Files of preflight on this host, accepted only if root alone can have written them."""

import json
import os
import stat


class UntrustedError(Exception):
    """Reason not to accept a file: one sentence."""


def read_trusted(path, limit, owner=0):
    """Return the bytes of a file of at most `limit` bytes that `owner` alone can have written; None where there is
    none.

    Raise UntrustedError. `owner` is for tests: on a host it is root.
    """
    try:
        # Follow no link, and wait for no pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise UntrustedError("only root can read %s" % path) from None
    except OSError as error:
        raise UntrustedError("%s cannot be read: %s" % (path, error.strerror)) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UntrustedError("%s is not a file" % path)
        if others_write(status, owner) or others_write(os.stat(os.path.dirname(path)), owner):
            raise UntrustedError("users other than root can write %s or its folder" % path)
        data = read(descriptor, limit + 1)
    except OSError as error:
        raise UntrustedError("%s cannot be read: %s" % (path, error.strerror)) from None
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise UntrustedError("%s is larger than %d KiB" % (path, limit >> 10))
    return data


def others_write(status, owner):
    return status.st_uid != owner or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def read(descriptor, limit):
    data = b""
    while len(data) < limit:
        part = os.read(descriptor, limit - len(data))
        if not part:
            break
        data += part
    return data


def read_json(path, limit, owner=0):
    """Return the JSON object in an accepted file; None where there is none. Raise UntrustedError."""
    data = read_trusted(path, limit, owner)
    if data is None:
        return None
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise UntrustedError("%s is damaged: not valid JSON" % path) from None
    if not isinstance(content, dict):
        raise UntrustedError("%s is damaged: not a JSON object" % path)
    return content


def is_number(value):
    """Return whether the value is a number of seconds: Python's JSON knows NaN and Infinity, too."""
    return type(value) in (int, float) and 0 <= value < 1e12
