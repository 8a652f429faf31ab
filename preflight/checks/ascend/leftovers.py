"""Checks for leftovers of earlier jobs on devices that show no process (NPU114 names processes)."""

from collections.abc import Iterator
from itertools import chain

from preflight.checks.engine.registry import NPU, All, Here, cluster_check, host_check
from preflight.checks.shared.device_scribe import DeviceScribe
from preflight.checks.shared.npu import untold
from preflight.facts.sections.nic import Nic, NicDevice
from preflight.facts.types import NpuChip, NpuSmi, Os
from preflight.model.finding import Finding
from preflight.model.measure import Observation
from preflight.model.outcome import Outcome
from preflight.rules.own_processes import WAIT, Owner, agents, show_run

# The driver itself holds up to 8.6 % of an idle device's memory in the captures (910B4; 910B1 6.4 %, A3 5.2 %, 910A 0).
IDLE_SHARE = 0.1
_NO_PROCESSES = (
    "npu-smi cannot list processes here, so a leftover process cannot be distinguished from a running job (see NPU114)"
)
_PROBING = "the probe of this run uses the devices of the host"


@host_check("NIC108", "Leftover device NIC resources", products=NPU, optional=("os",))
def held(scribe: Here, nic: Nic, npu_smi: NpuSmi, os: Os | None) -> Iterator[Finding]:
    """Why: If the HCCP process of an earlier job remains, the next job cannot start on the device (EJ0001). Normally, a
    device is free ten seconds after a job ends. Remaining queue pairs disappear when their process ends or the device
    is reset.

    Result: FAIL if such a process remains, WARN if queue pairs remain. The driver's own queue pair is ignored. If
    npu-smi shows a process on the device, NPU114 reports it. During a probe, the workers of this run are ignored. The
    workers of another run are WARN.

    Check manually:
      hccn_tool -i 0 -process -g
      hccn_tool -i 0 -hw_stats -g
      npu-smi info

    Fix: Wait ten seconds, then find the process. Resetting the device also frees it.
      fuser -v /dev/davinci0
    """
    if not npu_smi.processes_listed:
        yield scribe.skip(_NO_PROCESSES)
        return
    hccp, resources = {d.index: d.hccp for d in nic.devices}, {d.index: d.resources for d in nic.devices}
    yield from untold(scribe, scribe.host, hccp, resources)
    busy, probing = {process.device for process in npu_smi.processes}, agents(os)
    if probing is Owner.THIS_RUN:
        yield scribe.skip(_PROBING)
        return
    for device in nic.devices:
        if device.index not in busy:
            yield from _left_on(scribe, device, other_run=probing is Owner.OTHER_RUN)


def _left_on(scribe: Here, device: NicDevice, *, other_run: bool) -> Iterator[Finding]:
    """Yield the finding about an HCCP process or queue pairs on an idle device."""
    npu, pairs = DeviceScribe(scribe, scribe.host.name, device.index), _queue_pairs(device)
    remedy = WAIT if other_run else "check again after 10 s, then find the process that holds the device"
    commands = (npu.on(show_run(None) if other_run else f"fuser -v /dev/davinci{npu.index}"),)
    if device.hccp.value == "exist":
        yield (npu.warn if other_run else npu.bad)(
            "an HCCP process "
            + (
                "runs while another preflight run probes the host"
                if other_run
                else "is left over, although no job is running"
            ),
            expected="no HCCP process",
            found=f"an HCCP process with {pairs} queue pairs",
            remedy=remedy,
            commands=commands,
        )
    elif pairs:
        yield npu.warn(
            "queue pairs are in use while another preflight run probes the host"
            if other_run
            else "queue pairs are left over, although no job is running",
            expected="no queue pair of a job",
            found=f"{pairs} queue pairs",
            remedy=remedy,
            commands=commands,
        )


def _queue_pairs(device: NicDevice) -> int:
    """Return the number of the jobs' queue pairs. An idle device has one in the capture, with no memory registered for
    it."""
    counts = device.resources.value or {}
    pairs = counts.get("qp_active", 0)
    return pairs if pairs > 1 or counts.get("mr_active", 0) else 0


