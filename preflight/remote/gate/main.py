"""The node's gate: may a job start on this host? Standard library, Python 3.6 syntax; imported by nobody.

    preflight-gate [--local] [--context CONTEXT] [-o text|json|nagios|npd]

Without options it is one of Slurm's scripts and does what that one may do (slurm.py). Nothing that goes wrong in here
may look like a broken host: whatever is raised ends in what the policy says of "unknown".
"""

import os
import sys

CONTEXTS = ("prolog", "epilog", "task", "health", "job", "init")
FORMS = ("text", "json", "nagios", "npd")
SCRIPTS = {  # SLURM_SCRIPT_CONTEXT → context
    "prolog_slurmctld": "controller",
    "prolog_slurmd": "prolog",
    "epilog_slurmd": "epilog",
    "prolog_task": "task",
}


class Usage(Exception):
    """What is wrong with the command line."""


def main():
    context = "prolog"
    try:
        context, form = asked(sys.argv[1:], os.environ)
        code = answered(context, form) if form else scripted(context)
    except Usage as wrong:
        sys.stderr.write("preflight-gate: %s\n" % wrong)
        code = 2
    except BaseException as error:
        from gate.answer import nobody_knows

        answer = nobody_knows(context, "this host", "%s: %s" % (type(error).__name__, error))
        sys.stderr.write("preflight-gate: %s\n" % answer.sentence)
        code = answer.code()
    sys.stdout.flush()
    os._exit(code)


def asked(arguments, environment):
    """(context, form); no form where this is one of Slurm's scripts."""
    if not arguments:
        script = environment.get("SLURM_SCRIPT_CONTEXT")
        if script in SCRIPTS:
            return SCRIPTS[script], None
        if script is None and "SLURMD_NODENAME" in environment:  # all that HealthCheckProgram is told
            return "health", None
    context, form = "job", "text"
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--local":
            continue
        if word not in ("--context", "-o", "--output") or not words:
            raise Usage("[--local] [--context %s] [-o %s]" % ("|".join(CONTEXTS), "|".join(FORMS)))
        value = words.pop(0)
        known = CONTEXTS if word == "--context" else FORMS
        if value not in known:
            raise Usage("%s %s is none of %s" % (word, value, ", ".join(known)))
        if word == "--context":
            context = value
        else:
            form = value
    return context, form


def scripted(context):
    from gate.slurm import run

    return run(context, lambda: ask(context), os.environ)


def answered(context, form):
    answer = ask(context)
    if form in ("nagios", "npd"):
        from gate.outputs import render

        text, code = render(answer, form)
    elif form == "json":
        import json

        text, code = json.dumps(answer.fields()), answer.code()
    else:
        text, code = answer.sentence, answer.code()
    sys.stdout.write(text + "\n")
    return code


def ask(context):
    from gate.answer import nobody_knows

    return nobody_knows(context, os.uname()[1], "the gate's looks are being built")
