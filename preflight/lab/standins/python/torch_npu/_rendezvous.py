"""STAND-IN: how the ranks of a communicator find each other, over the host network as HCCL does it.

Every rank listens on host_ip:(HCCL_IF_BASE_PORT + its device), or on a free port of HCCL_HOST_SOCKET_PORT_RANGE. Rank 0
is the server: it says through the store where it listens, every other rank connects there and sends what it is, and
gets the list of all when the last has come. A firewall between hosts, a port in use or a missing rank therefore shows
as it would with HCCL.
"""

import contextlib
import json
import os
import socket
import struct
import time
import uuid
from datetime import timedelta

from torch_npu import _errors, _fibres, _lab

DEVICE_PORT = 16666
HOST_PORTS = 32
# A real HCCL waits HCCL_CONNECT_TIMEOUT (120 s) and some more; a lab has not the time. Texts name both.
TIME_SCALE = 20
BACKLOG = 1024


class Endpoint:
    """What one process holds to take part: its device, its two listening sockets. Opened once, kept to the end."""

    def __init__(self, device):
        self.device = device
        self.interface = f"eth{device}"
        self.hccp = _lab.Hccp(device)
        if self.hccp.file is None:
            raise _errors.device_in_use()
        with _lab.inside(device):
            self.address = _lab.interface_address(self.interface)
            if self.address is None:
                raise _errors.no_address(device)
            self.device_socket = _listen(self.address, DEVICE_PORT, _errors.device_port_taken)
        _fibres.forget(device)
        self.host_address = host_address()
        self.host_socket = _listen_on_one(self.host_address, host_ports(device))
        self.host_port = self.host_socket.getsockname()[1]
        self.early = []  # connections that came for a communicator which this rank has not begun yet

    def describe(self, rank):
        """Return what the other ranks have to know."""
        return {
            "rank": rank,
            "server": self.host_address,
            "device": self.device,
            "ip": self.address,
            "port": DEVICE_PORT,
            "tls": _lab.tls_switch(self.device),
        }


def connect_timeout():
    """Return HCCL_CONNECT_TIMEOUT in seconds, as the job has set it."""
    text = os.environ.get("HCCL_CONNECT_TIMEOUT", "120")
    if not text.isdigit() or not 120 <= int(text) <= 7200:
        raise _errors.bad_environment("HCCL_CONNECT_TIMEOUT", text, "range[120, 7200]")
    return int(text)


def host_ports(device):
    """Return the host ports that the device may take, 0 for any; the range counts before HCCL_IF_BASE_PORT."""
    text = os.environ.get("HCCL_HOST_SOCKET_PORT_RANGE", "")
    if not text:
        return [base_port() + device % HOST_PORTS]
    if text == "auto":
        return [0]
    ports = []
    for item in text.split(","):
        low, _, high = item.partition("-")
        if not (low.isdigit() and (high or low).isdigit()):
            raise _errors.bad_environment("HCCL_HOST_SOCKET_PORT_RANGE", text, "ports, ranges or auto")
        ports += range(int(low), int(high or low) + 1)
    return ports


def base_port():
    """Return the first of the host ports."""
    text = os.environ.get("HCCL_IF_BASE_PORT", "60000")
    if not text.isdigit() or not 1024 <= int(text) <= 65520:
        raise _errors.bad_environment("HCCL_IF_BASE_PORT", text, "range[1024, 65520]")
    return int(text)


def host_address():
    """Return the address of the host NIC: HCCL_IF_IP, HCCL_SOCKET_IFNAME, or the first that is not lo or docker."""
    names = sorted(name for _, name in socket.if_nameindex())
    addresses = {name: address for name in names if (address := _lab.interface_address(name))}
    wanted = os.environ.get("HCCL_IF_IP")
    if wanted:
        if wanted not in addresses.values():
            raise _errors.bad_environment("HCCL_IF_IP", wanted, "an ip of a host network adapter")
        return wanted
    pattern = os.environ.get("HCCL_SOCKET_IFNAME", "")
    if pattern:
        matching = [name for name in addresses if _matches(name, pattern)]
        if not matching:
            raise _errors.bad_environment("HCCL_SOCKET_IFNAME", pattern, "a host network adapter")
        return addresses[matching[0]]
    for avoided in (("lo", "docker"), ("lo",), ()):
        for name, address in addresses.items():
            if not name.startswith(avoided):
                return address
    raise _errors.bad_environment("HCCL_SOCKET_IFNAME", pattern, "a host network adapter with an ip")


def _matches(name, pattern):
    """eth: prefix; =eth0: exactly; ^ before either: not."""
    negated = pattern.startswith("^")
    body = pattern.lstrip("^")
    exact = body.startswith("=")
    words = body.lstrip("=").split(",")
    hit = name in words if exact else name.startswith(tuple(words))
    return hit != negated


