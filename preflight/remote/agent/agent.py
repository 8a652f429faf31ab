"""The agent's loop: it reads commands, starts workers, reads their reports, and kills those that exceed their
deadline."""

import json
import os
import selectors
import signal
import time

from agent.children import be_store, be_waiting, be_worker, fork
from agent.events import TEXT, line_of
from agent.logs import Logs
from agent.network import choose_nic, listen, network_environment
from agent.processes import Worker, WorkerGroup, end_descendants, exit_of, lasting_state_of
from agent.restricted import refusal
from agent.sockets import connecting

GATHER = 0.05  # seconds between two reads of reports that no turn waits for: many reports cost as much as one


class Agent:
    def __init__(self, hello, out, lease):
        self.hello, self.out, self.lease = hello, out, lease
        self.nic, self.address = choose_nic(hello["nic"], hello["address"])
        self.pid = os.getpid()
        self.logs = Logs(hello["backend"], os.environ)
        self.groups = {}
        self.store = None
        self.settling = {}  # pid of a process that waits for devices → the pipe on which it reports
        self.unread = b""  # bytes of stdin after its last complete line
        self.unsent = []
        self.last_heard = time.monotonic()
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
        return fork(name, self.let_go, pgid)

    def let_go(self):
        """Close the agent's own descriptors, in a child."""
        foreign = {fd for fd in self.selector.get_map() if fd != 0}
        for group in self.groups.values():
            for worker in group.workers:
                foreign.update((worker.order, *worker.pipes))
        foreign.update(filter(None, (self.lease.fd, self.lease.directory)))
        self.selector.close()
        for fd in (*foreign, self.out):
            os.close(fd)

    def serve_store(self):
        """Serve the ranks' meeting place from a separate process, which outlives all ranks, and return its port."""
        sock = listen(self.address, self.hello["store_ports"])
        port = sock.getsockname()[1]
        pid, *pipes = self.fork("preflight-store")
        if pid == 0:
            be_store(self.address, sock, pipes[0])
        sock.close()
        self.store = pid
        answer = os.read(pipes[0], TEXT)
        for fd in pipes:
            os.close(fd)
        if answer != b"+":
            raise RuntimeError("the store did not start: %s" % answer.decode("utf-8", "replace"))
        return port

    def start(self, command):
        reason = refusal(command) if self.hello.get("restricted") else ""
        if reason:
            os.write(2, b"refused: %s\n" % reason.encode())
            self.end()
        group = WorkerGroup(command["group"], command["deadline"], command["wait"], len(command["tests"]))
        group.file = command.get("file", "")
        self.groups[group.name] = group
        for placement in command["workers"]:
            pid, *pipes = self.fork("preflight-r%d" % placement["rank"], group.pgid)
            if pid == 0:
                crowded = len(self.hello["devices"]) > os.cpu_count()
                spec = dict(command, backend=self.hello["backend"], crowded=crowded, **placement)
                be_worker(spec, self.environment, *pipes)
            worker = Worker(group, placement["rank"], pid, pipes)
            group.workers.append(worker)
            if group.takes_turns:  # the next turn waits for this worker's report
                self.selector.register(worker.report, selectors.EVENT_READ, (self.hear, worker))
            self.say({"at": "stage", "group": group.name, "rank": worker.rank, "stage": "spawned"})

    def environment(self):
        """Return the variables that all workers get. A worker's own variables are added on top."""
        return dict(network_environment(self.hello, self.nic, self.address, os.environ), **self.logs.environment())

    def settle(self, devices):
        """Start a process that reports when the devices' last jobs are gone."""
        pid, report, *unused_fds = self.fork("preflight-wait")
        if pid == 0:
            be_waiting(devices, report)
        for fd in unused_fds:
            os.close(fd)
        self.settling[pid] = report
        self.selector.register(report, selectors.EVENT_READ, (self.read_settled, pid))

    def read_settled(self, pid):
        """Report the result of a process that waited for devices. The result is short and arrives at once, at the
        process's end."""
        data = os.read(self.settling[pid], 1 << 16)
        self.forget(self.settling.pop(pid))
        os.waitpid(pid, 0)
        self.say(
            json.loads(data.decode())
            if data
            else {"at": "settled", "held": [], "error": "no other process could connect"}
        )

    # listening to workers

    def hear(self, worker):
        """Read the data that a worker has written by now, within a bound: a process that it started may write for
        ever."""
        for fd in list(worker.pipes):
            try:
                for _ in range(16):  # a pipe holds 64 KiB
                    data = os.read(fd, 1 << 16)
                    if not data:
                        self.leave(worker, fd)
                        break
                    if fd == worker.report:
                        self.take_reports(worker, data)
                    else:
                        worker.prints(data)
            except BlockingIOError:
                pass

    def take_reports(self, worker, data):
        for line in worker.lines_of(data):
            try:
                self.take_report(worker, json.loads(line.decode("utf-8", "replace")))
            except (ValueError, LookupError, TypeError, AttributeError):
                pass  # other code in the worker wrote to the pipe; a report that this breaks shows as missing

    def take_report(self, worker, event):
        if event["at"] == "error":
            worker.error = str(event["error"])[:TEXT]
            return
        waits = worker.group.waits_after(event)
        if event.get("stage") == "communicator":
            event["way"] = self.logs.way(worker.pid)
        self.say(dict(event, group=worker.group.name, rank=worker.rank))
        if event["at"] != "waits":  # waiting is no progress
            worker.closed, worker.waiting = event.get("stage") == "closed", waits
            worker.last, worker.connecting = time.monotonic(), None

    def leave(self, worker, fd):
        """Close a pipe of a worker that has no writer any more, or that no longer counts."""
        worker.pipes.discard(fd)
        self.forget(fd)

    def forget(self, fd):
        if fd in self.selector.get_map():
            self.selector.unregister(fd)
        os.close(fd)

    # ending

    def watch(self):
        """Read the workers' reports, and notice workers that have ended or exceeded their deadline."""
        now = time.monotonic()
        for group in list(self.groups.values()):
            for worker in group.alive():
                self.hear(worker)
                if exit_of(worker.pid):
                    self.bury(worker)
            self.enforce_deadline(group, now)

    def enforce_deadline(self, group, now):
        """Kill the group if a worker has exceeded its deadline. Close it if no worker is alive."""
        alive = group.alive()
        for worker in alive:
            if worker.connecting is None and now - worker.last > group.deadline / 2:
                worker.connecting = connecting(worker.pid)  # the worker may give up, and close them
        overdue = [worker for worker in alive if worker.is_overdue(now)]
        if overdue:
            self.kill(group, overdue)
        if not alive:
            self.close(group)

    def kill(self, group, late=()):
        """Send SIGKILL to the whole group, after recording and reporting the state of each worker.

        A worker inside a driver dies when the driver lets it, which may be never.
        """
        for worker in group.workers:
            if not (worker.ended or worker.killed):
                worker.killed = "overdue" if worker in late else "stopped"
                worker.state = lasting_state_of(worker.pid)
                if worker.connecting is None:
                    worker.connecting = connecting(worker.pid)
                event = {"end": worker.killed, "state": worker.state, "connecting": worker.connecting}
                self.say(dict(event, at="killed", group=group.name, rank=worker.rank))
        group.kill_leftovers()
        for worker in group.workers:  # a worker may have left the process group
            if not worker.ended:
                os.kill(worker.pid, signal.SIGKILL)

    def bury(self, worker):
        """Report how a worker ended. It is reaped when its whole group is over."""
        self.hear(worker)
        for fd in list(worker.pipes):  # a process that the worker started may hold them open
            self.leave(worker, fd)
        worker.ended = True
        end, error = worker.outcome(exit_of(worker.pid))
        event = {"end": end, "error": error, "state": worker.state, "printed": ""}
        if end != "closed":
            event.update(printed=worker.printed.decode("utf-8", "replace"), logs=self.logs.of(worker.pid))
            event["connecting"] = worker.connecting or []
        self.say(dict(event, at="end", group=worker.group.name, rank=worker.rank))

    def close(self, group):
        group.kill_leftovers()
        for worker in group.workers:
            os.waitpid(worker.pid, 0)
            os.close(worker.order)
        if group.file and any(worker.rank == 0 for worker in group.workers):
            try:
                os.unlink(group.file)  # the file in which its ranks met
            except OSError:
                pass
        del self.groups[group.name]
        if not self.groups:  # strays cannot be attributed to a group, so they are ended after the last group
            end_descendants(self.pid, spare={self.store, *self.settling})

    def end(self):
        """Kill all processes that the agent started, and exit."""
        for pid in [self.store, *self.settling] if self.store else self.settling:
            os.killpg(pid, signal.SIGKILL)  # with the call of hccn_tool that the process waits for
            os.waitpid(pid, 0)
        for group in self.groups.values():
            self.kill(group)
        give_up = time.monotonic() + 3  # a process inside a driver dies when the driver lets it
        while self.groups and time.monotonic() < give_up:
            self.watch()
            time.sleep(0.01)
        end_descendants(self.pid)
        self.logs.remove()
        self.lease.give_back()
        os._exit(0)

    # the loop

    def read_commands(self, _):
        data = os.read(0, 1 << 16)
        if not data:
            self.end()
        self.last_heard = time.monotonic()
        self.lease.renew()
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in filter(None, lines):
            self.obey(json.loads(line.decode()))

    def obey(self, command):
        if command["do"] == "end":
            self.end()
        elif command["do"] == "start":
            self.start(command)
        elif command["do"] == "settle":
            self.settle(command["devices"])
        elif command["group"] in self.groups:  # the group may be over by now
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
                pass  # the worker has died; its end will be noticed

    def serve(self):
        read_end, write_end = os.pipe()
        for fd in (read_end, write_end):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(write_end)
        self.selector.register(read_end, selectors.EVENT_READ, (lambda _: os.read(read_end, 4096), None))
        self.selector.register(0, selectors.EVENT_READ, (self.read_commands, None))
        while time.monotonic() - self.last_heard < self.hello["silence"]:
            for key, _ in self.selector.select(timeout=GATHER if self.groups else 0.5):
                if key.fd in self.selector.get_map():
                    handler, subject = key.data
                    handler(subject)
            self.watch()
            self.flush()
        self.end()
