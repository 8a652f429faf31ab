"""Findings of other checks that explain lost pings: a cause instead of a guess."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from preflight.attribution.ping_types import GATEWAY, PingEnd, end, own
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.ping import Ping

# Check → the cause in words, those that explain most first. The TLS switch (NPU108) and firewalls of hosts do not
# affect pings between devices.
_LOSE_PINGS = {
    "NPU116": "card lost",
    "NPU109": "device missing",
    "NPU107": "link down",
    "NPU102": "duplicate device address",
    "NIC106": "address answered by another machine",
    "NPU101": "wrong device address",
    "NPU103": "wrong mask",
    "NPU105": "wrong subnet",
    "NPU106": "rejected address",
    "NPU111": "wrong gateway",
    "NIC105": "wrong cabling",
    "NIC101": "link flaps",
    "NIC102": "optical module readings out of limits",
    "NIC103": "no error correction",
}
_GATEWAYS_ALONE = "NPU111"
_LOSE_LARGE_PINGS = {"NPU115": "wrong MTU", **_LOSE_PINGS}
_ADDRESS_OF = ("NPU102", "NIC106")  # their findings are about an address, whichever device pings it


@dataclass(frozen=True)
class PingReason:
    """A cause and its check, as `words`. The `findings` have the fix and name the places."""

    words: str
    findings: tuple[Finding, ...]

    @property
    def remedy(self) -> str:
        return self.findings[0].remedy or "read how to fix this problem"

    @property
    def commands(self) -> tuple[str, ...]:
        first = self.findings[0]
        return first.commands if first.remedy else (f"preflight explain {first.check}",)


def reason(lost: Sequence[Ping], known: Iterable[Finding], *, large: bool = False) -> PingReason | None:
    """Return the one check that has findings for all of the lost pings, or None if there is none."""
    causes = _LOSE_LARGE_PINGS if large else _LOSE_PINGS
    problems: dict[str, list[Finding]] = defaultdict(list)
    for finding in known:
        if finding.check in causes and finding.outcome in (Outcome.FAIL, Outcome.WARN):
            problems[finding.check].append(finding)
    for check, cause in causes.items():
        if check in problems and (findings := _explaining(problems[check], lost)):
            return PingReason(f"{cause} ({check}): {findings[0].summary}", findings)
    return None


def _explaining(findings: Sequence[Finding], lost: Sequence[Ping]) -> tuple[Finding, ...]:
    """Return the findings that concern the lost pings, empty if one of these pings has none."""
    concerned = [[finding for finding in findings if _concerns(finding, ping)] for ping in lost]
    return tuple(dict.fromkeys(chain.from_iterable(concerned))) if all(concerned) else ()


def _concerns(finding: Finding, ping: Ping) -> bool:
    """Return whether the finding is about an end of the ping, or about the address that was pinged."""
    ends = (own(ping), end(ping))
    if finding.check == _GATEWAYS_ALONE and all(ping_end.device != GATEWAY for ping_end in ends):
        return False
    if finding.check in _ADDRESS_OF and finding.found == ping.address:
        return True
    return any(_is_at(finding, ping_end) for ping_end in ends if ping_end.device != GATEWAY)


def _is_at(finding: Finding, place: PingEnd) -> bool:
    if finding.host == place.host:
        return finding.device in (None, place.device)
    return finding.check in _ADDRESS_OF and finding.peer == str(place)
