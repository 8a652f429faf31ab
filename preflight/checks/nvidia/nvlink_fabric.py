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
    GPUs of the host, or NCCL fails when it initializes NVLink SHARP.

    Result: FAIL if fabric manager is not running. WARN if it was started manually, because it does not start again at
    the next boot. GPU114 covers hosts without NVSwitches on their PCI bus (virtual machines, B200).

    Check manually:
      systemctl status nvidia-fabricmanager
      lspci -d 10de: | grep 0680

    Fix: Enable and start the service, which is in the package of the same name. If it does not start, read
    /var/log/fabricmanager.log.
      systemctl enable --now nvidia-fabricmanager
    """
    manager = nvidia.fabric_manager
    if not nvidia.switches:
        yield scribe.skip("no NVSwitch on the PCI bus")
    elif not manager.running and nvidia.contained:
        yield scribe.skip("this is a container, and fabric manager runs on its host")
    elif not manager.running:
        yield scribe.bad(
            f"{scribe.host.name}: fabric manager is not running, but the host has {len(nvidia.switches)} NVSwitches",
            expected="nv-fabricmanager running",
            found="no such process",
            remedy=_start(nvidia),
            commands=() if manager.at_boot is None else (_fabric_manager(scribe, "systemctl enable --now"),),
        )
    elif manager.at_boot is False and manager.unit:
        yield scribe.warn(
            f"{scribe.host.name}: fabric manager is running, but is not enabled at boot",
            expected="enabled",
            found="disabled",
            remedy="enable fabric manager at boot",
            commands=(_fabric_manager(scribe, "systemctl enable"),),
        )
    elif manager.at_boot is False:
        yield scribe.warn(
            f"{scribe.host.name}: fabric manager is running, but no systemd unit starts it at boot",
            expected="enabled",
            found="no nvidia-fabricmanager.service",
            remedy="install the nvidia-fabricmanager package, which has a systemd unit, "
            "or start fabric manager at boot in another way",
        )


def _start(nvidia: Nvidia) -> str:
    log = "If fabric manager does not start, read /var/log/fabricmanager.log"
    if nvidia.fabric_manager.at_boot is None:
        return f"start nv-fabricmanager manually, because this host does not run systemd. {log}"
    if nvidia.fabric_manager.unit:
        return f"start fabric manager. {log}"
    release = f" {nvidia.module.version}" if nvidia.module else " in the driver's version"
    return f"install nvidia-fabricmanager{release}, then start the service. {log}"


def _fabric_manager(scribe: Here, action: str) -> str:
    return scribe.on(scribe.host.name, f"{action} nvidia-fabricmanager")


@host_check("GPU113", "Fabric manager version", products=GPU)
def manager_version(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: Fabric manager must have exactly the driver's release. If only one of the two was updated, fabric manager
    does not start. If it was started before the update, only NVLink SHARP in NCCL fails ("transport/nvls.cc … Cuda
    failure 1").

    Result: FAIL if the releases differ.

    Check manually:
      nv-fabricmanager -v
      cat /proc/driver/nvidia/version

    Fix: Install the fabric manager package that matches the driver's version. End the jobs, then restart the service.
      systemctl restart nvidia-fabricmanager
    """
    manager, module = nvidia.fabric_manager.version, nvidia.module
    if manager is None or module is None:
        yield scribe.skip(
            "the version of fabric manager or of the driver is unknown (the first is read on Debian systems only)"
        )
    elif nvidia.switches and manager != module.version:
        yield scribe.bad(
            f"{scribe.host.name}: fabric manager has version {manager}, "
            f"but the NVIDIA driver has version {module.version}",
            expected=module.version,
            found=manager,
            remedy=f"install nvidia-fabricmanager {module.version}, stop all jobs on the host, "
            "then restart fabric manager",
            commands=(_fabric_manager(scribe, "systemctl restart"),),
        )


@host_check("GPU114", "NVLink fabric state", products=GPU)
def joined(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: If a GPU of Hopper or later has not joined the fabric, CUDA reports error 802, or NVLink SHARP does not
    work. The state is In Progress until fabric manager has configured the GPU, which takes minutes after a boot.

    Result: FAIL if a GPU has not joined the fabric.

    Check manually:
      nvidia-smi -q | grep -A2 Fabric

    Fix: After a boot, wait some minutes. Otherwise, end the jobs, restart the service, then reset the GPUs.
      systemctl restart nvidia-fabricmanager
    """
    yield from silent(scribe, nvidia)
    for index, gpu in numbered(nvidia):
        state, status = gpu.fabric.state, gpu.fabric.status
        if state is not None and (state != _READY or status not in (None, _FINE)):
            problem = state if state != _READY else f"{state}, {status}"
            yield scribe.bad(
                f"{called(scribe.host, index, gpu)}: the NVLink fabric state is {problem}",
                device=index,
                expected=f"{_READY}, {_FINE}",
                found=problem,
                remedy="stop all jobs on the host, then restart fabric manager. If the state stays the same, read "
                "/var/log/fabricmanager.log",
                commands=(_fabric_manager(scribe, "systemctl restart"),),
            )


@host_check("GPU116", "NVSwitch errors", severity=Outcome.WARN, products=GPU)
def switch_errors(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: A fatal SXid disables NVLinks or a whole NVSwitch until the GPUs and switches are reset.

    Result: WARN if there is an SXid. The check never fails, because the format is known from the driver's source and
    other tools, and not from real output.

    Check manually:
      dmesg | grep SXid
      cat /var/log/fabricmanager.log

    Fix: End the jobs, then reset all GPUs of the host together, or reboot it. If the error returns, contact the vendor.
    """
    if nvidia.module is None:
        yield scribe.skip("no NVIDIA driver is loaded, see GPU101")
        return
    if nvidia.log.value is None:
        yield scribe.skip("the kernel log with the driver's messages is not available, see GPU107")
        return
    for error in nvidia.log.value.lines.sxids:
        if error.fatal is not False:
            yield scribe.bad(
                f"{scribe.host.name}: {error.switch} ({error.bus}): SXid {error.code}"
                + (f", {error.count} times" if error.count > 1 else "")
                + " (not verified on hardware)",
                expected="no SXid",
                found=f"SXid {error.code}",
                evidence=(line(error),),
                remedy=f"reset all GPUs on {scribe.host.name} together, or reboot the host",
            )
