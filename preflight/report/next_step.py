"""The last line of every report: the next command, ready to be copied."""

import re
import shlex
from pathlib import Path

from preflight.model.finding import with_outcome
from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.report.obstacles import of_inventory, removal

_KIND, _GENERATION = "HST135", "NPU126"  # checks of the product; a wrong product makes other findings doubtful
_SPEED = "PRB116"  # a pair far below its line rate slows jobs, even if all other checks pass
START = "start the job"  # nothing remains to be done


def options(inventory: Path, limit: str | None = None) -> str:
    """Return the options of a command that is to be copied: `--inventory 'my hosts.toml' --limit node01`."""
    return shlex.join(["--inventory", str(inventory), *(["--limit", limit] if limit else [])])


def _in_file(fix: str, inventory: Path) -> str:
    """Return the fix, with the path of the inventory in place of the words "the inventory"."""
    return re.sub(r"\b(?:of|in) the inventory", lambda _: f"in {shlex.quote(str(inventory))}", fix)


def _other_product(report: Report) -> str:
    """Return the remedy of a wrong product. A wrong generation counts only if all hosts have it."""
    failed = [f for f in with_outcome(report.findings, Outcome.FAIL) if f.check in (_KIND, _GENERATION)]
    everywhere = len({f.host for f in failed if f.check == _GENERATION}) == len(report.hosts)
    return next((f.remedy for f in failed if f.check == _KIND or everywhere), "")


def next_step(report: Report, inventory: Path, *, limit: str | None = None, to_prove: str | None = None) -> str:
    """Return the most useful next step.

    It is the first of these that applies: correct the product, apply fixes of findings, remove the obstacle of checks,
    explain the first failure, or go on. `limit` is that of the run, since the next command must not contact other
    hosts. `to_prove` is the command that remains before a job may start, such as "probe --idle", or None.
    """
    hosts = options(inventory, limit)
    return (
        _correct_product(report, inventory, hosts)
        or _apply_fixes(report, hosts)
        or _first_problem(report, inventory, hosts)
        or _complete_run(report, hosts, to_prove)
        or _explain_speed(report)
        or START
    )


def next_step_without_inventory(report: Report, hosts: str, product: str) -> str:
    """Return the most useful next step of a run over named hosts: explain the first problem, or write an inventory."""
    for outcome in (Outcome.FAIL, Outcome.UNKNOWN):
        if first := next(iter(with_outcome(report.findings, outcome)), None):
            return f"preflight explain {first.check}"
    return shlex.join(["preflight", "init", "--hosts", hosts, "--product", product])


def _correct_product(report: Report, inventory: Path, hosts: str) -> str:
    fix = _other_product(report)
    return f"{_in_file(fix, inventory)}, then run: preflight check {hosts}" if fix else ""


def _apply_fixes(report: Report, hosts: str) -> str:
    areas = {f.change.area for f in report.findings if f.change and f.outcome is not Outcome.PASS}
    command = f"configure-{min(areas)}" if len(areas) == 1 else "configure"
    return f"preflight {command} {hosts}" if areas else ""


def _first_problem(report: Report, inventory: Path, hosts: str) -> str:
    """Return the step of the first failure, else that of the obstacle of unknown checks, or of the first of these."""
    first = next(iter(with_outcome(report.findings, Outcome.FAIL)), None)
    if first is None:
        if fix := removal(report.findings):
            return f"{_in_file(fix, inventory)}, then run: preflight check {hosts}"
        first = next(iter(with_outcome(report.findings, Outcome.UNKNOWN)), None)
    if first is None:
        return ""
    if fix := of_inventory(first):
        return f"{_in_file(fix, inventory)}, then run: preflight {report.command} {hosts}"
    return f"preflight explain {first.check}"


def _complete_run(report: Report, hosts: str, to_prove: str | None) -> str:
    if report.left_out or report.verdict is Outcome.UNKNOWN:
        return f"preflight check {hosts}"
    command, *arguments = (to_prove or "").split(maxsplit=1) or [""]
    return " ".join((f"preflight {command} {hosts}", *arguments)) if command else ""


def _explain_speed(report: Report) -> str:
    is_slow = any(finding.check == _SPEED for finding in with_outcome(report.findings, Outcome.WARN))
    return f"preflight explain {_SPEED}" if is_slow else ""
