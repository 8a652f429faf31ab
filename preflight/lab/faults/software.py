"""Faults of the software on a host: incompatible versions, and the environment that jobs start with."""

from pathlib import Path

from preflight.lab import kernel, vendor
from preflight.lab.addresses import SET_ENV
from preflight.lab.faults.fault import Fault, FaultPlace, Undo

OTHER_DRIVER = "22.0.4"
OTHER_TORCH_NPU = "2.1.0"
BAD_VARIABLE = "HCCL_RDMA_RETRY_CNT=9"  # 1 to 7
WRONG_NIC, WRONG_ADDRESS = "docker0", "172.17.0.1/16"  # as on every host with Docker


def _edit(place: FaultPlace, file: Path, old: str, new: str) -> Undo:
    """Change a file of the host, which has its own copy from then on."""
    path = place.host.root / file.relative_to("/")
    was = path.read_text()
    path.write_text(was.replace(old, new) if old else was + new)
    return {"file": str(file), "text": was}


def _put_back(place: FaultPlace, undo: Undo) -> None:
    (place.host.root / Path(undo["file"]).relative_to("/")).write_text(undo["text"])


def _other_driver(place: FaultPlace) -> Undo:
    return _edit(place, vendor.VERSION_INFO, vendor.VERSIONS[place.lab.spec.product].driver, OTHER_DRIVER)


def _other_torch_npu(place: FaultPlace) -> Undo:
    return _edit(place, vendor.TORCH_NPU_METADATA, "\nVersion: 2.13.0\n", f"\nVersion: {OTHER_TORCH_NPU}\n")


def _bad_variable(place: FaultPlace) -> Undo:
    return _edit(place, Path(SET_ENV), "", f"export {BAD_VARIABLE}\n")


def _wrong_nic(place: FaultPlace) -> Undo:
    """Set the variables, and make the interface, too, so that its absence gives no warning."""
    bridge = (f"link add {WRONG_NIC} type bridge", f"addr add {WRONG_ADDRESS} dev {WRONG_NIC}")
    kernel.ip_batch([*bridge, f"link set {WRONG_NIC} up"], place.host.netns)
    names = "".join(f"export {of}_SOCKET_IFNAME={WRONG_NIC}\n" for of in ("HCCL", "GLOO"))
    return _edit(place, Path(SET_ENV), "", names)


def _right_nic(place: FaultPlace, undo: Undo) -> None:
    _put_back(place, undo)
    kernel.ip_batch([f"link del {WRONG_NIC}"], place.host.netns)


def _hang(place: FaultPlace) -> Undo:
    return _edit(place, Path(SET_ENV), "", "sleep 3600\n")


FAULTS = (
    Fault(
        "driver-version",
        "host",
        ("VER101", "NPU120"),
        True,
        f"the driver of the host is {OTHER_DRIVER}.",
        _other_driver,
        _put_back,
    ),
    Fault(
        "torch-npu-mismatch",
        "host",
        ("VER107", "VER104"),
        True,
        f"torch_npu is {OTHER_TORCH_NPU}, but torch and CANN have other versions.",
        _other_torch_npu,
        _put_back,
    ),
    Fault(
        "hccl-variable",
        "host",
        ("ENV104", "ENV106"),
        False,
        f"jobs of the host start with {BAD_VARIABLE}, which HCCL refuses.",
        _bad_variable,
        _put_back,
    ),
    Fault(
        "wrong-interface",
        "host",
        ("HST110", "HST118"),
        False,
        f"jobs of the host use {WRONG_NIC}, which no other host reaches.",
        _wrong_nic,
        _right_nic,
    ),
    Fault(
        "setup-hangs",
        "host",
        ("PRB101",),
        False,
        "the setup file that jobs source hangs.",
        _hang,
        _put_back,
    ),
)
