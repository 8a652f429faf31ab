"""`preflight baseline`: figures of a probe, saved and compared with later ones."""

import argparse
import sys
from collections import Counter

from preflight.app.saved.named_run import checking_run
from preflight.cli.history.baseline_output import compared, compared_document, shown, shown_document
from preflight.history.baselines import all_baselines, reason_against, save, saved
from preflight.history.runs import CheckRun, check_run, check_runs, last_measured_run
from preflight.model.errors import UsageError
from preflight.model.figures import Baseline, comparable, compare, strangers
from preflight.model.measure import Scope
from preflight.model.outcome import Outcome

_NEWER = 100  # later runs that are searched for runs that do not qualify
_TOLD = 3  # later runs that are named, with the reason
_PROBED = {"PRB101"}  # a check of every run with a probe


def run(args: argparse.Namespace) -> int:
    return _ACTIONS[args.action](args)


def _save(args: argparse.Namespace) -> int:
    probe_run = checking_run(args.run_id) if args.run_id is not None else _last_good()
    if not args.force and not reason_against(probe_run) and (old := saved(probe_run.setting, args.name)):
        _refuse_poorer(old, probe_run)
    before = save(args.name, probe_run)
    was = f" in place of run {before}" if before and before != probe_run.run else ""
    cluster, product, backend = probe_run.setting
    print(f"saved run {probe_run.run} as baseline {args.name} of {cluster} ({product}, {backend}){was}")
    print(f"bandwidths: {len(comparable(probe_run.figures))}\nnext: preflight baseline show")
    return 0


def _last_good() -> CheckRun:
    """Return the default run, the last probe that passed. Name later probes and their reasons on stderr."""
    probe_run = last_measured_run(lambda probe_run: not reason_against(probe_run))
    if probe_run is None:
        raise UsageError("no probe from this machine has passed with bandwidths yet. Run: preflight probe")
    newer = [past.run for past in check_runs(_NEWER) if past.run > probe_run.run and _PROBED & past.checks]
    for run in newer[:_TOLD]:
        if past := check_run(run):
            print(f"skipped run {run}: {reason_against(past)}", file=sys.stderr)
    if len(newer) > _TOLD:
        print(f"skipped {len(newer) - _TOLD} more runs", file=sys.stderr)
    return probe_run


def _refuse_poorer(old: Baseline, look: CheckRun) -> None:
    """Raise UsageError if the new run has fewer figures of a scope than the saved baseline."""
    was, now = (
        Counter(figure.shape.scope for figure in comparable(figures)) for figures in (old.figures, look.figures)
    )
    if poorer := [scope for scope in Scope if now[scope] < was[scope]]:
        gaps = ", ".join(f"{now[scope]} instead of {was[scope]} of {scope}" for scope in poorer)
        raise UsageError(
            f"run {look.run} has fewer bandwidths than baseline {old.name}, run {old.run}: {gaps}. Save it under "
            "another name with --name, or replace the baseline with --force."
        )


def _show(args: argparse.Namespace) -> int:
    baselines = all_baselines()
    if args.output == "json":
        print(shown_document(baselines))
    else:
        print("\n".join(shown(baselines)))
    return 0


def _compare(args: argparse.Namespace) -> int:
    past = checking_run(args.run_id) if args.run_id is not None else _last_good()
    baseline = saved(past.setting, args.name)
    cluster, product, backend = past.setting
    if baseline is None:
        raise UsageError(
            f"no baseline {args.name} of {cluster} ({product}, {backend}). To save one: preflight baseline save"
        )
    comparisons, other_scopes = compare(baseline, past.figures), strangers(baseline, past.figures)
    if not comparisons:
        raise UsageError(
            f"cannot compare run {past.run} with baseline {baseline.name}, run {baseline.run}. They have no operation "
            "of 1 MiB or more on the same hosts and ranks."
        )
    if args.output == "json":
        print(compared_document(past, baseline, comparisons))
    else:
        print("\n".join(compared(past, baseline, comparisons, other_scopes)))
    return int(any(comparison.outcome is Outcome.FAIL for comparison in comparisons))


_ACTIONS = {"save": _save, "show": _show, "compare": _compare}
