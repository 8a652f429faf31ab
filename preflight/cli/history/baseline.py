"""Save what a probe measured, and compare later probes with it.

  preflight baseline save         # the last probe that passed
  preflight baseline show
  preflight baseline compare      # the last probe; ends with 1 if it is slower

A baseline belongs to a cluster, its product and the backend. The one named "default" is what PRB115 judges every later
probe by. It keeps its run in the history for as long as it is not saved anew.
"""

import argparse
import sys
from collections import Counter

from preflight.app.named_run import HELP, checking_run
from preflight.history.baselines import USUAL, all_baselines, reason_against, save, saved
from preflight.history.runs import CheckRun, check_run, check_runs, last_measured_run
from preflight.model.errors import UsageError
from preflight.model.figures import Baseline, comparable, compare, strangers
from preflight.model.measure import Scope
from preflight.model.outcome import Outcome

_NEWER = 100  # later runs that are searched for runs that do not qualify
_TOLD = 3  # later runs that are named, with the reason
_PROBED = {"PRB101"}  # a check of every run with a probe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    saving = actions.add_parser("save", help="call the figures of a run good", allow_abbrev=False)
    saving.add_argument("run_id", metavar="RUN", nargs="?", help=f"{HELP} (default: the last probe that passed)")
    saving.add_argument("--force", action="store_true", help="also in place of one with more bandwidths")
    saving.set_defaults(act=_save)
    showing = actions.add_parser("show", help="list what is saved, with its figures", allow_abbrev=False)
    showing.set_defaults(act=_show)
    comparing = actions.add_parser("compare", help="a probe's figures beside the saved ones", allow_abbrev=False)
    comparing.add_argument(
        "run_id", metavar="RUN", nargs="?", help=f"{HELP} (default: the last probe that passed, but for PRB115)"
    )
    comparing.set_defaults(act=_compare)
    for action in (saving, comparing):
        action.add_argument("--name", type=_name, default=USUAL, help=f"which baseline (default: {USUAL})")
    for action in (showing, comparing):
        action.add_argument("-o", "--output", choices=("console", "json"), default="console")


def _name(text: str) -> str:
    if not text.isprintable() or not 0 < len(text) <= 40:
        raise argparse.ArgumentTypeError(f"{text!r} is no name of up to 40 characters")
    return text


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))


def _save(args: argparse.Namespace) -> int:
    probe_run = checking_run(args.run_id) if args.run_id is not None else _last_good()
    if not args.force and not reason_against(probe_run) and (old := saved(probe_run.setting, args.name)):
        _refuse_poorer(old, probe_run)
    before = save(args.name, probe_run)
    was = f" (it was {before})" if before and before != probe_run.run else ""
    cluster, product, backend = probe_run.setting
    print(f"run {probe_run.run} is the baseline {args.name} of {cluster} ({product}, {backend}){was}")
    print(f"it has {len(comparable(probe_run.figures))} bandwidths; next: preflight baseline show")
    return 0


def _last_good() -> CheckRun:
    """Return the default run, the last probe that passed. Name later probes and their reasons on stderr."""
    probe_run = last_measured_run(lambda probe_run: not reason_against(probe_run))
    if probe_run is None:
        raise UsageError("no probe of this machine has measured a bandwidth and passed yet: preflight probe does")
    newer = [past.run for past in check_runs(_NEWER) if past.run > probe_run.run and _PROBED & past.checks]
    for run in newer[:_TOLD]:
        if past := check_run(run):
            print(f"run {probe_run.run} is taken and not run {run}: {reason_against(past)}", file=sys.stderr)
    if len(newer) > _TOLD:
        print(f"run {probe_run.run} is taken and not {len(newer) - _TOLD} more after it", file=sys.stderr)
    return probe_run


def _refuse_poorer(old: Baseline, look: CheckRun) -> None:
    """Raise UsageError if the new run has fewer figures of a scope than the saved baseline."""
    was, now = (
        Counter(figure.shape.scope for figure in comparable(figures)) for figures in (old.figures, look.figures)
    )
    if poorer := [scope for scope in Scope if now[scope] < was[scope]]:
        gaps = ", ".join(f"{now[scope]} instead of {was[scope]} of {scope}" for scope in poorer)
        raise UsageError(
            f"run {look.run} has fewer bandwidths than the baseline {old.name}, run {old.run}: {gaps}; save it beside "
            "it with --name, or in its place with --force"
        )


def _show(args: argparse.Namespace) -> int:
    from preflight.cli.history.baseline_output import shown, shown_document

    baselines = all_baselines()
    if args.output == "json":
        print(shown_document(baselines))
    else:
        print("\n".join(shown(baselines)))
    return 0


def _compare(args: argparse.Namespace) -> int:
    from preflight.cli.history.baseline_output import compared, compared_document

    past = checking_run(args.run_id) if args.run_id is not None else _last_good()
    baseline = saved(past.setting, args.name)
    cluster, product, backend = past.setting
    if baseline is None:
        raise UsageError(
            f"no baseline {args.name} is saved of {cluster} ({product}, {backend}): preflight baseline save makes one"
        )
    comparisons, other_scopes = compare(baseline, past.figures), strangers(baseline, past.figures)
    if not comparisons:
        raise UsageError(
            f"nothing of run {past.run} can be compared with the baseline {baseline.name}, run {baseline.run}: they "
            "have no operation of 1 MiB or more over the same hosts and ranks in common"
        )
    if args.output == "json":
        print(compared_document(past, baseline, comparisons))
    else:
        print("\n".join(compared(past, baseline, comparisons, other_scopes)))
    return int(any(comparison.outcome is Outcome.FAIL for comparison in comparisons))
