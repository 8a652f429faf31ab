"""PrologSlurmctld: proves a job's nodes with the preflight of this machine, before anything runs on them.

The proof is a separate program (`preflight gate controller`), which reports the broken nodes and touches nothing. The
actions are here, in one place with those of nodes: exactly the bad nodes are drained, in one call.

Exit code 1 makes Slurm requeue a batch job, and cancel the jobs of srun and salloc. Any error on the way is an unknown
outcome, and ends as controller.json says. By default the job runs.
"""

import ctypes
import json
import os
import pwd
import signal
import subprocess
import sys
import syslog
import time

from gate import slurm_nodes as slurm
from gate import slurm_record

SETTINGS = "/etc/preflight/controller.json"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SECONDS = 60  # seconds for the proof, by default
SLURM = 10  # seconds for all calls of scontrol before it, and again after it
LEAVING = 15  # more seconds for the proof to end its processes
ANSWER = 1 << 20  # characters of its answer
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
KNOWN = {"preflight", "inventory", "key", "seconds", "unknown", "least", "scontrol", "slurm_conf"}


class UnknownError(Exception):
    """Cause of an unknown outcome, in a sentence."""


def run(environment, settings_file=SETTINGS):
    """Return the exit code: 0 the job starts, 1 Slurm requeues or cancels it."""
    job, unknown_rule = environment.get("SLURM_JOB_ID", "?"), "open"
    try:
        settings = read(settings_file)
        unknown_rule = settings.get("unknown", "open")
        if "slurm_conf" in settings:  # slurmctld does not pass the path of its slurm.conf
            environment = dict(environment, SLURM_CONF=settings["slurm_conf"])
        skip_reason = reason_to_skip(new_scontrol(environment, settings), environment, settings)
        if skip_reason:
            return end(job, 0, "not probed: " + skip_reason)
        proof = run_proof(environment, settings)
        return decide_job(job, proof, new_scontrol(environment, settings), environment)
    except (UnknownError, slurm.SlurmError, KeyError, TypeError, ValueError, OSError) as error:
        sentence = "the state of its nodes is unknown: %s: %s" % (type(error).__name__, error)
        return end(job, 0 if unknown_rule == "open" else 1, sentence)


def new_scontrol(environment, settings):
    return slurm.Scontrol(environment, time.monotonic() + SLURM, settings.get("scontrol", ""))


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.loads(file.read(1 << 16))
    except (OSError, ValueError) as error:
        raise UnknownError("%s: %s" % (path, error)) from None
    if not isinstance(settings, dict) or set(settings) - KNOWN or not {"preflight", "inventory"} <= set(settings):
        raise UnknownError(
            "%s: preflight and inventory are required. Allowed keys: %s" % (path, ", ".join(sorted(KNOWN)))
        )
    if settings.get("unknown", "open") not in ("open", "closed"):
        raise UnknownError('%s: unknown must be "open" or "closed"' % path)
    return settings


def reason_to_skip(scontrol, environment, settings):
    """Return the reason not to probe these nodes; "" if they are the job's alone and worth a probe."""
    nodes = int(environment.get("SLURM_JOB_NUM_NODES", "0"))
    if 0 < nodes < settings.get("least", 2):
        return "the job has only %d nodes" % nodes
    output = scontrol.call("-o", "show", "job", environment["SLURM_JOB_ID"])
    shares = output.partition(" OverSubscribe=")[2].split(" ", 1)[0]
    if shares != "NO":  # NO means exclusive nodes. With OK, YES or USER, other jobs may run or start there.
        return "the job may share its nodes with others (OverSubscribe=%s)" % (shares[:20] or "?")
    return ""


