"""Relay that a site's engine (srun, mpirun) starts on each node instead of sshd. It starts the programs that the
controller asks for, and carries their input and output over the engine's own stdin and stderr. Standard library only,
Python 3.6 syntax; its text is an argument of the command, and no secret.

The nonce of the run is $PREFLIGHT_NONCE. The variable in which the engine numbers its nodes is $PREFLIGHT_RANK_IN. This
node's name is $PREFLIGHT_NODE, where its starter knows it. An engine may not carry stdin unchanged: then
$PREFLIGHT_CALL has addresses (host:port,…). A connection to the first that answers, which begins with a line of the
nonce, then takes the place of stdin and stderr. With $PREFLIGHT_KEY both sides prove first that they have that key, as
in transport/engine/handshake.py. If no address proves it, the exit code is `NO_HOST`.

Stdin has lines of JSON that all nodes get, each for the nodes and programs that it names; any line is a sign of life.
The end of stdin, or 20 s without a line, ends the programs and the relay.

    {"text": NAME, "data": TEXT}                    a source, or a text that later ones resemble, for later lines
    {"to": {PROGRAM: [[first, last] node, …]}, and one of
        "run": ARGV, "text": NAME                   start it; it gets that source first
        "data": TEXT                                more for its stdin
        "data": TEXT, "like": [NAME, first, last]   the same, packed with these bytes of that text as zlib's dictionary
        "last": true                                the end of its stdin
        "end": SECONDS                              the same, and it is killed if it has not ended by then
    TEXT is base64 of zlib's. So is the output of programs, with one stream of zlib's for each of their streams.

Stderr has lines of JSON of exactly FRAME bytes, padded with blanks: {"nonce", "node", "seq"} and

    "here": a name or address of this node; the last one is ""
    "program" and "out" or "err": its output; or "exit": its exit code, after all output
    nothing: a sign of life

Engines pass on pieces of streams, and mix those of all nodes. Slurm keeps lines up to 1024 bytes whole (slurmstepd's
MAX_MSG_LEN). Open MPI reads 4096 bytes at a time and knows no lines. Frames of 512 bytes survive both. They are on
stderr, because Open MPI gives its ranks a terminal as stdout, which cuts differently.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import time
import zlib

FRAME = 512
PART = 270  # bytes of output a frame: 360 as base64
SILENCE = 20  # seconds
BEAT = 5.0  # seconds between two signs of life
FAREWELL = 3.0  # seconds that programs have to end after the end of their stdin
MOST = 64 << 20  # bytes that wait for a program which does not read them
PATIENCE = 10.0  # seconds for the other side to prove itself
NO_HOST = 75  # EX_TEMPFAIL, <sysexits.h>: no command was run, and the call may be repeated


class ControllerChannel:
    """The channel to the controller."""

    def __init__(self):
        self.nonce = os.environ.pop("PREFLIGHT_NONCE")
        self.node = int(os.environ[os.environ.pop("PREFLIGHT_RANK_IN")])
        self.seq = 0
        os.set_blocking(2, True)

    def say(self, **words):
        text = json.dumps(dict(words, nonce=self.nonce, node=self.node, seq=self.seq), separators=(",", ":"))
        self.seq += 1
        os.write(2, text.encode("ascii").ljust(FRAME - 1) + b"\n")


class RelayedProgram:
    """One process, in a separate process group."""

    def __init__(self, argv, text, name):
        self.name = name
        self.stdin_data = bytearray(text)
        self.last = False
        self.waits = False  # for its stdin to accept more
        self.kill_at = None  # time at which it is killed
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.open = {self.process.stdout: ("out", zlib.compressobj()), self.process.stderr: ("err", zlib.compressobj())}
        os.set_blocking(self.process.stdin.fileno(), False)

    def write_stdin(self):
        """Write as much to the program's stdin as it accepts now. Data that it has not read when it closes its stdin is
        dropped."""
        try:
            if self.stdin_data:
                del self.stdin_data[: os.write(self.process.stdin.fileno(), self.stdin_data)]
        except BlockingIOError:
            return
        except OSError:
            self.stdin_data, self.last = bytearray(), True

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass

    def status(self):
        """Return the exit code, once the output has ended; -1 if the program runs on without output."""
        try:
            return self.process.wait(1)
        except subprocess.TimeoutExpired:
            return -1


class Relay:
    def __init__(self):
        self.channel = ControllerChannel()
        self.selector = selectors.DefaultSelector()
        self.texts = {}
        self.programs = {}
        self.unread = bytearray()

    def serve(self):
        for name in names():
            self.channel.say(here=name[:200])
        self.selector.register(0, selectors.EVENT_READ)
        next_beat = 0.0
        while True:
            if time.monotonic() >= next_beat:
                self.channel.say()
                next_beat = time.monotonic() + BEAT
            for key, events in self.selector.select(0.2):
                if key.fileobj == 0:
                    data = os.read(0, 1 << 16)
                    if not data:
                        return
                    self.hear(data)
                elif events & selectors.EVENT_READ:
                    self.pass_on(key.data, key.fileobj)
            for program in list(self.programs.values()):
                self.look_after(program)

    def hear(self, data):
        *lines, partial = data.split(b"\n")
        for line in lines:
            signal.alarm(SILENCE)
            self.unread += line
            try:
                command = json.loads(self.unread.decode("ascii"))
            except ValueError:
                command = {}  # the controller notices the loss by the answers that it misses
            self.unread = bytearray()
            self.obey(command)
        self.unread += partial

    def obey(self, command):
        data = b""
        if "data" in command:
            name, first, last = command.get("like", ("", 0, 0))
            unpack = zlib.decompressobj(zdict=self.texts.get(name, b"")[first:last])
            data = unpack.decompress(base64.b64decode(command["data"]))
        if "to" not in command:
            if "text" in command:
                self.texts[command["text"]] = data
            return
        for name, nodes in command["to"].items():
            if any(first <= self.channel.node <= last for first, last in nodes):
                if "run" in command:
                    self.start(name, command["run"], self.texts.get(command["text"], b""))
                elif name in self.programs:
                    self.feed(self.programs[name], command, data)

    def start(self, name, argv, text):
        try:
            program = self.programs[name] = RelayedProgram(argv, text, name)
        except OSError as error:
            self.say_of(name, "err", zlib.compress(("%s: %s\n" % (argv[0], error.strerror)).encode()))
            self.channel.say(program=name, exit=127)
            return
        for stream in program.open:
            self.selector.register(stream, selectors.EVENT_READ, program)

    def feed(self, program, command, data):
        program.stdin_data += data
        if len(program.stdin_data) > MOST:
            program.kill()
        program.last = program.last or "data" not in command
        if "end" in command:
            program.stdin_data = bytearray()
            program.kill_at = time.monotonic() + command["end"]

    def look_after(self, program):
        stdin = program.process.stdin
        if not stdin.closed:
            program.write_stdin()
            if bool(program.stdin_data) != program.waits:
                program.waits = not program.waits
                if program.waits:
                    self.selector.register(stdin, selectors.EVENT_WRITE, program)
                else:
                    self.selector.unregister(stdin)
            if program.last and not program.stdin_data:
                stdin.close()
        if program.kill_at is not None and time.monotonic() >= program.kill_at:
            program.kill()
            program.kill_at = None

    def pass_on(self, program, stream):
        kind, packer = program.open[stream]
        data = os.read(stream.fileno(), 1 << 16)
        if data:
            self.say_of(program.name, kind, packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))
            return
        self.selector.unregister(stream)
        stream.close()
        del program.open[stream]
        if not program.open:
            program.stdin_data, program.last = bytearray(), True
            self.look_after(program)
            self.channel.say(program=program.name, exit=program.status())
            del self.programs[program.name]

    def say_of(self, name, kind, packed):
        for offset in range(0, len(packed), PART):
            part = base64.b64encode(packed[offset : offset + PART]).decode("ascii")
            self.channel.say(program=name, **{kind: part})

    def end(self):
        """End all programs, by the end of their stdin, and then by SIGKILL."""
        programs = list(self.programs.values())
        for program in programs:
            program.process.stdin.close()
        until = time.monotonic() + FAREWELL
        while time.monotonic() < until and any(program.process.poll() is None for program in programs):
            time.sleep(0.05)
        for program in programs:
            program.kill()


def call_back(addresses, nonce, key):
    for address in addresses.split(","):
        host, _, port = address.rpartition(":")
        try:
            connection = socket.create_connection((host, int(port)), 10)
            first = prove(connection, key) if key else nonce.encode()
            connection.settimeout(None)
            connection.sendall(first + b"\n")
            os.dup2(connection.fileno(), 0)
            os.dup2(connection.fileno(), 2)
            return
        except OSError as error:
            os.write(
                2, ("%s: cannot reach the controller at %s: %s\n" % (socket.gethostname(), address, error)).encode()
            )
    raise SystemExit(NO_HOST if key else 1)


def prove(connection, key):
    """Return the proof of this side, once the other side has proved itself. Raise OSError if it does not."""

    def proof(who):
        return hmac.new(key.encode(), b" ".join((who, own_nonce, peer_nonce)), hashlib.sha256).hexdigest().encode()

    own_nonce = base64.b16encode(os.urandom(16)).lower()
    connection.sendall(own_nonce + b"\n")
    received = b""
    until = time.monotonic() + PATIENCE
    while len(received) < 98 and time.monotonic() < until:  # a nonce of 32, a blank, a proof of 64, and the line's end
        connection.settimeout(max(0.01, until - time.monotonic()))
        data = connection.recv(98 - len(received))
        if not data:
            break
        received += data
    peer_nonce = received[:32]
    if not hmac.compare_digest(received[32:], b" " + proof(b"called") + b"\n"):
        raise OSError("the other side did not prove that it has this run's token for these hosts")
    return proof(b"caller")


def names():
    """Return the names by which the controller may know this node, the surest first; then "".

    They are the engine's name, its IPv4 addresses, and its host name, which cloned hosts share.
    """
    candidates = [os.environ.get("PREFLIGHT_NODE"), os.environ.get("SLURMD_NODENAME")]
    try:
        with open("/proc/net/fib_trie") as file:
            candidates += re.findall(r"-- (\S+)\n\s+/32 host LOCAL", file.read())
    except OSError:
        pass
    candidates.append(socket.gethostname())
    return [name for name in dict.fromkeys(candidates) if name and not name.startswith("127.")] + [""]


def main():
    addresses = os.environ.pop("PREFLIGHT_CALL", "")
    if addresses:
        call_back(addresses, os.environ["PREFLIGHT_NONCE"], os.environ.pop("PREFLIGHT_KEY", ""))
    relay = Relay()

    def silence(*_):
        os.close(2)  # it has no reader any more; a write that hangs in it ends, too
        relay.end()
        os._exit(1)

    signal.signal(signal.SIGALRM, silence)
    signal.signal(signal.SIGTERM, silence)
    signal.alarm(6 * SILENCE)  # an engine may hold back stdin until all nodes are there
    try:
        os.chdir(os.path.expanduser("~"))  # where ssh would start
    except OSError:
        pass
    try:
        relay.serve()
    finally:
        relay.end()


if __name__ == "__main__":
    main()
