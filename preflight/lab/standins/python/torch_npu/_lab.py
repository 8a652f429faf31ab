"""STAND-IN: what the lab host offers, see lab.h among the sources of the stand-in tools for the places."""

import atexit
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import time
from pathlib import Path

PRIVATE = Path("/run/preflight-lab")
CLONE_NEWNET = 0x40000000
SIOCGIFADDR, SIOCGIFNETMASK, SIOCGIFFLAGS = 0x8915, 0x891B, 0x8913
IFF_UP, IFF_RUNNING = 0x1, 0x40

_libc = ctypes.CDLL(None, use_errno=True)


def product():
    """Return atlas-a1, atlas-a2 or atlas-a3."""
    return (PRIVATE / "product").read_text().strip()


def devices():
    """Return the number of devices of this host."""
    return sum(1 for _ in (PRIVATE / "device").iterdir())


def setting(name, otherwise):
    """Return a setting of the lab (`preflight lab set`), a number."""
    value = _told("settings", name)
    return otherwise if value is None else int(value)


def _told(file, key):
    """Return the value of a key in a file of key=value lines, None if it is not there."""
    with contextlib.suppress(OSError):
        for line in (PRIVATE / "state" / file).read_text().splitlines():
            if line.startswith(key + "="):
                return line.partition("=")[2]
    return None


def has_switch(device):
    """Return whether the device's cable leads to a switch; else it is a fibre to its partner on the other server."""
    return _told("fabric", f"leaf_{device}") is not None


def tls_switch(device):
    """Return the device's TLS switch, 0 or 1; on unless somebody has set it."""
    return int(_told(str(device), "tls") or 1)


def has_fault(device, name):
    """Return whether the device has a fault of this name that `preflight lab break` has made."""
    return _told(str(device), "fault_" + name) is not None


def get_stuck(device, where):
    """Never return if the device has the fault that a process with it gets stuck there."""
    while has_fault(device, "stuck_" + where):
        time.sleep(1)


@contextlib.contextmanager
def inside(device):
    """Run the body in the device's network namespace. Threads that are started in it stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = os.open(PRIVATE / "device" / str(device), os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(there)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(there)
        os.close(home)


def _setns(descriptor):
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, "the stand-in needs root to enter a device's namespace: " + os.strerror(number))


def interface_address(name):
    """Return the IPv4 address of an interface of this namespace, None if it has none."""
    return _ask(name, SIOCGIFADDR)


def has_link(name):
    """Return whether the interface is up and has a carrier."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        answer = fcntl.ioctl(channel, SIOCGIFFLAGS, struct.pack("40s", name.encode()))
    (flags,) = struct.unpack_from("H", answer, 16)
    return flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING


def _ask(name, request):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel, contextlib.suppress(OSError):
        answer = fcntl.ioctl(channel, request, struct.pack("40s", name.encode()))
        return socket.inet_ntoa(answer[20:24])
    return None


def lock(path):
    """Lock a file for the life of this process; return the open file, None if another process holds it."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


class Hccp:
    """What stands for the HCCP process of a device: a locked file. One who is killed leaves it behind for a while.

    A child holds the lock as well. It hears of this process's death as the end of a pipe; a process that ends as it
    should has written into it before.
    """

    def __init__(self, device):
        """Take the device; `file` is None if another process has it, or had it until just now."""
        self.file = lock(PRIVATE / "hccp" / str(device))
        self._pipe = None
        linger = setting("linger_s", 10)
        if self.file is None or linger == 0:
            return
        heard, self._pipe = os.pipe()
        subprocess.Popen(
            ["/bin/sh", "-c", 'read -r word || sleep "$0"', str(linger)],
            stdin=heard,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[self.file.fileno()],
            start_new_session=True,
        )
        os.close(heard)
        atexit.register(self.end_well)

    def end_well(self):
        """Say that whatever happens from now on is no accident."""
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                os.write(self._pipe, b"end\n")
            os.close(self._pipe)
            self._pipe = None
