"""`preflight/remote/apply` as a host runs it, with this machine as the host: a process, its request on stdin."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from preflight.transport.programs import source

RESERVED = "net.ipv4.ip_local_reserved_ports"
CHAIN = "inet filter input"
RULE = 'ip saddr 10.0.0.0/16 tcp dport { 29500, 60000-60031 } accept comment "preflight"'
RULESET = """
table inet filter {
  chain input {
    type filter hook input priority 0; policy drop;
    ct state established,related accept
    tcp dport 22 accept comment "somebody else's # handle 99"
  }
}
"""


class LocalHost:
    """Runs the program with a journal and a lock of its own, optionally inside a network namespace."""

    def __init__(self, directory: Path) -> None:
        self.journal = directory / "journal"
        self.lock = directory / "lock"
        self.watch = directory / "watch"
        self.inside: tuple[str, ...] = ()
        self.path = os.environ["PATH"]
        self.guarded_seconds = 30.0
        self.program = directory / "apply.py"
        self.program.write_text(source("apply"))

    def start(self, request: dict[str, Any]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*self.inside, sys.executable, "-I", str(self.program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PATH": self.path},
        )
        assert process.stdin
        request = {**self.settings(), **request}
        changes = [change for phase in ("plain", "guarded", "kept") for change in request[phase]]
        named = [change["target"] for change in changes if change["kind"] in ("file", "program")]
        process.stdin.write(json.dumps({"named": named, **request}).encode())
        process.stdin.close()
        process.stdin = None
        return process

    def settings(self) -> dict[str, Any]:
        """What every request says."""
        places = {"journal": str(self.journal), "lock": str(self.lock), "watch": str(self.watch)}
        common = {"marker": "MARK", "limit": 60, "guarded_seconds": self.guarded_seconds, "owner": "a test"}
        common |= {"caller": "", "person": False}
        changes: dict[str, Any] = {"plain": [], "guarded": [], "kept": []}
        return {**places, **common, "go_on": False, "undoes": "", "patience": 0, "heard": True, **changes}

    def ask(self, **request: Any) -> dict[str, Any]:
        return answer_of(self.start(request))

    def apply(self, *changes: dict[str, Any], run: str = "r1", seconds: float = 30) -> dict[str, Any]:
        return self.ask(action="apply", run=run, seconds=seconds, **by_phase(changes))

    def apply_confirmed(self, *changes: dict[str, Any], run: str = "r1") -> dict[str, Any]:
        """Apply the changes and confirm those of the live firewall, so that the next run finds no other one at work."""
        answer = self.apply(*changes, run=run)
        if answer.get("guarded"):
            self.confirm(run)
        return answer

    def confirm(self, run: str = "r1", kept: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        return self.ask(action="confirm", run=run, kept=list(kept), patience=40)

    def undo_of(self, run: str = "r1") -> Any:
        return self.ask(action="undo-of", run=run)["changes"]

    def events(self, run: str = "r1") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.journal / f"{run}.jsonl").read_text().splitlines()]


def by_phase(changes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The firewall's changes are guarded here, files too."""
    return {
        "plain": [change for change in changes if change["area"] != "firewall"],
        "guarded": [change for change in changes if change["area"] == "firewall"],
    }


def answer_of(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=60)
    head, body = out.lstrip(b"\n").split(b"\n", 1)
    marker, length = head.split()
    assert marker == b"MARK"
    assert len(body) == int(length) + 1
    answer: dict[str, Any] = json.loads(body)
    return answer


def change(kind: str, target: object, before: str | None, after: str | None, area: str = "ports") -> dict[str, Any]:
    return {"area": area, "kind": kind, "target": str(target), "before": before, "after": after}


def states(answer: dict[str, Any]) -> list[str]:
    return [result["state"] for result in answer["results"]]


def inside(host: LocalHost, *command: str, stdin: str = "") -> str:
    return subprocess.run([*host.inside, *command], input=stdin, capture_output=True, text=True, check=True).stdout


def reserved(host: LocalHost) -> str:
    return inside(host, "cat", "/proc/sys/" + RESERVED.replace(".", "/")).strip()


def holders(path: Path) -> set[int]:
    """The processes that have a file open."""
    held = set()
    for process in Path("/proc").glob("[0-9]*"):
        descriptors: list[Path] = []
        with suppress(OSError):  # it has ended meanwhile
            descriptors = list((process / "fd").iterdir())
        for descriptor in descriptors:
            with suppress(OSError):
                if descriptor.readlink() == path:
                    held.add(int(process.name))
    return held


def script(path: Path, text: str) -> None:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


@contextmanager
def network_of_its_own(host: LocalHost) -> Iterator[LocalHost]:
    """The host's kernel settings and firewall are those of a network namespace that ends with the test."""
    name = f"provision-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    host.inside = ("ip", "netns", "exec", name)
    try:
        yield host
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
