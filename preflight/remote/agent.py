"""The probe's agent: one a host, alive as long as its stdin. Starts workers, watches them, kills them in time.

stdin: a line of JSON, the hello, then one line a command. stdout: one line of JSON an event, each with the run's
nonce, so that nothing a login script or a library prints can pass for one. End-of-file on stdin ends the agent and
everything it started. Sent as text and run by any Python from 3.6; the workers' own text comes inside the hello.

The agent has one thread and forks: torch is imported before, once, and never used in this process.

Commands: start (a group of workers), go (it is the group's turn to run a test), stop (kill the group), end.
Events: ready, failed, stage, enter and result (of a test), end (of a worker).
"""

import ctypes
import fcntl
import ipaddress
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
import types

TAIL = 2000  # bytes kept of what a worker prints
TEXT = 2000  # characters kept of an error
IDLE = 900  # seconds without a command after which nobody is taken to be there any more
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15  # <linux/prctl.h>
SIOCGIFADDR = 0x8915  # <linux/sockios.h>

# Set before torch is imported. torch_npu does not survive a fork, so torch must not load it by itself; thread pools do
# not either. torch's warnings would be taken for the last words of a rank that died.
ENVIRONMENT = {
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


# --- the host's network ----------------------------------------------------------------------------------------------


def interfaces():
    """[(name, IPv4 address)] of this host."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            found.append((name, socket.inet_ntoa(answer[20:24])))
    return found


def choose_nic(wanted, address):
    """(name, address) of the interface that ranks of other hosts reach this host by.

    `wanted`: an interface name, a CIDR, or None for the interface that has `address`. Raises ValueError.
    """
    found = interfaces()
    if wanted is None:
        try:
            known = {info[4][0] for info in socket.getaddrinfo(address, None, socket.AF_INET)}
        except OSError:
            known = {address}
        matching = [nic for nic in found if nic[1] in known]
        what = "the address %s" % address
    elif "/" in wanted:
        network = ipaddress.ip_network(wanted, strict=False)
        matching = [nic for nic in found if ipaddress.ip_address(nic[1]) in network]
        what = "an address in %s" % wanted
    else:
        matching = [nic for nic in found if nic[0] == wanted]
        what = "the name %s and an IPv4 address" % wanted
    if not matching:
        there = ", ".join("%s %s" % nic for nic in found)
        raise ValueError("no interface has %s (there are: %s); set nic in the inventory" % (what, there))
    return matching[0]


def network_environment(hello, nic, address):
    """What tells each backend which of the host's interfaces to take; NCCL finds its own unless the inventory says."""
    environment = {"GLOO_SOCKET_IFNAME": nic}
    if hello["backend"] == "hccl":
        environment.update(HCCL_IF_IP=address, HCCL_SOCKET_IFNAME="=" + nic, HCCL_WHITELIST_DISABLE="1")
        if hello["host_range"]:
            environment["HCCL_HOST_SOCKET_PORT_RANGE"] = hello["host_range"]
        elif hello["base_port"]:
            environment["HCCL_IF_BASE_PORT"] = str(hello["base_port"])
    elif hello["backend"] == "nccl" and hello["nic"]:
        environment["NCCL_SOCKET_IFNAME"] = "=" + nic
    return environment


def listen(address, ports):
    """A socket that listens on the first free port of `ports`, or else on any free one; on `address` only.

    Its connections are reset when they are closed (they inherit SO_LINGER), so that none holds a job's port in
    TIME-WAIT afterwards.
    """
    for port in [*ports, 0]:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            sock.bind((address, port))
            sock.listen(1024)
        except OSError:
            sock.close()
            continue
        return sock
    raise OSError("no port is free to listen on at %s" % address)


# --- processes -------------------------------------------------------------------------------------------------------


class Worker:
    """A forked rank: its pipes, and how far it has come."""

    def __init__(self, group, rank, pid, report, output, order):
        self.group, self.rank, self.pid = group, rank, pid
        self.report, self.output, self.order = report, output, order
        self.unread = b""
        self.printed = b""
        self.error = ""
        self.closed = False
        self.last = time.monotonic()  # of its last report
        self.waiting = False  # for its group's turn: not late however long that takes
        self.killed = ""  # "overdue" or "stopped", if it was us
        self.state = ""
        self.ended = False


class Group:
    """The workers of one communicator on this host: one process group, killed as one."""

    def __init__(self, name, deadline, takes_turns, tests):
        self.name, self.deadline, self.takes_turns, self.tests = name, deadline, takes_turns, tests
        self.workers = []

    def waits_after(self, event):
        """Whether a rank that says `event` then waits for a go: before each test, if the group takes turns."""
        before_next = event["at"] == "result" and event["test"] + 1 < self.tests
        return self.takes_turns and (before_next or event.get("stage") == "communicator")

    @property
    def pgid(self):
        """The first worker's pid; nobody is reaped before the group is over, so the number stays ours."""
        return self.workers[0].pid if self.workers else 0

    def kill_leftovers(self):
        """SIGKILL for the process group: the workers and what they may have started."""
        try:
            os.killpg(self.pgid, signal.SIGKILL)
        except OSError:
            pass  # nobody is left in it


def mark(name, parent):
    """Give the process a name that `ps` shows; let the kernel kill it when its parent dies."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent():
    """Take back that the kernel kills this process when its parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)


