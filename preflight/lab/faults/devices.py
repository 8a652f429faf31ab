"""Faults of devices that only the vendor's tools report, and of the files below /dev."""

from preflight.lab.faults.fault import Fault, FaultPlace, Undo, end, told, told_no_more

WEAK_LIGHT = {"rx_power1": "0.0054", "rx_los": "0x2", "rx_lol": "0x2"}
ALARM = {"health": "Alarm", "codes": "80E01801", "words": "made by the preflight lab"}
HELD_MB = "24576"


def _slow_port(place: FaultPlace) -> Undo:
    full_speed = 100_000 if place.lab.spec.product == "atlas-a1" else 200_000
    return told({"speed": str(full_speed // 2)})(place)


def _hold(place: FaultPlace) -> Undo:
    """Start a process that holds HCCP of a device, and is in no table of npu-smi."""
    lock = f"exec 9>>/run/preflight-lab/hccp/{place.device}; flock 9; exec sleep infinity"
    return place.start("/bin/sh", "-c", lock)


def _misnumber(place: FaultPlace) -> Undo:
    """Give the device a number that no device has.

    A table with the same number twice would count as garbled and be ignored.
    """
    return told({"logic": str(place.lab.spec.devices)})(place)


def _close(place: FaultPlace) -> Undo:
    node = _node(place)
    owner, mode = place.host.run("stat", "-c", "%u:%g %a", node).split()
    place.host.run("chown", "root:root", node)
    place.host.run("chmod", "600", node)
    return {"owner": owner, "mode": mode}


def _open(place: FaultPlace, undo: Undo) -> None:
    place.host.run("chown", undo["owner"], _node(place))
    place.host.run("chmod", undo["mode"], _node(place))


def _node(place: FaultPlace) -> str:
    return f"/dev/davinci{place.device}"


FAULTS = (
    Fault(
        "optics-weak",
        "device",
        ("NIC102",),
        True,
        "the optical module receives almost no light on one lane.",
        told(WEAK_LIGHT),
        told_no_more,
    ),
    Fault(
        "fec-off",
        "device",
        ("NIC103",),
        True,
        "the link of the device has no error correction.",
        told({"fec": "no"}),
        told_no_more,
    ),
    Fault(
        "speed-low",
        "device",
        ("NIC104",),
        True,
        "the device's link runs at half the expected speed.",
        _slow_port,
        told_no_more,
    ),
    Fault(
        "pfc-mismatch",
        "device",
        ("NIC107",),
        True,
        "the port has flow control for priority 3, but jobs send with 4.",
        told({"pfc": "0,0,0,1,0,0,0,0"}),
        told_no_more,
    ),
    Fault(
        "leftover-qp",
        "device",
        ("NIC108",),
        True,
        "an HCCP process of an earlier job remains on the device.",
        _hold,
        end,
    ),
    Fault(
        "card-lost",
        "device",
        ("NPU116",),
        True,
        "npu-smi no longer lists the device, but the PCI bus does.",
        told({"lost": "1"}),
        told_no_more,
    ),
    Fault(
        "health-alarm",
        "device",
        ("NPU117",),
        True,
        "the health of the device is Alarm, with a code.",
        told(ALARM),
        told_no_more,
    ),
    Fault(
        "hbm-used",
        "device",
        ("NPU118",),
        True,
        f"{HELD_MB} MB of the device memory are in use, but by no process.",
        told({"hbm_used_mb": HELD_MB}),
        told_no_more,
    ),
    Fault(
        "wrong-mapping",
        "device",
        ("NPU119",),
        True,
        "npu-smi reports a device number that does not exist.",
        _misnumber,
        told_no_more,
    ),
    Fault(
        "device-file-mode",
        "device",
        ("HST109",),
        True,
        "only root can open the device file in /dev.",
        _close,
        _open,
    ),
)
