"""The last line of every report: the one command to run next, as it can be copied."""

import shlex
from pathlib import Path

from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.report.obstacles import of_inventory, removal

_KIND, _GENERATION = "HST135", "NPU126"  # checks of the product; with a wrong one all else may be wrong
_SPEED = "PRB116"  # a pair far below its line rate: a job there is slow, whatever else passed
START = "start the job"  # where nothing is left to do


def options(inventory: Path, limit: str | None = None) -> str:
    """`--inventory 'my hosts.toml' --limit node01`, for a command that is to be copied."""
    return shlex.join(["--inventory", str(inventory), *(["--limit", limit] if limit else [])])


def _in_file(fix: str, inventory: Path) -> str:
    """Return the fix with the file whose key it names."""
    return fix.replace("of the inventory", f"of {shlex.quote(str(inventory))}")


def _other_product(report: Report) -> str:
    """Return what corrects the product; of another generation where all hosts are of it."""
    failed = [f for f in report.findings if f.check in (_KIND, _GENERATION) and f.outcome is Outcome.FAIL]
    everywhere = len({f.host for f in failed if f.check == _GENERATION}) == len(report.hosts)
    return next((f.remedy for f in failed if f.check == _KIND or everywhere), "")


def next_step(report: Report, inventory: Path, *, limit: str | None = None, to_prove: str | None = None) -> str:
    """What helps most: correct the product, else apply the fixes that findings carry, else remove what kept checks from
    looking, else explain the first failure, else go on.

    `limit`: the hosts that the run was limited to; the next command shall not touch others. `to_prove`: what is still
    to run before a job may start, such as "probe --idle"; None where nothing is.
    """
    hosts = options(inventory, limit)
    if fix := _other_product(report):
        return f"{_in_file(fix, inventory)}; then: preflight check {hosts}"
    areas = {f.change.area for f in report.findings if f.change and f.outcome is not Outcome.PASS}
    if areas:
        command = f"configure-{areas.pop()}" if len(areas) == 1 else "configure"
        return f"preflight {command} {hosts}"
    for outcome in (Outcome.FAIL, Outcome.UNKNOWN):
        if outcome is Outcome.UNKNOWN and (fix := removal(report.findings)):
            return f"{_in_file(fix, inventory)}; then: preflight check {hosts}"
        for finding in report.findings:
            if finding.outcome is outcome and (fix := of_inventory(finding)):
                return f"{_in_file(fix, inventory)}; then: preflight {report.command} {hosts}"
            if finding.outcome is outcome:
                return f"preflight explain {finding.check}"
    if report.left_out:
        return f"look at {report.left_out[0].host}, too: preflight check {hosts}"
    if report.verdict is Outcome.UNKNOWN:
        return f"nothing was looked at; preflight check {hosts} does"
    if to_prove:
        command, *more = to_prove.split(maxsplit=1)
        return " ".join((f"preflight {command} {hosts}", *more))
    if any(f.check == _SPEED and f.outcome is Outcome.WARN for f in report.findings):
        return f"preflight explain {_SPEED}"
    return START