def _listen(address, port, taken):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by what it accepts: reset when closed, so that no job's port stays in TIME-WAIT.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    try:
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise taken(address, port) from None
    return listener


def _listen_on_one(address, ports):
    """Listen on the first of the ports that is free."""
    for port in ports[:-1]:
        with contextlib.suppress(RuntimeError):
            return _listen(address, port, _errors.host_port_taken)
    return _listen(address, ports[-1], _errors.host_port_taken)


def exchange(endpoint, store, rank, size):
    """Return the descriptions of all ranks, in rank order; raise HCCL's errors if they do not all come in time."""
    seconds = connect_timeout()
    deadline = time.monotonic() + seconds / TIME_SCALE
    if rank == 0:
        group = uuid.uuid4().hex
        server = {"address": endpoint.host_address, "port": endpoint.host_port, "group": group}
        store.set("hccl/root", json.dumps(server))
        return _serve(endpoint, group, size, seconds, deadline)
    try:
        store.wait(["hccl/root"], timedelta(seconds=seconds / TIME_SCALE))
        server = json.loads(store.get("hccl/root"))
    except RuntimeError:
        raise _errors.root_missing() from None
    return _ask(endpoint, server, rank, seconds, deadline)


def _serve(endpoint, group, size, seconds, deadline):
    came = {}
    waiting, endpoint.early = endpoint.early, []
    while len(came) < size - 1:
        if waiting:
            connection, message = waiting.pop()
        else:
            endpoint.host_socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                connection, _ = endpoint.host_socket.accept()
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                message = json.loads(_receive(connection))
            except TimeoutError:
                connected = {0, *came}
                raise _errors.server_timeout(seconds, TIME_SCALE, connected, size) from None
            except (OSError, ValueError):
                continue  # somebody else's packet: a port scan, a rehearsal
        if message["group"] == group:
            came[message["rank"]["rank"]] = (connection, message["rank"])
        else:
            endpoint.early.append((connection, message))
    ranks = [endpoint.describe(0)] + [came[rank][1] for rank in sorted(came)]
    answer = json.dumps(ranks).encode() + b"\n"
    for connection, _ in came.values():
        connection.sendall(answer)
    for connection, _ in came.values():
        # The other end closes when it has read all; a reset before that would take the answer back.
        with connection, contextlib.suppress(OSError):
            connection.settimeout(1)
            connection.recv(1)
    return ranks


def _ask(endpoint, server, rank, seconds, deadline):
    place = (server["address"], server["port"])
    try:
        with socket.create_connection(place, max(0.001, deadline - time.monotonic())) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            message = {"group": server["group"], "rank": endpoint.describe(rank)}
            connection.sendall(json.dumps(message).encode() + b"\n")
            # The server's own deadline began earlier or later than ours; let it be the one to tell who is missing.
            connection.settimeout(max(0.001, deadline - time.monotonic()) + 1)
            return json.loads(_receive(connection))
    except (OSError, ValueError):
        raise _errors.agent_timeout(seconds, TIME_SCALE, *place) from None


def _receive(connection):
    """One line."""
    data = b""
    while not data.endswith(b"\n"):
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError("closed")
        data += chunk
    return data


def verify(endpoint, ranks, rank):
    """Raise what HCCL would say about these ranks."""
    enabled = [f"{entry['server']}/{entry['device']}" for entry in ranks if entry["tls"]]
    disabled = [f"{entry['server']}/{entry['device']}" for entry in ranks if not entry["tls"]]
    if enabled and disabled:
        raise _errors.tls_differs(enabled, disabled, ranks[rank]["tls"])
    by_address = {}
    for entry in ranks:
        by_address.setdefault(entry["ip"], []).append(entry["rank"])
    for address, same in by_address.items():
        if len(same) > 1:
            raise _errors.duplicate_address(address, same)
    # Devices of one host have a path of their own; only a job over several hosts needs the port.
    if len({entry["server"] for entry in ranks}) > 1:
        with _lab.inside(endpoint.device):
            if not _lab.has_link(endpoint.interface):
                raise _errors.port_down(endpoint.device)


def establish(endpoint, ranks, rank):
    """Connect to the next ranks of its rings from device to device, as a first proof; raise EI0006 if that fails."""
    seconds = connect_timeout()
    for theirs in _fibres.neighbours(ranks, rank):
        try:
            with _lab.inside(endpoint.device):
                socket.create_connection((theirs["ip"], theirs["port"]), seconds / TIME_SCALE).close()
        except OSError as error:
            status = "time out" if isinstance(error, TimeoutError) else str(error.strerror)
            raise _errors.link_timeout(seconds, TIME_SCALE, ranks[rank], theirs, status) from None
