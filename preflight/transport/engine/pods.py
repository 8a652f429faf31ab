"""Pods of one Kubernetes job, without ssh and without Kubernetes' API: the first one listens, and the relays of all
call it, the others by the name that their headless service gives it.

Before either side does what the other says, each proves (`proof.py`) that it has the token that all of them share, a
Secret: anybody may listen where the first one is not yet.
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
from preflight.transport.fanout import MOST_AT_ONCE, fan_out
from preflight.transport.programs import source
from preflight.transport.types import ErrorKind, Program, Progress, TransportError

PORT = 29600  # on which the first pod listens: no job's, and below those that kernels give away
_LEAST = 3.0  # seconds for a pod to say that it is there, whatever time is left
_ANSWER = 20.0  # seconds for a pod to take its verdict, or a connection
_TICK = 1.0  # seconds between two tries to reach the first pod
_NOBODY = 75  # exit code of a relay that nobody has proved himself to, as in remote/relay.py
_INDICES = ("PREFLIGHT_POD_INDEX", "JOB_COMPLETION_INDEX", "VC_TASK_INDEX")  # by hand, an Indexed Job's, Volcano's
_SHORTEST = 16  # characters of a token


@dataclass(frozen=True)
class Pod:
    """What a pod's environment says. `wait`: seconds that pods wait for each other; `opens`: whether the job begins
    where nobody knows; `log`: where Kubernetes reads a container's last words."""

    index: int
    token: str = field(repr=False)
    wait: float
    port: int
    opens: bool
    log: Path

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> "Pod":
        """Takes the token out of `environment`, so that no program that is started has it. Raises UsageError."""
        index = next((environment[name] for name in _INDICES if environment.get(name)), None)
        if index is None:
            raise UsageError(
                "--via pods runs in the pods of an Indexed Job, a JobSet or a Volcano job, and this is none: there is "
                f"no {_INDICES[1]}; see preflight gate manifest"
            )
        token = environment.pop("PREFLIGHT_TOKEN", "").strip()
        if len(token) < _SHORTEST:
            raise UsageError(
                f"--via pods needs the token that the pods share as PREFLIGHT_TOKEN, {_SHORTEST} characters or more; "
                "the head of what preflight gate manifest writes says how it is made"
            )
        unknown = environment.get("PREFLIGHT_UNKNOWN", "closed")
        if unknown not in ("open", "closed"):
            raise UsageError(f"PREFLIGHT_UNKNOWN is {unknown[:20]!r}; open or closed")
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
    """A pod that has come; "" where it has not been told its node or its address."""

    node: str
    address: str


def _number(what: str, text: str, least: int, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not least <= int(text) <= most:
        raise UsageError(f"{what} is {text[:20]!r}; a number from {least} to {most}")
    return int(text)


def open_pods(pod: Pod, hosts: Sequence[Host]) -> Engine:
    """The way from the first pod to all, itself among them. Raises UsageError."""
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
    # Its own relay, the only one that it starts, calls it here.
    return Engine(site, [replace(host, address="127.0.0.1") for host in hosts])


def gather(
    engine: Engine, hosts: Sequence[Host], wait: float, progress: Callable[[Progress], None]
) -> dict[str, PodLocation | TransportError]:
    """All pods, as soon as they are there; those that are not after `wait` seconds with what is known of them."""
    until = time.monotonic() + wait

    def ask(host: Host) -> PodLocation | TransportError:
        left = max(_LEAST, until - time.monotonic())
        return _there(host, engine.run(host, _program({}), timeout=left).stdout)

    return fan_out(hosts, ask, pool=MOST_AT_ONCE, deadline=wait + 2 * _LEAST, progress=progress, phase="pods")


def tell(engine: Engine, hosts: Sequence[Host], verdicts: Mapping[str, Mapping[str, object]]) -> None:
    """Each of `hosts` its own. One that is gone is not told, and finds that out by itself."""

    def one(host: Host) -> None:
        engine.run(host, _program(verdicts[host.name]), timeout=_ANSWER)

    fan_out(hosts, one, pool=MOST_AT_ONCE, deadline=2 * _ANSWER)


def follow(pod: Pod, hosts: Sequence[Host]) -> bytes:
    """Do what the first pod asks for, until it has said what it makes of this one: the JSON that `tell` was given.
    Raises NotSeenError where it does not come, or goes without a word."""
    first, names = hosts[0], [host.name for host in hosts]
    with TemporaryDirectory() as folder:
        verdict = Path(folder) / "verdict.json"
        words = {
            "PREFLIGHT_NONCE": _nonce(names),
            "PREFLIGHT_KEY": gang_key(pod.token, names),
            "PREFLIGHT_RANK_IN": _INDICES[0],
            "PREFLIGHT_VERDICT": str(verdict),
            **_named(pod.index, hosts),
        }
        _obey(first.address, pod, {**os.environ, **words})
        try:
            return verdict.read_bytes()
        except FileNotFoundError:
            raise NotSeenError(f"{first.name} left without a verdict; its own log says more") from None


def _obey(name: str, pod: Pod, environment: Mapping[str, str]) -> None:
    """Be a relay of the first pod, until that ends it. Its name may not be known yet, nor its port be open, and who
    answers there may be somebody else. Raises NotSeenError."""
    until, doubt = time.monotonic() + pod.wait, ""
    while True:
        try:
            with socket.create_connection((name, pod.port), _ANSWER) as way:
                call = f"{way.getpeername()[0]}:{pod.port}"
        except OSError as error:
            why = doubt or f"{error}"
        else:
            done = subprocess.run(
                ("python3", "-I", "-c", source("relay")),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**environment, "PREFLIGHT_CALL": call},
                check=False,
            )
            said = done.stderr.decode(errors="replace")
            if done.returncode != _NOBODY:
                print(said, end="", file=sys.stderr)
                return
            why = doubt = said.rpartition(f"{call}: ")[2].strip()
        if time.monotonic() >= until:
            raise NotSeenError(f"no way to {name}:{pod.port} in {pod.wait:.0f} s: {why}")
        time.sleep(_TICK)


def _nonce(names: Sequence[str]) -> str:
    """What marks this gang's lines: 32 characters, as of other engines. It is no secret."""
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:32]


def _named(index: int, hosts: Sequence[Host]) -> dict[str, str]:
    return {_INDICES[0]: f"{index}", "PREFLIGHT_NODE": hosts[index].name}


def _program(said: Mapping[str, object]) -> Program:
    return Program(source("pod"), json.dumps(said).encode() + b"\n")


def _there(host: Host, answer: bytes) -> PodLocation | TransportError:
    try:
        said = json.loads(answer)
        there = PodLocation(str(said["node"])[:253], str(said["address"] and ip_address(said["address"])))
    except (ValueError, KeyError, TypeError) as error:
        return TransportError(ErrorKind.CLOSED, f"{host.name}: answers what is no answer: {error}", "look at its log")
    return there
