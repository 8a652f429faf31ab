"""Access to the kernel: `ip -batch`, namespaces, sysctls, and processes that cannot be mistaken for others."""

import ctypes
import fcntl
import ipaddress
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from preflight.model.errors import PreflightError

NETNS = Path("/run/netns")
CLONE_NEWNET = 0x40000000
SIOCGIFADDR = 0x8915

_libc = ctypes.CDLL(None, use_errno=True)


def run(*command: str, stdin: str | None = None) -> str:
    """Run a program and return its stdout. Raise PreflightError with its stderr if it fails."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = (done.stderr or done.stdout).strip()
        raise PreflightError(f"`{' '.join(command)}` failed with code {done.returncode}: {message}")
    return done.stdout


def ip_batch(lines: Iterable[str], netns: str | None = None) -> None:
    """Run many `ip` commands in one process, all in the namespace `netns`."""
    text = "\n".join(lines)
    if text:
        run("ip", *(("-n", netns) if netns else ()), "-batch", "-", stdin=text + "\n")


def namespaces(prefix: str) -> list[str]:
    """Return the names of the network namespaces that begin with `prefix`."""
    return sorted(path.name for path in NETNS.glob(f"{prefix}*")) if NETNS.is_dir() else []


def remove_namespaces(names: Iterable[str]) -> None:
    """Remove network namespaces. Raise PreflightError if one of them stays. A missing one is no error."""
    wanted = set(names)
    if wanted:
        lines = "".join(f"netns del {name}\n" for name in sorted(wanted))
        done = subprocess.run(["ip", "-force", "-batch", "-"], input=lines, capture_output=True, text=True, check=False)
        if remaining := wanted & set(namespaces("")):
            raise PreflightError(f"namespace {min(remaining)} cannot be removed: {done.stderr.strip()}")


def has_interface(name: str) -> bool:
    """Return whether the machine has a network interface of this name."""
    return Path("/sys/class/net", name).exists()


def remove_interface(name: str) -> None:
    """Remove a network interface. Raise PreflightError if it stays. The end of its namespace may have removed it."""
    try:
        if has_interface(name):
            run("ip", "link", "del", name)
    except PreflightError:
        if has_interface(name):
            raise


def mounts_below(folder: Path) -> list[str]:
    """Return the mount points in a folder, the deepest first. The folder itself may be one of them."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    places = [re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), line.split()[4]) for line in lines]
    return [place for place in reversed(places) if Path(place).is_relative_to(folder)]


@contextmanager
def inside(netns: str) -> Iterator[None]:
    """Run the body in a network namespace. This affects the calling thread only."""
    home = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
    target = os.open(NETNS / netns, os.O_RDONLY)
    try:
        _setns(target)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(target)
        os.close(home)


def _setns(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def set_sysctls(netns: str, values: dict[str, str]) -> None:
    """Write settings below /proc/sys/net of a namespace; keys are paths like "ipv4/ip_forward"."""
    with inside(netns):
        for key, value in values.items():
            Path("/proc/sys/net", key).write_text(value)


def interface_address(interface: str) -> str | None:
    """Return the IPv4 address of an interface in the calling thread's namespace, or None if it has none."""
    request = struct.pack("256s", interface.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel, suppress(OSError):
        return socket.inet_ntoa(fcntl.ioctl(channel, SIOCGIFADDR, request)[20:24])
    return None


def networks_in_use() -> list[ipaddress.IPv4Network]:
    """Return all IPv4 destinations for which the root namespace has a route, without the default route."""
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "table", "all"))
    networks = []
    for route in routes:
        with suppress(ValueError, KeyError):
            networks.append(ipaddress.IPv4Network(route["dst"], strict=False))
    return networks


@contextmanager
def machine_wide(name: str, timeout: float = 60) -> Iterator[None]:
    """Hold a lock that all labs of this machine share.

    It is an abstract socket, which leaves no file and ends with this process.
    """
    deadline = time.monotonic() + timeout
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        while True:
            try:
                lock.bind(f"\0preflight-lab-{name}")
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise PreflightError(f"another lab has held the {name} lock for {timeout:.0f} s") from None
                time.sleep(0.02)
        yield


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same pid. `started` is in clock ticks after boot."""

    pid: int
    started: int

    @classmethod
    def read(cls, pid: int) -> "Process | None":
        """Return the process with this pid, or None if there is none."""
        with suppress(OSError):
            return cls.from_stat(Path(f"/proc/{pid}/stat").read_text())
        return None

    @classmethod
    def of(cls, pid: int) -> "Process":
        """Return the process with this pid, which must exist."""
        if process := cls.read(pid):
            return process
        raise PreflightError(f"process {pid} has ended")

    @classmethod
    def from_stat(cls, line: str) -> "Process | None":
        """Parse a line of /proc/PID/stat; None for a zombie. The name in it may contain blanks and brackets."""
        pid, _, after_pid = line.partition(" (")
        fields = after_pid.rpartition(") ")[2].split()
        return None if fields[0] in "ZX" else cls(int(pid), int(fields[19]))

    @property
    def alive(self) -> bool:
        """True if this very process still runs."""
        return Process.read(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this very process, or to none."""
        with suppress(OSError):
            handle = os.pidfd_open(self.pid)
            try:
                if self.alive:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def processes_in(netns: Iterable[str]) -> list[Process]:
    """Return all processes in these network namespaces."""
    inodes = set()
    for name in netns:
        with suppress(OSError):
            inodes.add((NETNS / name).stat().st_ino)
    return [process for process in _all_processes() if _netns_inode(process.pid) in inodes]


def processes_with_mount(option: str) -> list[Process]:
    """Return all processes that see a mount with this text among its options."""
    has_mount: dict[int, bool] = {}  # by mount namespace
    processes = []
    for process in _all_processes():
        with suppress(OSError):
            namespace = Path(f"/proc/{process.pid}/ns/mnt").stat().st_ino
            if namespace not in has_mount:
                has_mount[namespace] = option in Path(f"/proc/{process.pid}/mountinfo").read_text()
            if has_mount[namespace]:
                processes.append(process)
    return processes


def names_of_namespace(process: Process) -> list[str]:
    """Return the names of the network namespace of a process."""
    inode, names = _netns_inode(process.pid), []
    for name in namespaces(""):
        with suppress(OSError):
            if (NETNS / name).stat().st_ino == inode:
                names.append(name)
    return names


def processes_below(root: Process) -> list[Process]:
    """Return `root` and all its living descendants."""
    processes = [root]
    for process in processes:
        with suppress(OSError):
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            processes += filter(None, (Process.read(int(pid)) for pid in children))
    return processes


def _all_processes() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (process := Process.read(int(entry.name))):
            yield process


def _netns_inode(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return -1


def kill_and_wait(processes: Iterable[Process], timeout: float = 10) -> None:
    """Send SIGKILL, then wait until all processes are gone. Raise PreflightError if they stay."""
    victims = list(processes)
    for process in victims:
        process.send(signal.SIGKILL)
    wait_until(lambda: not any(process.alive for process in victims), timeout, "killed processes are still running")


def wait_until(condition: Callable[[], bool], timeout: float, complaint: str) -> None:
    """Poll until the condition holds. Raise PreflightError with the complaint after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise PreflightError(f"{complaint} (after {timeout:.0f} s)")
        time.sleep(0.01)
