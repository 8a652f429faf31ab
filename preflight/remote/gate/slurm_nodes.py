"""Queries and commands of the gate to Slurm: nodes that preflight has drained, and the limit on their number.

The only program is scontrol, called only once a node is to be drained. Each call has a timeout, and so have all of them
together, because slurmctld may be slow just when many nodes are bad.
"""

import os
import re
import subprocess
import time

from gate.answer import FOUND

MARK = "preflight:"
# Form of our reasons: a check of ours, or another subject of an answer's reason in brackets, since these are words that
# people write. All other reasons are left alone, even an administrator's that begins with our mark.
OURS = re.compile(MARK + r" ((?:ENV|FWL|GPU|HST|NIC|NPU|PNG|PRB|PRT|RDM|VER)[0-9]{3}|\[(?:verdict|gate)\]) \S")
REASON = 160  # most characters of a reason
LEAST = 30  # fewest characters of it for the fault itself
CALL = 2.0  # most seconds of one call
ANSWER = 16 << 20  # characters read of an answer: 20,000 nodes with 800 each
ANCESTORS = 8  # ancestors among which Slurm's daemon is searched
PLACES = (
    "/usr/bin/scontrol",
    "/usr/local/bin/scontrol",
    "/opt/slurm/bin/scontrol",
    "/usr/local/slurm/bin/scontrol",
    "/cm/shared/apps/slurm/current/bin/scontrol",
)


class SlurmError(Exception):
    """Failure of scontrol, in a sentence."""


class Scontrol(object):
    """scontrol, with the environment that Slurm gives: SLURM_CONF above all, but no PATH."""

    def __init__(self, environment, until, program=""):
        """Set up the calls. `until`: the value of time.monotonic() at which the last call has ended."""
        self.environment = dict(environment, LC_ALL="C")
        self.program = program
        self.until = until

    def call(self, *words):
        """Return the output of one call. Raise SlurmError, also if the time is used up."""
        program = self.program or find_scontrol()
        if not program:
            raise SlurmError("scontrol was not found in %s" % ", ".join(os.path.dirname(place) for place in PLACES))
        seconds = min(CALL, self.until - time.monotonic())
        if seconds <= 0:
            raise SlurmError("timeout: no time left to call scontrol again")
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
            output = process.communicate(timeout=seconds)[0].decode("utf-8", "replace")[:ANSWER]
        except subprocess.TimeoutExpired:
            process.kill()  # without a wait: a process that hangs in the kernel does not end
            raise SlurmError("%s did not answer within %.1f s" % (program, seconds)) from None
        if process.returncode:
            raise SlurmError("%s: %s" % (program, one_line(output)[-200:] or "exit code %d" % process.returncode))
        return output

    def nodes(self, name=""):
        """Return {node: its reason, "" where it has none} of all nodes, or of one."""
        return reasons(self.call("-a", "-o", "show", "node", *((name,) if name else ())))

    def drain(self, names, reason):
        self.call("update", "nodename=" + ",".join(names), "state=drain", "reason=" + reason)

    def undrain(self, names):
        if names:
            self.call("update", "nodename=" + ",".join(names), "state=undrain")


def find_scontrol():
    """Return the path of scontrol: beside the slurmd or slurmctld that runs us, else in a usual place; "" if
    nowhere."""
    for place in (*beside_daemon(), *PLACES):
        if os.access(place, os.X_OK):
            return place
    return ""


def beside_daemon():
    """Yield the scontrol of the Slurm that runs us. Between its daemon and us are the front's shell and timeout."""
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
    """Return {node: reason} of the output of `scontrol -o show node`.

    It has a line a node, with the reason last ("Reason=TEXT [user@time]") and any text that people have written into
    it. Nodes in service have none (22.05.8).
    """
    reason_of = {}
    for line in text.splitlines():
        if line.startswith("NodeName="):
            name = line[len("NodeName=") :].split(" ", 1)[0]
            reason = line.partition(" Reason=")[2]
            head, bracket, _ = reason.rpartition(" [")
            reason_of[name] = head if bracket else reason
    return reason_of


def is_ours(reason):
    return bool(OURS.match(reason))


def check_of(reason):
    """Return the check that a reason of ours names, "" of any other reason."""
    match = OURS.match(reason)
    return match.group(1).strip("[]") if match else ""


def most(limit, total):
    """Return how many of `total` nodes preflight may have drained: at least one. `limit` is {"nodes": N or null,
    "percent": P or null}. Both hold; with neither there is no limit."""
    bounds = [total]
    if limit.get("nodes") is not None:
        bounds.append(int(limit["nodes"]))
    if limit.get("percent") is not None:
        bounds.append(int(total * float(limit["percent"]) / 100))
    return max(1, min(bounds))


def systemic(nodes, names, limit):
    """Return the sentence why `names` are not drained, since too many nodes would be out with them; "" if they may
    be."""
    drained_nodes = {name for name, reason in nodes.items() if is_ours(reason)}.union(names)
    node_limit = most(limit, len(nodes))
    if len(drained_nodes) <= node_limit:
        return ""
    return "systemic: preflight would have drained %d of %d nodes, but the limit is %d. No node is drained" % (
        len(drained_nodes),
        len(nodes),
        node_limit,
    )


def take_out(scontrol, nodes, names, why, limit):
    """Drain `names` of `nodes` in one call, with the reason `why`. `nodes` were read a moment ago; those named have no
    reason.

    Return the sentence why they stay in service, or "". Raise nothing: where Slurm does not answer, they stay, as far
    as we can ensure that. A script that fails makes Slurm drain its node itself, outside of the limit.

    Hundreds of nodes may run this at the same moment, each see no node drained, and drain. So each reads the nodes
    again, and one that then sees too many takes its own drain back. The last one to drain sees all the others, so never
    more than the limit stay drained.
    """
    refusal = systemic(nodes, names, limit)
    if refusal:
        return refusal
    own_drains = names  # the drains to take back, as far as we know
    try:
        scontrol.drain(names, why)
        nodes_now = scontrol.nodes()
        refusal = systemic(nodes_now, names, limit)
        if refusal:
            # Not the nodes that another program has drained meanwhile.
            own_drains = [name for name in names if nodes_now.get(name) == why]
            scontrol.undrain(own_drains)
        return refusal
    except SlurmError as error:
        return "not drained: %s%s" % (error, undo_drain(scontrol, own_drains))


def undo_drain(scontrol, names):
    """Take back a drain that may or may not have happened. Return the note for a failure of that, or ""."""
    try:
        scontrol.undrain(names)
    except SlurmError as error:
        return ". It may be drained nevertheless, and could not be returned to service: %s" % error
    return ""


def reason(check, sentence):
    """Return a reason in the form for Slurm: plain ASCII, since it passes through logs, sinfo and people's scripts. If
    it is too long, the note on its age stays."""
    name = "[%s]" % check if check in ("verdict", "gate") else check
    text = one_line(("%s %s %s" % (MARK, name, sentence)).encode("ascii", "replace").decode())
    head, separator, age = text.rpartition(FOUND)
    if separator and len(separator + age) < REASON - LEAST:
        return head[: REASON - len(separator + age)] + separator + age
    return text[:REASON].rstrip(' "')  # scontrol removes a last "


def one_line(text):
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
