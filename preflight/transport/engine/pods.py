"""Engine for the pods of one Kubernetes job, without ssh and without Kubernetes' API.

The first pod listens. The relays of all pods call it by the name that their headless service gives it.
Before either side obeys the other, each proves that it has the token that all pods share, a Secret (`handshake.py`).
Until the first pod has started, an attacker could listen at its address.
"""

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

from preflight.model.cluster import Host
from preflight.model.errors import NotSeenError, UsageError
from preflight.transport.engine.callbacks import make_room
from preflight.transport.engine.engine import Engine
from preflight.transport.engine.handshake import gang_key
from preflight.transport.engine.site import EngineSite
from preflight.transport.fanout import MOST_AT_ONCE, FanOutLimits, fan_out
from preflight.transport.programs import source
from preflight.transport.types import ErrorKind, Program, Progress, TransportError

PORT = 29600  # of the first pod: not a port of jobs, and below the ephemeral ports
_LEAST = 3.0  # seconds for a pod to report its location, even after the deadline
_ANSWER = 20.0  # seconds for a pod to take its verdict, or a connection
_TICK = 1.0  # seconds between two tries to reach the first pod
_UNPROVEN = 75  # exit code of a relay if the listener did not prove its key, as in remote/relay.py
_INDICES = ("PREFLIGHT_POD_INDEX", "JOB_COMPLETION_INDEX", "VC_TASK_INDEX")  # manual, Indexed Job, Volcano
_SHORTEST_TOKEN = 16  # characters


@dataclass(frozen=True)
class Pod:
    """Settings from a pod's environment.

    Pods wait `wait` seconds for each other. `opens` lets the job start if the verdict is unknown.
    `log` is the file from which Kubernetes reads a container's termination message.
    """

    index: int
    token: str = field(repr=False)
    wait: float
    port: int
    opens: bool
    log: Path

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> "Pod":
        """Return the settings. Removes the token from `environment`, so that no child process has it.

        Raises UsageError.
        """
        index = next((environment[name] for name in _INDICES if environment.get(name)), None)
        if index is None:
            raise UsageError(
                "--via pods runs only in a pod of an Indexed Job, a JobSet or a Volcano job, but "
                f"{_INDICES[1]} is not set. See preflight gate manifest"
            )
        token = environment.pop("PREFLIGHT_TOKEN", "").strip()
        if len(token) < _SHORTEST_TOKEN:
            raise UsageError(
                f"--via pods needs PREFLIGHT_TOKEN, a token of {_SHORTEST_TOKEN} characters or more that all pods share"
                ". The first lines of preflight gate manifest show how to make it"
            )
        unknown = environment.get("PREFLIGHT_UNKNOWN", "closed")
        if unknown not in ("open", "closed"):
            raise UsageError(f"PREFLIGHT_UNKNOWN is {unknown[:20]!r}, but must be open or closed")
        return cls(
            _number("the pod's index", index, 0, 99_999),
            token,
            _number("PREFLIGHT_POD_WAIT", environment.get("PREFLIGHT_POD_WAIT", "600"), 1, 86_400),
            _number("PREFLIGHT_POD_PORT", environment.get("PREFLIGHT_POD_PORT", f"{PORT}"), 1024, 65_535),
            unknown == "open",
            Path(environment.get("PREFLIGHT_TERMINATION_LOG", "/dev/termination-log")),
        )


@dataclass(frozen=True)
class PodLocation:
    """Node and address of a pod that has started; an unknown one is empty."""

    node: str
    address: str


def _number(setting: str, text: str, least: int, highest: int) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not least <= int(text) <= highest:
        raise UsageError(f"{setting} is {text[:20]!r}, but must be a number from {least} to {highest}")
    return int(text)


def open_pods(pod: Pod, hosts: Sequence[Host]) -> Engine:
    """Return an engine from the first pod to all pods with itself. Raises UsageError."""
    make_room(len(hosts))
    names = [host.name for host in hosts]
    site = EngineSite(
        "pods",
        (),
        _INDICES[0],
        {name: name for name in names},
        lambda _: "kubectl get pods -o wide",
        environment=_named(0, hosts),
        calls=True,
        port=pod.port,
        nonce=_nonce(names),
        key=gang_key(pod.token, names),
    )
    # The engine starts only its own relay, which calls it at this address.
    return Engine(site, [replace(host, address="127.0.0.1") for host in hosts])


