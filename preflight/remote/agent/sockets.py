"""TCP connections of a process that have had no answer so far, as the kernel knows them."""

import os
import socket
import struct

SYN_SENT = "02"  # state in /proc/PID/net/tcp (net/tcp_states.h of Linux)
MOST = 4


def connecting(pid):
    """Return ["address:port"] of the connections that process `pid` has begun and that were neither accepted nor
    refused."""
    links = set()
    try:
        for fd in os.listdir("/proc/%d/fd" % pid):
            try:
                links.add(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
            except OSError:
                pass  # closed meanwhile
        with open("/proc/%d/net/tcp" % pid) as table:
            rows = [line.split() for line in table.readlines()[1:]]
    except OSError:
        return []  # ended, or of another user
    unanswered = [row[2] for row in rows if len(row) > 9 and row[3] == SYN_SENT and "socket:[%s]" % row[9] in links]
    return [_place(text) for text in list(dict.fromkeys(unanswered))[:MOST]]


def _place(text):
    """Convert `0100007F:1F90` to 127.0.0.1:8080. The address is in the machine's byte order, the port is not."""
    address, _, port = text.partition(":")
    return "%s:%d" % (socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16))
