"""Priority and DSCP of the jobs' packets, compared with the settings of the device NICs. Formats known from source
only."""

from collections.abc import Iterator, Mapping

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.checks.shared.npu import untold
from preflight.facts.sections.job import Job
from preflight.facts.sections.nic import Nic, NicDevice
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

_PRIORITIES, _CLASSES = range(8), range(0, 256, 4)


@host_check("NIC107", "Device PFC and DSCP settings", severity=Outcome.WARN, products=NPU)
def traffic_class(scribe: Here, nic: Nic, job: Job) -> Iterator[Finding]:
    """Why: RDMA becomes very slow when packets are lost. Jobs send with the priority in HCCL_RDMA_SL (default 4) and
    the DSCP HCCL_RDMA_TC / 4 (default 132 / 4 = 33). The device needs PFC for that priority, and must keep packets with
    that DSCP apart from unmarked traffic.

    Result: WARN if a setting differs. The check never fails, because the formats are known from the tool's source and
    not from real output.

    Check manually:
      hccn_tool -i 0 -pfc -g
      hccn_tool -i 0 -dscp_to_tc -g
    Where jobs run:
      env | grep HCCL_RDMA

    Fix: Set the same priority and DSCP in the jobs' environment, on the devices and on the switch ports.
    """
    pfc, dscp_to_tc = {d.index: d.pfc for d in nic.devices}, {d.index: d.dscp_to_tc for d in nic.devices}
    yield from untold(scribe, scribe.host, pfc, dscp_to_tc)
    priority = _number(job.variables, "HCCL_RDMA_SL", 4, _PRIORITIES)
    dscp = (_number(job.variables, "HCCL_RDMA_TC", 132, _CLASSES) or 0) // 4
    for device in nic.devices:
        if priority is not None and (actual := _not_lossless(device, priority)):
            yield _pfc_off(scribe, device, priority, actual)
        if dscp and (class_ := _class_with_unmarked(device, dscp)) is not None:
            yield scribe.bad(
                f"{scribe.host.name}: device {device.index}: DSCP {dscp}, which jobs use, shares a traffic class with "
                "unmarked traffic (not verified on hardware)",
                device=device.index,
                found=f"traffic class {class_} for both",
                remedy=f"give DSCP {dscp} a separate class on the device and its switch port, or set another "
                "HCCL_RDMA_TC in the jobs' environment",
                commands=(scribe.on(scribe.host.name, f"hccn_tool -i {device.index} -dscp_to_tc -s dscp {dscp} tc 1"),),
            )


def _pfc_off(scribe: Here, device: NicDevice, priority: int, actual: str) -> Finding:
    bits = [int(enabled or level == priority) for level, enabled in enumerate(device.pfc.value or ())]
    return scribe.bad(
        f"{scribe.host.name}: device {device.index}: PFC is off for priority {priority}, which jobs use "
        "(not verified on hardware)",
        device=device.index,
        expected=f"PFC for priority {priority}",
        found=actual,
        remedy=f"add PFC for priority {priority} on the device and its switch port, or set another HCCL_RDMA_SL in "
        "the jobs' environment",
        commands=(
            scribe.on(scribe.host.name, f"hccn_tool -i {device.index} -pfc -s bitmap {','.join(map(str, bits))}"),
        ),
    )


def _class_with_unmarked(device: NicDevice, dscp: int) -> int | None:
    """Return the traffic class that the DSCP shares with unmarked packets; None where it has its own."""
    classes = device.dscp_to_tc.value or {}
    unmarked = classes.get(0)
    return unmarked if classes.get(dscp, unmarked) == unmarked else None


def _number(variables: Mapping[str, str], name: str, default: int, allowed: range) -> int | None:
    """Return the variable's value; None for one that HCCL refuses, which a check of the jobs' variables reports."""
    text = variables.get(name, str(default))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 and int(text) in allowed else None


def _not_lossless(device: NicDevice, expected: int) -> str:
    """Return the priorities with PFC in place of the expected one; empty where PFC is right, or not known."""
    pfc = device.pfc.value
    if pfc is None or len(pfc) != len(_PRIORITIES) or pfc[expected]:
        return ""
    enabled = [str(priority) for priority, bit in enumerate(pfc) if bit]
    return f"PFC for priority {', '.join(enabled)}" if enabled else "PFC for no priority"
