"""The Ascend stand-ins as files: programs built from standins/vendor, version files, and the torch_npu package.

They are laid out once for each lab, below DIR/standins, and shared by all hosts through overlays on /usr and
/usr/local.
"""

import hashlib
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from preflight.lab import kernel
from preflight.lab.spec import Spec
from preflight.model.errors import UsageError
from preflight.model.places import cache_home

STANDINS = Path(__file__).parent / "standins"
SOURCES = STANDINS / "vendor"
HCCN = ("tool", "call", "conf", "settings", "port", "optical", "neighbours", "qos", "jobs", "ping", "cfg", "error")
PROGRAMS = {
    "hccn_tool": (*(f"hccn_{part}.c" for part in HCCN), "link_history.c", "nic.c", "nic_look.c", "icmp.c", "lab.c"),
    "npu-smi": ("npu_smi.c", "npu_smi_table.c", "npu_smi_lists.c", "npu_smi_typed.c", "chips.c", "lab.c"),
    "lspci": ("lspci.c", "chips.c", "lab.c"),
    "watch_links": ("watch_links.c", "link_history.c", "nic_look.c", "lab.c"),
}
COMPILE = ("cc", "-D_GNU_SOURCE", "-O2", "-static")

ASCEND = Path("usr-local/Ascend")
# Place of each program below DIR/standins. The last is not the vendor's: services.sh starts it.
PLACES = {
    "hccn_tool": ASCEND / "driver" / "tools" / "hccn_tool",
    "npu-smi": Path("usr-local/bin/npu-smi"),
    "lspci": Path("usr/bin/lspci"),
    "watch_links": Path("usr-local/libexec/preflight-lab/watch_links"),
}
SITE_PACKAGES = Path("/usr/local/Ascend/ascend-toolkit/latest/python/site-packages")
TORCH_NPU_METADATA = SITE_PACKAGES / "torch_npu-2.13.0.dist-info" / "METADATA"
VERSION_INFO = Path("/usr/local/Ascend/driver/version.info")


@dataclass(frozen=True)
class StandInVersions:
    """The software of one product generation, as in its version files."""

    driver: str
    driver_inner: str
    driver_takes_firmware: str
    firmware: str
    firmware_takes_driver: str
    cann: str
    cann_inner: str
    runtime: str


VERSIONS = {
    "atlas-a1": StandInVersions(
        "23.0.7",
        "V100R001C15SPC012B220",
        "[7.0.0,7.1.99]",
        "7.1.0.11.220",
        "[23.0.rc3,23.0.rc3.],[23.0.0,23.0.0.],[23.0.7,23.0.7.]",
        "8.0.0",
        "V100R001C20SPC001B251",
        "7.6.0.1.220",
    ),
    "atlas-a2": StandInVersions(
        "24.1.rc3",
        "V100R001C19SPC001B145",
        "[7.0.0,7.5.99]",
        "7.5.0.1.129",
        "[24.1.rc2,24.1.rc2.],[24.1.rc3,24.1.rc3.]",
        "8.1.RC1",
        "V100R001C21SPC001B238",
        "7.7.0.1.238",
    ),
    "atlas-a3": StandInVersions(
        "24.1.rc3.3",
        "V100R001C19SPC003B112",
        "[7.0.0,7.5.99]",
        "7.5.0.107.228",
        "[24.1.rc2,24.1.rc2.],[24.1.rc3,24.1.rc3.]",
        "8.1.RC1",
        "V100R001C21SPC001B238",
        "7.7.0.1.238",
    ),
}

SET_ENV = """\
# STAND-IN of the preflight lab for CANN's set_env.sh: names the places where the lab has put its stand-ins.
export ASCEND_TOOLKIT_HOME=/usr/local/Ascend/ascend-toolkit/latest
export ASCEND_HOME_PATH=${ASCEND_TOOLKIT_HOME}
export ASCEND_OPP_PATH=${ASCEND_TOOLKIT_HOME}/opp
export ASCEND_AICPU_PATH=${ASCEND_TOOLKIT_HOME}
export LD_LIBRARY_PATH=${ASCEND_TOOLKIT_HOME}/lib64${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}
export PYTHONPATH=${ASCEND_TOOLKIT_HOME}/python/site-packages${PYTHONPATH:+:${PYTHONPATH}}
"""

