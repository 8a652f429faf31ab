"""Logs of this host for `preflight diagnose --fetch`: CANN's logs, requested files, and the kernel's messages on
devices. Runs on the host; no module imports it. Standard library only, Python 3.6 syntax. Nothing is written.

The rest of stdin is the request, a JSON object:

    marker   word that frames the answer
    globs    [path or pattern, …] of files and folders, absolute or with ~
    user     user of the jobs here, besides the login user; or ""
    age      seconds since a file's change or a kernel message; older files are only counted
    most     bytes of all files; `each`: of one
    passed   [".py", …]: ends of names of files in folders that are no logs
    kernel   whether the kernel's log is wanted
    inside   {argv, program} of this same program where jobs run, if that is a container: the command that leads
             there, and its stdin; or null

The answer is `\\n<marker> <length>\\n<json>\\n`:

    files    [{path, glob, shared, inode, changed, size, begin, text}], the newest first. `glob` is the number of
             the pattern, or null. `shared` is the type and source of the file's network file system, or "".
             `begin` is the number of bytes left out before `text`, which is packed by zlib and in base64.
    left     [{path, why}] of files that were not taken; `left_more` is the number of those that are not listed
    older    number of files that are too old
    nothing  [pattern, …] to which no file belongs
    kernel   {text, why}: `text` as above, or why there is none; null where it was not wanted
    inside   {text, why}: the program's output in the container, or why it did not run; null where there is none
    zone     seconds by which this host's local time is ahead of UTC
    clock    [seconds since 1970 as the program began, and as it ended]

Only ordinary files are read, and no links. A pipe or a device is never opened, whatever its name.
"""

import base64
import errno
import glob
import json
import os
import pwd
import re
import stat
import sys
import time
import zlib

from collect.tools import LookError, Start, adopt_orphans, command, end_descendants, find

SECONDS = 60  # for reading; files that are left then are listed
FOUND = 20000  # files of a pattern that are examined
NAMED = 50  # files that were not taken, in the list
LONGEST = 1024  # characters of a path in the answer
FOLDERS = ("debug/plog", "run/plog", "debug/device-*", "run/device-*")
KERNEL_BYTES = 1 << 20
SLICE = 3 << 18  # bytes converted to base64 at a time: a multiple of three
KERNEL_WORDS = re.compile(
    r"NVRM|nvidia|nvswitch|mlx[45]|hns|hisi|hccs|davinci|devdrv|ascend|infiniband|[Oo]ut of memory|oom[-_]|segfault"
    r"|I/O error|medium error|file-max|carrier|[Ll]ink is|AER:|Machine [Cc]heck|EDAC"
)
KERNEL_TIME = re.compile(r"^(\d{4}-\d\d-\d\dT[\d:]{8},\d+)[+-]\d\d:?\d\d")
DMESG = (["--time-format", "iso"], ["-T"])
DMESG_SECONDS = 20
DMESG_BYTES = 64 << 20  # a kernel keeps 32 MiB at most, and times are added
SHARED = re.compile(r"nfs|lustre|gpfs|ceph|beegfs|gluster|wekafs|panfs|cifs|smb|9p|fuse\.")


def packed(data):
    """Compress data, to hold it until it is written: its base64, and the document as one text, would be several times
    as large."""
    return zlib.compress(data, 1)


def pieces(document):
    """Yield a dictionary as JSON, in texts and in bytes that stand for their base64."""
    separator = "{"
    for key, value in document.items():
        yield separator + json.dumps(key) + ": "
        separator = ", "
        if isinstance(value, bytes):
            yield '"'
            yield value
            yield '"'
        elif isinstance(value, dict):
            yield from pieces(value)
        elif value and isinstance(value, list) and isinstance(value[0], dict):
            yield "["
            for number, item in enumerate(value):
                yield ", " if number else ""
                yield from pieces(item)
            yield "]"
        else:
            yield json.dumps(value)
    yield "}"


