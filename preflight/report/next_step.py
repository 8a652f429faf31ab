"""The last line of every report: the one command to run next."""

from preflight.model.change import Area
from preflight.model.outcome import Outcome
from preflight.model.report import Report

_COMMAND = {
    Area.PORTS: "configure-ports",
    Area.ADDRESSES: "configure-device-ips",
    Area.FIREWALL: "configure-firewall",
}


def next_step(report: Report, inventory: str, *, probe_ran: bool = True) -> str:
    """What helps most: apply the fixes that findings carry, else explain the first failure, else go on."""
    areas = {f.change.area for f in report.findings if f.change and f.outcome is not Outcome.PASS}
    if areas:
        command = _COMMAND[areas.pop()] if len(areas) == 1 else "configure"
        return f"preflight {command} --inventory {inventory}"
    for outcome in (Outcome.FAIL, Outcome.UNKNOWN):
        for finding in report.findings:
            if finding.outcome is outcome:
                return f"preflight explain {finding.check}"
    if report.left_out:
        return f"mend or remove {report.left_out[0].host}, then preflight check --inventory {inventory}"
    if not probe_ran:
        return f"preflight probe --inventory {inventory}"
    return "start the job"