def gather(
    engine: Engine, hosts: Sequence[Host], wait: float, progress: Callable[[Progress], None]
) -> dict[str, PodLocation | TransportError]:
    """Return the locations of all pods as they start; an error for those that have not after `wait` seconds."""
    deadline = time.monotonic() + wait

    def locate(host: Host) -> PodLocation | TransportError:
        timeout = max(_LEAST, deadline - time.monotonic())
        return _location(host, engine.run(host, _program({}), timeout=timeout).stdout)

    return fan_out(hosts, locate, FanOutLimits(MOST_AT_ONCE, wait + 2 * _LEAST), progress=progress, phase="pods")


def tell(engine: Engine, hosts: Sequence[Host], verdicts: Mapping[str, Mapping[str, object]]) -> None:
    """Send each host its verdict. A pod that has gone detects this itself."""

    def send(host: Host) -> None:
        engine.run(host, _program(verdicts[host.name]), timeout=_ANSWER)

    fan_out(hosts, send, FanOutLimits(MOST_AT_ONCE, 2 * _ANSWER))


def follow(pod: Pod, hosts: Sequence[Host]) -> bytes:
    """Obey the first pod until it sends the verdict on this pod: the JSON that `tell` sends.

    Raises NotSeenError if the first pod does not start, or ends without a verdict.
    """
    first, names = hosts[0], [host.name for host in hosts]
    with TemporaryDirectory() as folder:
        verdict = Path(folder) / "verdict.json"
        own = {
            "PREFLIGHT_NONCE": _nonce(names),
            "PREFLIGHT_KEY": gang_key(pod.token, names),
            "PREFLIGHT_RANK_IN": _INDICES[0],
            "PREFLIGHT_VERDICT": str(verdict),
            **_named(pod.index, hosts),
        }
        _run_relay(first.address, pod, {**os.environ, **own})
        try:
            return verdict.read_bytes()
        except FileNotFoundError:
            raise NotSeenError(f"{first.name} ended without a verdict. Read its log") from None


def _run_relay(name: str, pod: Pod, environment: Mapping[str, str]) -> None:
    """Run a relay of the first pod until that ends it. Raises NotSeenError.

    At first its name may not resolve and its port may be closed, and another program may answer there.
    """
    deadline, relay_error = time.monotonic() + pod.wait, ""
    while True:
        try:
            with socket.create_connection((name, pod.port), _ANSWER) as connection:
                call = f"{connection.getpeername()[0]}:{pod.port}"
        except OSError as error:
            reason = relay_error or f"{error}"
        else:
            done = subprocess.run(
                ("python3", "-I", "-c", source("relay")),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**environment, "PREFLIGHT_CALL": call},
                check=False,
            )
            stderr = done.stderr.decode(errors="replace")
            if done.returncode != _UNPROVEN:
                print(stderr, end="", file=sys.stderr)
                return
            reason = relay_error = stderr.rpartition(f"{call}: ")[2].strip()
        if time.monotonic() >= deadline:
            raise NotSeenError(f"{name}:{pod.port} not reachable within {pod.wait:.0f} s: {reason}")
        time.sleep(_TICK)


def _nonce(names: Sequence[str]) -> str:
    """Return the mark of this gang's frames: 32 characters, as of other engines. It is not secret."""
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:32]


def _named(index: int, hosts: Sequence[Host]) -> dict[str, str]:
    return {_INDICES[0]: f"{index}", "PREFLIGHT_NODE": hosts[index].name}


def _program(verdict: Mapping[str, object]) -> Program:
    return Program(source("pod"), json.dumps(verdict).encode() + b"\n")


def _location(host: Host, answer: bytes) -> PodLocation | TransportError:
    try:
        fields = json.loads(answer)
        location = PodLocation(str(fields["node"])[:253], str(fields["address"] and ip_address(fields["address"])))
    except (ValueError, KeyError, TypeError) as error:
        return TransportError(
            ErrorKind.CLOSED, f"{host.name}: the pod's answer is not valid: {error}", "read the pod's log"
        )
    return location
