"""Reading what preflight has put on this host, and believing it only where nobody else can have written it."""

import os
import stat


class NotBelieved(Exception):  # noqa: N818  (it is a reason, not a fault)
    """Why a file does not count: one sentence."""


def believed(path, limit, owner=0):
    """The bytes of a file of at most `limit` bytes that `owner` alone can have written; None where there is none.

    Raises NotBelieved. `owner` is for tests: on a host it is root."""
    try:
        # A link is not followed, and a pipe not waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise NotBelieved("only root can read %s" % path) from None
    except OSError as error:
        raise NotBelieved("%s cannot be read: %s" % (path, error.strerror)) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotBelieved("%s is not a file" % path)
        if others_write(found, owner) or others_write(os.stat(os.path.dirname(path)), owner):
            raise NotBelieved("others than root can write %s, or its folder" % path)
        data = read(descriptor, limit + 1)
    except OSError as error:
        raise NotBelieved("%s cannot be read: %s" % (path, error.strerror)) from None
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise NotBelieved("%s is larger than %d KiB" % (path, limit >> 10))
    return data


def others_write(found, owner):
    return found.st_uid != owner or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def read(descriptor, limit):
    data = b""
    while len(data) < limit:
        part = os.read(descriptor, limit - len(data))
        if not part:
            break
        data += part
    return data


def parsed(path, limit, owner=0):
    """The JSON object in a file that is believed; None where there is none. Raises NotBelieved."""
    import json

    data = believed(path, limit, owner)
    if data is None:
        return None
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise NotBelieved("%s is damaged: it is no JSON" % path) from None
    if not isinstance(found, dict):
        raise NotBelieved("%s is damaged: it is no JSON object" % path)
    return found


def is_number(value):
    """Whether it is a number of seconds: JSON of Python knows NaN and Infinity, too."""
    return type(value) in (int, float) and 0 <= value < 1e12
