"""The command that a key is restricted to: `restrict,command="/usr/local/sbin/preflight-gate --ssh" ssh-ed25519 …`.

Whoever has the key can have this host take part in a probe, and nothing else: the command line must be one that
preflight uses for that here, and the program that follows on stdin must be preflight's own text, byte by byte. Both are
listed by `preflight gate install` in gate-ssh.json: {"schema": "preflight.gate-ssh/1", "programs": [{"command",
"length": bytes, "sha256"}]}. What a program is told after its text is as free as a probe is, but for one word that is
put into its first line, the hello: with it, an agent reads no objects and touches no files (agent/restricted.py). The
environment could not say so: sudo, docker and others on the way to the program hand on none.
"""

import hashlib
import hmac
import json
import os
import re
import signal
import sys

ALLOWED = "/etc/preflight/gate-ssh.json"
LIMIT = 256 * 1024  # bytes of it
LONGEST = 4 << 20  # bytes of a program, or of a hello
PATIENCE = 30  # seconds in which the program's text has to come
RUN = re.compile(r'preflight [0-9a-f]{8}(?=["\\])')  # the name of a run, which the listed commands do not have
REFUSED = 77  # exit code: EX_NOPERM of sysexits.h


class RefusedError(Exception):
    """Why, in a sentence."""


def run(environment):
    """Becomes the command; returns only where it is refused."""
    try:
        command = environment.get("SSH_ORIGINAL_COMMAND", "")
        text = program(allowed(), command, 0)
    except RefusedError as why:
        sys.stderr.write("preflight-gate: refused: %s\n" % why)
        return REFUSED
    feed(text)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python's own habit is to ignore it, and exec would hand that on
    return os.execv("/bin/sh", ["sh", "-c", command])


def allowed(path=ALLOWED, owner=0):
    """[(command line, bytes, sha256)]. Raises RefusedError."""
    from gate.files import NotBelieved, parsed

    try:
        found = parsed(path, LIMIT, owner)
    except NotBelieved as error:
        raise RefusedError(str(error)) from None
    if found is None:
        raise RefusedError("there is no %s on this host: preflight gate install" % path)
    try:
        return [(one["command"], int(one["length"]), str(one["sha256"])) for one in found["programs"]]
    except (KeyError, TypeError, ValueError):
        raise RefusedError("%s is not what preflight gate install writes" % path) from None


def program(listed, command, stdin):
    """The text that comes on `stdin`, if it is one that may. Raises RefusedError."""
    unnamed = RUN.sub("preflight", command, count=1)
    texts = {length: digest for known, length, digest in listed if known == unnamed}
    if not command or not texts:
        raise RefusedError(
            "this key is for preflight's probe alone, of the release and inventory that were installed here"
        )
    signal.alarm(PATIENCE)
    for length, digest in texts.items():  # one: the length stands in the command line
        text = exactly(stdin, min(length, LONGEST))
        if hmac.compare_digest(hashlib.sha256(text).hexdigest(), digest):
            signal.alarm(0)  # exec would hand it on
            return text
    raise RefusedError("the program is not the one that was installed here")


def exactly(descriptor, length):
    """Not a byte more: what follows is for the program."""
    data = b""
    while len(data) < length:
        part = os.read(descriptor, length - len(data))
        if not part:
            raise RefusedError("the program was cut short")
        data += part
    return data


def feed(text):
    """Gives this process a new stdin: the text, then what still comes on the old one. Another process copies, which is
    nobody's child, since programs wait for theirs; it keeps neither stdout nor stderr, for which sshd waits, and ends
    when either side does."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.dup2(reader, 0)
        os.close(reader)
        os.close(writer)
        os.waitpid(child, 0)
        return
    try:
        os.close(reader)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        if os.fork() == 0:
            copy(text, 0, writer)
    finally:
        os._exit(0)


def copy(text, source, target):
    """The text as it is, a line of JSON with the word that restricts it, and all else until either side ends. Raises
    ValueError where the line is no such thing: nothing of it has been passed on then."""
    write(target, text)
    line, end = b"", b""
    while not end:
        part = os.read(source, 1 << 16)
        if not part or len(line) > LONGEST:
            return
        head, end, after = part.partition(b"\n")
        line += head
    write(target, json.dumps(dict(json.loads(line.decode("utf-8")), restricted=True)).encode() + b"\n" + after)
    while part:
        part = os.read(source, 1 << 16)
        write(target, part)


def write(target, data):
    while data:
        data = data[os.write(target, data) :]
