"""Where the gate's files would be put on this host, which Python is to run them, and which lines of Slurm's
configuration start the gate. Runs on the host; imported by nobody. Standard library only, Python 3.6 syntax. Nothing is
written.

The rest of stdin is the request, {"marker", "paths", "front": what schedulers start, or ""}; the answer is
`\\n<marker> <length>\\n<json>\\n`:

    python   absolute path of the interpreter, "" if none starts that is 3.6 or newer
    kinds    {path: missing | file | link | folder | other}
    named    ["FILE:LINE: TEXT"] of the lines that start the gate: in slurm.conf and what it includes, wherever Slurm
             may have it, in the scripts that it names, and in what the running controller says
"""

import glob
import json
import os
import re
import stat
import subprocess
import sys

# The system's own, which stay when somebody's environment goes; the second is all that a minimal RHEL 8 has.
PYTHONS = ("/usr/bin/python3", "/usr/libexec/platform-python")
NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 6))"
SECONDS = 10
CONFS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/usr/local/etc/slurm/slurm.conf",
    "/usr/local/slurm/etc/slurm.conf",
    "/opt/slurm/etc/slurm.conf",
    "/cm/shared/apps/slurm/var/etc/slurm/slurm.conf",
    "/run/slurm/conf/slurm.conf",  # without a file of its own: what slurmd got from slurmctld
    "/var/spool/slurmd/conf-cache/slurm.conf",
    "/var/spool/slurm/d/conf-cache/slurm.conf",
)
SCONTROLS = (
    "/usr/bin/scontrol",
    "/usr/local/bin/scontrol",
    "/opt/slurm/bin/scontrol",
    "/usr/local/slurm/bin/scontrol",
    "/cm/shared/apps/slurm/current/bin/scontrol",
)
ROLES = re.compile(
    r"(?i)(prolog|epilog|taskprolog|taskepilog|prologslurmctld|epilogslurmctld|healthcheckprogram)\s*=\s*(.*)"
)
INCLUDE = re.compile(r"(?i)include\s+(\S+)")
LARGEST = 8 << 20  # bytes of a file
MOST = 64  # files that are read


def starts(python):
    try:
        return subprocess.call([python, "-IS", "-c", NEW_ENOUGH], timeout=SECONDS) == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def kind(path):
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    for word, test in (("file", stat.S_ISREG), ("link", stat.S_ISLNK), ("folder", stat.S_ISDIR)):
        if test(mode):
            return word
    return "other"


def lines(path):
    """[(number, line without its comment)] of a regular file; none where it cannot be read."""
    try:
        if not os.path.isfile(path):
            return []
        with open(path, "rb") as file:
            text = file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return []
    return [(number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1)]


def confs():
    """Yield the paths that slurm.conf may have here: the usual ones, and those of the daemons that run."""
    for path in CONFS:
        yield path
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if not os.path.basename(os.readlink("/proc/%s/exe" % name)).startswith(("slurmd", "slurmctld")):
                continue
            with open("/proc/%s/cmdline" % name, "rb") as file:
                words = file.read(65536).decode("utf-8", "replace").split("\0")
            with open("/proc/%s/environ" % name, "rb") as file:
                environment = file.read(1 << 20).decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        for number, option in enumerate(words[:-1]):
            if option == "-f":
                yield words[number + 1]
            elif option == "-d":
                yield os.path.join(words[number + 1], "conf-cache/slurm.conf")
        for entry in environment:
            if entry.startswith("SLURM_CONF="):
                yield entry.partition("=")[2]


def controller():
    """The lines of `scontrol show config` as [(key, value)], none where there is no Slurm or it does not answer."""
    scontrol = next((path for path in SCONTROLS if os.access(path, os.X_OK)), None)
    if scontrol is None:
        return []
    try:
        process = subprocess.Popen(
            [scontrol, "show", "config"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
    except OSError:
        return []
    try:
        said = process.communicate(timeout=SECONDS)[0].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        process.kill()
        return []
    pairs = (line.partition("=")[::2] for line in said[:LARGEST].splitlines())
    return [(key.strip(), value.strip()) for key, value in pairs]


def named(front):
    """Yield "FILE:LINE: TEXT" of each line that starts the gate."""
    said = controller()
    todo = list(dict.fromkeys(os.path.realpath(path) for path in confs()))
    todo += [value.split()[0] for key, value in said if key == "SLURM_CONF" and value]
    scripts = [value for key, value in said if ROLES.match("%s=%s" % (key, value))]
    read = set()
    while todo and len(read) < MOST:
        path = os.path.realpath(todo.pop(0))
        if path in read:
            continue
        read.add(path)
        for number, line in lines(path):
            included, role = INCLUDE.match(line), ROLES.match(line)
            if included:
                todo.append(os.path.join(os.path.dirname(path), included.group(1)))
            elif role and front in role.group(2):
                yield "%s:%d: %s" % (path, number, line)
            elif role:
                scripts.append(role.group(2))
    for path in sorted({path for pattern in scripts for path in glob.glob(pattern.strip())} - {front})[:MOST]:
        for number, line in lines(path):
            if front in line:
                yield "%s:%d: %s" % (path, number, line)
    for key, value in said:
        if front in value:
            yield "scontrol show config: %s=%s" % (key, value)


def main():
    request = json.loads(sys.stdin.buffer.read().decode())
    python = next((path for path in (*PYTHONS, sys.executable) if path and starts(path)), "")
    answer = {
        "python": python,
        "kinds": {path: kind(path) for path in request["paths"]},
        "named": [line[:300] for line in named(request["front"])][:MOST] if request.get("front") else [],
    }
    text = json.dumps(answer)
    sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(text), text))


main()
