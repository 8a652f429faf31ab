"""Reading files and running this host's programs, bounded in time and output."""

import os
import select
import signal
import subprocess
import sys
import threading
import time

COMMAND_LIMIT = 256 * 1024  # bytes kept of one command's output
QUERY_LIMIT = 32 * 1024  # of one query of a device, of which there are hundreds; the longest have 5
FILE_LIMIT = 1024 * 1024  # bytes read of one file
ENVIRONMENT = dict(os.environ, LC_ALL="C")
SEARCH = [*os.environ.get("PATH", "").split(":"), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
# A file's bytes that are no UTF-8 (a comment in GBK or Latin-1) travel as private characters, U+10FF80 to U+10FFFF, and
# apply/files.py turns them back, so that a file edited by a change keeps them. JSON has no place for lone surrogates.
KEPT = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
running = set()  # process groups of the tools that run now


class LookError(Exception):
    """Why a section, or a part of it, could not be looked at: one sentence."""


def find(name, *places):
    """The path of a tool: on PATH first, then in the vendor's place; None if it is nowhere."""
    for path in [os.path.join(folder, name) for folder in SEARCH if folder] + list(places):
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def required(name, *places):
    path = find(name, *places)
    if path is None:
        raise LookError("%s is not installed, or not on PATH" % name)
    return path


def read(path, limit=FILE_LIMIT):
    """The text of a file, None if there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LookError("%s cannot be read: %s" % (path, error.strerror)) from None
    if len(data) > limit:
        raise LookError("%s is larger than %d KiB" % (path, limit // 1024))
    return data.decode("utf-8", "surrogateescape").translate(KEPT)


def listing(folder):
    """What is in a folder; nothing, if there is none."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LookError("%s cannot be listed: %s" % (folder, error.strerror)) from None


def listed(folder, ending):
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(ending)]
    except OSError:
        return []


def texts(paths):
    """{path: text} of the files that are there."""
    found = {path: read(path) for path in paths}
    return {path: text for path, text in found.items() if text is not None}


def runs(name):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid) as file:
                if file.read().strip() == name:
                    return True
        except OSError:
            continue
    return False


def command(argv, deadline, stdin=b"", limit=COMMAND_LIMIT, called="", environment=ENVIRONMENT):
    """Run a program to its end: {"out", "err", "code"}. Raises LookError past the deadline and past the limit.

    `called`: what sentences call it, where its arguments are none to be shown."""
    name = called or os.path.basename(argv[0])
    line = called or " ".join([name, *asked(argv)])
    if time.monotonic() >= deadline:
        raise LookError("%s was not started: the time for it was over" % line)
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise LookError("%s does not start: %s" % (called or argv[0], error.strerror)) from None
    running.add(process.pid)
    try:
        if stdin:
            try:
                process.stdin.write(stdin)  # less than a pipe holds, so it does not block
                process.stdin.close()
            except OSError:
                pass  # it ended without reading: its exit and its words say why
        texts = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
        waiting = select.poll()
        for descriptor in texts:
            waiting.register(descriptor, select.POLLIN)
        still_open = len(texts)
        while still_open:
            left = deadline - time.monotonic()
            if left <= 0:
                raise LookError("%s was still running at its deadline" % line)
            for descriptor, _ in waiting.poll(left * 1000):
                data = os.read(descriptor, 65536)
                texts[descriptor] += data
                if not data:
                    waiting.unregister(descriptor)
                    still_open -= 1
                elif len(texts[descriptor]) > limit:
                    raise LookError("%s printed more than %d KiB" % (name, limit // 1024))
        try:
            code = process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise LookError("%s closed its output but did not end" % name) from None
        out, err = (texts[stream.fileno()].decode("utf-8", "replace") for stream in (process.stdout, process.stderr))
        return {"out": out, "err": err, "code": code}
    finally:
        if process.returncode is None:
            kill(process.pid)
            process.poll()
        running.discard(process.pid)
        process.stdout.close()
        process.stderr.close()


def as_user(account, argv):
    """The command as another user, whose environment stays this one; only root can do so."""
    if account.pw_uid == os.geteuid():
        return argv
    return [required("runuser"), "-u", account.pw_name, "--", *argv]


def asked(argv):
    """What a tool was asked, in a few words: `-i 0 -link`, `info -t health`."""
    words = argv[1:5]
    return words[:3] if len(words) == 4 and words[3].startswith("-") else words


def attempt(argv, deadline, limit=QUERY_LIMIT):
    """One of many queries: what came of it, or {"trouble": why it could not be run to its end}."""
    try:
        return command(argv, deadline, limit=limit)
    except LookError as error:
        return {"out": "", "err": "", "code": -1, "trouble": str(error)}


def each(things, work, deadline, at_once=None):
    """{thing as text: work(thing)} of those that are done by the deadline; `at_once` of them in parallel, or all."""
    todo = list(things)[::-1]
    results = {}

    def run():
        while todo:
            try:
                thing = todo.pop()
            except IndexError:
                return
            results[str(thing)] = work(thing)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(min(at_once or len(todo), len(todo)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, deadline + 0.5 - time.monotonic()))
    return dict(results)


def kill(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # it ended by itself in between


def leave():
    """End now, and every tool with us: a thread that hangs in the kernel must not hold the connection."""
    for group in tuple(running):
        kill(group)
    os._exit(0)


def leave_with_the_connection():
    """Nobody waits for the answer any more where the reader of stdout is gone: Ctrl-C, or a lost connection."""
    reader = select.poll()
    reader.register(sys.stdout, 0)  # that the other end is gone is reported unasked
    reader.poll()
    leave()
