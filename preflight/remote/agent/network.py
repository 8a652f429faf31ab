"""The host's network: which interface ranks are reached by, and what tells the backends so."""

import fcntl
import ipaddress
import os
import socket
import struct

NCCL_CONF = "/etc/nccl.conf"
CONF_LIMIT = 64 * 1024  # characters
SIOCGIFADDR = 0x8915  # <linux/sockios.h>


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


def nccl_files(environ):
    """{name: value} of what NCCL reads by itself from its files: what the jobs' environment does not set, too. As in
    job_view.py, which tells the checks."""
    found = {}
    own = environ.get("NCCL_CONF_FILE") or os.path.expanduser("~/.nccl.conf")
    for path in (own, NCCL_CONF):
        try:
            with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
                lines = file.read(CONF_LIMIT).split("\n") if os.path.isfile(path) else ()
        except OSError:
            continue
        for name, is_set, value in (line.partition("=") for line in lines):
            if is_set and name.startswith("NCCL_") and name == name.strip():
                found.setdefault(name, value)
    return found


def network_environment(hello, nic, address, environ):
    """What tells each backend which of the host's interfaces to take, and NCCL whether it has to be RDMA. `environ` is
    the jobs' environment: the interface that it, or a file of NCCL's, gives NCCL counts, unless the inventory names
    one."""
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
            environment["NCCL_NET"] = "IB"  # without RDMA devices it fails then, and takes no sockets instead
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
