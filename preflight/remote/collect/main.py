"""Collector: reads the state of one host and answers with raw text, section by section.

It runs on the host, and the controller never imports it. Standard library only, Python 3.6 syntax. The modules of this
package are sent together. `shared.REQUEST` is the part of the request that is the same for all hosts. The rest of stdin
is the part for this host, a JSON object. Together:

    `marker`    Word that frames the answer. Banners before it and noise after it do no harm.
    `deadlines` {section: seconds it may take} of the sections wanted (MODULES below).
    `ports`     [[low, high], …] job ports, for `sockets` and `connects`.
    `connects`  {"targets": [[host, name or address], …], "ports": [port, …], "ephemeral"}, for `connects`.
                With "ephemeral", the first and the last of the ephemeral ports are tried, too.
    `names`     {host name: address in the inventory}, for `names`. The first one is of particular interest.
    `naming`    {"peers", "addresses", "endpoints"}, for `naming`.
                These are host names, addresses of other hosts, and names and addresses of the first host.
    `hosts_file`, `limits`  True if the inventory asks for these, for `environment`.
    `job`       {"source", "python", "argv", "elsewhere", "wanted"}, for `job`.
                These are job_view.py, the way to the place where jobs run, and the request to it there.
    `shells`    {"user", "prefixes", "programs"}, for `shells`.
                These are the jobs' user or "", prefixes of variables, and programs to find on PATH.
    `neighbours` {"user": the jobs', or "", "targets": [[host, name or address], …]}, for `neighbours`.
    `called`    [name, address] of this host in the inventory, for `job` and `names`.
    `devices`   Device ids, for `hccn`. Every /dev/davinciN is read besides.
    `readings`  [["ip", "-g"], …] arguments of hccn_tool, for `hccn`, in this order.
    `deep_readings`  ["optical", …] queries with -g after them, as far as the tool knows them.
    `chip_queries`   ["health", …] types of `npu-smi info -t` for every chip, for `chips`.
    `pings`     [[device, [argument of hccn_tool, …]], …], for `pings`.
    `ping_seconds`   Seconds that one ping may take.

The answer is `\\n<marker> <length>\\n<json>\\n` with {section: result}. A result is {"value": …} or {"error": "one
sentence"}. No text is interpreted here: parsing belongs to the controller, where it can be tested and fixed. Heavy
modules are avoided, since every host pays for them in every run.
"""

import importlib
import json
import sys
import threading
import time

from collect import shared
from collect.tools import LookError, adopt_orphans, leave, leave_on_signals, leave_with_the_connection

# Section → the module of this package with `look_SECTION(request, deadline)`, which returns a value for JSON. Only the
# modules of requested sections are loaded.
MODULES = {
    "os": "system",
    "sysctl": "sysctl",
    "sockets": "system",
    "network": "system",
    "firewall": "firewall",
    "connects": "connects",
    "names": "system",
    "naming": "naming",
    "environment": "system",
    "accelerators": "accelerators",
    "job": "job",
    "shells": "shells",
    "neighbours": "neighbours",
    "load": "load",
    "driver": "devices",
    "device_nodes": "devices",
    "hccn": "hccn",
    "hccn_conf": "hccn",
    "npu_smi": "npu_smi",
    "nvidia": "nvidia",
    "chips": "npu_smi",
    "rdma": "rdma",
    "pings": "pings",
    "extras": "extras",
}
SECTION_LIMIT = 3 * 1024 * 1024  # characters of one section's JSON: a tool that floods must not drown the others


def look(name, request, deadline, answer):
    """Put the section's JSON into `answer`."""
    try:
        text = json.dumps({"value": section(name)(request, deadline)})
        if len(text) > SECTION_LIMIT:
            raise LookError("the result is larger than %d MiB" % (SECTION_LIMIT >> 20))
        answer[name] = text
    except LookError as error:
        answer[name] = json.dumps({"error": str(error)})
    except Exception as error:  # whatever a broken host does, the other sections are still wanted
        answer[name] = json.dumps({"error": "%s: %s" % (type(error).__name__, error)})


def section(name):
    return getattr(importlib.import_module("collect." + MODULES[name]), "look_" + name)


def main():
    start_time = time.time()
    request = dict(shared.REQUEST, **json.loads(sys.stdin.buffer.read().decode()))
    adopt_orphans()
    leave_on_signals()
    threading.Thread(target=leave_with_the_connection, daemon=True).start()
    start = time.monotonic()
    answers = {}
    threads = {}
    for name, seconds in request["deadlines"].items():
        arguments = (name, request, start + seconds, answers)
        threads[name] = threading.Thread(target=look, args=arguments, daemon=True)
        threads[name].start()
    for name, seconds in request["deadlines"].items():
        # A second more than a section has for itself: its results at the deadline are worth the wait.
        threads[name].join(max(0, start + seconds + 1 - time.monotonic()))
    answer = dict(answers)
    for name, seconds in request["deadlines"].items():
        answer.setdefault(name, json.dumps({"error": "no result within %g s" % seconds}))
    answer["clock"] = json.dumps({"value": {"start": start_time, "end": time.time()}})
    text = "{%s}" % ", ".join('"%s": %s' % item for item in answer.items())
    try:
        sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(text), text))
        sys.stdout.flush()
    except OSError:
        pass  # the connection has gone
    leave()
