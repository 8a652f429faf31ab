"""Checks of the jobs' environment: visible devices and CANN's set_env.sh."""

import re
from collections.abc import Iterator

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.facts.compatibility import numbers
from preflight.facts.sections.job import Job
from preflight.facts.types import Versions
from preflight.model.finding import Finding
from preflight.model.text import quote

_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
_SET_ENV, _SET_ENV_BEFORE_8_5 = "/usr/local/Ascend/cann/set_env.sh", "/usr/local/Ascend/ascend-toolkit/set_env.sh"
_LIST = re.compile("[0-9]{1,4}(?:,[0-9]{1,4})*")


@host_check("ENV107", "Visible NPU devices", products=NPU)
def visible_devices(scribe: Here, job: Job) -> Iterator[Finding]:
    """Why: ASCEND_RT_VISIBLE_DEVICES counts the devices of the process from 0. In a container with two of a host's
    eight devices, the numbers are 0 and 1, whatever the numbers on the host are. If the variable contains the host's
    numbers, the job finds no device or fails with EE1001.

    Result: FAIL if the variable lists devices that the process does not have. WARN if the numbers are not in ascending
    order, or if the runtime stops reading at a character. WARN if the variable lists fewer devices than the inventory.

    Check manually: Where jobs run:
      echo $ASCEND_RT_VISIBLE_DEVICES
      ls /dev/davinci[0-9]*

    Fix: Count from 0 inside a container, or unset the variable to use all devices.
    """
    value, device_count, name = job.variables.get(_VISIBLE), len(job.devices), scribe.host.name
    if value is None:
        return
    subject = f"{name}: {_VISIBLE} is {quote(value)} in the jobs' environment"
    visible, is_rising_list = _parse(value)
    beyond = max(visible, default=0) >= device_count
    if not device_count:
        yield scribe.unknown(f"{subject}, but jobs see no /dev/davinciN device")
    elif beyond or not visible:
        yield scribe.bad(
            f"{subject}, but jobs see devices 0 to {device_count - 1}",
            found=value,
            expected=f"0 to {device_count - 1}",
            cause="the host's device numbers were used, but a container counts its devices from 0"
            if job.contained and beyond
            else "",
            remedy=f"set {_VISIBLE} in the job script to numbers from 0 to {device_count - 1}, or unset it",
        )
    elif not is_rising_list:
        yield scribe.warn(
            f"{subject}. This is not an ascending list such as 0,1,2,3, so the runtime ignores a part of it",
            found=value,
            expected="an ascending list such as 0,1,2,3",
            remedy=f"set {_VISIBLE}={','.join(map(str, sorted(set(visible))))} in the job script",
        )
    elif len(visible) < len(scribe.host.devices):
        planned = len(scribe.host.devices)
        yield scribe.warn(
            f"{subject}, so jobs see only {len(visible)} of the {planned} devices in the inventory",
            found=value,
            expected=f"{planned} devices",
            remedy=f"unset {_VISIBLE} in the job script, or remove the other devices from the inventory",
        )


def _parse(value: str) -> tuple[list[int], bool]:
    """Return the numbers that the runtime reads, and whether the whole value is a list of rising numbers."""
    match = _LIST.match(value)
    if match is None:
        return [], False
    visible = [int(word) for word in match.group().split(",")]
    return visible, match.end() == len(value) and visible == sorted(set(visible))


@host_check("ENV110", "CANN environment", products=NPU, optional=("versions",))
def cann_is_set_up(scribe: Here, job: Job, versions: Versions | None) -> Iterator[Finding]:
    """Why: Without set_env.sh, the loader does not find libhccl.so, and torch_npu cannot be imported. The error message
    depends on which variable is missing. The probe needs the same environment.

    Result: FAIL if a variable is missing. If the inventory has no setup under [probe], this is WARN, because the jobs'
    start scripts may source the file. WARN if LD_LIBRARY_PATH does not contain a CANN folder.

    Check manually: Run this in the jobs' environment, after the setup command under [probe] in the inventory.
      env | grep -E 'ASCEND_(HOME|OPP|TOOLKIT)|LD_LIBRARY_PATH'

    Fix: Set setup = "source /usr/local/Ascend/cann/set_env.sh" under [probe] in the inventory. Before CANN 8.5, the
    path is /usr/local/Ascend/ascend-toolkit/set_env.sh. Add the same line to the jobs' start script. In an image, set
    the variables with ENV lines.
    """
    if not {"torch_npu", "mindspore"} & set(job.packages):
        yield scribe.skip("neither torch_npu nor MindSpore is installed where jobs run")
        return
    home = job.variables.get("ASCEND_HOME_PATH") or job.variables.get("ASCEND_TOOLKIT_HOME", "")
    missing = [] if home else ["ASCEND_HOME_PATH"]
    missing += [] if job.variables.get("ASCEND_OPP_PATH") else ["ASCEND_OPP_PATH"]
    folders = job.variables.get("LD_LIBRARY_PATH", "").split(":")
    remedy = "add this line to the job script, and set it as setup under [probe] in the inventory"
    commands = (f"source {_set_env(versions)}",)
    if missing:
        report = scribe.bad if scribe.cluster.probe.setup else scribe.warn
        yield report(
            f"{scribe.host.name}: {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set "
            "in the jobs' environment",
            cause="CANN's set_env.sh is not sourced",
            remedy=remedy,
            commands=commands,
        )
    elif not any(folder.startswith(home.rstrip("/") + "/") for folder in folders):
        yield scribe.warn(
            f"{scribe.host.name}: LD_LIBRARY_PATH contains no folder under ASCEND_HOME_PATH ({quote(home)}), so "
            "libhccl.so is found only through ld.so.conf",
            found=job.variables.get("LD_LIBRARY_PATH", "not set"),
            expected=f"{home}/lib64",
            remedy=remedy,
            commands=commands,
        )


def _set_env(versions: Versions | None) -> str:
    """Return the path of set_env.sh, as the host's release of CANN has it."""
    release = (versions.cann if versions else None) or "8.5"
    return _SET_ENV if numbers(release) >= (8, 5) else _SET_ENV_BEFORE_8_5