def state_of(pid):
    """The letter of /proc/PID/stat: R running, S sleeping, D in a driver, T stopped; empty if it cannot be read."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def exit_of(pid):
    """How a child has ended, without reaping it; None while it lives."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def describe(error):
    return ("%s: %s" % (type(error).__name__, error))[:TEXT]


class Agent:
    def __init__(self, hello, out, worker_module):
        self.hello, self.out, self.worker_module = hello, out, worker_module
        self.nic, self.address = choose_nic(hello["nic"], hello["address"])
        self.pid = os.getpid()
        self.groups = {}
        self.store = None
        self.unread = b""  # of stdin
        self.unsent = []
        self.last_command = time.monotonic()
        self.selector = selectors.DefaultSelector()

    # events

    def say(self, event):
        self.unsent.append(json.dumps(dict(event, nonce=self.hello["nonce"])))

    def flush(self):
        data = "".join(line + "\n" for line in self.unsent).encode()
        self.unsent = []
        while data:
            data = data[os.write(self.out, data) :]

    # starting

    def fork(self, name, pgid=0):
        """Fork into process group `pgid` (0: a new one): (pid, report, output, order) here, (0, report, order) in the
        child, which keeps nothing of the agent, neither its channel nor the pipes of other workers."""
        report, tell = os.pipe()
        output, printed = os.pipe()
        hear, order = os.pipe()
        pid = os.fork()
        if pid:
            for fd in (tell, printed, hear):
                os.close(fd)
            try:
                os.setpgid(pid, pgid or pid)
            except OSError:
                pass  # it was faster
            return pid, report, output, order
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, pgid)
        mark(name, self.pid)
        foreign = [fd for fd in self.selector.get_map() if fd != 0]
        foreign += [worker.order for group in self.groups.values() for worker in group.workers]
        self.selector.close()
        for fd in [*foreign, report, output, order, self.out]:
            os.close(fd)
        null = os.open(os.devnull, os.O_RDONLY)
        for fd, place in ((null, 0), (printed, 1), (printed, 2)):
            os.dup2(fd, place)
        os.close(null)
        os.close(printed)
        return 0, tell, hear

    def serve_store(self):
        """Serve the place where ranks meet from a process of its own, which outlives them all; returns its port."""
        sock = listen(self.address, self.hello["store_ports"])
        port = sock.getsockname()[1]
        pid, *pipes = self.fork("preflight-store")
        if pid == 0:
            try:
                keep = self.worker_module.serve_store(self.address, sock)
                os.write(pipes[0], b"+")
                while keep:
                    signal.pause()
            except BaseException as error:
                os.write(pipes[0], describe(error).encode())
            os._exit(1)
        sock.close()
        self.store = pid
        answer = os.read(pipes[0], TEXT)
        for fd in pipes:
            os.close(fd)
        if answer != b"+":
            raise RuntimeError("the store did not start: %s" % answer.decode("utf-8", "replace"))
        return port

    def start(self, command):
        group = Group(command["group"], command["deadline"], command["wait"], len(command["tests"]))
        self.groups[group.name] = group
        for place in command["workers"]:
            pid, *pipes = self.fork("preflight-r%d" % place["rank"], group.pgid)
            if pid == 0:
                self.be_worker(dict(command, backend=self.hello["backend"], **place), *pipes)
            worker = Worker(group, place["rank"], pid, *pipes)
            group.workers.append(worker)
            self.selector.register(worker.report, selectors.EVENT_READ, (self.read_report, worker))
            self.selector.register(worker.output, selectors.EVENT_READ, (self.read_output, worker))
            self.say({"at": "stage", "group": group.name, "rank": worker.rank, "stage": "spawned"})

    def be_worker(self, spec, report, order):
        """The child's whole life. Its environment is set before anything of the vendor's is imported."""

        def say(event):
            os.write(report, json.dumps(event).encode() + b"\n")

        def wait_for_go():
            if spec["wait"] and not os.read(order, 1):
                os._exit(1)

        status = 1
        try:
            try:
                os.environ.update(network_environment(self.hello, self.nic, self.address))
                os.environ.update(MASTER_ADDR=spec["store"][0], MASTER_PORT=str(spec["store"][1]))
                os.environ.update(RANK=str(spec["rank"]), WORLD_SIZE=str(spec["size"]), LOCAL_RANK=str(spec["device"]))
                self.worker_module.run(spec, say, wait_for_go)
                status = 0
            except BaseException as error:
                say({"at": "error", "error": describe(error)})
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            # Never back into the agent's code, neither the worker nor what it may have forked, though nobody listens
            # to them any more. The process's end frees the device.
            os._exit(status)

    # listening to workers

    def read_report(self, worker):
        data = os.read(worker.report, 1 << 16)
        if not data:
            self.forget(worker.report)
        *lines, worker.unread = (worker.unread + data).split(b"\n")
        for line in lines:
            event = json.loads(line.decode("utf-8", "replace"))
            worker.last = time.monotonic()
            if event["at"] == "error":
                worker.error = event["error"]
                continue
            worker.closed = event.get("stage") == "closed"
            worker.waiting = worker.group.waits_after(event)
            self.say(dict(event, group=worker.group.name, rank=worker.rank))
        return bool(data)

    def read_output(self, worker):
        data = os.read(worker.output, 1 << 16)
        if not data:
            self.forget(worker.output)
        worker.printed = (worker.printed + data)[-TAIL:]
        return bool(data)

    def forget(self, fd):
        if fd in self.selector.get_map():
            self.selector.unregister(fd)
            os.close(fd)

    def drain(self, worker):
        """Read what an ended worker left in its pipes; a process that it started may hold them, and write for ever."""
        for fd, read in ((worker.report, self.read_report), (worker.output, self.read_output)):
            if fd in self.selector.get_map():
                os.set_blocking(fd, False)
                try:
                    for _ in range(16):  # a pipe holds 64 KiB
                        if not read(worker):
                            break
                except BlockingIOError:
                    pass
                self.forget(fd)

    # ending

    def watch(self):
        """Notice who has ended and who is late."""
        now = time.monotonic()
        for group in list(self.groups.values()):
            for worker in group.workers:
                if not worker.ended and exit_of(worker.pid):
                    self.bury(worker)
            alive = [worker for worker in group.workers if not worker.ended]
            late = [w for w in alive if not (w.waiting or w.killed) and now - w.last > group.deadline]
            if late:
                self.kill(group, late)
            if not alive:
                self.close(group)

    def kill(self, group, late=()):
        """SIGKILL for the whole group; before, the state of each worker is looked at."""
        for worker in group.workers:
            if not (worker.ended or worker.killed):
                worker.killed = "overdue" if worker in late else "stopped"
                worker.state = state_of(worker.pid)
        group.kill_leftovers()
        for worker in group.workers:  # one may have left the process group
            if not worker.ended:
                os.kill(worker.pid, signal.SIGKILL)

    def bury(self, worker):
        """Say how a worker ended. It is reaped when its whole group is over."""
        self.drain(worker)
        worker.ended = True
        info = exit_of(worker.pid)
        end, error = worker.killed, worker.error
        if not end and worker.error:
            end = "error"
        elif not end and worker.closed:
            end = "closed"
        elif not end and info.si_code == os.CLD_EXITED:
            end, error = "exited", "exit code %d" % info.si_status
        elif not end:
            end, error = "killed", "signal %d" % info.si_status
        printed = "" if end == "closed" else worker.printed.decode("utf-8", "replace")
        event = {"end": end, "error": error, "state": worker.state, "printed": printed}
        self.say(dict(event, at="end", group=worker.group.name, rank=worker.rank))

    def close(self, group):
        group.kill_leftovers()
        for worker in group.workers:
            os.waitpid(worker.pid, 0)
            os.close(worker.order)
        del self.groups[group.name]

    def end(self):
        """Kill everything that was started, and leave."""
        if self.store:
            os.kill(self.store, signal.SIGKILL)
            os.waitpid(self.store, 0)
        for group in self.groups.values():
            self.kill(group)
        give_up = time.monotonic() + 3  # a process inside a driver dies when the driver lets it
        while self.groups and time.monotonic() < give_up:
            self.watch()
            time.sleep(0.01)
        os._exit(0)

    # the loop

    def read_commands(self, _):
        data = os.read(0, 1 << 16)
        if not data:
            self.end()
        self.last_command = time.monotonic()
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            self.obey(json.loads(line.decode()))

    def obey(self, command):
        if command["do"] == "end":
            self.end()
        elif command["do"] == "start":
            self.start(command)
        elif command["group"] in self.groups:  # it may be over by now
            group = self.groups[command["group"]]
            if command["do"] == "stop":
                self.kill(group)
            elif command["do"] == "go":
                self.go(group)

    def go(self, group):
        for worker in group.workers:
            worker.waiting, worker.last = False, time.monotonic()
            try:
                os.write(worker.order, b"+")
            except OSError:
                pass  # it has died; its end is on the way

    def serve(self):
        wake, woken = os.pipe()
        for fd in (wake, woken):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(woken)
        self.selector.register(wake, selectors.EVENT_READ, (lambda _: os.read(wake, 4096), None))
        self.selector.register(0, selectors.EVENT_READ, (self.read_commands, None))
        while self.groups or time.monotonic() - self.last_command < IDLE:
            for key, _ in self.selector.select(timeout=0.5):
                if key.fd in self.selector.get_map():
                    handler, subject = key.data
                    handler(subject)
            self.watch()
            self.flush()
        self.end()


