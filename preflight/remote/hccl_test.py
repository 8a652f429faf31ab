"""Starter of the vendor's HCCL Test over hosts: one mpirun on this host, which reaches the others by ssh.

Standard library only, Python 3.6 syntax. It runs in the jobs' environment, and all ranks get the variables of that. The
rest of stdin is the request, a JSON object:

    marker     word that frames the answer
    test       path of all_reduce_test, the same on all hosts
    options    its arguments
    hosts      [address, …], this host first; ranks are numbered in this order
    slots      ranks a host
    nic        interface or CIDR that MPI is to use, or null
    variables  {name: value} that the ranks get on top
    seconds    timeout of the test

The answer is `\\n<marker> <length>\\n<json>\\n`. It has command (one line, to be run manually), output (of all ranks,
its first LIMIT bytes) and exit (null: timeout). It has error, one sentence, if the test was not started.
"""

import ctypes
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

LIMIT = 256 * 1024  # bytes kept of the output
LOGIN_SECONDS = 20
VERSION_SECONDS = 20
FAREWELL = 5  # seconds for mpirun to end its ranks on all hosts
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
PLACES = (
    "/usr/local/mpich/bin",
    "/usr/local/openmpi/bin",
    "/usr/local/mpi/bin",
    "/opt/mpich/bin",
    "/opt/openmpi/bin",
    "/usr/lib64/openmpi/bin",
    "/usr/lib64/mpich/bin",
)
# Variables of the environment that ranks of other hosts need; Open MPI passes on none by itself.
PASSED = ("HCCL_", "ASCEND_", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TOOLCHAIN_HOME")


class NotPossibleError(Exception):
    """Reason why HCCL Test cannot be started, in one sentence."""


def find_mpirun():
    """Return (path of mpirun, whether it is Open MPI)."""
    home = os.environ.get("MPI_HOME")
    places = ([os.path.join(home, "bin")] if home else []) + os.environ.get("PATH", "").split(":") + list(PLACES)
    path = shutil.which("mpirun", path=":".join(places))
    if path is None:
        raise NotPossibleError("mpirun is neither on PATH nor in $MPI_HOME. HCCL Test needs MPICH or Open MPI")
    text, _ = run([path, "--version"], VERSION_SECONDS)
    if "Open MPI" not in text and "HYDRA" not in text:
        raise NotPossibleError("%s is neither Open MPI nor MPICH. It printed %r" % (path, text[:200]))
    return path, "Open MPI" in text


def cannot_log_in(addresses):
    """Return [(address, ssh's last line)] of the hosts that this host cannot enter without a password."""
    ssh = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    attempts = [(address, subprocess.Popen([*ssh, address, "true"], **pipes)) for address in addresses]
    until = time.monotonic() + LOGIN_SECONDS
    failed = []
    try:
        for address, attempt in attempts:
            try:
                output = attempt.communicate(timeout=max(0.1, until - time.monotonic()))[1]
            except subprocess.TimeoutExpired:
                attempt.kill()
                output = b"no answer"
            if attempt.wait() != 0:
                failed.append((address, (output.decode("utf-8", "replace").strip().splitlines() or ["no word"])[-1]))
    finally:
        for _, attempt in attempts:
            if attempt.poll() is None:
                attempt.kill()
    return failed


def command(request, mpirun, is_open_mpi, hostfile, passed):
    """Return mpirun's argv. `passed`: variables of the environment that ranks of other hosts get."""
    ranks = str(len(request["hosts"]) * request["slots"])
    nic = request["nic"]
    if is_open_mpi:
        home = os.path.dirname(os.path.dirname(os.path.realpath(mpirun)))
        argv = [mpirun, "--hostfile", hostfile, "-n", ranks, "--bind-to", "none"]
        argv += [] if home == "/usr" else ["--prefix", home]
        argv += ["--allow-run-as-root"] if os.getuid() == 0 else []
        argv += ["--mca", "oob_tcp_if_include", nic, "--mca", "btl_tcp_if_include", nic] if nic else []
        for name in passed:
            argv += ["-x", name]
    else:  # MPICH passes on its whole environment
        argv = [mpirun, "-f", hostfile, "-n", ranks]
        argv += ["-iface", nic] if nic and "/" not in nic else []
    return argv + [request["test"]] + request["options"]


def hostfile_lines(request, is_open_mpi):
    return [("%s slots=%d" if is_open_mpi else "%s:%d") % (address, request["slots"]) for address in request["hosts"]]


def manual_command(request, mpirun, is_open_mpi):
    """Return one line for a shell that does the same where the jobs' environment is set."""
    lines = " ".join(shlex.quote(line) for line in hostfile_lines(request, is_open_mpi))
    assignments = " ".join("%s=%s" % (name, shlex.quote(value)) for name, value in sorted(request["variables"].items()))
    argv = command(request, mpirun, is_open_mpi, "hosts", sorted({"LD_LIBRARY_PATH", *request["variables"]}))
    return "printf '%%s\\n' %s > hosts; %s %s" % (lines, assignments, " ".join(map(shlex.quote, argv)))


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def run(words, seconds):
    """Run a command. Return (the first LIMIT bytes that it and its ranks print, its exit code or None).

    Its processes are ended, however this function ends.
    """
    earlier = set(children())
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    chunks = []

    def read():
        room = LIMIT
        for chunk in iter(lambda: os.read(process.stdout.fileno(), 1 << 16), b""):
            if room:
                chunks.append(chunk[:room])
                room -= len(chunks[-1])

    reader = threading.Thread(target=read)
    reader.daemon = True
    reader.start()
    until = time.monotonic() + seconds
    try:
        while process.poll() is None and time.monotonic() < until:
            if nobody_listens():
                raise SystemExit(1)
            time.sleep(0.1)
        code = process.poll()
    finally:
        if process.poll() is None:
            process.terminate()  # mpirun ends its ranks on the other hosts, too
            try:
                process.wait(FAREWELL)
            except subprocess.TimeoutExpired:
                pass
        kill_descendants(process.pid, earlier)
    reader.join(2)
    return b"".join(chunks).decode("utf-8", "replace"), code


def nobody_listens():
    """True if the answer can no longer be written, because the ssh session is gone.

    The parent's end does not always tell: sudo, if there is one, outlives the session.
    """
    poll = select.poll()
    poll.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def kill_descendants(group, others):
    """Kill the process group and the processes that it left behind.

    Ranks that mpirun put elsewhere became children of this process, which is their subreaper, beside its earlier
    children, `others`.
    """
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # no process is left in it
    until = time.monotonic() + FAREWELL  # a process inside a driver dies when the driver lets it
    pids = set(children()) - others
    while pids and time.monotonic() < until:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)
        pids = set(children()) - others


