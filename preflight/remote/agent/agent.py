"""The agent's loop: reads commands, starts workers and listens to them, notices who is late or dead, and kills."""

import json
import os
import selectors
import signal
import sys
import time

from agent.network import choose_nic, listen, network_environment
from agent.processes import Group, Worker, exit_of, mark, state_of
from agent.settle import settle

TAIL = 2000  # bytes kept of what a worker prints
TEXT = 2000  # characters kept of an error
IDLE = 900  # seconds without a command after which nobody is taken to be there any more


def describe(error):
    return ("%s: %s" % (type(error).__name__, error))[:TEXT]


def line_of(event, nonce):
    """The event as a line. What is no text in a locale (half a character, in an error or a variable) becomes "?": JSON
    has no way to write it that its readers accept."""
    return json.dumps(dict(event, nonce=nonce), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


class Agent:
    def __init__(self, hello, out, worker_module):
        self.hello, self.out, self.worker_module = hello, out, worker_module
        self.nic, self.address = choose_nic(hello["nic"], hello["address"])
        self.pid = os.getpid()
        self.groups = {}
        self.store = None
        self.settling = {}  # pid of a process that waits for devices → the pipe on which it tells
        self.unread = b""  # of stdin
        self.unsent = []
        self.last_command = time.monotonic()
        self.selector = selectors.DefaultSelector()

    # events

    def say(self, event):
        self.unsent.append(line_of(event, self.hello["nonce"]))

    def flush(self):
        data = b"".join(self.unsent)
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

    def settle(self, devices):
        """Have a process say when the devices' last jobs are gone."""
        pid, report, *others = self.fork("preflight-wait")
        if pid == 0:
            try:
                held, error = settle(devices)
                os.write(report, json.dumps({"at": "settled", "held": held, "error": error}).encode())
            finally:
                os._exit(0)
        for fd in others:
            os.close(fd)
        self.settling[pid] = report
        self.selector.register(report, selectors.EVENT_READ, (self.read_settled, pid))

    def read_settled(self, pid):
        """What it has to tell is short, and comes at once, at its end."""
        data = os.read(self.settling[pid], 1 << 16)
        self.forget(self.settling.pop(pid))
        os.waitpid(pid, 0)
        self.say(json.loads(data.decode()) if data else {"at": "settled", "held": [], "error": "nobody could ask"})

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
        for pid in [self.store, *self.settling] if self.store else self.settling:
            os.killpg(pid, signal.SIGKILL)  # and the call of hccn_tool that one of them waits for
            os.waitpid(pid, 0)
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
        elif command["do"] == "settle":
            self.settle(command["devices"])
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
        while self.groups or self.settling or time.monotonic() - self.last_command < IDLE:
            for key, _ in self.selector.select(timeout=0.5):
                if key.fd in self.selector.get_map():
                    handler, subject = key.data
                    handler(subject)
            self.watch()
            self.flush()
        self.end()
