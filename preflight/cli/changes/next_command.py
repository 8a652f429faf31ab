"""The next command after a change of hosts: the same again if some of it remains, or else a check."""

import argparse
import shlex
from collections.abc import Sequence

from preflight.cli.options import again
from preflight.model.change import StepResult, StepState
from preflight.model.finding import Finding, with_outcome
from preflight.model.outcome import Outcome
from preflight.report.next_step import in_file, options, own_fix
from preflight.report.root_cause import root_cause

_BROKEN = {StepState.FAILED, StepState.DID_NOT_STICK}  # the host has to be fixed first
_FIX_FIRST = "fix the failures above, then run: "


def after_configure(args: argparse.Namespace, after: Sequence[Finding], results: Sequence[StepResult]) -> str:
    """Return the next command, from the findings after the changes and the results of the changes."""
    states = {result.state for result in results}
    if states & _BROKEN:
        return _FIX_FIRST + again(args)
    if states - {StepState.DONE, StepState.ALREADY}:
        return again(args)
    if any(finding.change and finding.outcome is not Outcome.PASS for finding in after):
        return f"resolve the notes above, then run: {again(args)}"  # changes were left out, although nothing failed
    failures = with_outcome(after, Outcome.FAIL)
    if not failures:
        return look(args)
    root = root_cause(failures) or failures[0]
    fix = in_file(own_fix(root, again(args), args.limit), args.inventory)
    return f"preflight explain {root.check}" if fix.startswith("preflight configure") else fix  # it was tried


def after_run(args: argparse.Namespace, results: Sequence[StepResult], *, short: bool) -> str:
    """Return the next command after `apply` or `rollback`. `short` means that some changes were left out."""
    states = {result.state for result in results}
    if states & _BROKEN:
        return _FIX_FIRST + again(args)
    if StepState.MOVED in states and args.command == "apply":
        return plan_anew(args)
    if states - {StepState.DONE, StepState.ALREADY, StepState.MOVED}:  # a rollback leaves moved values alone
        return again(args)
    return f"resolve the notes above, then run: {again(args)}" if short else look(args)


def look(args: argparse.Namespace) -> str:
    publish = " --publish" if args.command == "gate" and not args.remove else ""  # the gate answers from it
    return f"preflight check {options(args.inventory, args.limit, args.via)}{publish}"


def plan_anew(args: argparse.Namespace) -> str:
    """Return the command that replaces a stale plan."""
    return f"preflight plan {options(args.inventory, args.limit, args.via)} --out {shlex.quote(str(args.plan))}"
