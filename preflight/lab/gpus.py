"""The NVIDIA stand-ins: the output of a lab host's nvidia-smi, and the kernel's files on GPUs.

They imitate an H100 server. Their files are in the host's state, below `nvidia` and `pci`; init.sh moves them to the
real places. Changes of a GPU by faults are in its file `state/<index>`, and `write` renders the texts again.
"""

import shutil
from pathlib import Path

from preflight.lab.spec import Spec

STANDINS = Path(__file__).parent / "standins" / "gpu"
DRIVER, PRODUCT = "535.183.01", "NVIDIA H100 80GB HBM3"
LINKS, LINK_SPEED = 18, "26.562 GB/s"
SWITCHES = ("0000:07:00.0", "0000:08:00.0", "0000:09:00.0", "0000:0a:00.0")
HEALTHY = {
    "reset_required": "No",
    "dram_uncorrected": "0",
    "rows_remapped": "0",
    "remap_pending": "No",
    "dark_link": "",
}
_GPU, _SWITCH = "0x030200", "0x068000"
_ALIVE, OFF_THE_BUS = b"\xde\x10\x30\x23", b"\xff\xff\xff\xff"


def bus(index: int) -> str:
    return f"0000:{16 * (index + 1):02x}:00.0"


def lay_out(target: Path) -> None:
    """Fill DIR/standins, which all hosts share."""
    programs = {"nvidia-smi": target / "usr" / "bin", "nv-fabricmanager": target / "usr-local/libexec/preflight-lab"}
    for name, folder in programs.items():
        folder.mkdir(parents=True)
        shutil.copy(STANDINS / name, folder / name)


def prepare(directory: Path, host: int, spec: Spec) -> None:
    """Write the files of a fresh host. `directory` is the host's, with its `etc` and `state`."""
    state = directory / "state"
    for place in [*map(bus, range(spec.devices)), *SWITCHES]:
        folder = state / "pci" / place
        folder.mkdir(parents=True)
        words = {
            "vendor": "0x10de",
            "class": _SWITCH if place in SWITCHES else _GPU,
            "current_link_width": "16",
            "max_link_width": "16",
        }
        for name, word in words.items():
            (folder / name).write_text(f"{word}\n")
    for index in range(spec.devices):
        answers(state, index, alive=True)
    driver = state / "driver" / "nvidia"
    driver.mkdir(parents=True)
    (driver / "version").write_text(f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  (a STAND-IN)\n")
    (state / "kmsg").write_text(
        f"5,0,0,-;the kernel log of a preflight lab: a STAND-IN\n"
        f"4,1,61000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {DRIVER}\n"
    )
    units = directory / "etc/systemd/system/multi-user.target.wants"
    units.mkdir(parents=True)
    (units / "nvidia-fabricmanager.service").symlink_to("/lib/systemd/system/nvidia-fabricmanager.service")
    (state / "nvidia").mkdir()
    write(state, host, spec.devices)


def answers(state: Path, index: int, *, alive: bool) -> None:
    """Set whether a GPU's configuration space can be read."""
    (state / "pci" / bus(index) / "config").write_bytes((_ALIVE if alive else OFF_THE_BUS) + bytes(60))


def write(state: Path, host: int, gpus: int) -> None:
    """Write the texts of nvidia-smi, from the values in `state/<index>` that differ from a healthy GPU."""
    gpu_values = [{**HEALTHY, **_values(state / str(index))} for index in range(gpus)]
    uuids = [f"GPU-566e6f65-c38e-b12f-{host:04x}-{index:012x}" for index in range(gpus)]
    template = (STANDINS / "gpu.txt").read_text()
    head = (
        "\n==============NVSMI LOG==============\n\n"
        f"Driver Version                            : {DRIVER}\nCUDA Version                              : 12.2\n\n"
        f"Attached GPUs                             : {gpus}\n"
    )
    blocks = [
        template.format(bus=bus(index), product=PRODUCT, uuid=uuids[index], index=index, **values)
        for index, values in enumerate(gpu_values)
    ]
    (state / "nvidia" / "query").write_text(head + "".join(blocks))
    (state / "nvidia" / "nvlink").write_text(
        "".join(_links(index, uuids[index], gpu_values[index]) for index in range(gpus))
    )
    (state / "nvidia" / "nvlink-errors").write_text("".join(_errors(index, uuids[index]) for index in range(gpus)))
    (state / "nvidia" / "topo").write_text(_topology(gpus))


def _values(file: Path) -> dict[str, str]:
    lines = file.read_text().splitlines() if file.exists() else []
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def _links(index: int, uuid: str, values: dict[str, str]) -> str:
    dark = values["dark_link"]
    speeds = ("<inactive>" if dark == str(link) else LINK_SPEED for link in range(LINKS))
    links = "".join(f"\t Link {link}: {speed}\n" for link, speed in enumerate(speeds))
    return f"GPU {index}: {PRODUCT} (UUID: {uuid})\n{links}"


def _errors(index: int, uuid: str) -> str:
    counts = "\n".join(
        f"\t Link {link}: {kind} Errors: 0" for link in range(LINKS) for kind in ("Replay", "Recovery", "CRC")
    )
    return f"GPU {index}: {PRODUCT} (UUID: {uuid})\n{counts}\n"


def _topology(gpus: int) -> str:
    names = [f"GPU{index}" for index in range(gpus)]
    heading = ["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    rows = ([name, *(" X " if name == column else "NV18" for column in names), "0-7", "0", "", "N/A"] for name in names)
    return "\n".join(map("\t".join, (heading, *rows))) + "\n\nLegend:\n\n  X    = Self\n"
