"""Faults between switches: the cable from a leaf to the spine. A host selects the leaf that it is on."""

from preflight.lab import kernel
from preflight.lab.faults.fault import Fault, FaultPlace, Undo, shape, unshape
from preflight.lab.spec import uplink
from preflight.model.errors import UsageError

SLOW_UPLINK = "400mbit"  # for all devices of a leaf together, of which each has 1gbit


def _uplink(place: FaultPlace) -> tuple[str, str]:
    spec = place.lab.spec
    if spec.leaves == 1:
        raise UsageError("this lab has only one switch. For a lab with uplinks, run `preflight lab up --leaves 2`.")
    return uplink(spec.leaf_of(place.host.number))


def _cut(place: FaultPlace) -> Undo:
    kernel.ip_batch([f"link set {_uplink(place)[0]} down"], place.fabric)
    return {}


def _join(place: FaultPlace, _: Undo) -> None:
    kernel.ip_batch([f"link set {_uplink(place)[0]} up"], place.fabric)


def _slow(place: FaultPlace) -> Undo:
    for end in _uplink(place):
        shape(place.fabric, end, SLOW_UPLINK)
    return {}


def _fast(place: FaultPlace, _: Undo) -> None:
    for end in _uplink(place):
        unshape(place.fabric, end)


FAULTS = (
    Fault(
        "partition",
        "host",
        ("PNG101", "PRB101", "PRB113"),
        False,
        "the uplink of the leaf switch is down: its hosts reach only each other.",
        _cut,
        _join,
    ),
    Fault(
        "slow-uplink",
        "host",
        ("PRB103",),
        False,
        f"the uplink of the leaf switch is limited to {SLOW_UPLINK} in each direction.",
        _slow,
        _fast,
    ),
)
