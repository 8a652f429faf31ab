"""Connections to other hosts: the replies, or their absence, show the firewalls in between."""

import errno
import os
import select
import socket
import struct
import time

from collect.tools import read

IP_RECVERR, IPV6_RECVERR, MSG_ERRQUEUE = 11, 25, 0x2000  # linux/in.h, linux/in6.h, linux/socket.h
# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, ANY_COOKIE, ALL_STATES = 4, 20, 1, 0xFFFFFFFF, 0xFFF
# The first packet may get lost, and the kernel repeats it only after a second: so there is a second connection.
ATTEMPTS, ANSWER_SECONDS = 2, 0.2


def look_connects(request, deadline):
    """Return the results of TCP connections to other hosts, made all at once: replies, or their absence, show the
    firewalls in between.

    A program that accepts a connection sees it closed at once. A port on which this host listens itself is not tried on
    the others: a job may be at work there.
    """
    options = request["connects"]
    ports = ports_to_try(options)
    results, unanswered = [], []
    for host, name in options["targets"]:
        try:
            # As bytes: a text would load the IDNA codec, 5 ms.
            family, _, _, _, place = socket.getaddrinfo(name.encode(), 0, 0, socket.SOCK_STREAM)[0]
        except (OSError, UnicodeError):
            results.append({"host": host, "error": "%s does not resolve on that host" % name})
            continue
        for port in ports:
            entry = {"host": host, "address": place[0], "port": port}
            unanswered.append((family, (place[0], port, *place[2:]), entry, None))
    for _ in range(ATTEMPTS):
        for _, _, _, connection in unanswered:
            if connection:
                connection.close()
        unanswered = attempt(unanswered, request["ports"], min(deadline, time.monotonic() + ANSWER_SECONDS), results)
    return results + [
        dict(entry, **close_and_report(connection, errno.ETIMEDOUT)) for _, _, entry, connection in unanswered
    ]


def ports_to_try(options):
    """Return the job's ports, with the first and the last of the ephemeral ports if they are wanted."""
    ports = list(options["ports"])
    if options["ephemeral"]:
        ports += map(int, (read("/proc/sys/net/ipv4/ip_local_port_range") or "").split())
    return sorted(set(ports))


def attempt(places, job_ports, until, results):
    """Try to connect to all places until then. Add to the results, and return the connections without an
    answer."""
    attempts, poll = {}, select.poll()
    for family, place, entry, _ in places:
        try:
            if listens(family, place, entry["port"]):
                results.append(dict(entry, busy=True))
                continue
            connection = unobtrusive_socket(family, job_ports)
        except OSError as error:
            results.append(dict(entry, error="the connection could not be prepared: %s" % error.strerror))
            continue
        code = connection.connect_ex(place)
        if code == errno.EINPROGRESS:
            poll.register(connection, select.POLLOUT)
            attempts[connection.fileno()] = (family, place, entry, connection)
        else:
            results.append(dict(entry, **close_and_report(connection, code)))
    while attempts and time.monotonic() < until:
        for descriptor, _ in poll.poll(max(0, until - time.monotonic()) * 1000):
            poll.unregister(descriptor)
            _, _, entry, connection = attempts.pop(descriptor)
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            results.append(dict(entry, **close_and_report(connection, code)))
    return list(attempts.values())


def unobtrusive_socket(family, job_ports):
    """Return a socket with its own port outside of the job's ports: such a port would block a job that begins now."""
    for _ in range(20):
        connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if family == socket.AF_INET6:
            connection.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        else:
            connection.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        connection.bind(("", 0))
        if not any(low <= connection.getsockname()[1] <= high for low, high in job_ports):
            return connection
        connection.close()
    raise OSError(errno.EADDRINUSE, "no port outside the job's range is free")


def close_and_report(connection, code):
    """Close the connection and return {"code", "client", "icmp"}: 0 or an errno, its address here, and the sender of an
    ICMP error.

    Such a sender is a router or a firewall on the path. A port without a listener answers by TCP itself.
    """
    icmp = None
    try:
        _, messages, _, _ = connection.recvmsg(1, 512, MSG_ERRQUEUE)  # since Linux 5.10 for TCP
        for level, _, data in messages:
            # struct sock_extended_err: errno (4 bytes), origin, type, code, padding, info, data; a sockaddr behind it.
            if len(data) >= 24 and data[4] in (2, 3):
                v6 = level == socket.IPPROTO_IPV6
                icmp = socket.inet_ntop(socket.AF_INET6, data[24:40]) if v6 else socket.inet_ntoa(data[20:24])
    except (OSError, ValueError):
        pass  # no reply
    client = connection.getsockname()[0]
    connection.close()
    return {"code": code, "client": client, "icmp": icmp}


def listens(family, target, port):
    """Return whether a socket of this host listens on the port, at the address from which it would reach `target`.

    The answer comes from the kernel by netlink (linux/inet_diag.h): a read of /proc/net/tcp takes it 10 ms, even with
    an empty table.
    """
    with socket.socket(family, socket.SOCK_DGRAM) as datagram:
        if datagram.connect_ex(target):  # sends nothing, and fails without a route
            return False
        own_address = socket.inet_pton(family, datagram.getsockname()[0].partition("%")[0])
    query = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, ALL_STATES)
    query += struct.pack("!HH16s16s", port, 0, own_address, b"") + struct.pack("=III", 0, ANY_COOKIE, ANY_COOKIE)
    head = struct.pack("=IHHII", 16 + len(query), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(1)
        netlink.send(head + query)
        answer = netlink.recv(4096)
    if struct.unpack_from("=IH", answer)[1] == SOCK_DIAG_BY_FAMILY:
        return True
    code = -struct.unpack_from("=i", answer, 16)[0]
    if code != errno.ENOENT:
        raise OSError(code, os.strerror(code))
    return False
