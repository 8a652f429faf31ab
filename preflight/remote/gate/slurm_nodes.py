"""What the gate asks Slurm, and the little that it tells it: which nodes preflight has taken out, and whether one more
may be.

One program, scontrol, asked only once a node is to be drained. Each call has a time of its own, and all of them
together have, because slurmctld may be slow just when many nodes are bad.
"""

import os
import re
import subprocess
import time

from gate.answer import FOUND

MARK = "preflight:"
# The form of our reasons: a check of ours, or what else an answer's reason may name, in brackets, since these are words
# that people write. All others are left alone, also an administrator's that begins with our mark.
OURS = re.compile(MARK + r" ((?:ENV|FWL|GPU|HST|NIC|NPU|PNG|PRB|PRT|RDM|VER)[0-9]{3}|\[(?:verdict|gate)\]) \S")
REASON = 160  # characters of a reason at most
LEAST = 30  # characters of it that say what is broken
CALL = 2.0  # seconds of one call at most
ANSWER = 16 << 20  # characters read of an answer: 20,000 nodes with 800 each
ANCESTORS = 8  # processes above us that may be Slurm's daemon
PLACES = (
    "/usr/bin/scontrol",
    "/usr/local/bin/scontrol",
    "/opt/slurm/bin/scontrol",
    "/usr/local/slurm/bin/scontrol",
    "/cm/shared/apps/slurm/current/bin/scontrol",
)


class SlurmError(Exception):
    """Why scontrol did not do it, in a sentence."""


class Scontrol(object):
    """scontrol, with what Slurm has put into the environment: SLURM_CONF above all, but no PATH."""

    def __init__(self, environment, until, program=""):
        """`until`: the moment of time.monotonic() at which the last call has ended."""
        self.environment = dict(environment, LC_ALL="C")
        self.program = program
        self.until = until

    def call(self, *words):
        """What it prints. Raises SlurmError; also where its time is spent."""
        program = self.program or found()
        if not program:
            raise SlurmError("scontrol is in none of %s" % ", ".join(os.path.dirname(place) for place in PLACES))
        seconds = min(CALL, self.until - time.monotonic())
        if seconds <= 0:
            raise SlurmError("scontrol was not asked again: its time is spent")
        try:
            process = subprocess.Popen(
                (program, *words),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise SlurmError("%s cannot be run: %s" % (program, error.strerror)) from None
        try:
            said = process.communicate(timeout=seconds)[0].decode("utf-8", "replace")[:ANSWER]
        except subprocess.TimeoutExpired:
            process.kill()  # and not waited for: one that hangs in the kernel does not end
            raise SlurmError("%s did not answer within %.1f s" % (program, seconds)) from None
        if process.returncode:
            raise SlurmError("%s: %s" % (program, one_line(said)[-200:] or "exit code %d" % process.returncode))
        return said

    def nodes(self, name=""):
        """{node: its reason, "" where it has none} of all nodes, or of one."""
        return reasons(self.call("-a", "-o", "show", "node", *((name,) if name else ())))

    def drain(self, names, reason):
        self.call("update", "nodename=" + ",".join(names), "state=drain", "reason=" + reason)

    def undrain(self, names):
        if names:
            self.call("update", "nodename=" + ",".join(names), "state=undrain")


def found():
    """Where scontrol is: beside the slurmd or slurmctld that runs us, else in a usual place; "" if nowhere."""
    for place in (*beside_daemon(), *PLACES):
        if os.access(place, os.X_OK):
            return place
    return ""


def beside_daemon():
    """Yield the scontrol of the Slurm that runs us. Between it and us are the front's shell and timeout."""
    pid = os.getppid()
    for _ in range(ANCESTORS):
        try:
            daemon = os.path.realpath("/proc/%d/exe" % pid)
            if os.path.basename(daemon).startswith("slurm"):
                yield os.path.join(os.path.dirname(os.path.dirname(daemon)), "bin", "scontrol")
                return
            with open("/proc/%d/stat" % pid, "rb") as file:
                pid = int(file.read(4096).rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return


def reasons(text):
    """What `scontrol -o show node` says: a line a node, its reason last ("Reason=TEXT [user@time]"), and whatever
    people have written into it. Nodes that are not out of service have none (22.05.8)."""
    said = {}
    for line in text.splitlines():
        if line.startswith("NodeName="):
            name = line[len("NodeName=") :].split(" ", 1)[0]
            reason = line.partition(" Reason=")[2]
            head, bracket, _ = reason.rpartition(" [")
            said[name] = head if bracket else reason
    return said


def is_ours(reason):
    return bool(OURS.match(reason))


def check_of(reason):
    """The check that a reason of ours names, "" of anybody else's."""
    match = OURS.match(reason)
    return match.group(1).strip("[]") if match else ""


def most(limit, total):
    """How many of `total` nodes may be out by preflight: one always. `limit`: {"nodes": N or null, "percent": P or
    null}, both hold; with neither there is no limit."""
    bounds = [total]
    if limit.get("nodes") is not None:
        bounds.append(int(limit["nodes"]))
    if limit.get("percent") is not None:
        bounds.append(int(total * float(limit["percent"]) / 100))
    return max(1, min(bounds))


def systemic(nodes, names, limit):
    """The sentence why `names` are not drained: with them more nodes than may be would be out; "" if they may."""
    out = {name for name, reason in nodes.items() if is_ours(reason)}.union(names)
    allowed = most(limit, len(nodes))
    if len(out) <= allowed:
        return ""
    return "systemic: %d of %d nodes would be out by preflight, and at most %d may be; nobody is drained" % (
        len(out),
        len(nodes),
        allowed,
    )


def take_out(scontrol, nodes, names, why, limit):
    """Drain `names` of `nodes`, which are those of a moment ago and have no reason: in one call, with the reason `why`.
    The sentence why they stay in service, or "". Raises nothing: where Slurm does not answer, they stay, as far as we
    can see to it, because a script that fails has Slurm drain its node by itself, outside of the limit.

    Hundreds may look at the same moment, each see none out, and drain: so all look again, and whoever sees too many
    then takes its own back. The last one to drain sees all others, so never more stay than may.
    """
    stays = systemic(nodes, names, limit)
    if stays:
        return stays
    ours = names  # to be taken back, as far as we know
    try:
        scontrol.drain(names, why)
        now = scontrol.nodes()
        stays = systemic(now, names, limit)
        if stays:
            ours = [name for name in names if now.get(name) == why]  # not one that somebody else has drained meanwhile
            scontrol.undrain(ours)
        return stays
    except SlurmError as error:
        return "not drained: %s%s" % (error, undone(scontrol, ours))


def undone(scontrol, names):
    """Take back a drain that may or may not have come through; what to tell where that fails, too."""
    try:
        scontrol.undrain(names)
    except SlurmError as error:
        return "; it may be drained nevertheless, and is not taken back: %s" % error
    return ""


def reason(check, sentence):
    """As Slurm is given it: it goes through its log, sinfo and people's scripts, so in plain ASCII. Where it is too
    long, what says how old it is stays."""
    name = "[%s]" % check if check in ("verdict", "gate") else check
    words = one_line(("%s %s %s" % (MARK, name, sentence)).encode("ascii", "replace").decode())
    head, found, age = words.rpartition(FOUND)
    if found and len(found + age) < REASON - LEAST:
        return head[: REASON - len(found + age)] + found + age
    return words[:REASON].rstrip(' "')  # scontrol takes a last " away


def one_line(text):
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
