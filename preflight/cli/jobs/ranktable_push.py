"""`preflight ranktable --push`: one rank table to the same path on every host, with its checksum read back.

It is a change like any other: compared with the current file, confirmed, journaled on the host, and taken back by
rollback.
"""

import argparse
import json
import posixpath
import shlex
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from preflight.app.session import Session
from preflight.cli.changes.change_output import UP_TO_DATE, RunResults, finish_run, say, show_plan
from preflight.cli.changes.questions import PENDING, ChangeRun, agreed, carry_out, shown
from preflight.cli.jobs.ranktable_check import described, digest
from preflight.cli.options import again
from preflight.cli.wrapped import wrapped
from preflight.facts.sections.job import Job
from preflight.facts.types import Missing, Unreachable
from preflight.inventory import fold
from preflight.model.change import Area, Change, Kind, Plan, StepState
from preflight.model.cluster import JobInputs
from preflight.model.errors import PreflightError, UsageError
from preflight.provision.apply import Way, compare
from preflight.provision.host_run import CONFIRM_SECONDS
from preflight.report.build import new_run_id

_LARGEST = 8 << 20  # bytes that the program on the host reads and writes of a file: preflight/remote/apply/files.py
_MOST_LINES = 200  # of a table that is shown; 16 servers of 8 devices have 166
_CHECK = "ENV108"  # the check of rank tables


def refuse_path(path: str) -> None:
    """Raise UsageError for a path that HCCL does not accept, or that hosts would resolve to another one."""
    if not path.startswith("/") or posixpath.normpath(path) != path or path.startswith("//"):
        raise UsageError(f"--push {path} is not an absolute path such as /data/hccl.json")
    if not path.isprintable() or len(path) > 1024:
        raise UsageError(f"--push {path[:80]} is not a path of a file")


def push(args: argparse.Namespace, s: Session, text: str) -> int:
    """Push `text` to every host or to none, and return the exit code. Raise PreflightError if a host cannot take it."""
    if len(text.encode()) > _LARGEST:
        raise PreflightError(f"the table is larger than {_LARGEST >> 10} KiB. Write it with -o and copy it manually.")
    started = datetime.now(UTC)
    plan = _plan(args, s, text)
    if text.count("\n") <= _MOST_LINES:
        shown(show_plan, s, plan, (), UP_TO_DATE)
    else:
        s.progress.clear()
        shown(show_briefly, plan, text)
    if args.dry_run:
        say(s, "nothing was changed (--dry-run)", f"next: {again(args)}")
        return 0
    if plan.changes and not agreed(args, plan):
        return PENDING
    args.confirm_within = CONFIRM_SECONDS  # writing a file needs no confirmation
    run_id, applied = carry_out(args, s, ChangeRun(plan, started))
    verified = _checksums(args, s, text)
    return finish_run(args, s, RunResults(run_id, applied.results, (), applied.at_work, short=not verified))


def show_briefly(plan: Plan, text: str) -> None:
    """Print the target hosts of a table that is too long to be shown."""
    for sign, before in (("+", True), ("~", False)):
        if names := [change.host for change in plan.changes if (change.before is None) is before]:
            print(f"{sign} {plan.changes[0].target} on {fold(names)}")
    print(f"{described(text)}; to read it, add -o FILE" if plan.changes else UP_TO_DATE)


def _change(host: str, path: str, before: str | None, text: str) -> Change:
    return Change(host, Area.ENVIRONMENT, Kind.FILE, path, before, text, _CHECK)


def _plan(args: argparse.Namespace, s: Session, text: str) -> Plan:
    """Return the plan of the files to write.

    Only a rank table is overwritten, and links are not followed. Raise PreflightError if the path holds anything else
    on any host, since a table is useless unless all hosts have the same.
    """
    hindered = {name: _hindrance(args.push, *state) for name, state in _look(args, s).items()}
    _refuse_hindered(s, hindered)
    wanted = Plan(tuple(_change(host.name, args.push, None, text) for host in s.hosts))
    way = Way(s.hosts, s.transport, args.pool, s.progress)
    changes: list[Change] = []
    for result in compare(wanted, way, new_run_id(datetime.now(UTC))):
        name, present = result.change.host, result.found or ""
        if result.state is StepState.FAILED:
            hindered[name] = result.message.removeprefix(f"{name}: ")
        elif result.state is StepState.MOVED and not args.force and not _is_rank_table(present):
            hindered[name] = f"{args.push} exists and is not a rank table. To overwrite it, add --force."
        elif result.state is not StepState.ALREADY:
            changes.append(_change(name, args.push, result.found, text))
    _refuse_hindered(s, hindered)
    return Plan(tuple(changes))


def _refuse_hindered(s: Session, hindered: Mapping[str, str]) -> None:
    s.progress.clear()
    alike: dict[str, list[str]] = {}
    for name, why in hindered.items():
        if why:
            alike.setdefault(why, []).append(name)
    if alike:
        sentences = (f"{fold(names)}: {why}" for why, names in alike.items())
        raise PreflightError("\n".join((*sentences, "nothing was pushed to any host")))


def _hindrance(path: str, kind: str, more: str) -> str:
    """Return why the table cannot be put there, or "". `kind` and `more` are those of `_look`."""
    if kind == "link":
        return f"{path} is a link, which HCCL rejects. Remove it."
    return "" if kind in ("file", "missing") else f"{path} is a {kind}" if kind else more


def _look(args: argparse.Namespace, s: Session) -> dict[str, tuple[str, str]]:
    """Return host → (kind of the file at the path, its sha256), or ("", why that is not known).

    The host itself is inspected, even if jobs run in containers.
    """
    host_probe = replace(s.cluster.probe, setup="", wrapper=(), user="")
    cluster = replace(s.cluster, probe=host_probe, job=JobInputs(requirements=(args.push,)))
    facts = s._replace(cluster=cluster).collect(sections=("os", "job"), deep=True)
    states: dict[str, tuple[str, str]] = {}
    for host, host_facts in facts.hosts.items():
        if isinstance(host_facts, Unreachable):
            states[host] = "", host_facts.summary.removeprefix(f"{host}: ")
        elif not isinstance(host_facts.job, Job):
            states[host] = "", host_facts.job.error if isinstance(host_facts.job, Missing) else "not checked"
        else:
            file = host_facts.job.files.get(args.push)
            states[host] = (file.kind, file.error or file.digest) if file else ("", "not checked")
    s.progress.clear()
    return states


def _is_rank_table(text: str) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and not {"server_list", "group_list", "rank_list"}.isdisjoint(document)


def _checksums(args: argparse.Namespace, s: Session, text: str) -> bool:
    """Print which hosts have which sha256. Return whether all have this table."""
    wanted = digest(text)
    states = _look(args, s)
    same = [host for host, (_, has) in states.items() if has == wanted]
    if same:
        print(f"sha256 {wanted} on {fold(same)}")
    differing: dict[str, list[str]] = {}
    for host, (kind, detail) in states.items():
        if host not in same:
            description = f"{kind or 'not readable'}: {detail}" if detail else kind
            differing.setdefault(description, []).append(host)
    for description, hosts in differing.items():
        print("\n".join(wrapped(f"! {fold(hosts)} has another table: {description}")))
    if not differing:
        print(f"On each host, set: export RANK_TABLE_FILE={shlex.quote(args.push)}")
    return not differing
