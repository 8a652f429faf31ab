"""Facts about this host for the gate's installation: places of its files, a Python for them, and lines of Slurm's
configuration that start the gate.

It runs on the host, writes nothing, and no other module imports it. Standard library only, Python 3.6 syntax.

The rest of stdin is the request, {"marker", "paths", "programs"}; the last are the gate's front and program, or none.
The answer is `\\n<marker> <length>\\n<json>\\n`:

    `python`  Absolute path of the interpreter, "" if none starts that is 3.6 or newer.
    `kinds`   {path: missing | file | link | folder | other}.
    `named`   ["FILE:LINE: TEXT"] of the lines that start the gate.
              They are in slurm.conf and its includes, wherever Slurm may have it. They are also in the scripts that it
              names, in those that these start, and in the configuration of the running controller.
    `doubt`   Reason why a daemon of Slurm that runs here may start the gate where no line does, or "".
    `unread`  Reason why slurmd may not have read the last change of its configuration, or "".
"""

import glob
import json
import os
import re
import stat
import subprocess
import sys
import time

# The system's own, which stay when a user's environment goes; a minimal RHEL 8 has the second only.
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
    "/run/slurm/conf/slurm.conf",  # on a host without its own file: slurmd's copy from slurmctld
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
PATHS = re.compile(r"/[\w.,/*?\[\]{}@+-]+")
RECORD = "/var/lib/preflight/gate.jsonl"
SLURMS = ("prolog", "epilog", "task", "health", "controller")
RECENT = 600  # seconds; twice the interval of the health check
CALLS = 1000  # lines read of the record
LARGEST = 8 << 20  # bytes of a file
MOST = 64  # files to read


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
    """Return [(number, line without its comment)] of a regular file; none where it cannot be read. A line that ends in
    a backslash continues in the next."""
    try:
        if not os.path.isfile(path):
            return []
        with open(path, "rb") as file:
            text = file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return []
    whole_lines, start = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        line = start + line.partition("#")[0].strip()
        start = line[:-1] if line.endswith("\\") else ""
        if not start:
            whole_lines.append((number, line))
    return whole_lines


def daemons():
    """Return [(program, words, environment, time of its start)] of Slurm's daemons that run here."""
    processes = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            program = os.path.realpath("/proc/%s/exe" % name)
            if not os.path.basename(program).startswith(("slurmd", "slurmctld")):
                continue
            with open("/proc/%s/cmdline" % name, "rb") as file:
                words = file.read(65536).decode("utf-8", "replace").split("\0")
            with open("/proc/%s/environ" % name, "rb") as file:
                environment = file.read(1 << 20).decode("utf-8", "replace").split("\0")
            start = start_time(name)
        except (OSError, ValueError, IndexError):
            continue
        processes.append((program, words, environment, start))
    return processes


def start_time(pid):
    """Return the time at which a process started, in seconds since 1970. ValueError or IndexError if /proc has none."""
    with open("/proc/%s/stat" % pid) as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/stat") as file:
        boot = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    return boot + ticks / float(os.sysconf("SC_CLK_TCK"))


def own_confs(running):
    """Yield the paths of slurm.conf in the command lines and environments of daemons."""
    for _, words, environment, _ in running:
        for number, option in enumerate(words[:-1]):
            if option == "-f":
                yield words[number + 1]
            elif option == "-d":
                yield os.path.join(words[number + 1], "conf-cache/slurm.conf")
        for entry in environment:
            if entry.startswith("SLURM_CONF="):
                yield entry.partition("=")[2]


