"""Gate of a node: may a job start on this host? Standard library, Python 3.6 syntax. No other module imports it.

    preflight-gate [--local] [--context CONTEXT] [-o text|json|nagios|npd]

Without options it is one of Slurm's scripts and acts as that script (slurm.py). With --ssh it is the command that a key
of the probe is restricted to (ssh.py). No error in here may look like a broken host: every exception and every hang
ends as the outcome "unknown". So other modules are imported where the time limit already runs, and each only where it
is needed: a gate that loads all of them takes twice as long.
"""

import io
import os
import select
import signal
import sys

from gate.answer import unknown_answer

CONTEXTS = ("prolog", "epilog", "task", "health", "job", "init")
FORMS = ("text", "json", "nagios", "npd")
SCRIPTS = {  # SLURM_SCRIPT_CONTEXT → context
    "prolog_slurmctld": "controller",
    "prolog_slurmd": "prolog",
    "epilog_slurmd": "epilog",
    "prolog_task": "task",
}
HARD = 8.0  # seconds of the whole run, but for the controller's probe
# gate_front.sh accepts an exit code only with this line.
WORDS = {0: "preflight-gate: open\n", 1: "preflight-gate: closed\n"}
USAGE = "usage: preflight-gate [--local] [--context %s] [-o %s]" % ("|".join(CONTEXTS), "|".join(FORMS))


class GateUsageError(Exception):
    """Error in the command line."""


class StoppedError(Exception):
    """End of the gate by a signal: its answer is "unknown"."""


def main():
    context, form = "job" if sys.argv[1:] else "prolog", None
    try:
        standard_streams()
        context, form = parse_arguments(sys.argv[1:], os.environ)
        if context not in ("controller", "ssh"):
            set_limits(failure_code(unknown_answer(context, "", ""), form))
        code = print_answer(context, form) if form else run_script(context)
    except GateUsageError as wrong:
        print_to(2, "preflight-gate: %s\n%s\n" % (wrong, USAGE))
        code = 2
    except BaseException as error:
        answer = unknown_answer(context, os.uname()[1], "%s: %s" % (type(error).__name__, error))
        print_to(2, "preflight-gate: %s\n" % answer.sentence)
        code = failure_code(answer, form)
    os._exit(code)


def failure_code(answer, form):
    """Return the exit code for a failure of the gate itself: no monitoring may take that for a good host."""
    return {"nagios": 3, "npd": 2}.get(form, answer.code())


def standard_streams():
    """Open descriptors 0 to 2 where a script was started with them closed, so that no later file becomes one of
    them."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            return


def set_limits(code):
    """Leave with `code` once the time is over. Raise StoppedError on a signal, so that no process is left behind."""

    def stopped(number, _):
        for ignored in (
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGINT,
        ):  # a second signal would end it in the middle of its answer
            signal.signal(ignored, signal.SIG_IGN)
        raise StoppedError("stopped by signal %d" % number)

    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGHUP, stopped)
    signal.signal(signal.SIGALRM, lambda *_: os._exit(code))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM, signal.SIGTERM))
    signal.setitimer(signal.ITIMER_REAL, HARD)


def parse_arguments(arguments, environment):
    """Return (context, form); no form for Slurm's scripts and for the command of a key. Raise GateUsageError."""
    if arguments == ["--ssh"]:
        return "ssh", None
    if not arguments:
        script = environment.get("SLURM_SCRIPT_CONTEXT")
        if script in SCRIPTS:
            return SCRIPTS[script], None
        if script is not None:  # of a later Slurm: the answer is recorded, and nothing is done
            return "epilog", None
        if "SLURMD_NODENAME" in environment:  # the only variable that HealthCheckProgram gets
            return "health", None
    options = {"context": "job", "form": "text"}
    argument_iterator = iter(arguments)
    for word in argument_iterator:
        if word == "--local":
            continue
        name, values = {"--context": ("context", CONTEXTS), "-o": ("form", FORMS), "--output": ("form", FORMS)}.get(
            word, ("", ())
        )
        if not name:
            raise GateUsageError("unknown option %.40r" % word)
        options[name] = next(argument_iterator, "")
        if options[name] not in values:
            raise GateUsageError("%s must be one of: %s" % (word, ", ".join(values)))
    return options["context"], options["form"]


def run_script(context):
    if context == "ssh":
        from gate import ssh

        return ssh.run(os.environ)
    from gate import slurm

    # Its output is printed at the end: a log on a full disk must not end it in the middle of its work.
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    code = slurm.run(context, lambda: answer_for(context), os.environ)
    print_to(2, sys.stderr.getvalue())
    print_to(1, sys.stdout.getvalue() + WORDS.get(code, ""))
    return code


def print_answer(context, form):
    answer = answer_for(context)
    if form == "text":
        text, code = answer.text(), answer.code()
    else:
        from gate.outputs import render

        text, code = render(answer, form)
    print_to(1, text + "\n")
    return code


def answer_for(context):
    from gate.ask import ask

    return ask(context, os.environ)


def print_to(descriptor, text):
    """Print, unless the reader has stopped: it must not delay the answer."""
    data = text.encode("utf-8", "replace")
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    try:
        while data and ready.poll(200):
            data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]
    except OSError:
        pass  # the exit code says the same
