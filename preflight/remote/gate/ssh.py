"""Command that a key is restricted to: `restrict,command="/usr/local/sbin/preflight-gate --ssh" ssh-ed25519 …`.

A holder of the key can have this host take part in a probe, and nothing else. The command line must be one that
preflight uses for that here. The program that follows on stdin must be preflight's own text, byte by byte.

`preflight gate install` lists both in gate-ssh.json, as {"schema": "preflight.gate-ssh/1", "programs": [{"command",
"length", "sha256"}]}. The length is in bytes.

The input after the program's text is as free as a probe is, but for one word that is put into its first line, the
hello. With it, an agent reads no objects and touches no files (agent/restricted.py). An environment variable would not
do: sudo, docker and others on the way to the program pass none on.
"""

import hashlib
import hmac
import json
import os
import re
import signal
import sys

from gate.files import UntrustedError, read_json

ALLOWED = "/etc/preflight/gate-ssh.json"
LIMIT = 256 * 1024  # bytes of the file
LONGEST = 4 << 20  # bytes of a program, or of a hello
PATIENCE = 30  # timeout in seconds for the program's text
RUN = re.compile(r'preflight [0-9a-f]{8}(?=["\\])')  # name of a run; the listed commands have none
REFUSED = 77  # exit code: EX_NOPERM of sysexits.h


class RefusedError(Exception):
    """Refusal, with the reason in a sentence."""


def run(environment):
    """Become the command; return the exit code only if it is refused."""
    try:
        command = environment.get("SSH_ORIGINAL_COMMAND", "")
        text = program(allowed(), command, 0)
    except RefusedError as error:
        sys.stderr.write("preflight-gate: refused: %s\n" % error)
        return REFUSED
    feed(text)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores this signal, and exec would pass that on
    return os.execv("/bin/sh", ["sh", "-c", command])


def allowed(path=ALLOWED, owner=0):
    """Return [(command line, bytes, sha256)]. Raise RefusedError."""
    try:
        listing = read_json(path, LIMIT, owner)
    except UntrustedError as error:
        raise RefusedError(str(error)) from None
    if listing is None:
        raise RefusedError("%s does not exist on this host. Run preflight gate install" % path)
    try:
        return [(entry["command"], int(entry["length"]), str(entry["sha256"])) for entry in listing["programs"]]
    except (KeyError, TypeError, ValueError):
        raise RefusedError("%s was not written by preflight gate install" % path) from None


def program(listed, command, stdin):
    """Return the text that comes on `stdin`, if it is an allowed one. Raise RefusedError."""
    plain_command = RUN.sub("preflight", command, count=1)
    texts = {length: digest for line, length, digest in listed if line == plain_command}
    if not command or not texts:
        raise RefusedError(
            "this key only allows preflight's probe, with the release and inventory that were installed on this host"
        )
    signal.alarm(PATIENCE)
    for length, digest in texts.items():  # only one: the command line contains the length
        text = exactly(stdin, min(length, LONGEST))
        if hmac.compare_digest(hashlib.sha256(text).hexdigest(), digest):
            signal.alarm(0)  # exec would pass the alarm on
            return text
    raise RefusedError("the program differs from the one that was installed on this host")


def exactly(descriptor, length):
    """Read `length` bytes and not one more: the next ones are for the program."""
    data = b""
    while len(data) < length:
        part = os.read(descriptor, length - len(data))
        if not part:
            raise RefusedError("the program is incomplete")
        data += part
    return data


def feed(text):
    """Give this process a new stdin: the text, then the further input of the old one.

    Another process copies. It is an orphan, since programs wait for their children. It keeps neither stdout nor stderr,
    for which sshd waits, and ends when either side does.
    """
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
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        if os.fork() == 0:
            copy(text, 0, writer)
    finally:
        os._exit(0)


def copy(text, source, target):
    """Copy the text as it is, then a line of JSON with the word that restricts it, then all else until either side
    ends. Raise ValueError if the line is not JSON: no part of it has been passed on then."""
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
