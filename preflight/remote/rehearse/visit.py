"""Connections to other hosts' ports, many at once, and their outcomes."""

import collections
import errno
import os
import selectors
import socket
import struct
import time

from collect.connects import close_and_report, unobtrusive_socket
from rehearse.listen import WORD, answer

AT_ONCE = 256
ANSWERS = 4  # factor of the timeout for an answer on an open connection: the network is fine, the host may be busy
REJECTED = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.ECONNREFUSED)


# Timeout of one connection in seconds, and time.monotonic() at which all visits end.
Limits = collections.namedtuple("Limits", "timeout until")


class PortVisit:
    def __init__(self, host, address, port):
        self.host, self.address, self.port = host, address, port
        self.until, self.heard, self.connected = 0.0, b"", False


class Visits:
    """Connections to `targets`: [[host, its address, [ports]]].

    Ports that are not tried in time are reported as such.
    """

    def __init__(self, selector, targets, word, job_ports, limits):
        self.selector, self.word, self.limits = selector, word, limits
        self.job_ports = [(port, port) for port in job_ports]
        self.todo = collections.deque(
            PortVisit(host, address, port) for host, address, ports in targets for port in ports
        )
        self.open = {}  # socket → PortVisit
        self.failed = {host: {} for host, _, _ in targets}  # host → (how, by, error) → [ports]

    def outcome(self):
        return [
            [host, [{"ports": ports, "how": how, "by": by, "error": error} for (how, by, error), ports in of.items()]]
            for host, of in self.failed.items()
        ]

    def go_on(self, now):
        """Give up visits that have timed out, and begin others. Return True once all are done."""
        self.give_up(now)
        while self.todo and len(self.open) < AT_ONCE and now < self.limits.until:
            self.begin(self.todo.popleft())
        if now >= self.limits.until:
            while self.todo:
                self.note_failure(self.todo.popleft(), "error", error="there was no time left to try")
        return not self.todo and not self.open

    def give_up(self, now):
        for sock, visit in list(self.open.items()):
            if min(visit.until, self.limits.until) <= now:
                self.end(sock, "mute" if visit.connected else "timeout")

    def begin(self, visit):
        visit.until = time.monotonic() + self.limits.timeout
        try:
            sock = unobtrusive_socket(socket.AF_INET, self.job_ports)
        except OSError as error:
            self.note_failure(visit, "error", error=os.strerror(error.errno))
            return
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset: no TIME-WAIT
        code = sock.connect_ex((visit.address, visit.port))
        self.open[sock] = visit
        self.selector.register(sock, selectors.EVENT_WRITE, self.go_in)
        if code not in (0, errno.EINPROGRESS):
            self.refuse(sock, code)

    def go_in(self, sock):
        """Send the run's word on a connection, or report the connection as failed."""
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.refuse(sock, code)
            return
        visit = self.open[sock]
        visit.connected, visit.until = True, time.monotonic() + ANSWERS * self.limits.timeout
        try:
            sock.send(self.word.encode())
        except OSError:
            self.end(sock, "mute")
            return
        self.selector.modify(sock, selectors.EVENT_READ, self.listen)

    def listen(self, sock):
        visit = self.open[sock]
        try:
            data = sock.recv(WORD)
        except OSError:
            data = b""
        visit.heard += data
        expected = answer(self.word, visit.host, visit.port)
        if visit.heard == expected:
            self.end(sock)
        elif not expected.startswith(visit.heard):
            self.end(sock, "stranger")
        elif not data:
            self.end(sock, "mute")

    def refuse(self, sock, code):
        visit = self.leave(sock)
        by = close_and_report(sock, code)["icmp"] or ""
        if code == errno.ETIMEDOUT:
            self.note_failure(visit, "timeout")
        elif code == errno.ECONNREFUSED and not by:
            self.note_failure(visit, "refused")
        else:
            self.note_failure(visit, "rejected" if code in REJECTED else "error", by, os.strerror(code))

    def end(self, sock, how=""):
        visit = self.leave(sock)
        sock.close()
        if how:
            self.note_failure(visit, how)

    def leave(self, sock):
        self.selector.unregister(sock)
        return self.open.pop(sock)

    def note_failure(self, visit, how, by="", error=""):
        self.failed[visit.host].setdefault((how, by, error), []).append(visit.port)
