"""One host's part of the port rehearsal: it listens on the job's ports, connects to those of other hosts, and ends.

Stdin has one line of JSON (the hello), then one line for each command. Stdout has one line of JSON for each event, with
the run's nonce. End-of-file on stdin ends the program, and an alarm of the kernel does after a minute in any case. It
needs no torch, and any Python from 3.6.

Hello:

- nonce
- word: proves on the network that both ends are of this run
- name, nic and address of the host
- ports of the job
- ephemeral: whether ephemeral ports are wanted

Commands:

- visit: connect to the targets' ports, with a timeout for each connection and one for all
- end

Events:

- listening: address, ports, and the processes that hold the ports in use
- failed
- visited
"""

import json
import os
import selectors
import signal
import sys
import time

from agent.processes import mark
from rehearse.listen import Reception, bind_all, bind_ephemeral, own_address
from rehearse.owners import owners
from rehearse.visit import Limits, Visits

LIFETIME = 60  # seconds; a container's runtime may keep stdin open when the controller is gone
TICK = 0.1  # seconds between two checks of the clock


class Part:
    """One host's part, with one thread and one selector, so that answers to visitors and visits never wait for each
    other."""

    def __init__(self, hello, out):
        self.hello, self.out = hello, out
        self.selector = selectors.DefaultSelector()
        self.unread, self.ended = b"", False
        self.visits = None

    def say(self, event):
        data = json.dumps(dict(event, nonce=self.hello["nonce"])).encode() + b"\n"
        while data:
            data = data[os.write(self.out, data) :]

    def listen(self):
        hello = self.hello
        address = own_address(hello["nic"], hello["address"])
        sockets, in_use = bind_all(address, hello["ports"])
        job_ports = len(sockets)
        if hello["ephemeral"]:
            sockets += bind_ephemeral(address, hello["ports"])
        self.reception = Reception(self.selector, sockets, hello["word"], hello["name"])
        bound = [sock.getsockname()[1] for sock in sockets]
        ports = {"ports": bound[:job_ports], "ephemeral": bound[job_ports:], "taken": owners(address, in_use)}
        self.say(dict(ports, at="listening", address=address))

    def serve(self):
        self.selector.register(0, selectors.EVENT_READ, self.hear)
        while not self.ended:
            for key, _ in self.selector.select(TICK):
                key.data(key.fileobj)
            now = time.monotonic()
            self.reception.see_off(now)
            if self.visits and self.visits.go_on(now):
                self.say({"at": "visited", "visits": self.visits.outcome()})
                self.visits = None

    def hear(self, stdin):
        data = os.read(stdin, 1 << 16)
        self.ended = self.ended or not data
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            command = json.loads(line.decode("utf-8"))
            if command["do"] == "visit":
                limits = Limits(command["patience"], time.monotonic() + command["seconds"])
                word, ports = self.hello["word"], self.hello["ports"]
                self.visits = Visits(self.selector, command["targets"], word, ports, limits)
            else:
                self.ended = True


def main():
    signal.alarm(LIFETIME)
    hello = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    out = os.dup(1)
    os.dup2(2, 1)  # output of a wrapper's libraries is no event
    mark("preflight-ports", os.getppid())
    part = Part(hello, out)
    try:
        part.listen()
    except (OSError, ValueError) as error:
        part.say({"at": "failed", "error": str(error)[:2000]})
        os._exit(1)
    part.serve()
    os._exit(0)  # all sockets reset the connections that are left
