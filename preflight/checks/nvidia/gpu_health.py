"""Checks of GPU health: memory errors, pending resets, slowdowns and Xids of the driver."""

from collections.abc import Iterator

from preflight.checks.engine.registry import Here, host_check
from preflight.checks.shared.gpu import silent
from preflight.facts.parsers.nvidia.nvidia_logs.kernel import Xid
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Gpu
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.finding import Finding
from preflight.rules.gpus import GPU, OFF_THE_BUS, called, gone, line, numbered

# The cause first. The last one may have other causes.
_SLOW = ("HW Thermal Slowdown", "HW Power Brake Slowdown", "HW Slowdown")
_SLOW_BY_HEAT = "SW Thermal Slowdown"
_URGENT = ("reset the GPU", "reboot the host", "check the hardware")
_NONE_NEEDED = ("nothing", "restart the job")
_RECOVERY = 154  # the Xid with the action that the GPU needs by now


@host_check("GPU103", "No GPU's memory has errors that could not be corrected", products=GPU)
def memory_errors(here: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: such an error ends the program that reads the place, sooner or later the next one, too. Counted since the
    driver was loaded or the GPU reset, so that what was mended is not accused. Errors of the SRAM beyond the
    driver's own threshold mean that the GPU is to be replaced.

    Check manually: nvidia-smi -q -d ECC,ROW_REMAPPER

    Fix: end the jobs, nvidia-smi --gpu-reset -i 0000:9b:00.0; if they come again, or beyond the threshold: another GPU
    """
    yield from silent(here, here.host, nvidia)
    for index, gpu in numbered(nvidia):
        counts = gpu.ecc.volatile
        errors = {"DRAM": counts.dram_uncorrected, "SRAM": counts.sram_uncorrected, "memory": counts.double_bit}
        counted = ", ".join(f"{count} in {where}" for where, count in errors.items() if count)
        name = called(here.host, index, gpu)
        if counted:
            yield here.bad(
                f"{name}: errors that could not be corrected: {counted}",
                device=index,
                expected="0",
                found=counted,
                remedy=f"end its jobs, then on {here.host.name}: nvidia-smi --gpu-reset -i {gpu.bus}",
            )
        if gpu.ecc.sram_threshold_exceeded:
            yield here.bad(
                f"{name}: its SRAM has had more errors than the driver's threshold allows",
                device=index,
                expected="SRAM Threshold Exceeded: No",
                found="Yes",
                remedy="have the GPU replaced",
            )


@host_check("GPU104", "No GPU waits for a reset or a replacement", products=GPU)
def waits(here: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: a bad page or row of memory that is to be taken out of use is so from the next reset on; until then
    programs still get it (Xid 63 before, 94 or 95 after). A GPU without spare rows stays broken.

    Check manually: nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT; nvidia-smi -q | grep -A2 'Reset Status'

    Fix: end the jobs, nvidia-smi --gpu-reset -i 0000:9b:00.0, or reboot; where the remapping failed: replace the GPU
    """
    yield from silent(here, here.host, nvidia)
    for index, gpu in numbered(nvidia):
        name = called(here.host, index, gpu)
        if gpu.remapped_rows.failed:
            yield here.bad(
                f"{name}: a bad row of its memory could not be remapped",
                device=index,
                expected="Remapping Failure Occurred: No",
                found="Yes",
                remedy="have the GPU replaced",
            )
        elif reason := _pending(gpu):
            yield here.bad(
                f"{name}: {reason}", device=index, expected="nothing pending", found="pending", remedy=_reset(here, gpu)
            )
        elif reason := _pending_of_new_drivers(gpu):
            yield here.warn(
                f"{name}: {reason} (format unconfirmed)",
                device=index,
                expected="nothing pending",
                found="pending",
                remedy=_reset(here, gpu),
            )


def _reset(here: Here, gpu: Gpu) -> str:
    return f"end its jobs, then on {here.host.name}: nvidia-smi --gpu-reset -i {gpu.bus}, or reboot it"


def _pending(gpu: Gpu) -> str:
    """Return the change that waits for a reset; of several the one that names a cause."""
    if gpu.remapped_rows.pending:
        return "a bad row of its memory is remapped at the next reset"
    if gpu.retired_pages.pending:
        return "a bad page of its memory is retired at the next reset"
    if gpu.reset_required or gpu.drain_and_reset_recommended:
        return "the driver asks for a reset"
    return ""


def _pending_of_new_drivers(gpu: Gpu) -> str:
    """Return the same in words of drivers from 570 on, of which there is no capture."""
    if gpu.ecc.channel_repair_pending or gpu.ecc.tpc_repair_pending:
        return "a part of it is repaired at the next reset"
    if gpu.recovery_action not in (None, "None"):
        return f"the driver asks for: {gpu.recovery_action}"
    return ""


@host_check("GPU105", "No GPU is slowed down by heat or power", products=GPU)
def slowed(here: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: a GPU that its hardware slows down has a fraction of its clocks, and every collective waits for it. That an
    idle GPU has low clocks (Idle), or one at its power limit (SW Power Cap), is no fault.

    Check manually: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER

    Fix: fans, air flow, power supplies and cables of the server; the BMC's log says which
    """
    yield from silent(here, here.host, nvidia)
    for index, gpu in numbered(nvidia):
        reasons = gpu.slowed_by or ()
        reason = next((reason for reason in _SLOW if reason in reasons), "")
        heat = f", at {gpu.temperature} °C" if gpu.temperature is not None else ""
        remedy = f"cooling and power supplies of {here.host.name}: read the BMC's log"
        if reason:
            yield here.bad(
                f"{called(here.host, index, gpu)}: slowed down: {reason}{heat}",
                device=index,
                expected="Not Active",
                found=reason,
                remedy=remedy,
            )
        elif _SLOW_BY_HEAT in reasons:
            yield here.warn(
                f"{called(here.host, index, gpu)}: slowed down: {_SLOW_BY_HEAT}{heat}",
                device=index,
                expected="Not Active",
                found=_SLOW_BY_HEAT,
                remedy=remedy,
            )


@host_check("GPU107", "No GPU needs help after an Xid", products=GPU)
def xids(here: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: an Xid is an error that the driver reports of a GPU; NVIDIA's catalogue says which of them ask for a reset,
    a reboot or other hardware. Those that only ended a job, or inform, are no fault here. Counted since the driver was
    loaded; whether a GPU was reset since, the log tells only where the driver writes Xid 154 (new drivers).

    Check manually: dmesg | grep -e 'NVRM: Xid'; journalctl -k -b -g 'NVRM: Xid'

    Fix: what the finding asks for; where that was done already: a waiver until the next reboot
    """
    if nvidia.module is None:
        yield here.skip("no NVIDIA driver is loaded, see GPU101")
        return
    if nvidia.log.value is None:
        yield here.unknown(f"{here.host.name}: {nvidia.log.error}", remedy="look as root, on the host itself")
        return
    log = nvidia.log.value
    if log.since == "unknown":
        yield here.warn(
            f"{here.host.name}: the kernel log does not reach back to the boot: an older Xid would not be seen",
            remedy="let journald keep the kernel's messages (journalctl -k -b)",
        )
    if log.lines.unread:
        yield here.unknown(f"{here.host.name}: {log.lines.unread[0].error}", remedy="read dmesg | grep Xid")
    places = {gpu.bus: (index, gpu) for index, gpu in numbered(nvidia)}
    lost_gpus = gone(nvidia)
    for xid in log.lines.xids:
        if (
            xid.action in _NONE_NEEDED
            or _settled(xid, log.lines.xids)
            or (xid.code == OFF_THE_BUS and xid.bus in lost_gpus)
        ):
            continue
        place = places.get(xid.bus)
        recovered = place is not None and place[1].recovery_action == "None"
        report = here.bad if xid.action in _URGENT and not recovered else here.warn
        name = called(here.host, *place) if place else f"{here.host.name}: GPU at {xid.bus}"
        yield report(
            f"{name}: Xid {xid.code}{': ' + xid.meaning if xid.meaning else ''}{_times(xid)}",
            device=place[0] if place else None,
            expected="no Xid",
            found=f"Xid {xid.code}",
            remedy="none: the driver says that the GPU needs nothing any more"
            if recovered
            else f"{xid.action}; if that was done since, the log does not tell"
            if xid.action in _URGENT
            else f"look Xid {xid.code} up in NVIDIA's catalogue",
            evidence=(line(xid),),
        )


def _times(xid: Xid) -> str:
    return f", {xid.count} times" if xid.count > 1 else ""


def _settled(xid: Xid, all_: tuple[Xid, ...]) -> bool:
    """Return whether the driver reported afterwards, by Xid 154, that the GPU needs nothing any more."""
    return any(
        later.code == _RECOVERY and later.bus == xid.bus and later.action == "nothing" and _not_before(later, xid)
        for later in all_
    )


def _not_before(one: Xid, other: Xid) -> bool:
    """Return whether an Xid is not older, by the times of their last lines; False where there are none.

    Both are of one log, and so of one kind."""
    if not one.last or not other.last:
        return False
    try:
        return float(one.last) >= float(other.last)
    except ValueError:
        return one.last >= other.last
