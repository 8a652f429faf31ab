"""Files: read as text that keeps every byte, replaced whole."""

import errno
import os
import re
import stat

from apply.allowed import is_target
from apply.kinds import ChangeKind
from apply.tools import TAG, StepError

MADE = "trusted.preflight"  # attribute of a directory made by a run; a rollback removes an empty one
FILE_LIMIT = 8 << 20  # bytes; the rank table of 4,000 hosts with 8 devices has 3 MiB
# Text form of bytes that are not UTF-8, as in collect/tools.py.
KEPT = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
GIVEN_BACK = {kept: surrogate for surrogate, kept in KEPT.items()}


def real_path(path):
    """Return the path behind a link. Raise StepError for a link to a file that another program manages elsewhere.

    A link is kept and written through if it leads to another file that we change, as /etc/sysctl.d/99-sysctl.conf does.
    A file named by the operator may link to any file under the same top directory.
    """
    real = os.path.realpath(path)
    is_known = is_target("file", path)
    if not (is_target("file", real) if is_known and real != path else real.split("/")[1] == path.split("/")[1]):
        raise StepError("%s is a link to %s. Change the target manually" % (path, real))
    return real


def read_file(path):
    real = real_path(path)
    if not os.path.exists(real):
        return None
    if not os.path.isfile(real):
        raise StepError("%s is not a regular file" % path)
    with open(real, "rb") as file:
        data = file.read(FILE_LIMIT + 1)
    if len(data) > FILE_LIMIT:
        raise StepError("%s is larger than %d KiB" % (path, FILE_LIMIT // 1024))
    return data.decode("utf-8", "surrogateescape").translate(KEPT)


def write_file(path, text, looks=None):
    """Write a file whole or not at all, even if the power fails. Owner, mode, ACL and SELinux label stay, unless
    `looks` gives another mode, owner and group."""
    path = real_path(path)
    directory = os.path.dirname(path)
    if text is None:
        os.unlink(path)
        directory = remove_made(directory)
    else:
        refuse_hard_links(path)
        try:
            replace_file(path, text.translate(GIVEN_BACK).encode("utf-8", "surrogateescape"), looks)
        except OSError as error:
            remove_made(directory)
            raise StepError("%s cannot be written: %s" % (path, error.strerror or error)) from None
    sync_directory(directory)


def refuse_hard_links(path):
    """Raise StepError for a file with several names: a rename would give one name the new file and leave the old one to
    the others."""
    links = os.stat(path).st_nlink if os.path.exists(path) else 1
    if links > 1:
        message = "%s has %d hard links, which a new file would split. Find them with find / -xdev -samefile %s"
        raise StepError(message % (path, links, path))


def make_directory(path):
    """Make the directory and its parents, and mark them as made by us where the file system allows that."""
    if os.path.isdir(path):
        return
    make_directory(os.path.dirname(path))
    os.mkdir(path, 0o755)
    try:
        os.setxattr(path, MADE, b"")
    except OSError:
        pass


def remove_made(path):
    """Remove the directory and its parents as long as they are empty and made by us. Return the first that stays."""
    while os.path.isdir(path) and is_made(path) and not os.listdir(path):
        os.rmdir(path)
        path = os.path.dirname(path)
    return path


def is_made(path):
    try:
        return os.path.basename(path) == TAG or MADE in os.listxattr(path)
    except OSError:
        return False


def sync_directory(directory):
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def partial_path(path):
    """Return the path for a file's new content until it is complete. One fixed name is enough under the run's lock, and
    lets a later run find the remains of one that was cut off."""
    directory, name = os.path.split(path)
    return os.path.join(directory, ".%s.%s-partial" % (name, TAG))


def remove_partial(path):
    """Remove the unfinished content that a run which was cut off may have left beside a file."""
    try:
        os.unlink(partial_path(real_path(path)))
    except FileNotFoundError:
        pass


def clean_up(path):
    """Remove the remains of a run that was cut off at a file: its unfinished content, and empty directories."""
    remove_partial(path)
    remove_made(os.path.dirname(real_path(path)))


def replace_file(path, data, looks=None):
    directory = os.path.dirname(path)
    make_directory(directory)
    partial = partial_path(path)
    remove_partial(path)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            keep_looks(path, partial)
            if looks:
                os.chown(partial, looks[1], looks[2])
                os.chmod(partial, looks[0])
            os.fsync(file.fileno())
        os.rename(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def keep_looks(path, partial):
    """Copy the owner, the mode, and the extended attributes with ACL and SELinux label, as far as the file system has
    them."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        os.chmod(partial, 0o644)
        return
    os.chown(partial, status.st_uid, status.st_gid)
    os.chmod(partial, stat.S_IMODE(status.st_mode))
    try:
        for name in os.listxattr(path):
            os.setxattr(partial, name, os.getxattr(path, name))
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENODATA, errno.EINVAL):
            raise


PROGRAM_LOOKS = (0o755, 0, 0)  # mode, owner, group
OTHER_LOOKS = re.compile(r"([0-7]{4}) ([0-9]+):([0-9]+)\n")


def read_program(path):
    """Return a program's text, after a line with its mode and owners where these differ from a program's usual ones."""
    refuse_link(path)
    text = read_file(path)
    if text is None:
        return None
    status = os.stat(path)
    looks = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    if looks == PROGRAM_LOOKS and not OTHER_LOOKS.match(text):
        return text
    return "%04o %d:%d\n%s" % ((*looks, text))


def write_program(path, value):
    """Write a program. It has its mode and owners before its name, so that no process ever finds it half made."""
    refuse_link(path)
    header = OTHER_LOOKS.match(value or "")
    if header:
        looks = (int(header.group(1), 8), int(header.group(2)), int(header.group(3)))
        write_file(path, value[header.end() :], looks)
    else:
        write_file(path, value, PROGRAM_LOOKS)


def refuse_link(path):
    if os.path.islink(path):
        raise StepError(
            "%s is a link to %s, but preflight's program must be a regular file" % (path, os.readlink(path))
        )


KINDS = {"file": ChangeKind(read_file, write_file), "program": ChangeKind(read_program, write_program)}
