"""The collector: looks at one host and answers with raw text, section by section. Runs on the host; imported by nobody.

Standard library only, Python 3.6 syntax. The rest of stdin is the request, a JSON object:

    marker     word that frames the answer; banners before it and noise after it do no harm
    deadlines  {section: seconds it may take} of the sections wanted (SECTIONS below)
    ports      [[low, high], …] job ports, for `sockets` and `connects`
    connects   {"targets": [[host, name or address], …], "ports": [port, …], "ephemeral": whether to try the first and
               last of the ephemeral ports, too}, for `connects`
    names      host names to resolve, for `names`
    hosts_file, limits  whether the inventory asks for these, for `environment`
    job        {"source", "npu", "python", "argv", "elsewhere"}: job_view.py, and the way to where jobs run, for `job`
    devices    device ids, for `hccn`; every /dev/davinciN is looked at besides
    readings   [["ip", "-g"], …] arguments of hccn_tool, for `hccn`, in this order
    pings      [[device, address], …], for `pings`

The answer is `\n<marker> <length>\n<json>\n` with {section: {"value": …} or {"error": "one sentence"}}. Nothing is
interpreted here: parsing is the controller's, where it can be tested and mended. Heavy modules are avoided, since
every host pays for them at every look.
"""

# ruff: noqa: ARG001  (the sections have one signature)

import errno
import json
import os
import pwd
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time

