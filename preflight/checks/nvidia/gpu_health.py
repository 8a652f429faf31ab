"""Checks of GPU health: memory errors, pending resets, slowdowns and Xids of the driver."""

from collections.abc import Iterator, Sequence

from preflight.checks.engine.registry import Here, host_check
from preflight.checks.shared.gpu import silent
from preflight.facts.parsers.nvidia.nvidia_logs.kernel import Xid
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Gpu
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.finding import Finding
from preflight.rules.gpus import GPU, OFF_THE_BUS, called, gone, line, numbered

_SLOW_BY_HEAT = "SW Thermal Slowdown"
# The cause first. HW Slowdown may have other causes.
_SLOW = ("HW Thermal Slowdown", "HW Power Brake Slowdown", "HW Slowdown", _SLOW_BY_HEAT)
_URGENT = ("reset the GPU", "reboot the host", "check the hardware")
_NONE_NEEDED = ("nothing", "restart the job")
_RECOVERY = 154  # the Xid with the action that the GPU needs by now


@host_check("GPU103", "Uncorrectable GPU memory errors", products=GPU)
def memory_errors(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: An uncorrectable memory error ends the program that reads the faulty memory, and sooner or later also the
    next program. Errors are counted since the driver was loaded or the GPU was reset, so repaired errors do not count.

    Result: FAIL for any uncorrectable error. Also FAIL if SRAM errors exceed the driver's own threshold, because the
    GPU then has to be replaced.

    Check manually:
      nvidia-smi -q -d ECC,ROW_REMAPPER

    Fix: End the jobs, then reset the GPU. Replace the bus address with the one in the finding. If errors return or
    exceed the threshold, replace the GPU.
      nvidia-smi --gpu-reset -i 0000:9b:00.0
    """
    yield from silent(scribe, nvidia)
    for index, gpu in numbered(nvidia):
        counts = gpu.ecc.volatile
        errors = {"DRAM": counts.dram_uncorrected, "SRAM": counts.sram_uncorrected, "memory": counts.double_bit}
        counted = ", ".join(f"{count} in {where}" for where, count in errors.items() if count)
        name = called(scribe.host, index, gpu)
        if counted:
            yield scribe.bad(
                f"{name}: uncorrectable memory errors: {counted}",
                device=index,
                expected="0",
                found=counted,
                remedy="stop the jobs on this GPU, then reset the GPU",
                commands=(_reset(scribe, gpu.bus),),
            )
        if gpu.ecc.sram_threshold_exceeded:
            yield scribe.bad(
                f"{name}: SRAM errors exceed the driver's threshold",
                device=index,
                expected="SRAM Threshold Exceeded: No",
                found="Yes",
                remedy="replace the GPU",
            )


def _reset(scribe: Here, bus: str) -> str:
    return scribe.on(scribe.host.name, f"nvidia-smi --gpu-reset -i {bus}")


@host_check("GPU104", "Pending GPU repairs", products=GPU)
def waits(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: A GPU stops using a bad page or row of memory only at its next reset. Until then, programs still use it (Xid
    63 before, 94 or 95 after).

    Result: FAIL if a reset is pending. Also FAIL if a GPU has no spare rows left, because it cannot repair itself. WARN
    for pending repairs that only drivers from 570 on report, because their format is unconfirmed.

    Check manually:
      nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT
      nvidia-smi -q | grep -A2 'Reset Status'

    Fix: End the jobs, then reset the GPU or reboot the host. If the driver requests Node Reboot, reboot the host.
    Replace the bus address with the one in the finding. If the remapping failed, replace the GPU.
      nvidia-smi --gpu-reset -i 0000:9b:00.0
    """
    yield from silent(scribe, nvidia)
    for index, gpu in numbered(nvidia):
        name, pending = called(scribe.host, index, gpu), _pending(gpu)
        if gpu.remapped_rows.failed:
            yield scribe.bad(
                f"{name}: a bad memory row could not be remapped",
                device=index,
                expected="Remapping Failure Occurred: No",
                found="Yes",
                remedy="replace the GPU",
            )
        elif change := pending or _pending_of_new_drivers(gpu):
            report, suffix = (scribe.bad, "") if pending else (scribe.warn, " (not verified on hardware)")
            remedy, commands = _repair(scribe, gpu)
            yield report(
                f"{name}: {change}{suffix}",
                device=index,
                expected="no pending repair",
                found="pending",
                remedy=remedy,
                commands=commands,
            )


def _repair(scribe: Here, gpu: Gpu) -> tuple[str, tuple[str, ...]]:
    """Return the remedy and its commands: the driver's action if it requests one."""
    action = gpu.recovery_action or "None"
    if "Reboot" in action:
        return f"stop all jobs on {scribe.host.name}, then reboot it", ()
    if action == "None" or "Reset" in action:
        return f"stop the jobs on this GPU, then reset the GPU or reboot {scribe.host.name}", (_reset(scribe, gpu.bus),)
    query = f"nvidia-smi -q -i {gpu.bus} | grep Recovery"
    return "stop the jobs on this GPU, then check whether the request is gone", (scribe.on(scribe.host.name, query),)


def _pending(gpu: Gpu) -> str:
    """Return the change that waits for a reset; of several, the first with a cause."""
    if gpu.remapped_rows.pending:
        return "a bad memory row will be remapped at the next reset"
    if gpu.retired_pages.pending:
        return "a bad memory page will be retired at the next reset"
    if gpu.reset_required or gpu.drain_and_reset_recommended:
        return "the driver requests a reset"
    return ""


def _pending_of_new_drivers(gpu: Gpu) -> str:
    """Return the change that drivers from 570 on report, in a format of which there is no capture."""
    if gpu.ecc.channel_repair_pending or gpu.ecc.tpc_repair_pending:
        return "a part of the GPU will be repaired at the next reset"
    if gpu.recovery_action not in (None, "None"):
        return f"the driver requests the recovery action {gpu.recovery_action}"
    return ""


@host_check("GPU105", "GPU throttling", products=GPU)
def slowed(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: A GPU that its hardware throttles runs at a fraction of its clock speed, and every collective waits for it.
    Low clocks are normal for an idle GPU (Idle) and for a GPU at its power limit (SW Power Cap).

    Result: FAIL if the hardware throttles a GPU. WARN for SW Thermal Slowdown.

    Check manually:
      nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER

    Fix: Check the server's fans, air flow, power supplies and cables. The BMC log shows the cause.
    """
    yield from silent(scribe, nvidia)
    for index, gpu in numbered(nvidia):
        reasons = gpu.slowed_by or ()
        reason = next((reason for reason in _SLOW if reason in reasons), "")
        heat = f", at {gpu.temperature} °C" if gpu.temperature is not None else ""
        if reason:
            report = scribe.warn if reason == _SLOW_BY_HEAT else scribe.bad
            yield report(
                f"{called(scribe.host, index, gpu)}: throttled by {reason}{heat}",
                device=index,
                expected="Not Active",
                found=reason,
                remedy=f"check the BMC log of {scribe.host.name} for cooling and power supply faults",
            )


@host_check("GPU107", "GPU Xid errors", products=GPU)
def xids(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: An Xid is a GPU error that the driver reports. NVIDIA's catalogue lists which Xids need a reset, a reboot or
    new hardware. The log shows a later reset of the GPU only with new drivers, which write Xid 154.

    Result: FAIL for an Xid that needs one of these actions. Xids that only ended a job, or are purely
    informational, are ignored. WARN for all other Xids. Xids are counted since the driver was loaded.

    Check manually:
      dmesg | grep -e 'NVRM: Xid'
      journalctl -k -b -g 'NVRM: Xid'

    Fix: Apply the fix in the finding. If you have already done that, add a waiver until the next reboot.
    """
    if nvidia.module is None:
        yield scribe.skip("no NVIDIA driver is loaded, see GPU101")
        return
    if nvidia.log.value is None:
        yield scribe.unknown(
            f"{scribe.host.name}: {nvidia.log.error}", remedy="run preflight as root on the host itself"
        )
        return
    log = nvidia.log.value
    if log.since == "unknown":
        yield scribe.warn(
            f"{scribe.host.name}: the kernel log does not reach back to the boot, so older Xids may be missing",
            expected="all messages since the boot",
            remedy="check where the kernel log begins, then configure journald to keep all messages since the boot",
            commands=(scribe.on(scribe.host.name, "journalctl -k -b"),),
        )
    if log.lines.unread:
        yield scribe.unknown(
            f"{scribe.host.name}: {log.lines.unread[0].error}",
            remedy="search the kernel log for Xids",
            commands=(scribe.on(scribe.host.name, "dmesg | grep Xid"),),
        )
    places = {gpu.bus: (index, gpu) for index, gpu in numbered(nvidia)}
    lost_gpus = gone(nvidia)
    for xid in log.lines.xids:
        if _is_open(xid, log.lines.xids) and not (xid.code == OFF_THE_BUS and xid.bus in lost_gpus):
            yield _open_xid(scribe, xid, places.get(xid.bus))


def _is_open(xid: Xid, xids: Sequence[Xid]) -> bool:
    """Return whether an Xid asks for an action that no later Xid 154 of the driver reports as done."""
    return xid.action not in _NONE_NEEDED and not any(
        later.code == _RECOVERY and later.bus == xid.bus and later.action == "nothing" and _not_before(later, xid)
        for later in xids
    )


def _open_xid(scribe: Here, xid: Xid, place: tuple[int, Gpu] | None) -> Finding:
    """Return the finding about an Xid of the GPU with a number; `place` None: no GPU answers at the Xid's bus id."""
    is_urgent, recovered = xid.action in _URGENT, place is not None and place[1].recovery_action == "None"
    name = called(scribe.host, *place) if place else f"{scribe.host.name}: GPU at {xid.bus}"
    times = f", {xid.count} times" if xid.count > 1 else ""
    report = scribe.bad if is_urgent and not recovered else scribe.warn
    return report(
        f"{name}: Xid {xid.code}{': ' + xid.meaning if xid.meaning else ''}{times}",
        device=place[0] if place else None,
        expected="no Xid",
        found=f"Xid {xid.code}",
        remedy=_xid_remedy(xid, recovered=recovered),
        commands=(_reset(scribe, xid.bus),) if xid.action == _URGENT[0] and not recovered else (),
        evidence=(line(xid),),
    )


def _xid_remedy(xid: Xid, *, recovered: bool) -> str:
    if recovered:
        return "no action is needed, because the driver reports that the GPU has recovered"
    if xid.action in _URGENT:
        return f"{xid.action}, unless this was done after the Xid. The kernel log may not show it"
    return f"look up Xid {xid.code} in NVIDIA's Xid catalog"


def _not_before(later: Xid, earlier: Xid) -> bool:
    """Return whether an Xid is not older, by the times of their last lines; False where there are none.

    Both are of one log, and so of one kind."""
    if not later.last or not earlier.last:
        return False
    try:
        return float(later.last) >= float(earlier.last)
    except ValueError:
        return later.last >= earlier.last
