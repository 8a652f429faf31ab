"""Faults of GPUs, as nvidia-smi, the PCI bus and the kernel log report them. All act on stand-ins."""

from collections.abc import Callable, Mapping

from preflight.lab import gpus
from preflight.lab.faults.fault import Fault, FaultPlace, Undo, told, told_no_more

DARK_LINK = "5"
_FALLEN = "NVRM: Xid (PCI:{bus}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
_STUCK = "NVRM: Xid (PCI:{bus}): 119, pid=4242, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GSP!"


def _says(values: Mapping[str, str]) -> Callable[[FaultPlace], Undo]:
    def make(place: FaultPlace) -> Undo:
        undo = told(values)(place)
        _write(place)
        return undo

    return make


def _says_no_more(place: FaultPlace, undo: Undo) -> None:
    told_no_more(place, undo)
    _write(place)


def _write(place: FaultPlace) -> None:
    gpus.write(place.state.parent, place.host.number, place.lab.spec.devices)


def _log(place: FaultPlace, line: str) -> Undo:
    file = place.state.parent / "kmsg"
    was = file.read_text()
    number = was.count("\n")
    file.write_text(
        f"{was}4,{number},{number}00000000,-;{line.format(bus=gpus.bus(place.device).rpartition('.')[0])}\n"
    )
    return {"kmsg": was}


def _lose(place: FaultPlace) -> Undo:
    state = place.state.parent
    gpus.answers(state, place.device, alive=False)
    message = f"Unable to determine the device handle for GPU {gpus.bus(place.device)}: Unknown Error\n"
    (state / "nvidia" / "fails").write_text(message)
    return _log(place, _FALLEN)


def _find(place: FaultPlace, undo: Undo) -> None:
    state = place.state.parent
    gpus.answers(state, place.device, alive=True)
    (state / "nvidia" / "fails").unlink(missing_ok=True)
    (state / "kmsg").write_text(undo["kmsg"])


def _hang(place: FaultPlace) -> Undo:
    (place.state.parent / "nvidia" / "hangs").touch()
    return _log(place, _STUCK)


def _go_on(place: FaultPlace, undo: Undo) -> None:
    (place.state.parent / "nvidia" / "hangs").unlink(missing_ok=True)
    (place.state.parent / "kmsg").write_text(undo["kmsg"])


FAULTS = (
    Fault(
        "gpu-lost",
        "device",
        ("GPU102", "GPU101"),
        True,
        "the GPU fell off the PCI bus, and nvidia-smi fails.",
        _lose,
        _find,
    ),
    Fault(
        "gpu-ecc",
        "device",
        ("GPU103",),
        True,
        "the GPU has three uncorrectable memory errors.",
        _says({"dram_uncorrected": "3"}),
        _says_no_more,
    ),
    Fault(
        "gpu-row-remap",
        "device",
        ("GPU104",),
        True,
        "a bad memory row of the GPU waits for a reset to be remapped.",
        _says({"rows_remapped": "1", "remap_pending": "Yes", "reset_required": "Yes"}),
        _says_no_more,
    ),
    Fault(
        "gpu-nvlink",
        "device",
        ("GPU115",),
        True,
        f"NVLink {DARK_LINK} of the GPU is inactive.",
        _says({"dark_link": DARK_LINK}),
        _says_no_more,
    ),
    Fault(
        "nvidia-smi-hangs",
        "host",
        ("GPU101", "GPU107"),
        True,
        "nvidia-smi hangs on the host, and the driver reports Xid 119.",
        _hang,
        _go_on,
    ),
)