@host_check("NPU118", "Leftover device memory", severity=Outcome.WARN, products=NPU, optional=("os",))
def memory(scribe: Here, npu_smi: NpuSmi, os: Os | None) -> Iterator[Finding]:
    """Why: If another process uses part of a device's memory, a job that needs all of it fails with EI0011 or 507899.
    The memory belongs to a process that is not visible here, or to a process that has ended.

    Result: WARN if more than a tenth of the memory is in use without a process in npu-smi. NPU114 reports the processes
    in npu-smi.

    Check manually: Compare HBM-Usage with the processes in the second table.
      npu-smi info

    Fix: Search for containers and processes that use the device. Then reset the device.
      fuser -v /dev/davinci0
    """
    if not npu_smi.processes_listed:
        yield scribe.skip(_NO_PROCESSES)
        return
    probing = agents(os)
    if probing is Owner.THIS_RUN:
        yield scribe.skip(_PROBING)
        return
    for chip in npu_smi.chips:
        listed = _listed_memory(npu_smi, chip.device)
        if not chip.hbm_total or chip.hbm_used is None or listed is None:
            continue
        excess = chip.hbm_used - listed
        if excess > IDLE_SHARE * chip.hbm_total:
            yield _unexplained_memory(scribe, chip, listed, other_run=probing is Owner.OTHER_RUN)


def _unexplained_memory(scribe: Here, chip: NpuChip, listed: int, *, other_run: bool) -> Finding:
    """Return the finding about memory that is in use without a process. `listed`: memory of processes in npu-smi."""
    used, total = chip.hbm_used or 0, chip.hbm_total or 1
    user = "while another preflight run probes the host" if other_run else "but not by a process in npu-smi's list"
    query = show_run(None) if other_run else f"fuser -v /dev/davinci{chip.device}"
    return scribe.bad(
        f"{scribe.host.name}: device {chip.device}: {100 * (used - listed) // total} % of the memory is in use, {user}",
        device=chip.device,
        found=f"{used} of {total} MB in use, {listed} MB of it by listed processes",
        remedy=WAIT if other_run else "find the containers and processes that use the device",
        commands=(scribe.on(scribe.host.name, query),),
    )


def _listed_memory(npu_smi: NpuSmi, device: int) -> int | None:
    """Return the memory of the device's listed processes in MB; None where it is not known of one of them."""
    shares = [process.memory for process in npu_smi.processes if process.device == device]
    return None if None in shares else sum(filter(None, shares))


@cluster_check("PRB105", "Device release after the probe", products=NPU, several=False)
def workers_left(scribe: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: After a worker is killed, the driver's HCCP process remains for about ten seconds. The probe waits half a
    minute for that process to end. If a device is still in use after that, the device fails in the next rounds and in
    the next job (EJ0001).

    Result: FAIL if a device is still in use, because only the probe can be the cause. PRB101 reports why a worker was
    killed.

    Check manually: For a free device, the output is "not exist".
      hccn_tool -i 0 -process -g
      npu-smi info

    Fix: Find the process, then reset the device or the host.
      fuser -v /dev/davinci0
    """
    if not observations:
        yield scribe.unknown("the probe returned no results", host=None)
    views = list(chain.from_iterable(observation.ranks for observation in observations))
    for host, device in sorted({(view.member.host, view.member.device) for view in views if view.held}):
        yield scribe.bad(
            f"{host}: device {device}: is still held by a killed probe worker",
            host=host,
            device=device,
            expected="no HCCP process",
            found="an HCCP process",
            remedy="find the process that holds the device, then reset the device",
            commands=(scribe.on(host, f"fuser -v /dev/davinci{device}"),),
            retest=scribe.on(host, f"hccn_tool -i {device} -process -g"),
        )
    errors = {view.member.host: view.held_error for view in views if view.held_error and not view.held}
    for host, error in sorted(errors.items()):
        yield scribe.unknown(f"{host}: the devices of killed workers could not be checked: {error}", host=host)
