"""The last line of every report: the next command, ready to be copied."""

import re
import shlex
from pathlib import Path

from preflight.model.finding import Finding, with_outcome
from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.model.text import printable
from preflight.report.obstacles import of_inventory, removal
from preflight.report.root_cause import GENERATION, KIND, REACHABILITY, priority, root_cause

_SPEED = "PRB116"  # a pair far below its line rate slows jobs, even if all other checks pass
_RUN_HERE = ("ssh ", "preflight ")
_CONDITION = re.compile(r"\b(?:if|or)\b", re.IGNORECASE)  # in a fix that is not always the right one
MOST_WORDS = 120  # characters of a fix in words
START = "start the job"  # nothing remains to be done


def options(inventory: Path, limit: str | None = None, via: str | None = None) -> str:
    """Return the options of a command to copy: `--inventory 'my hosts.toml' --limit node01 --via slurm`."""
    words = ["--inventory", str(inventory), *(["--limit", limit] if limit else []), *(["--via", via] if via else [])]
    return shlex.join(words)


def in_file(fix: str, inventory: Path) -> str:
    """Return the fix, with the path of the inventory in place of the words "the inventory"."""
    return re.sub(r"\b(?:of|in) the inventory", lambda _: f"in {shlex.quote(str(inventory))}", fix)


def _other_product(report: Report) -> str:
    """Return the remedy of a wrong product. A wrong generation counts only if all hosts have it."""
    failed = [f for f in with_outcome(report.findings, Outcome.FAIL) if f.check in (KIND, GENERATION)]
    everywhere = len({f.host for f in failed if f.check == GENERATION}) == len(report.hosts)
    return next((f.remedy for f in failed if f.check == KIND or everywhere), "")


def next_step(
    report: Report, inventory: Path, *, limit: str | None = None, via: str | None = None, to_prove: str | None = None
) -> str:
    """Return the most useful next step.

    It is the first of these that applies: make hosts reachable, correct the product, apply fixes of findings, fix the
    root cause, remove the obstacle of checks, or go on. `limit` and `via` are those of the run, since the next command
    must not contact other hosts, nor in another way. `to_prove` is the command that remains before a job may start,
    such as "probe --idle", or None.
    """
    hosts = options(inventory, limit, via)
    failures = with_outcome(report.findings, Outcome.FAIL)
    root = root_cause(failures)
    return (
        (_make_known(report, root, inventory, limit, hosts) if root else "")
        or (_apply_fixes(report, hosts) if root is None or root.change else "")
        or _fix_root_cause(report, root, inventory, limit, hosts)
        or _complete_run(report, hosts, to_prove)
        or _explain_speed(report)
        or START
    )


def next_step_without_inventory(report: Report, hosts: str, product: str) -> str:
    """Return the most useful next step of a run over named hosts: fix the root cause, or write an inventory."""
    again = shlex.join(["preflight", "check", "--hosts", hosts])
    problems = with_outcome(report.findings, Outcome.FAIL) or with_outcome(report.findings, Outcome.UNKNOWN)
    root = root_cause(problems)
    if root and not of_inventory(root):
        return own_fix(root, again)
    return shlex.join(["preflight", "init", "--hosts", hosts, "--product", product])


def _make_known(report: Report, root: Finding, inventory: Path, limit: str | None, hosts: str) -> str:
    """Return how to reach a host, or how to correct the product: before that, other findings are doubtful."""
    if root.check not in (*REACHABILITY, KIND, GENERATION):
        return ""
    if root.check not in REACHABILITY and (fix := _other_product(report)):
        return f"{in_file(fix, inventory)}, then run: preflight check {hosts}"
    return in_file(own_fix(root, f"preflight {report.command} {hosts}", limit), inventory)


def _apply_fixes(report: Report, hosts: str) -> str:
    areas = {f.change.area for f in report.findings if f.change and f.outcome is not Outcome.PASS}
    command = f"configure-{min(areas)}" if len(areas) == 1 else "configure"
    return f"preflight {command} {hosts}" if areas else ""


def _fix_root_cause(report: Report, root: Finding | None, inventory: Path, limit: str | None, hosts: str) -> str:
    """Return the fix of the root cause, else that of the obstacle of unknown checks, or of the first of these."""
    if root is None:
        if fix := removal(report.findings):
            return f"{in_file(fix, inventory)}, then run: preflight check {hosts}"
        root = min(with_outcome(report.findings, Outcome.UNKNOWN), key=priority, default=None)
    if root is None:
        return ""
    return in_file(own_fix(root, f"preflight {report.command} {hosts}", limit), inventory)


def own_fix(finding: Finding, again: str, limit: str | None = None) -> str:
    """Return the finding's fix: its command, if it is one that is always right, else its words, else its explanation.

    `again` is the command that shows whether it helped, `limit` that of the run.
    """
    if of_inventory(finding):
        return f"{of_inventory(finding)}, then run: {again}"
    is_certain = len(finding.commands) == 1 and not _CONDITION.search(finding.remedy.partition(". ")[0])
    if is_certain and _runs_here(finding):
        return printable(_limited(finding.commands[0], limit))
    if not finding.remedy or len(finding.remedy) > MOST_WORDS:
        return f"preflight explain {finding.check}"
    return printable(_in_words(finding, again))


def _in_words(finding: Finding, again: str) -> str:
    place = f"{finding.host}: " if finding.host and finding.host not in finding.remedy else ""
    has_last_step = ". " in finding.remedy
    return f"{place}{finding.remedy}" + ("" if has_last_step else f", then run: {finding.retest or again}")


def _runs_here(finding: Finding) -> bool:
    """Return whether the command runs on this machine. Those about unreachable hosts may be for the host's console."""
    return finding.check not in REACHABILITY or finding.commands[0].startswith(_RUN_HERE)


def _limited(command: str, limit: str | None) -> str:
    """Return the command with the run's limit, so that it does not contact other hosts."""
    contacts_hosts = command.startswith("preflight ") and not command.startswith("preflight explain ")
    return f"{command} {shlex.join(['--limit', limit])}" if limit and contacts_hosts else command


def _complete_run(report: Report, hosts: str, to_prove: str | None) -> str:
    if report.left_out:
        return f"see why {report.left_out[0].host} was left out, then run: preflight {report.command} {hosts}"
    if report.verdict is Outcome.UNKNOWN:
        return f"preflight check {hosts}"
    command, *arguments = (to_prove or "").split(maxsplit=1) or [""]
    return " ".join((f"preflight {command} {hosts}", *arguments)) if command else ""


def _explain_speed(report: Report) -> str:
    is_slow = any(finding.check == _SPEED for finding in with_outcome(report.findings, Outcome.WARN))
    return f"preflight explain {_SPEED}" if is_slow else ""
