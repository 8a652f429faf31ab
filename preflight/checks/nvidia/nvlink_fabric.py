"""The NVLink fabric of a host with NVSwitches: fabric manager, membership of the GPUs, errors of the switches."""

from collections.abc import Iterator

from preflight.checks.engine.registry import Here, host_check
from preflight.checks.shared.gpu import silent
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.gpus import GPU, called, line, numbered

_READY, _FINE = "Completed", "Success"


@host_check("GPU112", "Fabric manager service", products=GPU)
def fabric_manager(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: Fabric manager configures the NVSwitches. Without it, CUDA reports "system not yet initialized" (802) on all
    GPUs of the host. Or NCCL fails when it initializes NVLink SHARP.

    Result: FAIL if it does not run. WARN if it was started manually, because it is gone after the next reboot. GPU114
    covers hosts without NVSwitches on their PCI bus (virtual machines, B200).

    Check manually:
      systemctl status nvidia-fabricmanager
      lspci -d 10de: | grep 0680

    Fix: Enable and start the service, from the package of the same name. If it does not start, read
    /var/log/fabricmanager.log.
      systemctl enable --now nvidia-fabricmanager
    """
    manager = nvidia.fabric_manager
    if not nvidia.switches:
        yield scribe.skip("no NVSwitch on the PCI bus")
    elif not manager.running and nvidia.contained:
        yield scribe.skip("this is a container: fabric manager runs on its host")
    elif not manager.running:
        yield scribe.bad(
            f"{scribe.host.name}: fabric manager does not run, and there are {len(nvidia.switches)} NVSwitches",
            expected="nv-fabricmanager runs",
            found="no such process",
            remedy=_start(scribe, nvidia),
        )
    elif manager.at_boot is False and manager.unit:
        yield scribe.warn(
            f"{scribe.host.name}: fabric manager runs, but does not start at boot",
            expected="enabled",
            found="disabled",
            remedy=f"systemctl enable nvidia-fabricmanager on {scribe.host.name}",
        )
    elif manager.at_boot is False:
        yield scribe.warn(
            f"{scribe.host.name}: fabric manager runs, but systemd has no unit that starts it at boot",
            expected="enabled",
            found="no nvidia-fabricmanager.service",
            remedy=f"see that what started it does so after a boot of {scribe.host.name}; its package has a unit",
        )


def _start(scribe: Here, nvidia: Nvidia) -> str:
    if nvidia.fabric_manager.at_boot is None:
        return f"start nv-fabricmanager on {scribe.host.name}, which has no systemd; /var/log/fabricmanager.log"
    start = f"systemctl enable --now nvidia-fabricmanager on {scribe.host.name}; /var/log/fabricmanager.log"
    if nvidia.fabric_manager.unit:
        return start
    release = f" {nvidia.module.version}" if nvidia.module else ", of the driver's release,"
    return f"install nvidia-fabricmanager{release}, then {start}"


@host_check("GPU113", "Fabric manager version", products=GPU)
def manager_version(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: Fabric manager must have exactly the driver's release. After an update of one of the two, it does not start.
    If it was started before, only NVLink SHARP in NCCL fails ("transport/nvls.cc … Cuda failure 1").

    Result: FAIL if the releases differ.

    Check manually:
      nv-fabricmanager -v
      cat /proc/driver/nvidia/version

    Fix: Install the package of the driver's release, end the jobs, then restart the service.
      systemctl restart nvidia-fabricmanager
    """
    manager, module = nvidia.fabric_manager.version, nvidia.module
    if manager is None or module is None:
        yield scribe.skip("the version of fabric manager, or of the driver, is not known (known of Debian packages)")
    elif nvidia.switches and manager != module.version:
        yield scribe.bad(
            f"{scribe.host.name}: fabric manager {manager}, and the driver is {module.version}",
            expected=module.version,
            found=manager,
            remedy=f"install nvidia-fabricmanager {module.version} on {scribe.host.name}, end its jobs, "
            "then systemctl restart nvidia-fabricmanager",
        )


@host_check("GPU114", "NVLink fabric state", products=GPU)
def joined(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: A GPU of Hopper or later that has not joined the fabric gives CUDA error 802, or no NVLink SHARP. The state
    is In Progress until fabric manager has configured the GPU, which takes minutes after a boot.

    Result: FAIL if a GPU has not joined the fabric.

    Check manually:
      nvidia-smi -q | grep -A2 Fabric

    Fix: Wait some minutes after a boot. Otherwise end the jobs, restart the service, then reset the GPUs.
      systemctl restart nvidia-fabricmanager
    """
    yield from silent(scribe, nvidia)
    for index, gpu in numbered(nvidia):
        state, status = gpu.fabric.state, gpu.fabric.status
        if state is not None and (state != _READY or status not in (None, _FINE)):
            problem = state if state != _READY else f"{state}, {status}"
            yield scribe.bad(
                f"{called(scribe.host, index, gpu)}: its NVLink fabric is {problem}",
                device=index,
                expected=f"{_READY}, {_FINE}",
                found=problem,
                remedy=f"end the jobs of {scribe.host.name}, then systemctl restart nvidia-fabricmanager; "
                "/var/log/fabricmanager.log",
            )


@host_check("GPU116", "NVSwitch errors", severity=Outcome.WARN, products=GPU)
def switch_errors(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: A fatal SXid takes NVLinks or a whole NVSwitch out of use until GPUs and switches are reset.

    Result: WARN for an SXid, never FAIL: the format is known from the driver's source and other tools, not from a
    capture.

    Check manually:
      dmesg | grep SXid
      cat /var/log/fabricmanager.log

    Fix: End the jobs, then reset all GPUs of the host together, or reboot it. If the error returns, call the vendor.
    """
    if nvidia.module is None:
        yield scribe.skip("no NVIDIA driver is loaded, see GPU101")
        return
    if nvidia.log.value is None:
        yield scribe.skip("the driver's lines of the kernel log are not known, see GPU107")
        return
    for error in nvidia.log.value.lines.sxids:
        if error.fatal is not False:
            yield scribe.bad(
                f"{scribe.host.name}: {error.switch} ({error.bus}): SXid {error.code}"
                + (f", {error.count} times" if error.count > 1 else "")
                + " (format unconfirmed)",
                expected="no SXid",
                found=f"SXid {error.code}",
                evidence=(line(error),),
                remedy=f"reset all GPUs of {scribe.host.name} together, or reboot it",
            )