def controller(running):
    """Return the lines of `scontrol show config` as [(key, value)]; none where there is no Slurm or it does not
    answer."""
    scontrols_beside = [
        os.path.join(os.path.dirname(os.path.dirname(program)), "bin/scontrol") for program, _, _, _ in running
    ]
    scontrol = next((path for path in (*scontrols_beside, *SCONTROLS) if os.access(path, os.X_OK)), None)
    if scontrol is None:
        return []
    environment = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    for conf in own_confs(running):
        if os.path.isfile(conf):
            environment["SLURM_CONF"] = conf
    try:
        process = subprocess.Popen(
            [scontrol, "show", "config"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    except OSError:
        return []
    try:
        output = process.communicate(timeout=SECONDS)[0].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        process.kill()
        return []
    pairs = (line.partition("=")[::2] for line in output[:LARGEST].splitlines())
    return [(key.strip(), value.strip()) for key, value in pairs]


def starts_gate(text, programs):
    """Return whether a value or a line of a script starts one of the programs: by its path, a pattern, a link or its
    name."""
    if any(re.search(r"(?<![\w.-])%s(?![\w.-])" % re.escape(os.path.basename(path)), text) for path in programs[:1]):
        return True
    words = PATHS.findall(text)
    paths = [path for word in words for path in (word, *glob.glob(word)[:MOST])]
    return any(os.path.realpath(path) in programs for path in paths)


def scripts_with_gate(patterns, programs):
    """Yield the lines that start the gate in scripts, and in those that these start."""
    todo, paths_read = list(patterns), set()
    while todo and len(paths_read) < MOST:
        for path in sorted(glob.glob(todo.pop(0).strip().strip("\"'")))[:MOST]:
            path = os.path.realpath(path)
            if path in paths_read or path in programs or not is_script(path):
                continue
            paths_read.add(path)
            for number, line in lines(path):
                if starts_gate(line, programs):
                    yield "%s:%d: %s" % (path, number, line)
                todo += PATHS.findall(line)


def is_script(path):
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def called_since(changed, record=RECORD):
    """Return the gate's last call by a daemon that has not read the last change of its configuration, "" if none."""
    for _, line in reversed(lines(record)[-CALLS:]):
        try:
            call = json.loads(line)
            if call["context"] in SLURMS and max(changed, time.time() - RECENT) < call["time"]:
                call_time = time.strftime("%H:%M:%S", time.localtime(call["time"]))
                return "Slurm called the gate as %s at %s, after slurm.conf was changed" % (call["context"], call_time)
        except (ValueError, KeyError, TypeError):
            continue
    return ""


def unread_change(running, changes):
    """Return the reason why slurmd may not have read the last change of slurm.conf, "" if there is none.

    A start is the only proof: `scontrol reconfigure` leaves no trace on the host. Its own copies in conf-cache are
    written by slurmd itself, so that it knows them.
    """
    change_time = max([time for path, time in changes.items() if "/conf-cache/" not in path], default=0)
    for program, _, _, start in running:
        if re.match("slurmd(?!bd)", os.path.basename(program)) and start < change_time:
            return "slurmd was started before the last change of slurm.conf"
    return ""


def in_confs(todo, programs):
    """Return ([lines that start the gate], [other values that name scripts], {path: time of its last change})."""
    gate_lines, scripts, changes = [], [], {}
    while todo and len(changes) < MOST:
        path = os.path.realpath(todo.pop(0))
        if path in changes or not os.path.isfile(path):
            continue
        changes[path] = os.stat(path).st_ctime  # a file that is copied here may keep its mtime
        for number, line in lines(path):
            include, role = INCLUDE.match(line), ROLES.match(line)
            if include:
                todo.append(os.path.join(os.path.dirname(path), include.group(1)))
            elif role and starts_gate(role.group(2), programs):
                gate_lines.append("%s:%d: %s" % (path, number, line))
            elif role:
                scripts.append(role.group(2))
    return gate_lines, scripts, changes


def scheduler(programs):
    """Return ([lines that start the gate], the reason why more may start it or "", the reason why slurmd may have an
    old configuration or "")."""
    running_daemons = daemons()
    config = controller(running_daemons)
    confs = [
        *CONFS,
        *own_confs(running_daemons),
        *(value.split()[0] for key, value in config if key == "SLURM_CONF" and value),
    ]
    gate_lines, scripts, changes = in_confs(confs, programs)
    live_roles = [(key, value) for key, value in config if ROLES.match("%s=%s" % (key, value))]
    gate_lines += scripts_with_gate(dict.fromkeys([*scripts, *(value for _, value in live_roles)]), programs)
    gate_lines += ["scontrol show config: %s=%s" % pair for pair in live_roles if starts_gate(pair[1], programs)]
    if not running_daemons:
        return gate_lines, "", ""
    unread = unread_change(running_daemons, changes)
    if not config:
        return gate_lines, "the Slurm controller does not answer scontrol show config", unread
    return gate_lines, called_since(max(changes.values(), default=0)), unread


def main():
    request = json.loads(sys.stdin.buffer.read().decode())
    python = next((path for path in (*PYTHONS, sys.executable) if path and starts(path)), "")
    gate_lines, doubt, unread = scheduler(request["programs"]) if request.get("programs") else ([], "", "")
    answer = {
        "python": python,
        "kinds": {path: kind(path) for path in request["paths"]},
        "named": [line[:300] for line in gate_lines[:MOST]],
        "doubt": doubt,
        "unread": unread,
    }
    text = json.dumps(answer)
    sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(text), text))


main()