COMMAND_LIMIT = 256 * 1024  # bytes kept of one command's output
FILE_LIMIT = 1024 * 1024  # bytes read of one file
ENVIRONMENT = dict(os.environ, LC_ALL="C")
SEARCH = [*os.environ.get("PATH", "").split(":"), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
# Answers of a moment, and how many seconds they are waited out: just after boot the tool still restores the settings;
# a device that has just got a detect address has not probed it yet.
PASSING = {"cfg": (("status:START",), 10), "net_health": (("status: Init", "status: Detect ip set"), 5)}
HCCN_TOOL = ("hccn_tool", "/usr/local/Ascend/driver/tools/hccn_tool")
NPU_SMI = ("npu-smi", "/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi")


# A file's bytes that are no UTF-8 (a comment in GBK or Latin-1) travel as private characters, U+10FF80 to U+10FFFF, and
# apply.py turns them back, so that a file edited by a change keeps them. JSON has no place for lone surrogates.
KEPT = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
running = set()  # process groups of the tools that run now


class LookError(Exception):
    """Why a section, or a part of it, could not be looked at: one sentence."""


def find(name, *places):
    """The path of a tool: on PATH first, then in the vendor's place; None if it is nowhere."""
    for path in [os.path.join(folder, name) for folder in SEARCH if folder] + list(places):
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def read(path, limit=FILE_LIMIT):
    """The text of a file, None if there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LookError("%s cannot be read: %s" % (path, error.strerror)) from None
    if len(data) > limit:
        raise LookError("%s is larger than %d KiB" % (path, limit // 1024))
    return data.decode("utf-8", "surrogateescape").translate(KEPT)


def command(argv, deadline, stdin=b"", limit=COMMAND_LIMIT):
    """Run a program to its end: {"out", "err", "code"}. Raises LookError past the deadline and past the limit."""
    name = os.path.basename(argv[0])
    if time.monotonic() >= deadline:
        raise LookError("%s was not started: the time for it was over" % " ".join([name, *argv[1:3]]))
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        raise LookError("%s does not start: %s" % (argv[0], error.strerror)) from None
    running.add(process.pid)
    try:
        if stdin:
            try:
                process.stdin.write(stdin)  # less than a pipe holds, so it does not block
                process.stdin.close()
            except OSError:
                pass  # it ended without reading: its exit and its words say why
        texts = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
        waiting = select.poll()
        for descriptor in texts:
            waiting.register(descriptor, select.POLLIN)
        still_open = len(texts)
        while still_open:
            left = deadline - time.monotonic()
            if left <= 0:
                raise LookError("%s was still running at its deadline" % " ".join([name, *argv[1:3]]))
            for descriptor, _ in waiting.poll(left * 1000):
                data = os.read(descriptor, 65536)
                texts[descriptor] += data
                if not data:
                    waiting.unregister(descriptor)
                    still_open -= 1
                elif len(texts[descriptor]) > limit:
                    raise LookError("%s printed more than %d KiB" % (name, limit // 1024))
        try:
            code = process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise LookError("%s closed its output but did not end" % name) from None
        out, err = (texts[stream.fileno()].decode("utf-8", "replace") for stream in (process.stdout, process.stderr))
        return {"out": out, "err": err, "code": code}
    finally:
        if process.returncode is None:
            kill(process.pid)
            process.poll()
        running.discard(process.pid)
        process.stdout.close()
        process.stderr.close()


def kill(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # it ended by itself in between


def leave():
    """End now, and every tool with us: a thread that hangs in the kernel must not hold the connection."""
    for group in tuple(running):
        kill(group)
    os._exit(0)


def leave_with_the_connection():
    """Nobody waits for the answer any more where the reader of stdout is gone: Ctrl-C, or a lost connection."""
    reader = select.poll()
    reader.register(sys.stdout, 0)  # that the other end is gone is reported unasked
    reader.poll()
    leave()


def required(name, *places):
    path = find(name, *places)
    if path is None:
        raise LookError("%s is not installed, or not on PATH" % name)
    return path


# Sections. Each takes the request and its deadline (time.monotonic()) and returns something JSON can carry.


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
    }


def open_run():
    """The run of preflight/remote/apply that has begun on this host and not finished; only root sees it."""
    try:
        return os.readlink("/var/lib/preflight/journal/open")
    except OSError:
        return ""


def look_sysctl(request, deadline):
    """The kernel's values, and every *.conf that a loader could read, with its text where that is about our key."""
    values = {}
    for key in ("net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_local_port_range", "net.core.somaxconn"):
        values[key] = read("/proc/sys/" + key.replace(".", "/"))
    files = []
    for folder in ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"):
        try:
            names = sorted(name for name in listing(folder) if name.endswith(".conf"))
            files += [sysctl_file(os.path.join(folder, name)) for name in names]
        except LookError as error:
            files.append({"path": folder + "/*.conf", "error": str(error)})
    if os.path.lexists("/etc/sysctl.conf"):
        files.append(sysctl_file("/etc/sysctl.conf"))
    try:
        tuned = look_tuned()
    except LookError as error:
        tuned = {"error": str(error)}
    return {"values": values, "files": files, "read_only": read_only("/proc/sys/net/ipv4"), "tuned": tuned}


def listing(folder):
    """What is in a folder; nothing, if there is none."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LookError("%s cannot be listed: %s" % (folder, error.strerror)) from None


def sysctl_file(path):
    found = {"path": path, "target": os.path.realpath(path) if os.path.islink(path) else "", "text": "", "error": ""}
    try:
        # What is no file, such as a directory or /dev/null, sets nothing; and a pipe would never end.
        text = (read(path) or "") if os.path.isfile(path) else ""
        if "ip_local_reserved_ports" in text or path.endswith("/90-preflight.conf"):
            found["text"] = text
    except LookError as error:
        found["error"] = str(error)
    return found


def read_only(path):
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def look_tuned():
    """tuned's profiles, where it is used and one of them is about our key."""
    active = read("/etc/tuned/active_profile") or ""
    if not active.strip():
        return None
    files = {}
    for folder in ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"):
        for name in listing(folder):
            path = os.path.join(folder, name, "tuned.conf")
            text = read(path)
            if text is not None:
                files[path] = text
    if not any("ip_local_reserved_ports" in text for text in files.values()):
        return None
    if not (os.path.lexists("/etc/systemd/system/multi-user.target.wants/tuned.service") or runs("tuned")):
        return None
    post_loaded, main = read("/etc/tuned/post_loaded_profile") or "", read("/etc/tuned/tuned-main.conf") or ""
    return {"active": active, "post_loaded": post_loaded, "main": main, "files": files}


def look_sockets(request, deadline):
    """The kernel filters by port. Who owns a socket costs a walk through /proc, so it is asked only if there is one."""
    tool = required("ss")
    ranges = ["( sport >= :%d and sport <= :%d )" % (low, high) for low, high in request["ports"]]
    if not ranges:
        return {"out": "", "err": "", "code": 0}

    def ask(options):
        answer = command([tool, "-H" + options, " or ".join(ranges)], deadline)
        if answer["code"] and "invalid option" in answer["err"]:  # an old one always prints a header
            answer = command([tool, "-" + options, " or ".join(ranges)], deadline)
        return answer

    answer = ask("tan")
    found = [line for line in answer["out"].splitlines() if line.strip() and not line.startswith("State ")]
    return ask("tanp") if found else answer


def look_network(request, deadline):
    """JSON where iproute2 can (4.14 and later), its text otherwise; the parser takes either."""
    tool = required("ip")

    def ask(*arguments):
        answer = command([tool, "-j", *arguments], deadline)
        if answer["code"] and "-j" in answer["err"]:
            answer = command([tool, *arguments], deadline)
        if answer["code"]:
            raise LookError("ip %s failed: %s" % (" ".join(arguments), answer["err"].strip()[:200]))
        return answer["out"]

    return {"addresses": ask("address"), "routes": ask("-4", "route")}


def look_firewall(request, deadline):
    nft = find("nft")
    ruleset = command([nft, "list", "ruleset"], deadline, limit=FILE_LIMIT) if nft else None
    programs = iptables_programs(ruleset)
    return {
        "nft": ruleset,
        "nft_boot_file": read("/etc/nftables.conf"),
        "nft_preflight_file": read("/etc/preflight/nftables.nft"),
        "ufw_installed": find("ufw") is not None,
        "ufw_conf": read("/etc/ufw/ufw.conf"),
        "ufw_rules": [read(path) or "" for path in ("/etc/ufw/user.rules", "/etc/ufw/user6.rules")],
        "ufw_default": read("/etc/default/ufw"),
        "iptables": {
            name: command([path, "-S", "INPUT"], deadline, limit=FILE_LIMIT) if path else None
            for name, path in programs.items()
        },
        # What nft does not show: the tables of legacy iptables, and all where it is not installed.
        "nat": {
            name: command([path, "-t", "nat", "-S"], deadline, limit=FILE_LIMIT)
            for name, path in programs.items()
            if path and (name in legacy_tables("nat") if "legacy" in name else not nft)
        },
        "iptables_saved": texts(
            [folder + "/" + name for folder in ("/etc/iptables", "/etc/sysconfig") for name in SAVED_RULES]
        ),
        "firewalld": look_firewalld(deadline) if find("firewalld") and runs("firewalld") else None,
        "at_boot": [service for service in FIREWALL_SERVICES if starts_at_boot(service)],
        "ssh_connection": ssh_connection(),
    }


FIREWALL_SERVICES = ("firewalld", "nftables", "netfilter-persistent", "iptables", "ip6tables", "ufw")
SAVED_RULES = ("rules.v4", "rules.v6", "iptables", "ip6tables")  # of netfilter-persistent and of iptables-services


def starts_at_boot(service):
    """Whether systemd starts it: a target wants it, and it is not masked."""
    base = "/etc/systemd/system/"
    unit = service + ".service"
    wanted = any(os.path.lexists(folder + "/" + unit) for folder in listed(base, ".target.wants"))
    return wanted and os.path.realpath(base + unit) != "/dev/null"


def iptables_programs(ruleset):
    """{name: path, or None where it is not installed} of the iptables programs whose tables the kernel holds."""
    names = legacy_tables("filter")
    if ruleset is None:  # then nothing shows whether iptables-nft has made rules, but itself
        names += [name for name in ("iptables-nft", "ip6tables-nft") if iptables_path(name)]
    else:
        for table, name in (("\ntable ip filter {", "iptables-nft"), ("\ntable ip6 filter {", "ip6tables-nft")):
            if table in "\n" + ruleset["out"]:
                names.append(name)
    return {name: iptables_path(name) for name in names}


def legacy_tables(table):
    """The legacy programs whose `table` is in the kernel. To list one that is not there would make it."""
    found = []
    for name, path in (("iptables", "/proc/net/ip_tables_names"), ("ip6tables", "/proc/net/ip6_tables_names")):
        if os.path.exists(path) and table in (read(path) or "").split():
            found.append(name + "-legacy")
    return found


def iptables_path(name):
    """`iptables-nft` by that name, or as plain `iptables` where that is a link to the program of nft; the same for
    legacy, which older systems have under the plain name only."""
    plain, _, variant = name.partition("-")
    path = find(plain)
    is_nft = path is not None and "nft" in os.path.basename(os.path.realpath(path))
    return find(name) or (path if path and is_nft == (variant == "nft") else None)


def look_firewalld(deadline):
    folders = ("/etc/firewalld/zones", "/usr/lib/firewalld/zones", "/etc/firewalld/services")
    zones, builtin, services = (texts(listed(folder, ".xml")) for folder in folders)
    modules = [
        module
        for base in ("/usr/lib", "/usr/lib64")
        for python in listed(base, "")
        if os.path.basename(python).startswith("python")
        for packages in ("dist-packages", "site-packages")
        for module in [python + "/" + packages + "/firewall/config/__init__.py"]
        if os.path.exists(module)
    ]
    return {
        "zones": command([required("firewall-cmd"), "--list-all-zones"], deadline),
        "config": read("/etc/firewalld/firewalld.conf"),
        "module": read(modules[0]) if modules else None,
        "zone_files": dict(zones, **builtin),
        "services": services,
    }


def listed(folder, ending):
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(ending)]
    except OSError:
        return []


