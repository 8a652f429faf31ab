"""Listening on ports as a job will, and answers to visitors that know the run's word."""

import errno
import hashlib
import selectors
import socket
import time

from agent.network import choose_nic, listener

WORD = 64  # characters of the word, and of the answer
MOST = 512  # visitors at a time; the kernel lets others wait
PATIENCE = 10.0  # seconds that a visitor may stay
NEAR = 64  # ports at either end of the range of which one should be free


def answer(word, name, port):
    """Return the answer of the host `name` of this run on that port.

    A proxy, another host with the same address, or a rule that sends the connection elsewhere cannot give it.
    """
    return hashlib.sha256(("%s %s %d" % (word, name, port)).encode("utf-8")).hexdigest().encode()


def own_address(nic, address):
    """Return the address by which ranks of other hosts reach this host. Raise ValueError if there is none.

    It is the inventory's address, if that is an address of this host and no NIC is set, or else that of the NIC.
    """
    if nic is None:
        try:
            ip = socket.getaddrinfo(address, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
            with socket.socket() as sock:
                sock.bind((ip, 0))
            return ip
        except OSError:
            pass
    return choose_nic(nic, address)[1]


def bind_all(address, ports):
    """Bind the ports, and return ([sockets], [ports in use])."""
    sockets, in_use = [], []
    for port in ports:
        try:
            sockets.append(listener(address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            in_use.append(port)
    return sockets, in_use


def bind_ephemeral(address, job_ports):
    """Return sockets at both ends of the range from which the kernel assigns ports, and a socket on a port that it
    assigns now."""
    low, high = (int(word) for word in first_line("/proc/sys/net/ipv4/ip_local_port_range").split()[:2])
    reserved = set(job_ports) | ports_of(first_line("/proc/sys/net/ipv4/ip_local_reserved_ports"))
    sockets = []
    for candidates in (range(low, min(low + NEAR, high + 1)), range(high, max(high - NEAR, low - 1), -1), [0] * 4):
        for port in candidates:
            if port in reserved:
                continue
            try:
                sock = listener(address, port)
            except OSError:
                continue
            if sock.getsockname()[1] in reserved:
                sock.close()
                continue
            sockets.append(sock)
            break
    return sockets


def first_line(path):
    with open(path) as file:
        return file.readline().strip()


def ports_of(text):
    """Parse `1-3,7` into {1, 2, 3, 7}."""
    ports = set()
    for item in filter(None, text.split(",")):
        low, _, high = item.partition("-")
        ports.update(range(int(low), int(high or low) + 1))
    return ports


class Reception:
    """Answers to visitors on all sockets. A visitor that sends anything but the run's word is disconnected."""

    def __init__(self, selector, sockets, word, name):
        self.selector, self.word, self.name = selector, word, name
        self.visitors = {}  # socket → [time at which it is disconnected, data that it has sent]
        for sock in sockets:
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ, self.welcome)

    def welcome(self, listening):
        if len(self.visitors) >= MOST:
            return
        try:
            visitor, _ = listening.accept()
        except OSError:
            return  # the visitor has gone already
        visitor.setblocking(False)
        self.visitors[visitor] = [time.monotonic() + PATIENCE, b""]
        self.selector.register(visitor, selectors.EVENT_READ, self.hear)

    def hear(self, visitor):
        try:
            data = visitor.recv(WORD)
            received = self.visitors[visitor][1] = self.visitors[visitor][1] + data
            if data and len(received) < WORD:
                return
            if data and received == self.word.encode():
                visitor.send(answer(self.word, self.name, visitor.getsockname()[1]))
                return  # the visitor closes first
        except OSError:
            pass  # reset: the visitor has its answer, or has given up
        self.bid_farewell(visitor)

    def bid_farewell(self, visitor):
        del self.visitors[visitor]
        self.selector.unregister(visitor)
        visitor.close()

    def see_off(self, now):
        for visitor in [visitor for visitor, (until, _) in self.visitors.items() if until < now]:
            self.bid_farewell(visitor)
