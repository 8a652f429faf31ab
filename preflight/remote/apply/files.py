"""Files: read as text that keeps every byte, replaced whole."""

import errno
import os
import re
import stat

from apply.allowed import is_target
from apply.kinds import Kind
from apply.tools import TAG, StepError

MADE = "trusted.preflight"  # the attribute of a directory that a run has made; a rollback removes it once it is empty
FILE_LIMIT = 8 << 20  # bytes; the rank table of 4,000 hosts of 8 devices has 3 MiB
# How bytes that are no UTF-8 stand in a file's text: as in collect/tools.py.
KEPT = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
GIVEN_BACK = {kept: surrogate for surrogate, kept in KEPT.items()}


def real_path(path):
    """Where the file really is. A link is kept and written through, as long as it leads to another of the files that we
    change, as /etc/sysctl.d/99-sysctl.conf does; that of a file which the operator has named, under the same top
    directory. Any other belongs to something that manages the file elsewhere."""
    real = os.path.realpath(path)
    known = is_target("file", path)
    if not (is_target("file", real) if known and real != path else real.split("/")[1] == path.split("/")[1]):
        raise StepError("%s is a link to %s; change that by hand" % (path, real))
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
    """Whole or not at all, whenever the power goes; owner, mode, ACL and SELinux label stay. `looks`: mode, owner and
    group that it is to have instead of those."""
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
    """A rename gives one name a new file and leaves the others with the old one."""
    links = os.stat(path).st_nlink if os.path.exists(path) else 1
    if links > 1:
        message = (
            "%s has %d hard links, which a new file in its place would split; find them: find / -xdev -samefile %s"
        )
        raise StepError(message % (path, links, path))


def make_directory(path):
    """Make the directory, with those above it, and mark it as made by us where the file system can."""
    if os.path.isdir(path):
        return
    make_directory(os.path.dirname(path))
    os.mkdir(path, 0o755)
    try:
        os.setxattr(path, MADE, b"")
    except OSError:
        pass


def remove_made(path):
    """Remove the directory, and those above it, as far as they are empty and were made by us; the first that stays."""
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
    """Where a file's new content is until it is whole. The run's lock is what makes one name enough; a fixed one is
    found again when a run was cut off."""
    directory, name = os.path.split(path)
    return os.path.join(directory, ".%s.%s-partial" % (name, TAG))


def remove_partial(path):
    """What a run that was cut off may have left beside a file."""
    try:
        os.unlink(partial_path(real_path(path)))
    except FileNotFoundError:
        pass


def clean_up(path):
    """Remove what a run that was cut off may have left in the place of a file: a part of it, an empty directory."""
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
    """Owner, mode, and with the extended attributes ACL and SELinux label, as far as the file system has them."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        os.chmod(partial, 0o644)
        return
    os.chown(partial, old.st_uid, old.st_gid)
    os.chmod(partial, stat.S_IMODE(old.st_mode))
    try:
        for name in os.listxattr(path):
            os.setxattr(partial, name, os.getxattr(path, name))
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENODATA, errno.EINVAL):
            raise


PROGRAM_LOOKS = (0o755, 0, 0)  # mode, owner, group
OTHER_LOOKS = re.compile(r"([0-7]{4}) ([0-9]+):([0-9]+)\n")


def read_program(path):
    """Its text; with its looks on a line before it where they are not those of a program."""
    refuse_link(path)
    text = read_file(path)
    if text is None:
        return None
    found = os.stat(path)
    looks = (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)
    if looks == PROGRAM_LOOKS and not OTHER_LOOKS.match(text):
        return text
    return "%04o %d:%d\n%s" % ((*looks, text))


def write_program(path, value):
    """As a file; it has its looks before it has its name, so that nobody ever meets it half made."""
    refuse_link(path)
    told = OTHER_LOOKS.match(value or "")
    if told:
        looks = (int(told.group(1), 8), int(told.group(2)), int(told.group(3)))
        write_file(path, value[told.end() :], looks)
    else:
        write_file(path, value, PROGRAM_LOOKS)


def refuse_link(path):
    if os.path.islink(path):
        raise StepError("%s is a link to %s; a program of ours is a file of its own" % (path, os.readlink(path)))


KINDS = {"file": Kind(read_file, write_file), "program": Kind(read_program, write_program)}
