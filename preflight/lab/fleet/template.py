"""The answer of a real collector on a real lab host, as the text that all hosts of a fleet answer from."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from preflight.facts.collect import FactsRequest, collect_answers
from preflight.facts.round_trip import Seen
from preflight.inventory import load
from preflight.lab import lifecycle
from preflight.lab.spec import Spec
from preflight.model.errors import PreflightError
from preflight.transport import open_transport
from preflight.transport.types import Options


@dataclass(frozen=True)
class Template:
    """Sections of the collector's answer (name → JSON text), and the words in them that belong to that host alone.

    `own`: what the word is ("name", "address", "device 3", …) → the word.
    """

    sections: Mapping[str, str]
    own: Mapping[str, str]

    def parts(self, section: str) -> list[str]:
        """Return the section's text, split at the host's own words: text, word, text, word, …, text."""
        return re.split(self.pattern, self.sections[section])

    @property
    def pattern(self) -> re.Pattern[str]:
        words = sorted(self.own.values(), key=len, reverse=True)
        return re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, words)) + r")(?![\w]|\.\d)")


def record(product: str, devices: int) -> Template:
    """Start a lab of one host, configure it, collect from it, and stop it. Needs root."""
    with TemporaryDirectory(prefix="preflight-fleet-") as folder:
        directory = Path(folder) / "lab"
        lifecycle.up(Spec(1, devices, product, firewall="none"), directory)
        try:
            _configure(directory / "hosts.toml")
            return _collect(directory / "hosts.toml")
        finally:
            lifecycle.down(directory)


def _configure(inventory: Path) -> None:
    argv = [sys.executable, "-m", "preflight", "configure", "--inventory", str(inventory), "-y"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: a check still fails, as a host alone has no partners
        raise PreflightError(f"the fleet's first host could not be configured: {done.stderr[-500:]}")


def _collect(inventory: Path) -> Template:
    cluster = load(inventory)
    (host,) = cluster.hosts
    transport = open_transport(cluster, Options())
    try:
        answer = collect_answers(FactsRequest(cluster, cluster.hosts, deep=True), transport, progress=None)[host.name]
    finally:
        transport.close()
    if not isinstance(answer, Seen) or not isinstance(answer.raw, Mapping):
        raise PreflightError(f"the fleet's first host gave no facts: {answer}")
    sections = {name: bytes(raw).decode() for name, raw in answer.raw.items()}
    own = {"name": host.name, "address": host.address}
    own |= {f"device {device.index}": str(device.address.ip) for device in host.devices if device.address}
    if host.devices and (address := host.devices[0].address):
        own |= {"netmask": str(address.netmask), "gateway": str(host.devices[0].gateway)}
    machine_id = json.loads(sections["os"]).get("value", {}).get("machine_id")
    return Template(sections, own | ({"machine id": machine_id} if machine_id else {}))
