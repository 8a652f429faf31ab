"""A host for the node's gate, as files in a folder: healthy, with a fresh verdict, until a test spoils it."""

import hashlib
import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

decide = importlib.import_module("gate.decide")
vendor = importlib.import_module("gate.vendor")
state = importlib.import_module("gate.state").state

REMOTE = str(Path(__file__).parents[2] / "preflight/remote")
NOW = 1_800_000_000.0
HOUR = 3600.0
_FILES = {
    "proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
    "proc/sys/kernel/osrelease": "5.15.0-91-generic\n",
    "proc/sys/net/ipv4/ip_local_reserved_ports": "29500,60000-60031\n",
    "proc/net/tcp": "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n",
    "sys/class/net/eth0/flags": "0x1003\n",
    "sys/class/net/eth0/carrier": "1\n",
    "sys/class/net/eth0/carrier_changes": "2\n",
    "sys/class/net/eth0/device/vendor": "0x19e5\n",
    "sys/class/net/lo/flags": "0x9\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "usr/local/Ascend/driver/version.info": "Version=23.0.7\n",
    "dev/davinci0": "",
    "dev/davinci1": "",
}
_POLICY = {
    "schema": "preflight.gate/1", "host": "node01", "cluster": "test", "config": "c0ffee", "max_age": 24 * HOUR,
    "probe_max_age": 168 * HOUR, "need_probe": False, "required": [], "optional": [], "off": [],
    "unknown": {"prolog": "open", "job": "closed"}, "drain": {"nodes": None, "percent": 10}, "undrain": False,
    "requeues": 3,
    "expect": {
        "product": "atlas-a1", "reserved": "60000-60031,29500", "free": "60000-60031,29500", "devices": [0, 1],
        "addresses": {"0": "192.168.100.11/24", "1": "192.168.101.11/24"}, "nic": "eth0",
    },
}  # fmt: skip


class Node:
    """`path` is the folder; files are named by where a host has them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name, text in _FILES.items():
            self.write(name, text)
        self.policy()
        self.verdict()

    def file(self, name: str) -> Path:
        return self.path / name

    def write(self, name: str, text: str | bytes, mode: int = 0o644) -> Path:
        """A file, in folders that its owner alone can write."""
        file = self.file(name)
        file.parent.mkdir(0o755, parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        file.chmod(mode)
        return file

    def policy(self, expect: dict[str, Any] | None = None, **changes: Any) -> None:
        found = {**_POLICY, **changes, "expect": {**_POLICY["expect"], **(expect or {})}}  # type: ignore[dict-item]
        self.write("etc/preflight/gate.json", json.dumps(found, indent=1))

    def look(self, *problems: tuple[str, str, int | None], outcome: str = "", **changes: Any) -> dict[str, Any]:
        """A LOOK with problems (check, outcome, device)."""
        found = [
            {"check": check, "outcome": worst, "device": device, "summary": f"node01: {check} has {worst}"}
            for check, worst, device in problems
        ]
        worst = min((worst for _, worst, _ in problems), key=["fail", "unknown", "warn"].index, default="pass")
        return {
            "run": "20261122-100000-abcd", "time": NOW - HOUR, "expires": NOW + 23 * HOUR, "preflight": "0.1.0",
            "outcome": outcome or worst, "checks": {"PRT102": "pass", **{c: o for c, o, _ in problems}},
            "problems": found, "versions": {"driver": "23.0.7"}, "state": state(str(self.path)), **changes,
        }  # fmt: skip

    def verdict(self, check: dict[str, Any] | None = None, probe: dict[str, Any] | None = None, **changes: Any) -> Path:
        looks = {"check": check or self.look(), **({"probe": probe} if probe else {})}
        machine = self.file("etc/machine-id").read_text().strip()
        rest = {
            "schema": "preflight.verdict/1",
            "host": "node01",
            "machine": machine,
            "config": "c0ffee",
            "looks": looks,
        }
        return self.write("var/lib/preflight/verdict.json", sealed({**rest, **changes}), 0o600)

    def hccn_tool(self, script: str, monkeypatch: Any) -> Path:
        """Stands where hccn_tool is looked for; its calls are lines of `calls` beside it."""
        tool = self.write("hccn_tool", f'#!/bin/sh\necho "$*" >> {self.path}/calls\n{script}\n', 0o755)
        monkeypatch.setattr(vendor, "PLACES", (str(tool),))
        return self.path / "calls"

    def ask(self, context: str = "prolog", **environment: str) -> Any:
        return decide.decide(context, environment, files=decide.Files(str(self.path), os.getuid()), now=NOW)


def sealed(rest: dict[str, Any]) -> str:
    """A verdict with the checksum that docs/gate.md gives it."""
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return json.dumps({**rest, "sha256": digest}, sort_keys=True, separators=(",", ":"))


def says(answer: Any) -> set[tuple[str, str, int | None]]:
    return {(one["check"], one["outcome"], one["device"]) for one in answer.reasons}


Spoil = Callable[[Node], object]
