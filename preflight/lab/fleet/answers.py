"""What a simulated host answers to the collector. Pure.

The text is that of a real collector (`template.py`), with the host's own names and addresses. Only what depends on the
request is made here: connections, names and pings. They all succeed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import md5
from typing import Any

from preflight.lab.fleet.spec import SimulatedHost
from preflight.lab.fleet.template import Template
from preflight.model.cluster import Cluster

Request = Mapping[str, Any]  # see preflight/remote/collect/main.py

MOST_NAMES = 512  # that a host resolves (preflight/remote/collect/system.py)
_WRONG_CLOCK = 30.0  # seconds
# Drift → the text to replace, and with what. A device's link stands once in the answers of its hccn_tool.
_EDITS: Mapping[str | None, tuple[str, str]] = {
    "other-kernel": ('"kernel": "', '"kernel": "5.10.0-'),
    "ports-not-reserved": (
        '"net.ipv4.ip_local_reserved_ports": "',
        '"net.ipv4.ip_local_reserved_ports": "\\n", "was": "',
    ),
}
_LINK_UP, _LINK_DOWN = "link status: UP", "link status: DOWN"


class FleetAnswers:
    """Answers of all hosts of a fleet. `cluster` has their addresses, and those of their devices."""

    def __init__(self, template: Template, cluster: Cluster) -> None:
        self._parts = {section: template.parts(section) for section in template.sections}
        self._kinds = {word: kind for kind, word in template.own.items()}
        self._first = {cluster.hosts[0].name: [cluster.hosts[0].address]}
        self._hosts = {host.name: host for host in cluster.hosts}

    def answer(self, host: SimulatedHost, request: Request, now: float) -> str:
        """Return the framed answer to a request. `now`: seconds since 1970."""
        by_request: dict[str, Callable[[], object]] = {
            "connects": lambda: self._connections(host, request["connects"]),
            "names": lambda: {
                "hostname": [host.address],
                "cluster": self._first,
                "resolved": min(len(self._hosts), MOST_NAMES),
                "planned": len(self._hosts),
            },
            "naming": lambda: _naming(host, request["naming"]),
            "neighbours": list,
            "pings": lambda: _pings(request["pings"]),
        }
        sections = {}
        for name in request["deadlines"]:
            if name in by_request:
                sections[name] = json.dumps({"value": by_request[name]()})
            elif name in self._parts:
                sections[name] = self._of(host, name)
            else:
                sections[name] = json.dumps({"error": "a simulated host does not answer this"})
        clock = now + (_WRONG_CLOCK if host.drift == "wrong-clock" else 0.0)
        sections["clock"] = json.dumps({"value": {"start": clock, "end": clock}})
        text = "{" + ", ".join(f'"{name}": {value}' for name, value in sections.items()) + "}"
        return f"\n{request['marker']} {len(text)}\n{text}\n"

    def _of(self, host: SimulatedHost, section: str) -> str:
        """Return a section of the template with the host's own words, and with its drift."""
        own = self._own(host)
        text = "".join(own[self._kinds[part]] if part in self._kinds else part for part in self._parts[section])
        if host.drift == "link-down" and section == "hccn":
            before, *links = text.split(_LINK_UP)
            kept = [_LINK_DOWN if number == host.device else _LINK_UP for number in range(len(links))]
            return before + "".join(map("".join, zip(kept, links, strict=True)))
        old, new = _EDITS.get(host.drift, ("", ""))
        return text.replace(old, new, 1) if old else text

    def _own(self, host: SimulatedHost) -> Mapping[str, str]:
        words = {
            "name": host.name,
            "address": host.address,
            "machine id": md5(host.name.encode(), usedforsecurity=False).hexdigest(),
        }
        for device in self._hosts[host.name].devices:
            if device.address:
                words[f"device {device.index}"] = str(device.address.ip)
                words["netmask"] = str(device.address.netmask)
            words["gateway"] = str(device.gateway)
        return words

    def _connections(self, host: SimulatedHost, options: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return connections that reach the other hosts, on whose ports nothing listens."""
        refused = {"code": 111, "client": host.address, "icmp": None}  # ECONNREFUSED
        return [
            {"host": peer, "address": address, "port": port, **refused}
            for peer, address in options["targets"]
            for port in options["ports"]
        ]


def _naming(host: SimulatedHost, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "localhost": ["127.0.0.1"],
        "full_name": {"name": host.name, "peers": []},
        "reverse": [[address, 0.001] for address in options["addresses"]],
        "endpoints": [[name, name in (host.name, host.address)] for name in options["endpoints"]],
        "seconds": 6.0,
        "search": [],
    }


def _pings(planned: Sequence[tuple[int, Sequence[str]]]) -> dict[str, list[dict[str, Any]]]:
    """Return outputs of hccn_tool, in which every packet came back."""
    answers: dict[str, list[dict[str, Any]]] = {}
    for device, arguments in planned:
        target = arguments[arguments.index("address") + 1]
        lines = [f"device {device} PING {target}"]
        lines += [f"recv seq={sequence},time=0.1{device}1000ms" for sequence in range(3)]
        lines.append("3 packets transmitted, 3 received, 0.00% packet loss")
        answers.setdefault(str(device), []).append({"out": "\n".join(lines) + "\n", "err": "", "code": 0})
    return answers
