"""Host as such: system, network, sockets, names, and the files of [host_setup]."""

# ruff: noqa: ARG001  (the sections have one signature)

import os
import pwd
import socket

from collect.own import preflight_processes
from collect.tools import LookError, command, each, listed, listing, read, required

MOST_NAMES = 512  # that one host resolves


def look_os(request, deadline):
    name = os.uname()
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    return {
        "release": read("/etc/os-release") or read("/usr/lib/os-release") or "",
        "kernel": name.release,
        "arch": name.machine,
        "hostname": name.nodename,
        "user": user,
        "root": os.geteuid() == 0,
        "machine_id": (read("/etc/machine-id") or "").strip(),
        "open_run": open_run(),
        "logind": logind(),
        "preflight": preflight_processes(),
    }


def open_run():
    """Return the run of preflight/remote/apply that has begun on this host and not finished; only root sees it."""
    try:
        return os.readlink("/var/lib/preflight/journal/open")
    except OSError:
        return ""


def logind():
    """Return [path, text] of the files that configure systemd-logind, in ascending priority; None where it does not
    run."""
    if not os.path.isdir("/run/systemd/seats"):
        return None
    folders = ("/usr/lib/systemd", "/usr/local/lib/systemd", "/run/systemd", "/etc/systemd")
    parts = {}  # a file of the same name in a later folder replaces an earlier one
    for folder in folders:
        parts.update((os.path.basename(path), path) for path in listed(folder + "/logind.conf.d", ".conf"))
    mains = list(filter(os.path.isfile, (folder + "/logind.conf" for folder in folders)))
    paths = mains[-1:] + list(filter(os.path.isfile, (parts[name] for name in sorted(parts))))
    return [[path, read(path) or ""] for path in paths]


def look_network(request, deadline):
    """Return JSON where iproute2 can print it (4.14 and later), else its text; the parser takes either."""
    tool = required("ip")

    def ask(*arguments):
        answer = command([tool, "-j", *arguments], deadline)
        if answer["code"] and "-j" in answer["err"]:
            answer = command([tool, *arguments], deadline)
        if answer["code"]:
            raise LookError("ip %s failed: %s" % (" ".join(arguments), answer["err"].strip()[:200]))
        return answer["out"]

    return {"addresses": ask("address"), "routes": ask("-4", "route")}


def look_sockets(request, deadline):
    """Return the sockets on the job ports, filtered by the kernel. Their owners cost a walk through /proc, so they are
    read only if there is a socket."""
    tool = required("ss")
    ranges = ["( sport >= :%d and sport <= :%d )" % (low, high) for low, high in request["ports"]]
    if not ranges:
        return {"out": "", "err": "", "code": 0}

    def ask(options):
        answer = command([tool, "-H" + options, " or ".join(ranges)], deadline)
        if answer["code"] and "invalid option" in answer["err"]:  # an old ss always prints a header
            answer = command([tool, "-" + options, " or ".join(ranges)], deadline)
        return answer

    answer = ask("tan")
    sockets = [line for line in answer["out"].splitlines() if line.strip() and not line.startswith("State ")]
    return ask("tanp") if sockets else answer


def look_names(request, deadline):
    """Return the addresses of this host's own name and of the first host's, and of names that resolve to others than
    in the inventory.

    Names are resolved eight at a time: one dead name server must not cost a timeout per host.
    """
    own_name, planned = socket.gethostname(), request["names"]
    first = next(iter(planned))
    names = {own_name, first} | names_to_resolve(planned, request["called"][0])
    answers = each(names, addresses_of, deadline - 0.5, 8)
    unresolved = sorted(names - set(answers))
    if unresolved:
        raise LookError("%s was not resolved in time" % ", ".join(unresolved[:4]))
    cluster = {
        name: answers[name]
        for name in planned
        if name in answers and (name == first or planned[name] not in answers[name])
    }
    return {
        "hostname": answers[own_name],
        "cluster": cluster,
        "resolved": len(names & set(planned)),
        "planned": len(planned),
    }


def names_to_resolve(planned, own_name, hosts_file=None):
    """Return the names to resolve: all, or in a large cluster MOST_NAMES from this host's own name on, and those that
    its /etc/hosts gives another address.

    If every host resolved all names, a name server would get the square of their number.
    """
    names = list(planned)
    if len(names) <= MOST_NAMES:
        return set(names)
    begin = names.index(own_name) if own_name in planned else 0
    chosen = set((names + names)[begin : begin + MOST_NAMES])
    for line in (hosts_file_text() if hosts_file is None else hosts_file).splitlines():
        words = line.partition("#")[0].split()
        chosen.update(name for name in words[1:] if planned.get(name, words[0]) != words[0])
    return chosen


def hosts_file_text():
    try:
        return read("/etc/hosts") or ""
    except LookError:
        return ""


def addresses_of(name):
    try:
        # As bytes: a text would load the IDNA codec, 5 ms.
        return [entry[4][0] for entry in socket.getaddrinfo(name.encode(), None, 0, socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []


def look_environment(request, deadline):
    """Return the files that [host_setup] is about. Other files are returned only if preflight may have left them
    there."""
    hosts = read("/etc/hosts")
    folder = "/etc/security/limits.d"
    paths = [os.path.join(folder, name) for name in listing(folder) if name.endswith(".conf")]
    limits = {}
    for path in [*paths, "/etc/security/limits.conf"]:
        if os.path.isfile(path) and (request["limits"] or path.endswith("/90-preflight.conf")):
            limits[path] = read(path)
    return {
        "hosts": hosts if request["hosts_file"] or "preflight" in (hosts or "") else None,
        "limits": limits,
        "profile": read("/etc/profile.d/preflight-hccl.sh"),
        "nr_open": read("/proc/sys/fs/nr_open"),
    }
