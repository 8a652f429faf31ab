"""The host's network: the interface that other hosts' ranks use, and the variables that tell the backends to use it."""

import fcntl
import ipaddress
import os
import socket
import struct

NCCL_CONF = "/etc/nccl.conf"
CONF_LIMIT = 64 * 1024  # characters
SIOCGIFADDR = 0x8915  # <linux/sockios.h>


def interfaces():
    """Return [(name, IPv4 address)] of this host."""
    nics = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            nics.append((name, socket.inet_ntoa(answer[20:24])))
    return nics


def choose_nic(wanted, address):
    """Return (name, address) of the interface by which ranks of other hosts reach this host.

    `wanted`: an interface name, a CIDR, or None for the interface that has `address`. Raise ValueError if no interface
    matches.
    """
    nics = interfaces()
    if wanted is None:
        addresses = ipv4_addresses(address)
        matching = [nic for nic in nics if nic[1] in addresses]
        condition = "the address %s" % address
    elif "/" in wanted:
        network = ipaddress.ip_network(wanted, strict=False)
        matching = [nic for nic in nics if ipaddress.ip_address(nic[1]) in network]
        condition = "an address in %s" % wanted
    else:
        matching = [nic for nic in nics if nic[0] == wanted]
        condition = "the name %s and an IPv4 address" % wanted
    if matching:
        return matching[0]
    available = ", ".join(map(" ".join, nics))
    raise ValueError("no interface has %s (interfaces: %s). Set nic in the inventory" % (condition, available))


def ipv4_addresses(name):
    """Return the IPv4 addresses of a host; the name itself where it cannot be resolved."""
    try:
        return {info[4][0] for info in socket.getaddrinfo(name, None, socket.AF_INET)}
    except OSError:
        return {name}


def nccl_files(environ):
    """Return {name: value} of the variables that NCCL reads by itself from its files, besides those of the jobs'
    environment.

    job_view.py does the same for the checks.
    """
    variables = {}
    own = environ.get("NCCL_CONF_FILE") or os.path.expanduser("~/.nccl.conf")
    for path in (own, NCCL_CONF):
        try:
            with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
                lines = file.read(CONF_LIMIT).split("\n") if os.path.isfile(path) else ()
        except OSError:
            continue
        for name, is_set, value in (line.partition("=") for line in lines):
            if is_set and name.startswith("NCCL_") and name == name.strip():
                variables.setdefault(name, value)
    return variables


def network_environment(hello, nic, address, environ):
    """Return the variables that tell each backend which of the host's interfaces to use, and NCCL whether to require
    RDMA.

    `environ` is the jobs' environment. An interface that it, or a file of NCCL's, sets for NCCL counts, unless the
    inventory has one.
    """
    environment = {"GLOO_SOCKET_IFNAME": nic}
    if hello["backend"] == "hccl":
        environment.update(HCCL_IF_IP=address, HCCL_SOCKET_IFNAME="=" + nic, HCCL_WHITELIST_DISABLE="1")
        if hello["host_range"]:
            environment["HCCL_HOST_SOCKET_PORT_RANGE"] = hello["host_range"]
        elif hello["base_port"]:
            environment["HCCL_IF_BASE_PORT"] = str(hello["base_port"])
    elif hello["backend"] == "nccl":
        environ = dict(nccl_files(environ), **environ)
        if hello["nic"] or not environ.get("NCCL_SOCKET_IFNAME"):
            environment["NCCL_SOCKET_IFNAME"] = "=" + nic
        if hello["transport"] == "ib" and not environ.get("NCCL_NET"):
            environment["NCCL_NET"] = "IB"  # without RDMA devices NCCL then fails instead of using sockets
    return environment


def listener(address, port):
    """Return a socket that listens. Raise OSError if it cannot.

    SO_REUSEADDR: connections of a job that are left in TIME-WAIT do not keep its next job from the port. SO_LINGER,
    which accepted connections inherit: they are reset when they are closed, so that nothing stays in TIME-WAIT and the
    job can bind at once.
    """
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.bind((address, port))
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


def listen(address, ports):
    """Return a socket that listens on the first free port of `ports`, or else on any free port; on `address` only."""
    for port in [*ports, 0]:
        try:
            return listener(address, port)
        except OSError:
            continue
    raise OSError("no free port to listen on at %s" % address)