def write_answer(marker, document):
    """Write the framed answer to stdout."""
    texts = list(pieces(document))
    length = sum(len(text) if isinstance(text, str) else (len(text) + 2) // 3 * 4 for text in texts)
    out = sys.stdout.buffer
    out.write(("\n%s %d\n" % (marker, length)).encode("ascii"))
    for text in texts:
        if isinstance(text, str):
            out.write(text.encode("ascii"))  # as json.dumps has it
            continue
        for begin in range(0, len(text), SLICE):
            out.write(base64.b64encode(text[begin : begin + SLICE]))
    out.write(b"\n")
    out.flush()


def path_text(path):
    return os.fsencode(path).decode("utf-8", "replace")[:LONGEST]


def homes(user):
    """Return the home directories of possible job users: the login user, the user behind sudo, the inventory's user,
    and root."""
    folders = {"/root", os.path.expanduser("~")}
    for name in filter(None, (user, os.environ.get("SUDO_USER"))):
        try:
            folders.add(pwd.getpwnam(name).pw_dir)  # by name: a directory service may not list its users
        except KeyError:
            pass
    return sorted(home for home in folders if home.startswith("/"))


def plog_patterns(user):
    roots = {os.path.join(home, "ascend", "log") for home in homes(user)}
    if os.environ.get("ASCEND_PROCESS_LOG_PATH", "").startswith("/"):
        roots.add(os.environ["ASCEND_PROCESS_LOG_PATH"].rstrip("/"))
    return [os.path.join(glob.escape(root), folder, "*.log") for root in sorted(roots) for folder in FOLDERS]


def expand_home(pattern):
    """Return the pattern with ~ as the home of the session's user, also if the session is root's by sudo."""
    if pattern.startswith("~/"):
        return os.path.expanduser("~" + os.environ.get("SUDO_USER", "") + pattern[1:])
    return pattern


def paths(pattern, failed):
    """Yield (path, whether it was found in a folder) of a pattern; of a folder, all files below it.

    Links to folders are not followed. `failed` is called with the error of a folder that cannot be listed.
    """
    for path in glob.iglob(pattern):
        if os.path.isdir(path) and not os.path.islink(path):
            for root, folders, names in os.walk(path, onerror=failed):
                folders.sort()
                for name in sorted(names):
                    yield os.path.join(root, name), True
        else:
            yield path, False


def closed_folder(pattern):
    """Return the folder that cannot be read or entered on the path of a pattern; None if there is none."""
    folder = "/"
    for part in pattern.split("/")[1:-1]:
        if not os.access(folder, os.R_OK | os.X_OK if glob.has_magic(part) else os.X_OK):
            return folder
        if glob.has_magic(part):
            return None
        folder = os.path.join(folder, part)
    return folder if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK) else None


def mounts():
    """Return {device number: type and source of its file system} of network file systems."""
    filesystems = {}
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields, _, details = line.partition(" - ")
                kind, source = details.split()[:2]
                if SHARED.match(kind):
                    filesystems[fields.split()[2]] = kind + " " + source
    except (OSError, ValueError, IndexError):
        pass
    return filesystems


