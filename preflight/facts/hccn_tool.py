"""What `hccn_tool` prints (Ascend; the query commands of 910A, 910B and 910_93 drivers, formats as in the driver's
source and in field pastes). Saved output often holds the same query of several devices, so every parser answers with a
tuple, one entry a device; a query of one device must have given exactly one.

hccn_tool's exit codes collide and some failures end with 0: its words are judged, not its code.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from itertools import pairwise
from statistics import median

from preflight.facts.quote import LONGEST, quote
from preflight.facts.types import Reading

# Parts of the tool's failure texts (driver source, 910B generation). A line with one of them is a failed query.
_FAILURES = (
    "hccn_tool is busy",
    "permission denied",
    "not supported on this product",
    "Get invalid",
    "Get unknown option",
    "input parameters is wrong",
    "Command execute failed",
    "The device is not exist",
    "Control link unreachable",
    "Optical module is not present",
    "VM does not support",
    "Link status is down",
    "execute timeout",
    "hccn.conf can't access",
)


@dataclass(frozen=True)
class Address:
    """Of `-ip -g`; both values None: no address is set."""

    address: Reading
    netmask: Reading


@dataclass(frozen=True)
class PingResult:
    """Of `-ping -g`. `milliseconds`: median of the replies. `error`: not even tried."""

    sent: int = 0
    received: int = 0
    milliseconds: float | None = None
    error: str = ""


def _failure(line: str) -> str:
    """The line if it is a failure text, else nothing; quoted where it is more than that."""
    if not any(words in line for words in _FAILURES):
        return ""
    line = line.strip()
    return line if line.isprintable() and len(line) <= LONGEST else quote(line)


def _not_understood(text: str) -> str:
    return f"hccn_tool said {quote(text)}, which is not understood" if text.strip() else "hccn_tool said nothing"


def _readings(text: str, pattern: re.Pattern[str], unset: str | None = None) -> tuple[Reading, ...]:
    """A reading for every line that matches `pattern`, says `unset`, or is a failure; other lines are passed over."""
    found = []
    for line in text.splitlines():
        if match := pattern.fullmatch(line.strip()):
            found.append(Reading(match.group(1)))
        elif unset is not None and unset in line:
            found.append(Reading())
        elif failure := _failure(line):
            found.append(Reading(error=failure))
    return tuple(found) or (Reading(error=_not_understood(text)),)


def _as_address(reading: Reading) -> Reading:
    """The reading, if it is an IPv4 address; 0.0.0.0 is how "not set" is printed."""
    if reading.value is None:
        return reading
    try:
        return Reading(None if int(IPv4Address(reading.value)) == 0 else reading.value)
    except AddressValueError:
        return Reading(error=f"{quote(reading.value)} is not an IPv4 address")


_IP = re.compile(r"(ipaddr|netmask) ?: ?(\S{1,39})")


def ip(text: str) -> tuple[Address, ...]:
    """`-ip -g`. Nothing set: a failure text on 910B and later, nothing at all from old 910A drivers."""
    if not text.strip():
        return (Address(Reading(), Reading()),)
    found: list[Address] = []
    address: Reading | None = None
    for line in text.splitlines():
        if match := _IP.fullmatch(line.strip()):
            reading = _as_address(Reading(match.group(2)))
            if match.group(1) == "ipaddr":
                address = reading
            elif address is not None:
                found.append(Address(address, reading))
                address = None
        elif "no ip was preset" in line:
            found.append(Address(Reading(), Reading()))
        elif failure := _failure(line):
            found.append(Address(Reading(error=failure), Reading(error=failure)))
    if address is not None or not found:
        cut = Reading(error=_not_understood(text))
        found.append(Address(cut, cut))
    return tuple(found)


def link(text: str) -> tuple[Reading, ...]:
    """`-link -g`: UP or DOWN."""
    return _readings(text, re.compile(r"link status ?: ?(UP|DOWN)"))


def net_health(text: str) -> tuple[Reading, ...]:
    """`-net_health -g`: Success, Init, Fault, Socket fail, Receive timeout …"""
    return _readings(text, re.compile(r"net health status ?: ?([A-Za-z][A-Za-z ]{0,39})"))


def netdetect(text: str) -> tuple[Reading, ...]:
    """`-netdetect -g`: `netdetect addr:` in the driver's source, `netdetect address:` in the field."""
    readings = _readings(text, re.compile(r"netdetect addr(?:ess)? ?: ?(\S{1,39})"))
    return tuple(_as_address(reading) for reading in readings)


