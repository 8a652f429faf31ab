"""Pings between devices."""

from dataclasses import dataclass
from typing import Literal

LARGEST = 65507  # bytes of data


@dataclass(frozen=True, slots=True)
class Ping:
    """One ping of the second round, of several packets. `peer`: "node02/3" or "gateway". `error`: why it has no result.

    `purpose`: "reach" (does it answer at all), "mtu" (the most data that fits into one packet), or "hccs". The last is
    `-hccs_ping` to a vNIC of Atlas A3. Its answers are known from source only.
    """

    host: str
    device: int
    address: str
    peer: str
    sent: int = 0
    received: int = 0
    milliseconds: float | None = None  # median of the replies
    error: str = ""
    size: int = 0  # bytes of data per packet; 0: the tool's default
    plane_faults: int = 0  # for "hccs": replies with an unhealthy plane
    purpose: Literal["reach", "mtu", "hccs"] = "reach"
