"""The last line of every report: the next command, ready to be copied."""

import re
import shlex
from pathlib import Path

from preflight.model.finding import Finding, with_outcome
from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.model.text import printable
from preflight.report.obstacles import of_inventory, removal
from preflight.report.root_cause import GENERATION, KIND, REACHABILITY, priority

_SPEED = "PRB116"  # a pair far below its line rate slows jobs, even if all other checks pass
# Beginnings of commands about an unreachable host that run here. Others are for the host's console.
_RUN_HERE = ("ssh ", "ssh-keygen -R ", "preflight ")
MOST_WORDS = 120  # characters of a fix in words
START = "start the job"  # nothing remains to be done


def options(inventory: Path, limit: str | None = None) -> str:
    """Return the options of a command that is to be copied: `--inventory 'my hosts.toml' --limit node01`."""
    return shlex.join(["--inventory", str(inventory), *(["--limit", limit] if limit else [])])


def _in_file(fix: str, inventory: Path) -> str:
    """Return the fix, with the path of the inventory in place of the words "the inventory"."""
    return re.sub(r"\b(?:of|in) the inventory", lambda _: f"in {shlex.quote(str(inventory))}", fix)


def _other_product(report: Report) -> str:
    """Return the remedy of a wrong product. A wrong generation counts only if all hosts have it."""
    failed = [f for f in with_outcome(report.findings, Outcome.FAIL) if f.check in (KIND, GENERATION)]
    everywhere = len({f.host for f in failed if f.check == GENERATION}) == len(report.hosts)
    return next((f.remedy for f in failed if f.check == KIND or everywhere), "")


def next_step(report: Report, inventory: Path, *, limit: str | None = None, to_prove: str | None = None) -> str:
    """Return the most useful next step.

    It is the first of these that applies: make hosts reachable, correct the product, apply fixes of findings, fix the
    root cause, remove the obstacle of checks, or go on. `limit` is that of the run, since the next command must not
    contact other hosts. `to_prove` is the command that remains before a job may start, such as "probe --idle", or None.
    """
    hosts = options(inventory, limit)
    return (
        _reach_hosts(report, inventory, hosts)
        or _correct_product(report, inventory, hosts)
        or _apply_fixes(report, hosts)
        or _fix_root_cause(report, inventory, hosts)
        or _complete_run(report, hosts, to_prove)
        or _explain_speed(report)
        or START
    )


def next_step_without_inventory(report: Report, hosts: str, product: str) -> str:
    """Return the most useful next step of a run over named hosts: fix the root cause, or write an inventory."""
    again = shlex.join(["preflight", "check", "--hosts", hosts])
    for outcome in (Outcome.FAIL, Outcome.UNKNOWN):
        if problems := with_outcome(report.findings, outcome):
            return own_fix(min(problems, key=priority), again)
    return shlex.join(["preflight", "init", "--hosts", hosts, "--product", product])


def _reach_hosts(report: Report, inventory: Path, hosts: str) -> str:
    failures = [f for f in with_outcome(report.findings, Outcome.FAIL) if f.check in REACHABILITY]
    return _in_file(own_fix(failures[0], f"preflight {report.command} {hosts}"), inventory) if failures else ""


def _correct_product(report: Report, inventory: Path, hosts: str) -> str:
    fix = _other_product(report)
    return f"{_in_file(fix, inventory)}, then run: preflight check {hosts}" if fix else ""


def _apply_fixes(report: Report, hosts: str) -> str:
    areas = {f.change.area for f in report.findings if f.change and f.outcome is not Outcome.PASS}
    command = f"configure-{min(areas)}" if len(areas) == 1 else "configure"
    return f"preflight {command} {hosts}" if areas else ""


def _fix_root_cause(report: Report, inventory: Path, hosts: str) -> str:
    """Return the fix of the first failure, else that of the obstacle of unknown checks, or of the first of these."""
    problems = with_outcome(report.findings, Outcome.FAIL)
    if not problems:
        if fix := removal(report.findings):
            return f"{_in_file(fix, inventory)}, then run: preflight check {hosts}"
        problems = with_outcome(report.findings, Outcome.UNKNOWN)
    if not problems:
        return ""
    again = f"preflight {report.command} {hosts}"
    return _in_file(own_fix(min(problems, key=priority), again), inventory)


def own_fix(finding: Finding, again: str) -> str:
    """Return the command of the finding's fix, if it can be run here, else the fix in words, else its explanation.

    `again` is the command that shows whether it helped.
    """
    if fix := of_inventory(finding):
        return f"{fix}, then run: {again}"
    command = next(iter(finding.commands), "")
    is_for_console = finding.check in REACHABILITY and not command.startswith(_RUN_HERE)
    if command and not is_for_console:
        return printable(command)
    fix = printable(finding.remedy)
    if fix and len(fix) <= MOST_WORDS:
        return fix if ". " in fix else f"{fix}, then run: {again}"
    return f"preflight explain {finding.check}"


def _complete_run(report: Report, hosts: str, to_prove: str | None) -> str:
    if report.left_out or report.verdict is Outcome.UNKNOWN:
        return f"preflight check {hosts}"
    command, *arguments = (to_prove or "").split(maxsplit=1) or [""]
    return " ".join((f"preflight {command} {hosts}", *arguments)) if command else ""


def _explain_speed(report: Report) -> str:
    is_slow = any(finding.check == _SPEED for finding in with_outcome(report.findings, Outcome.WARN))
    return f"preflight explain {_SPEED}" if is_slow else ""
