"""Faults that a rank of a job meets, made in the stand-in of torch_npu, since the lab has no real device to break."""

from collections.abc import Iterator

from preflight.lab.faults.fault import Fault, FaultPlace, Undo, end, told, told_no_more

# Point at which a process gets stuck → description. Between these points ranks meet at a store and wait for each other.
# That is torch and the network, which have other faults.
STUCK = {
    "import": "as it imports torch_npu",
    "open": "as it opens the device",
    "connect": "as its communicator is made",
    "collective": "in a collective of 64 KiB or more",
    "close": "as its communicator is destroyed",
}


def _stuck() -> Iterator[Fault]:
    for point, description in STUCK.items():
        yield Fault(
            f"stuck-{point}",
            "device",
            ("PRB101", "PRB113"),
            True,
            f"a process that uses the device hangs {description}.",
            told({f"fault_stuck_{point}": "1"}),
            told_no_more,
        )


def _occupy(place: FaultPlace) -> Undo:
    """Start a process that belongs to no job, as npu-smi shows one."""
    folder = f"/run/preflight-lab/process/{place.device}"
    return place.start("/bin/sh", "-c", f"exec 9>>{folder}/$$; flock 9; exec sleep infinity")


FAULTS = (
    *_stuck(),
    Fault(
        "device-dead",
        "device",
        ("PRB101",),
        True,
        "opening the device fails with error 507033.",
        told({"fault_dead": "1"}),
        told_no_more,
    ),
    Fault(
        "wrong-data",
        "device",
        ("PRB102",),
        True,
        "the device sends one wrong value in each collective of 64 KiB or more.",
        told({"fault_wrong_data": "1"}),
        told_no_more,
    ),
    Fault(
        "device-busy",
        "device",
        ("NPU114",),
        True,
        "npu-smi shows a process on the device.",
        _occupy,
        end,
    ),
)