INSTALL_INFO = """\
UserName=HwHiAiUser
UserGroup=HwHiAiUser
Firmware_Install_Type=full
Firmware_Install_Path_Param=/usr/local/Ascend
Driver_Install_Type=full
Driver_Install_Path_Param=/usr/local/Ascend
Driver_Install_For_All=no
Driver_Install_Mode=normal
Driver_Install_Status=complete
"""


def lay_out(spec: Spec, target: Path) -> None:
    """Fill DIR/standins for an NPU product. Compile the programs unless the cache has them."""
    programs = build()
    ascend = target / ASCEND
    ascend.mkdir(parents=True)
    # Hides a real driver of this machine.
    os.setxattr(ascend, "trusted.overlay.opaque", b"y")
    for name, program in programs.items():
        place = target / PLACES[name]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(program, place)
    (target / "usr" / "bin" / "hccn_tool").symlink_to("/usr/local/Ascend/driver/tools/hccn_tool")
    for folder in ("dcmi", "Ascend/driver/lib64/common", "Ascend/driver/lib64/driver"):
        (target / "usr-local" / folder).mkdir(parents=True)  # empty: the stand-ins need no libraries of the driver
    for path, text in version_files(spec).items():
        place = ascend / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (ascend / "ascend-toolkit" / "set_env.sh").write_text(SET_ENV)
    site = target / "usr-local" / SITE_PACKAGES.relative_to("/usr/local")
    shutil.copytree(STANDINS / "python", site, ignore=shutil.ignore_patterns("__pycache__"))


def version_files(spec: Spec) -> dict[str, str]:
    """Return path below /usr/local/Ascend → text, in the layout of the product's files."""
    v, arch = VERSIONS[spec.product], platform.machine()
    toolkit = "ascend-toolkit/latest"
    parts = ("runtime", "compiler", "hccl", "opp", "toolkit", "aoe", "ncs")
    cfg = [f"{part}_{moment}_version=[{v.runtime}:{v.cann}]" for moment in ("running", "installed") for part in parts]
    return {
        "driver/version.info": (
            f"Version={v.driver}\nascendhal_version=7.35.19\naicpu_version=1.0\ntdt_version=1.0\nlog_version=1.0\n"
            f"prof_version=2.0\ndvppkernels_version=1.1\ntsfw_version=1.0\nInnerversion={v.driver_inner}\n"
            f"compatible_version=[V100R001C15],[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21]\n"
            f"compatible_version_fw={v.driver_takes_firmware}\npackage_version={v.driver}\n"
        ),
        "firmware/version.info": (
            f"Version={v.firmware}\nfirmware_version=1.0\npackage_version={v.driver}\n"
            f"compatible_version_drv={v.firmware_takes_driver}\n"
        ),
        f"{toolkit}/{arch}-linux/ascend_toolkit_install.info": (
            f"package_name=Ascend-cann-toolkit\nversion={v.cann}\ninnerversion={v.cann_inner}\n"
            f"compatible_version=[V100R001C15],[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21]\n"
            f"arch={arch}\nos=linux\npath=/usr/local/Ascend/ascend-toolkit/{v.cann}/{arch}-linux\n"
        ),
        f"{toolkit}/version.cfg": "\n".join(["# version: 1.0", *cfg]) + "\n",
    }


def build() -> dict[str, Path]:
    """Return the compiled programs by name. A change of any source uses another place in the cache."""
    digest = hashlib.sha256(" ".join(COMPILE).encode())
    for source in sorted(SOURCES.glob("*.[ch]")):
        digest.update(source.read_bytes())
    cache = cache_home() / "lab" / digest.hexdigest()[:16]
    programs = {name: cache / name for name in PROGRAMS}
    missing = [name for name, path in programs.items() if not path.exists()]
    if missing and shutil.which(COMPILE[0]) is None:
        raise UsageError("the lab compiles its stand-in tools and finds no `cc`: apt-get install gcc libc6-dev")
    for name in missing:
        cache.mkdir(parents=True, exist_ok=True)
        # Renamed into place, since two labs may build at once.
        unfinished = cache / f"{name}.{os.getpid()}"
        kernel.run(*COMPILE, "-o", str(unfinished), *(str(SOURCES / source) for source in PROGRAMS[name]))
        unfinished.replace(programs[name])
    return programs