def gateway(text: str) -> tuple[Reading, ...]:
    """`-gateway -g`: `default gateway:A, Iface:ethN`."""
    pattern = re.compile(r"default gateway ?: ?([^\s,]{1,39}), ?Iface ?: ?\S{1,15}")
    return tuple(_as_address(reading) for reading in _readings(text, pattern, "no gateway was preset"))


def tls(text: str) -> tuple[Reading, ...]:
    """`-tls -g`: "0" disabled or "1" enabled; not set where no certificate has been installed.

    The lines about certificates that may follow are not read, and older drivers print no `tls preconfigured`.
    """
    pattern = re.compile(r"dev_id ?: ?\d{1,3}, ?tls switch\[([01])\].{0,200}")
    return _readings(text, pattern, "No certificate found")


def mtu(text: str) -> tuple[Reading, ...]:
    """`-mtu -g`: bytes. Known from the driver's source only."""
    return _readings(text, re.compile(r"mtu ?: ?(\d{2,5})"))


def cfg_status(text: str) -> tuple[Reading, ...]:
    """`-cfg status`: how the recovery of /etc/hccn.conf at boot ended: SUCCESS, NONE, START, FAIL, FAULT."""
    return _readings(text, re.compile(r"config status ?: ?([A-Z]{1,20})"))


def lldp(text: str) -> tuple[Reading, ...]:
    """`-lldp -g`: the system name of the switch; not set where no neighbour tells one."""
    lines = [line.strip() for line in text.splitlines()]
    names = [after for line, after in pairwise(lines) if line == "System Name TLV" and after]
    if names:
        return tuple(Reading(name) for name in names)
    if failures := tuple(Reading(error=failure) for line in lines if (failure := _failure(line))):
        return failures
    return (Reading() if not text.strip() or " TLV" in text else Reading(error=_not_understood(text)),)


_SUMMARY = re.compile(r"(\d{1,9}) packets transmitted, ?(\d{1,9}) received, ?[\d.]{1,9}% packet loss")
_REPLY = re.compile(r"recv seq ?= ?\w{1,9}, ?time ?= ?(\d{1,9}(?:\.\d{1,9})?) ?ms")


def ping(text: str) -> tuple[PingResult, ...]:
    """`-ping -g address A`: packets sent and received, median of the replies.

    The tool sends three. A lost one prints `recv time out seq=`, and the tool then says at the end that it failed.
    """
    found: list[PingResult] = []
    times: list[float] = []
    lost = 0

    def close(sent: int, received: int) -> None:
        nonlocal lost
        found.append(PingResult(sent, received, round(median(times), 6) if times else None))
        times.clear()
        lost = 0

    for line in map(str.strip, text.splitlines()):
        if match := _REPLY.fullmatch(line):
            times.append(float(match.group(1)))
        elif match := _SUMMARY.fullmatch(line):
            close(int(match.group(1)), int(match.group(2)))
        elif "recv time out" in line or "Destination Host Unreachable" in line:
            lost += 1
        elif failure := _failure(line):
            if times or lost:
                close(len(times) + lost, len(times))
            elif not found or found[-1].received == found[-1].sent:
                found.append(PingResult(error=failure))
    if times or lost:  # a text that ends before its summary
        close(len(times) + lost, len(times))
    return tuple(found) or (PingResult(error=_not_understood(text)),)


# In the order in which a device is asked: whether its settings are still being restored comes before them, and what its
# probe asks before what came of it.
READERS: dict[str, Callable[[str], tuple[Reading, ...]]] = {
    "cfg": cfg_status,
    "link": link,
    "gateway": gateway,
    "netdetect": netdetect,
    "net_health": net_health,
    "mtu": mtu,
    "tls": tls,
    "lldp": lldp,
}