def children():
    own = os.getpid()
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%d/stat" % int(name)) as stat:
                if int(stat.read().rpartition(")")[2].split()[1]) == own:
                    yield int(name)
        except (ValueError, OSError, IndexError):
            continue


def do(request):
    os.environ.update(request["variables"])
    if len(request["hosts"]) > 1:
        os.environ.pop("HCCL_IF_IP", None)  # it can be right on only one of the hosts
    mpirun, is_open_mpi = find_mpirun()
    line = manual_command(request, mpirun, is_open_mpi)
    failed = cannot_log_in(request["hosts"][1:])
    if failed:
        host, error = failed[0]
        suffix = " (and %d more)" % (len(failed) - 1) if len(failed) > 1 else ""
        why = "mpirun starts the other hosts' ranks by ssh, but this host cannot log in to %s%s: %s" % (
            host,
            suffix,
            error,
        )
        return {"command": line, "error": why}
    folder = tempfile.mkdtemp(prefix="preflight-")
    try:
        hostfile = os.path.join(folder, "hosts")
        with open(hostfile, "w") as file:
            file.writelines(entry + "\n" for entry in hostfile_lines(request, is_open_mpi))
        names = [name for name in sorted(os.environ) if name.startswith(PASSED)]
        output, code = run(command(request, mpirun, is_open_mpi, hostfile, names), request["seconds"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"command": line, "output": output, "exit": code}


def leave(*_):
    """Exit on a signal, and ignore further ones, so that cleanup is done."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise SystemExit(1)


def main():
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    for number in ENDING:
        signal.signal(number, leave)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # with the ssh session
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        answer = do(request)
    except NotPossibleError as error:
        answer = {"error": str(error)}
    except (OSError, subprocess.SubprocessError) as error:
        answer = {"error": "%s: %s" % (type(error).__name__, error)}
    text = json.dumps(answer)
    print("\n%s %d\n%s" % (request["marker"], len(text), text))


if __name__ == "__main__":
    main()
