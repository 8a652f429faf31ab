"""Environment of jobs where they run: job_view.py, run there."""

import json
import re
import sys

from collect.devices import USUAL, installed_in
from collect.tools import LookError, Start, command, find, read

ANSWER_LIMIT = 4 * 1024 * 1024  # bytes: rank tables and version files come with it


def look_job(request, deadline):
    """Return the result of job_view.py. It runs right here if the jobs' Python is this very one: a second start costs
    20 ms."""
    job = request["job"]
    job_request = dict(job["wanted"], called=request["called"] + own_addresses())
    if job_request["deep"]:
        job_request["deep"] = dict(job_request["deep"], files=where_installed(job_request["deep"]["files"]))
    if not job["elsewhere"]:
        python = find(job["python"])
        if python is None:
            return {"python": None}
        if python == sys.executable:
            scope = {"__name__": "job_view"}
            exec(job["source"], scope)
            return scope["view"](job_request)
    mark = request["marker"] + "-job "
    payload = json.dumps({"marker": mark, "wanted": job_request})
    program = (job["source"] + payload).encode()
    label = job["python"] + ", where the jobs run,"  # a person wrote its arguments, which may hold a secret
    answer = command(job["argv"], deadline, ANSWER_LIMIT, label, Start(program))
    for line in answer["out"].splitlines():
        if line.startswith(mark):
            return json.loads(line[len(mark) :])
    error_line = (answer["err"].strip() or answer["out"].strip() or "no error message").splitlines()[-1]
    raise LookError("%s, where the jobs run, exited with %d: %s" % (job["python"], answer["code"], error_line[:200]))


def own_addresses():
    """Return this host's IPv4 addresses; a container has others."""
    addresses = re.findall(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL", read("/proc/net/fib_trie") or "")
    return sorted({address for address in addresses if not address.startswith("127.")})


def where_installed(paths):
    """Return the paths, with those of the driver below the folder that it is installed in on this host."""
    if not paths:
        return paths
    try:
        base = installed_in()
    except LookError:  # HST111 reports on the file with the folder
        return paths
    return [base + path[len(USUAL) :] if path.startswith(USUAL + "/") else path for path in paths]