def texts(paths):
    """{path: text} of the files that are there."""
    found = {path: read(path) for path in paths}
    return {path: text for path, text in found.items() if text is not None}


def ssh_connection():
    """SSH_CONNECTION of the login that this runs in. sudo takes it from its child, so parents are looked at, too."""
    pid = os.getpid()
    while pid > 1:
        try:
            with open("/proc/%d/environ" % pid, "rb") as file:
                for variable in file.read().split(b"\0"):
                    if variable.startswith(b"SSH_CONNECTION="):
                        return variable.partition(b"=")[2].decode("utf-8", "replace")
            with open("/proc/%d/stat" % pid) as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
    return None


def runs(name):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid) as file:
                if file.read().strip() == name:
                    return True
        except OSError:
            continue
    return False


CONNECT_SECONDS = 1.6  # a first packet that got lost is sent again after one second


def look_connects(request, deadline):
    """TCP connections to other hosts, all at once: what comes back, or that nothing does, tells of the firewalls in
    between. Whatever accepts one sees it closed at once. Where a socket of this host has the port at either end, a job
    may be at work there, and it is left alone."""
    wanted = request["connects"]
    ports = list(wanted["ports"])
    if wanted["ephemeral"]:
        ports += [int(port) for port in (read("/proc/sys/net/ipv4/ip_local_port_range") or "").split()]
    busy = busy_ports() if wanted["targets"] else ()
    found, tries, waiting = [], {}, select.poll()
    for host, name in wanted["targets"]:
        try:
            # As bytes: a text would load the IDNA codec, 5 ms.
            family, _, _, _, place = socket.getaddrinfo(name.encode(), 0, 0, socket.SOCK_STREAM)[0]
        except (OSError, UnicodeError):
            found.append({"host": host, "error": "%s does not resolve there" % name})
            continue
        for port in sorted(set(ports)):
            one = {"host": host, "address": place[0], "port": port}
            if port in busy:
                found.append(dict(one, busy=True))
                continue
            try:
                connection = unobtrusive_socket(family, request["ports"])
            except OSError as error:
                found.append(dict(one, error="no socket for it: %s" % error.strerror))
                continue
            code = connection.connect_ex((place[0], port, *place[2:]))
            if code == errno.EINPROGRESS:
                waiting.register(connection, select.POLLOUT)
                tries[connection.fileno()] = (connection, one)
            else:
                found.append(dict(one, **closed(connection, code)))
    until = min(deadline, time.monotonic() + CONNECT_SECONDS)
    while tries and time.monotonic() < until:
        for descriptor, _ in waiting.poll(max(0, until - time.monotonic()) * 1000):
            waiting.unregister(descriptor)
            connection, one = tries.pop(descriptor)
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            found.append(dict(one, **closed(connection, code)))
    return found + [dict(one, **closed(connection, errno.ETIMEDOUT)) for connection, one in tries.values()]