def main():
    # Nothing is sent after the hello before the agent is ready, so that Python's buffer holds no more than this line.
    hello = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not ours
    # The import of torch may take long, or hang, and nobody reads stdin meanwhile: until then the kernel ends the agent
    # together with its ssh session.
    mark("preflight-agent", os.getppid())
    os.environ.update(ENVIRONMENT)

    def say(event):
        os.write(out, json.dumps(dict(event, nonce=hello["nonce"])).encode() + b"\n")

    stage, begin = "spawned", time.monotonic()
    try:
        worker_module = types.ModuleType("preflight_worker")
        exec(compile(hello["worker"], "preflight_worker", "exec"), worker_module.__dict__)
        versions = worker_module.prepare()
        stage = "torch"
        agent = Agent(hello, out, worker_module)
        port = agent.serve_store()
    except BaseException as error:
        say({"at": "failed", "stage": stage, "error": describe(error)})
        os._exit(1)
    seconds = time.monotonic() - begin
    ready = {"nic": agent.nic, "address": agent.address, "store": port, "cores": os.cpu_count(), "seconds": seconds}
    say(dict(ready, at="ready", **versions))
    outlive_parent()  # from here on the agent sees the end of stdin itself, and ends what it started
    try:
        agent.serve()
    except BrokenPipeError:
        agent.end()


if __name__ == "__main__":
    main()
