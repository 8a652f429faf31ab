"""Calls of this host's own programs: bounded in time and output, in one language."""

import os
import select
import signal
import subprocess
import time

TAG = "preflight"  # the comment that marks a firewall rule as ours
TOOL_SECONDS = 20  # limit of a single call of nft, ufw or hccn_tool
KILL_SECONDS = 2  # wait for a killed tool to be gone
OUTPUT_LIMIT = 4 << 20  # bytes; the ruleset of a host full of containers takes a tenth
MARK = "PREFLIGHT_RUN"  # in the environment of each tool: the run that it works for
ENVIRONMENT = dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")

running = set()  # process groups of the tools that run now


class StepError(Exception):
    """Failure to read or write a value, in one sentence."""


class GoneError(StepError):
    """Missing target of a change, such as a chain that is gone."""


def sentence(error):
    if isinstance(error, OSError) and error.strerror:
        return "%s: %s" % (error.filename, error.strerror) if error.filename else error.strerror
    return str(error)


def call(*argv, stdin=""):
    """Run a program to its end and return (exit code, stdout, stderr).

    It inherits the run's lock, the only descriptor that it may inherit. So if this process is killed, no other run
    writes before the program that it leaves behind has ended.
    """
    name = " ".join(argv[:4])
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            argv,
            stdin=pipe if stdin else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env=ENVIRONMENT,
            close_fds=False,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise StepError("%s is not installed" % argv[0]) from None
    running.add(process.pid)
    try:
        out, err = _exchange(process, stdin.encode(), name, time.monotonic() + TOOL_SECONDS)
    finally:
        if process.returncode is None:
            kill(process.pid)
            try:
                process.wait(KILL_SECONDS)
            except subprocess.TimeoutExpired:
                pass  # it hangs in the kernel
        running.discard(process.pid)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
    return process.returncode, out, err


def _exchange(process, data, name, deadline):
    """Feed the program its input as it reads. Return its output once it has ended."""
    texts = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
    poll = select.poll()
    for descriptor in texts:
        poll.register(descriptor, select.POLLIN)
    if data:
        poll.register(process.stdin.fileno(), select.POLLOUT)
    streams_open = len(texts)
    while streams_open:
        ready = poll.poll(max(0, deadline - time.monotonic()) * 1000)
        if not ready:
            raise StepError("timeout: %s did not end within %d s" % (name, TOOL_SECONDS))
        for descriptor, _ in ready:
            if descriptor not in texts:
                data = _send(process, poll, data)
                continue
            chunk = os.read(descriptor, 65536)
            texts[descriptor] += chunk
            if not chunk:
                poll.unregister(descriptor)
                streams_open -= 1
            elif len(texts[descriptor]) > OUTPUT_LIMIT:
                raise StepError("%s printed more than %d MiB" % (name, OUTPUT_LIMIT >> 20))
    _wait(process, name, deadline)
    return tuple(texts[pipe.fileno()].decode("utf-8", "replace") for pipe in (process.stdout, process.stderr))


def _send(process, poll, data):
    """Write a part of the input that does not block, and return the part not yet written. A pipe that is ready takes
    PIPE_BUF bytes."""
    descriptor = process.stdin.fileno()
    try:
        data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        data = b""  # it ended without reading: its exit code and output say why
    if not data:
        poll.unregister(descriptor)
        process.stdin.close()
    return data


def _wait(process, name, deadline):
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise StepError("%s closed its output but did not end" % name) from None


def kill(group):
    """End a tool and what it has started."""
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # it ended by itself in between


def kill_running():
    for group in tuple(running):
        kill(group)


def must(*argv, stdin=""):
    code, out, err = call(*argv, stdin=stdin)
    if code:
        raise StepError("%s failed: %s" % (" ".join(argv[:4]), (err.strip() or out.strip())[:500]))
    return out