IP_RECVERR, IPV6_RECVERR, MSG_ERRQUEUE = 11, 25, 0x2000  # linux/in.h, linux/in6.h, linux/socket.h


def unobtrusive_socket(family, job_ports):
    """A socket whose own port is none of the job's: there it would be in the way of a job that begins now."""
    for _ in range(20):
        connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if family == socket.AF_INET6:
            connection.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        else:
            connection.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        connection.bind(("", 0))
        if not any(low <= connection.getsockname()[1] <= high for low, high in job_ports):
            return connection
        connection.close()
    raise OSError(errno.EADDRINUSE, "no port outside of the job's is free")


def closed(connection, code):
    """How the connection ended: {"code": 0 or an errno, "client": its address here, "icmp": who answered in the way of
    a router or a firewall}. A port where nobody listens answers by TCP itself."""
    icmp = None
    try:
        _, messages, _, _ = connection.recvmsg(1, 512, MSG_ERRQUEUE)  # since Linux 5.10 for TCP
        for level, _, data in messages:
            # struct sock_extended_err: errno (4 bytes), origin, type, code, padding, info, data; a sockaddr behind it.
            if len(data) >= 24 and data[4] in (2, 3):
                v6 = level == socket.IPPROTO_IPV6
                icmp = socket.inet_ntop(socket.AF_INET6, data[24:40]) if v6 else socket.inet_ntoa(data[20:24])
    except (OSError, ValueError):
        pass  # no word from anybody
    client = connection.getsockname()[0]
    connection.close()
    return {"code": code, "client": client, "icmp": icmp}