def run_proof(environment, settings):
    """Return the proof's answer. Raise UnknownError."""
    seconds = float(settings.get("seconds", SECONDS))
    command = [settings["preflight"], "gate", "controller", "-i", settings["inventory"], "--seconds", "%d" % seconds]
    command += ["--key", settings["key"]] if "key" in settings else []
    full_environment = dict(environment, PATH=PATH)  # Slurm gives neither PATH nor HOME
    try:
        full_environment.setdefault("HOME", pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        pass
    libc, own_pid = ctypes.CDLL(None), os.getpid()

    def ends_with_us():
        # slurmctld kills a script after its timeout, or without its job, and gives its nodes to other jobs. The proof
        # ends with the script, on any signal, and its processes on nodes end with its connections.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != own_pid:
            os._exit(1)

    try:
        process = subprocess.Popen(
            command,
            env=full_environment,
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
        output, error_output = process.communicate(timeout=seconds + LEAVING)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise UnknownError("timeout: preflight gate controller did not end within %d s" % (seconds + LEAVING)) from None
    try:
        proof = json.loads(output.decode("utf-8", "replace")[:ANSWER])
    except ValueError:
        error_text = slurm.one_line(error_output.decode("utf-8", "replace"))[-300:]
        error_text = error_text or "no error message"
        message = "preflight gate controller ended with exit code %d: %s" % (process.returncode, error_text)
        raise UnknownError(message) from None
    if not isinstance(proof, dict) or proof.get("schema") != "preflight.gate-controller/1":
        raise UnknownError("preflight gate controller printed an invalid answer")
    return proof


def decide_job(job, proof, scontrol, environment):
    """Decide about the job and the bad ones among its nodes, and return the exit code."""
    sentence = slurm.one_line(proof["sentence"])
    requeue = Requeue(job, scontrol, environment, proof["requeues"])
    if proof["outcome"] == "unknown" and not proof["open"]:
        return requeue.end(sentence)
    if proof["outcome"] == "unknown" or not proof["bad"]:
        return end(job, 0, sentence)
    return drain_bad(proof, sentence, requeue)


def drain_bad(proof, sentence, requeue):
    """Drain the bad nodes that are in service, and return the exit code."""
    nodes = requeue.scontrol.nodes()
    bad = [entry for entry in proof["bad"] if entry["node"] in nodes]
    undrained = [entry for entry in bad if not nodes[entry["node"]]]
    if not bad:
        return end(requeue.job, 0, sentence + ". Slurm has none of these nodes")
    if not undrained:
        return requeue.end(sentence + ". All of them are already out of service")
    names = [entry["node"] for entry in undrained]
    refusal = slurm.take_out(requeue.scontrol, nodes, names, reason(undrained), proof["drain"])
    if refusal:
        return end(requeue.job, 0, "%s. %s" % (sentence, refusal))
    return requeue.end("%s. Drained %s" % (sentence, ",".join(names)))


def reason(bad):
    """Return one reason for all nodes, since they are drained in one call."""
    sentences = list(dict.fromkeys(entry["sentence"] for entry in bad))
    return slurm.reason(bad[0]["check"], "; ".join(sentences))


class Requeue(object):
    """Requeue of a job. A job that has been requeued too often is held, so that a person inspects it."""

    def __init__(self, job, scontrol, environment, requeues):
        self.job, self.scontrol, self.requeues = job, scontrol, requeues
        self.restarts = environment.get("SLURM_JOB_RESTART_COUNT") or environment.get("SLURM_RESTART_COUNT") or "0"

    def end(self, sentence):
        if self.restarts.isdigit() and int(self.restarts) >= self.requeues:
            try:
                self.scontrol.call("requeuehold", self.job)
                outcome = "so it is held. Release it with scontrol release %s" % self.job
            except slurm.SlurmError as error:  # srun and salloc: their jobs end by the exit code
                outcome = "but could not be held: %s" % error
            sentence = "%s. The job was requeued %s times, %s" % (sentence, self.restarts, outcome)
        return end(self.job, 1, sentence)


def end(job, code, sentence):
    """Log the sentence and return the code. Slurmctld's log has only the exit code of a PrologSlurmctld and not its
    output, so the system's log gets it."""
    message = "preflight: job %s: %s" % (job, sentence)
    sys.stderr.write(message + "\n")
    syslog.openlog("preflight-gate", 0, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_WARNING if code else syslog.LOG_INFO, message[:900])
    slurm_record.write({"context": "controller", "job": job, "exit": code, "sentence": sentence})
    return code