def tail(path, most):
    """Return (the file's last bytes, their offset).

    Raise OSError if it cannot be read, and ValueError with the reason if it must not be read.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError("a link") from None
        raise
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        begin = max(0, status.st_size - most)
        file.seek(begin)
        return file.read(most), begin


class LogFiles:
    """Files that match the request's patterns: those that are sent, and those that are left out."""

    def __init__(self, request):
        self.request = request
        self.until = time.monotonic() + SECONDS
        self.room = request["most"]
        self.mounts = mounts()
        self.selected = {}  # path -> (time of its last change, number of its pattern, status)
        self.files, self.left, self.nothing = [], [], []
        self.left_more = self.older = 0

    def leave(self, path, why):
        if len(self.left) < NAMED:
            self.left.append({"path": path_text(path), "why": why})
        else:
            self.left_more += 1

    def find(self, pattern, number):
        """Select the recent files of a pattern. Return whether it matches any, or a closed folder may hide them."""
        matched = False
        candidates = paths(pattern, lambda error: self.leave(error.filename, error.strerror))
        for count, (path, in_folder) in enumerate(candidates):
            if count == FOUND or time.monotonic() > self.until:
                self.leave(pattern, "too many files, so not all were checked")
                break
            matched = True
            if not (in_folder and path.lower().endswith(tuple(self.request["passed"]))):
                self.select(path, number)
        closed = None if matched or number is None else closed_folder(pattern)
        if closed:
            self.leave(closed, "this user has no permission to read it")
        return matched or bool(closed)

    def select(self, path, number):
        try:
            status = os.lstat(path)
        except OSError as error:
            self.leave(path, error.strerror)
            return
        if stat.S_ISDIR(status.st_mode):
            return
        if time.time() - status.st_mtime > self.request["age"]:
            self.older += 1
        elif stat.S_ISREG(status.st_mode):
            self.selected.setdefault(path, (status.st_mtime, number, status))
        else:
            self.leave(path, "a link" if stat.S_ISLNK(status.st_mode) else "not a regular file")

    def take(self):
        for path, (mtime, number, status) in sorted(self.selected.items(), key=lambda item: -item[1][0]):
            if self.room <= 0:
                self.leave(path, "over the size limit for one host. Newer files were fetched first")
                continue
            if time.monotonic() > self.until:
                self.leave(path, "timeout: no time was left")
                continue
            try:
                data, begin = tail(path, min(self.room, self.request["each"]))
            except (OSError, ValueError) as error:
                self.leave(path, getattr(error, "strerror", None) or str(error))
                continue
            self.room -= len(data)
            device = "%d:%d" % (os.major(status.st_dev), os.minor(status.st_dev))
            self.files.append(
                {
                    "path": path_text(path),
                    "glob": number,
                    "shared": self.mounts.get(device, ""),
                    "inode": status.st_ino,
                    "changed": mtime,
                    "size": len(data),
                    "begin": begin,
                    "text": packed(data),
                }
            )


def recent(line, since):
    """Return the line without its time zone; "" if it is older than `since`, a local time. A line without a time is
    kept."""
    match = KERNEL_TIME.match(line)
    if not match:
        return line
    return "" if match.group(1) < since else match.group(1) + line[match.end() :]


def kernel(age):
    """Return the kernel's messages on devices, memory, links and disks since it started, except older ones; in local
    time."""
    reason = ""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(max(0, time.time() - age)))
    dmesg = find("dmesg")
    if dmesg is None:
        return {"text": "", "why": "dmesg is not installed"}
    for options in DMESG:
        try:
            result = command([dmesg, *options], time.monotonic() + DMESG_SECONDS, limit=DMESG_BYTES)
        except LookError as error:
            return {"text": "", "why": str(error)}
        if result["code"] == 0:
            lines = result["out"].splitlines()
            selection = "\n".join(filter(None, (recent(line, since) for line in lines if KERNEL_WORDS.search(line))))
            return {"text": packed(selection.encode("utf-8")[-KERNEL_BYTES:]), "why": ""}
        messages = result["err"].strip().splitlines() or ["dmesg ended with an error"]
        reason = messages[0][:200]
    return {"text": "", "why": reason}


def inside(container, most):
    """Return the output of this program in the jobs' container.

    Its limit is twice the bytes of files, which is what base64 and the other fields take, and 1 MiB.
    """
    name = container["argv"][0]  # its arguments are a person's, and may hold a secret
    until = time.monotonic() + SECONDS + 30
    try:
        result = command(
            container["argv"], until, 2 * most + (1 << 20), name, Start(container["program"].encode("utf-8"))
        )
    except LookError as error:
        return {"text": "", "why": str(error)}
    return {"text": packed((result["out"] + result["err"]).encode("utf-8")), "why": ""}


def main():
    start = time.time()
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    adopt_orphans()
    answer = LogFiles(request)
    for pattern in plog_patterns(request["user"]):
        answer.find(pattern, None)
    for number, pattern in enumerate(request["globs"]):
        if not answer.find(expand_home(pattern), number):
            answer.nothing.append(pattern)
    answer.take()
    document = {
        "files": answer.files,
        "left": answer.left,
        "left_more": answer.left_more,
        "older": answer.older,
        "nothing": answer.nothing,
        "kernel": kernel(request["age"]) if request["kernel"] else None,
        "inside": inside(request["inside"], request["most"]) if request["inside"] else None,
        "zone": time.localtime().tm_gmtoff,
        "clock": [start, time.time()],
    }
    write_answer(request["marker"], document)
    end_descendants()