def busy_ports():
    """The ports at either end of this host's TCP sockets that are more than a memory (TIME_WAIT)."""
    ports = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (read(path, 16 * FILE_LIMIT) or "").splitlines()[1:]:
            _, own, other, state = line.split()[:4]
            if state != "06":
                ports.update(int(end.rpartition(":")[2], 16) for end in (own, other))
    return ports


def look_names(request, deadline):
    """Resolved eight at a time: one dead name server must not cost a time-out per host."""
    own = socket.gethostname()
    todo = [own] + request["names"]
    answers = {}

    def work():
        while todo:
            try:
                name = todo.pop()
            except IndexError:
                return
            try:
                # As bytes: a text would load the IDNA codec, 5 ms.
                found = socket.getaddrinfo(name.encode(), None, 0, socket.SOCK_STREAM)
                answers[name] = [entry[4][0] for entry in found]
            except (OSError, UnicodeError):
                answers[name] = []

    wanted = set(todo)
    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(8, len(todo)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0, deadline - time.monotonic()))
    late = sorted(wanted - set(answers))
    if late:
        raise LookError("%s did not resolve, or fail to, in time" % ", ".join(late[:4]))
    return {"hostname": answers[own], "cluster": {name: answers[name] for name in request["names"]}}


def look_environment(request, deadline):
    """Files that [host_setup] is about; of those that it asks nothing of, only what preflight may have left there."""
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


def look_job(request, deadline):
    """What a job sees. Run right here where the jobs' Python is this very one: a second start costs 20 ms."""
    job = request["job"]
    if not job["elsewhere"]:
        python = find(job["python"])
        if python is None:
            return {"python": None}
        if python == sys.executable:
            scope = {"__name__": "job_view"}
            exec(job["source"], scope)
            return scope["view"](job["npu"])
    mark = request["marker"] + "-job "
    payload = json.dumps({"marker": mark, "npu": job["npu"]})
    answer = command(job["argv"], deadline, stdin=(job["source"] + payload).encode())
    for line in answer["out"].splitlines():
        if line.startswith(mark):
            return json.loads(line[len(mark) :])
    words = (answer["err"].strip() or answer["out"].strip() or "no word of why").splitlines()[-1]
    raise LookError("%s, where the jobs run, ends with %d: %s" % (job["python"], answer["code"], words[:200]))


def look_driver(request, deadline):
    base = "/usr/local/Ascend"
    for line in (read("/etc/ascend_install.info") or "").splitlines():
        if line.startswith("Driver_Install_Path_Param="):
            base = line.partition("=")[2].strip() or base
    return {name: read(os.path.join(base, name, "version.info")) for name in ("driver", "firmware")}


def hccn(tool, device, arguments, deadline):
    """One call of hccn_tool. Another user of the tool makes it say "busy", on stdout: asked again, ever less often."""
    pause = 0.05
    while True:
        try:
            answer = command([tool, "-i", str(device), *arguments], deadline)
        except LookError as error:
            return {"out": "", "err": "", "code": -1, "trouble": str(error)}
        if "hccn_tool is busy" not in answer["out"] + answer["err"] or time.monotonic() + pause > deadline:
            return answer
        time.sleep(pause)
        pause = min(1.0, pause * 2)


def hccn_settled(tool, device, arguments, passing, seconds, deadline):
    """One call of hccn_tool, made again for as long as its answer is a passing one and `seconds` are not over."""
    end = min(deadline, time.monotonic() + seconds)
    while True:
        answer = hccn(tool, device, arguments, deadline)
        if not any(words in answer["out"] for words in passing) or time.monotonic() + 0.5 > end:
            return answer
        time.sleep(0.5)


