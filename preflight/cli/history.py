"""List the runs that changed hosts from this machine, the newest first; or show one of them."""

import argparse
from collections.abc import Iterator

from preflight.model.change import StepState
from preflight.model.errors import UsageError
from preflight.provision.journal import PastRun, past_run, past_runs, taken_back


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", nargs="?", help="show this run: its plan, and what came of it")
    parser.add_argument("-n", "--number", type=int, default=20, metavar="N", help="list so many (default: 20)")
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")


def run(args: argparse.Namespace) -> int:
    if args.run_id:
        found = past_run(args.run_id)
        if found is None:
            raise UsageError(f"this machine knows no run {args.run_id}: preflight history lists those it knows")
        runs = [found]
    else:
        runs = [past for past, _ in zip(past_runs(), range(args.number), strict=False)]
    if args.output == "json":
        print(_document(runs))
    elif args.run_id:
        _show_one(runs[0])
    else:
        print("\n".join(_listed(runs)))
    return 0


def _listed(runs: list[PastRun]) -> Iterator[str]:
    if not runs:
        yield "nothing was changed from this machine yet"
        return
    width = max(len(past.command) for past in runs)
    undone = taken_back(runs)
    yield f"{'run':20}  {'command':{width}}  hosts  what came of it"
    for past in runs:
        end = "; taken back" if past.run in undone else ""
        yield f"{past.run:20}  {past.command:{width}}  {len(past.hosts):>5}  {ending(past)}{end}"
        if past.undoes:
            yield f"{'':20}  takes back {past.undoes}"
    standing = (past.run for past in runs if past.touched and not past.undoes and past.run not in undone)
    yield ""
    yield next((f"next: preflight rollback {run}" for run in standing), f"next: preflight history {runs[0].run}")


_OTHERWISE = {
    StepState.ALREADY: "so already",
    StepState.MOVED: "left alone, as somebody had changed it",
    StepState.DID_NOT_STICK: "did not stick",
    StepState.FAILED: "failed",
    StepState.NOT_RUN: "not tried",
    StepState.REVERTED: "taken back by the host",
}


def ending(past: PastRun) -> str:
    """What came of all the changes of a run; the numbers add up to them."""
    total, made, already = len(past.changes), past.states.get(StepState.DONE, 0), past.states.get(StepState.ALREADY, 0)
    if not total:
        return "nothing was left to change"
    if already == total:
        return f"nothing changed ({already} were so already)"
    at_least = "at least " if past.maybe or past.unheard else ""
    parts = [f"{at_least}{made} of {total} changes" if past.touched else "nothing changed"]
    parts += [f"{number} {words}" for state, words in _OTHERWISE.items() if (number := past.states.get(state))]
    parts += ["some of which may have changed something"] if past.maybe else []
    parts += [f"{past.unheard} unknown (the hosts' journals tell)"] if past.unheard else []
    parts += [f"{past.not_begun} on hosts that were not begun"] if past.not_begun else []
    parts += ["cut off, or still at work"] if past.exit is None else []
    return ", ".join(parts)


def _show_one(past: PastRun) -> None:
    from preflight.inventory import fold
    from preflight.model.change import Plan
    from preflight.provision.render import render
    from preflight.report.console import show
    from preflight.report.text import Line

    show([Line(line.text, line.style) for line in render(Plan(past.changes), (), fold=fold)])
    begun = fold(past.begun) if past.begun else "no host"
    print(f"{past.command} by {past.owner}, {past.started}, inventory {past.inventory}")
    undone = past.run in taken_back(past_runs())
    print(f"begun on {begun}: {ending(past)}{'; taken back' if undone else ''}")
    print(f"next: preflight rollback {past.run}" if past.touched and not undone else "next: preflight history")


def _document(runs: list[PastRun]) -> str:
    import msgspec

    listed = [
        {"run": past.run, "command": past.command, "started": past.started, "owner": past.owner,
         "inventory": past.inventory, "undoes": past.undoes, "hosts": past.hosts, "begun": past.begun,
         "changes": len(past.changes), "states": past.states, "not_begun": past.not_begun,
         "unknown": past.unheard, "exit": past.exit}
        for past in runs
    ]  # fmt: skip
    body = {"schema": "preflight.history/1", "runs": listed}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
