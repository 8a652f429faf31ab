"""Transports to hosts: Fabric's ssh, the system's ssh, or this machine; and work on many hosts at once.

Importing this loads neither paramiko nor Fabric; `open_transport` does, where the inventory asks for them.
"""

from preflight.transport.dispatch import open_transport
from preflight.transport.fanout import FanOutLimits, fan_out
from preflight.transport.types import (
    Answer,
    Channel,
    ErrorKind,
    Options,
    Program,
    Progress,
    Transport,
    TransportError,
)

__all__ = [
    "Answer",
    "Channel",
    "ErrorKind",
    "FanOutLimits",
    "Options",
    "Program",
    "Progress",
    "Transport",
    "TransportError",
    "fan_out",
    "open_transport",
]
