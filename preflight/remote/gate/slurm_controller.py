"""PrologSlurmctld: has a job's nodes proved by the preflight of this machine, before anything runs on them.

The proof is a program of its own (`preflight gate controller`), which tells who is broken and touches nothing. What is
done about it is done here, in one place with what nodes do: exactly the bad ones are drained, in one call. Exit code 1
has Slurm requeue a batch job, and cancel what srun and salloc wait for. Whatever goes wrong on the way is "nobody
knows", and ends as controller.json says: without a word there the job runs.
"""

import ctypes
import json
import os
import pwd
import signal
import subprocess
import sys
import time

from gate import slurm_nodes as slurm

SETTINGS = "/etc/preflight/controller.json"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SECONDS = 60  # of the proof, unless the settings say otherwise
SLURM = 10  # seconds for all calls of scontrol before it, and again after it
LEAVING = 15  # more, in which it may end what it has started
ANSWER = 1 << 20  # characters of its answer
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
KNOWN = {"preflight", "inventory", "key", "seconds", "unknown", "least", "scontrol", "slurm_conf"}


class UnknownError(Exception):
    """Why nobody knows, in a sentence."""


def run(environment, settings_file=SETTINGS):
    """The exit code: 0 the job starts, 1 Slurm requeues or cancels it."""
    job, unknown = environment.get("SLURM_JOB_ID", "?"), "open"
    try:
        settings = read(settings_file)
        unknown = settings.get("unknown", "open")
        if "slurm_conf" in settings:  # slurmctld does not say where its own is
            environment = dict(environment, SLURM_CONF=settings["slurm_conf"])
        why = left_out(asked_now(environment, settings), environment, settings)
        if why:
            return told(job, 0, "not probed: " + why)
        proof = proved(environment, settings)
        return judged(job, proof, asked_now(environment, settings), environment)
    except (UnknownError, slurm.SlurmError, KeyError, TypeError, ValueError, OSError) as error:
        sentence = "nobody knows whether its nodes are good: %s: %s" % (type(error).__name__, error)
        return told(job, 0 if unknown == "open" else 1, sentence)


def asked_now(environment, settings):
    return slurm.Scontrol(environment, time.monotonic() + SLURM, settings.get("scontrol", ""))


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.loads(file.read(1 << 16))
    except (OSError, ValueError) as error:
        raise UnknownError("%s: %s" % (path, error)) from None
    if not isinstance(settings, dict) or set(settings) - KNOWN or not {"preflight", "inventory"} <= set(settings):
        raise UnknownError(
            "%s: it needs preflight and inventory, and may have of %s" % (path, ", ".join(sorted(KNOWN)))
        )
    if settings.get("unknown", "open") not in ("open", "closed"):
        raise UnknownError('%s: unknown is "open" or "closed"' % path)
    return settings


def left_out(scontrol, environment, settings):
    """Why these nodes are not to be probed; "" where they are the job's alone and worth it."""
    nodes = int(environment.get("SLURM_JOB_NUM_NODES", "0"))
    if 0 < nodes < settings.get("least", 2):
        return "a job of %d nodes" % nodes
    said = scontrol.call("-o", "show", "job", environment["SLURM_JOB_ID"])
    shares = said.partition(" OverSubscribe=")[2].split(" ", 1)[0]
    if shares != "NO":  # NO: nodes of its own; OK, YES, USER: others may run there or come while the probe runs
        return "the job may share its nodes with others (OverSubscribe=%s)" % (shares[:20] or "?")
    return ""