def each_device(devices, work, deadline):
    """{device: work(device)} with a thread a device: reads of different devices do not disturb each other."""
    results = {}

    def run(device):
        results[str(device)] = work(device)

    threads = [threading.Thread(target=run, args=(device,), daemon=True) for device in devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, deadline + 0.5 - time.monotonic()))
    return dict(results)


def davinci():
    """Ids of the device nodes; a device's -i is the N of /dev/davinciN."""
    return [int(entry[7:]) for entry in os.listdir("/dev") if entry[:7] == "davinci" and entry[7:].isdigit()]


def look_hccn(request, deadline):
    tool = required(*HCCN_TOOL)
    devices = sorted(set(request["devices"]) | set(davinci()))
    if not devices:
        raise LookError("no device: the inventory names none, and there is no /dev/davinciN")

    def readings(device):
        found = {}
        for name, option in request["readings"]:
            probes_nothing = name == "net_health" and "0.0.0.0" in found.get("netdetect", {}).get("out", "0.0.0.0")
            passing, seconds = ((), 0) if probes_nothing else PASSING.get(name, ((), 0))
            found[name] = hccn_settled(tool, device, ["-" + name, option], passing, seconds, deadline)
        return found

    return each_device(devices, readings, deadline)


def look_pings(request, deadline):
    """The pings of one device go one after the other."""
    tool = required(*HCCN_TOOL)
    targets = {}
    for device, address in request["pings"]:
        targets.setdefault(device, []).append(address)

    def pings(device):
        return {
            address: hccn(tool, device, ["-ping", "-g", "address", address], deadline) for address in targets[device]
        }

    return each_device(targets, pings, deadline)


def look_hccn_conf(request, deadline):
    return {"text": read("/etc/hccn.conf")}


def look_npu_smi(request, deadline):
    tool = required(*NPU_SMI)
    info, mapping = command([tool, "info"], deadline), command([tool, "info", "-m"], deadline)
    processes = re.findall(r"^\|[ \d]+\|\s*(\d{1,9})\s*\|", info["out"].partition("Process id")[2], re.MULTILINE)
    users = {pid: owner(pid) for pid in processes}
    return {"info": info, "mapping": mapping, "users": {pid: user for pid, user in users.items() if user}}


def owner(pid):
    """Whose process it is: the real user, None where the process is not to be seen."""
    try:
        with open("/proc/%s/status" % pid) as file:
            uid = next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
    except (OSError, StopIteration):
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "uid %d" % uid


SECTIONS = {
    "os": look_os,
    "sysctl": look_sysctl,
    "sockets": look_sockets,
    "network": look_network,
    "firewall": look_firewall,
    "connects": look_connects,
    "names": look_names,
    "environment": look_environment,
    "job": look_job,
    "driver": look_driver,
    "hccn": look_hccn,
    "hccn_conf": look_hccn_conf,
    "npu_smi": look_npu_smi,
    "pings": look_pings,
}


def look(name, request, deadline, answer):
    try:
        answer[name] = {"value": SECTIONS[name](request, deadline)}
    except LookError as error:
        answer[name] = {"error": str(error)}
    except Exception as error:  # whatever a broken host does, the other sections are still wanted
        answer[name] = {"error": "%s: %s" % (type(error).__name__, error)}


def main():
    started = time.time()
    request = json.loads(sys.stdin.buffer.read().decode())
    threading.Thread(target=leave_with_the_connection, daemon=True).start()
    now = time.monotonic()
    found = {}
    threads = {}
    for name, seconds in request["deadlines"].items():
        arguments = (name, request, now + seconds, found)
        threads[name] = threading.Thread(target=look, args=arguments, daemon=True)
        threads[name].start()
    for name, seconds in request["deadlines"].items():
        # A second more than a section has for itself: what it found by its deadline is worth waiting for.
        threads[name].join(max(0, now + seconds + 1 - time.monotonic()))
    answer = dict(found)
    for name, seconds in request["deadlines"].items():
        answer.setdefault(name, {"error": "nothing came of it within %g s" % seconds})
    answer["clock"] = {"value": {"start": started, "end": time.time()}}
    text = json.dumps(answer)
    sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(text), text))
    sys.stdout.flush()
    leave()


if __name__ == "__main__":
    main()
