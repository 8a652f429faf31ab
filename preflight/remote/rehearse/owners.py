"""Owners of ports: /proc/net/tcp has the socket of a port, /proc/PID/fd the process of a socket."""

import os
import socket
import struct
import time

LISTEN = "0A"  # of enum tcp_state, <net/tcp_states.h>
SECONDS = 2.0  # for a search of all processes


def owners(address, ports):
    """Return [{"port", "listening", "process", "pid"}] of ports that could not be bound at the address.

    A user that is not root cannot see processes of other users: their name is "" and their pid None.
    """
    own = "%08X" % struct.unpack("=I", socket.inet_aton(address))
    sockets = {}  # port → (listens, inode)
    for path in ("/proc/net/tcp", "/proc/net/tcp6") if ports else ():
        for local, port, listens, inode in table(path):
            if port in ports and (local.endswith(own) or not local.strip("0")):
                sockets[port] = max(sockets.get(port, (False, "")), (listens, inode))
    holders = processes({inode for _, inode in sockets.values()})
    entries = []
    for port in ports:
        listens, inode = sockets.get(port, (True, ""))
        process, pid = holders.get(inode, ("", None))
        entries.append({"port": port, "listening": listens, "process": process, "pid": pid})
    return entries


def table(path):
    """Yield (local address in hexadecimal, local port, whether it listens, inode) of each socket."""
    try:
        with open(path) as lines:
            next(lines)
            for line in lines:
                words = line.split()
                local, _, port = words[1].rpartition(":")
                yield local, int(port, 16), words[3] == LISTEN, words[9]
    except (OSError, StopIteration):
        return


def processes(inodes):
    """Return {inode of a socket: (process name, pid)}."""
    wanted = {"socket:[%s]" % inode: inode for inode in inodes - {"", "0"}}
    holders, until = {}, time.monotonic() + SECONDS
    for pid in filter(str.isdigit, os.listdir("/proc") if wanted else ()):
        if time.monotonic() > until or len(holders) == len(wanted):
            break
        folder = "/proc/" + pid
        try:
            for number in os.listdir(folder + "/fd"):
                inode = wanted.get(os.readlink("%s/fd/%s" % (folder, number)))
                if inode and inode not in holders:
                    with open(folder + "/comm", errors="replace") as comm:
                        holders[inode] = (comm.read().strip(), int(pid))
        except OSError:
            continue  # it has ended, or belongs to another user
    return holders