def proved(environment, settings):
    """The proof's answer. Raises UnknownError."""
    seconds = float(settings.get("seconds", SECONDS))
    command = [settings["preflight"], "gate", "controller", "-i", settings["inventory"], "--seconds", "%d" % seconds]
    command += ["--key", settings["key"]] if "key" in settings else []
    usable = dict(environment, PATH=PATH)  # Slurm gives neither PATH nor HOME
    try:
        usable.setdefault("HOME", pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        pass
    libc, us = ctypes.CDLL(None), os.getpid()

    def ends_with_us():
        # slurmctld kills a script that is late, or whose job is gone, and gives its nodes to others. The proof goes
        # with it, whichever signal that was, and what it has started on nodes ends with its connections.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != us:
            os._exit(1)

    try:
        process = subprocess.Popen(
            command,
            env=usable,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=ends_with_us,
        )
    except OSError as error:
        raise UnknownError("%s cannot be run: %s" % (settings["preflight"], error.strerror)) from None
    try:
        said, complaint = process.communicate(timeout=seconds + LEAVING)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise UnknownError("preflight gate controller was not done after %d s" % (seconds + LEAVING)) from None
    try:
        proof = json.loads(said.decode("utf-8", "replace")[:ANSWER])
    except ValueError:
        last = slurm.one_line(complaint.decode("utf-8", "replace"))[-300:]
        words = "preflight gate controller ended with %d: %s" % (process.returncode, last or "without a word")
        raise UnknownError(words) from None
    if not isinstance(proof, dict) or proof.get("schema") != "preflight.gate-controller/1":
        raise UnknownError("preflight gate controller gave an answer that is none")
    return proof


def judged(job, proof, scontrol, environment):
    """What becomes of the job, and of the bad ones among its nodes."""
    sentence = slurm.one_line(proof["sentence"])
    again = Again(job, scontrol, environment, proof["requeues"])
    if proof["outcome"] == "unknown":
        return told(job, 0, sentence) if proof["open"] else again.told(sentence)
    if not proof["bad"]:
        return told(job, 0, sentence)
    nodes = scontrol.nodes()
    bad = [one for one in proof["bad"] if one["node"] in nodes]
    fresh = [one for one in bad if not nodes[one["node"]]]
    if not bad:
        return told(job, 0, sentence + "; Slurm knows none of them")
    if not fresh:
        return again.told(sentence + "; all of them are out of service already")
    names = [one["node"] for one in fresh]
    why = slurm.take_out(scontrol, nodes, names, reason(fresh), proof["drain"])
    if why:
        return told(job, 0, "%s; %s" % (sentence, why))
    return again.told("%s; drained %s" % (sentence, ",".join(names)))


def reason(bad):
    """One for all, since they are drained in one call."""
    sentences = list(dict.fromkeys(one["sentence"] for one in bad))
    return slurm.reason(bad[0]["check"], "; ".join(sentences))


class Again(object):
    """The job is to be requeued; one that was requeued so often that somebody should look is held."""

    def __init__(self, job, scontrol, environment, requeues):
        self.job, self.scontrol, self.requeues = job, scontrol, requeues
        self.restarts = environment.get("SLURM_JOB_RESTART_COUNT") or environment.get("SLURM_RESTART_COUNT") or "0"

    def told(self, sentence):
        if self.restarts.isdigit() and int(self.restarts) >= self.requeues:
            try:
                self.scontrol.call("requeuehold", self.job)
                held = "so it is held: scontrol release %s" % self.job
            except slurm.SlurmError as error:  # srun and salloc: their jobs end by the exit code
                held = "and is not held: %s" % error
            sentence = "%s; requeued %s times, %s" % (sentence, self.restarts, held)
        return told(self.job, 1, sentence)


def told(job, code, sentence):
    """Nobody sees what a PrologSlurmctld prints: slurmctld's log has its exit code alone. So the system's log."""
    import syslog

    from gate.slurm_record import write

    words = "preflight: job %s: %s" % (job, sentence)
    sys.stderr.write(words + "\n")
    syslog.openlog("preflight-gate", 0, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_WARNING if code else syslog.LOG_INFO, words[:900])
    write({"context": "controller", "job": job, "exit": code, "sentence": sentence})
    return code
