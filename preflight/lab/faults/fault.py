"""The type of a fault, and helpers that several faults use."""

import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from preflight.lab import host_state, kernel
from preflight.lab.host import LabHost
from preflight.lab.kernel import Process
from preflight.lab.spec import fabric_port
from preflight.lab.state import State

Undo = dict[str, Any]
LOSS = 10  # % of all packets, unless `lab break --percent` gives another value


@dataclass(frozen=True)
class FaultPlace:
    """The place of a fault: lab, host and device. `percent`: how many packets a fault drops, if it drops some."""

    lab: State
    directory: Path
    host: LabHost
    device: int
    percent: int = LOSS

    @property
    def port(self) -> str:
        """The device's port on the fabric switch."""
        return fabric_port(self.host.name, self.device)

    @property
    def fabric(self) -> str:
        """The switch's namespace."""
        return self.lab.names.fabric

    def hccn(self, *words: str) -> str:
        """Run the host's hccn_tool for the device. A change is also written to /etc/hccn.conf."""
        return self.host.run("hccn_tool", "-i", str(self.device), *words)

    @property
    def hccn_conf(self) -> Path:
        """The host's /etc/hccn.conf, seen from outside."""
        return self.host.root / "etc" / "hccn.conf"

    @property
    def state(self) -> Path:
        """The file with the device's own memory."""
        return self.host.directory / "state" / str(self.device)

    def start(self, *command: str) -> Undo:
        """Start a process inside the host. Return what `end` needs."""
        enter = ["nsenter", "-t", str(self.host.running().pid), "-a", "--", *command]
        null = subprocess.DEVNULL
        # --fork is implied by entering the PID namespace: the process is nsenter's child.
        entering = subprocess.Popen(enter, stdin=null, stdout=null, stderr=null, start_new_session=True)
        outer = Process.of(entering.pid)
        kernel.wait_until(lambda: len(kernel.processes_below(outer)) > 1, 10, f"{command[0]} did not start")
        inner = kernel.processes_below(outer)[1]
        return {"pid": inner.pid, "started": inner.started}


@dataclass(frozen=True)
class Fault:
    """One kind of fault. `stand_in` is true if it acts on a stand-in of the lab."""

    name: str
    scope: Literal["host", "device"]
    seen_by: tuple[str, ...]
    stand_in: bool
    what: str
    make: Callable[[FaultPlace], Undo]
    undo: Callable[[FaultPlace, Undo], None]


def end(_: FaultPlace, undo: Undo) -> None:
    """End a process that `FaultPlace.start` has started."""
    kernel.kill_and_wait([Process(undo["pid"], undo["started"])])


def told(values: Mapping[str, str]) -> Callable[[FaultPlace], Undo]:
    """Return a function that makes the stand-in tools report other values for a device."""

    def make(place: FaultPlace) -> Undo:
        return {"state": host_state.replace(place.state, values)}

    return make


def told_no_more(place: FaultPlace, undo: Undo) -> None:
    """Undo `told`."""
    host_state.replace(place.state, undo["state"])


def nft(netns: str, rules: str) -> None:
    """Load rules in a network namespace."""
    kernel.run("nsenter", f"--net={kernel.NETNS / netns}", "--", "nft", "-f", "-", stdin=rules)


def shape(netns: str, interface: str, rate: str) -> None:
    """Limit what an interface sends to a rate."""
    shaper = ("tbf", "rate", rate, "burst", "64kb", "latency", "50ms")
    kernel.run("tc", "-n", netns, "qdisc", "replace", "dev", interface, "root", *shaper)


def unshape(netns: str, interface: str) -> None:
    kernel.run("tc", "-n", netns, "qdisc", "del", "dev", interface, "root")


def text_of(path: Path) -> str | None:
    """Return the text of a file, or None if there is no file."""
    with suppress(FileNotFoundError):
        return path.read_text()
    return None
