"""The gate's files for each host, as a plan of those that are missing or differ."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from preflight import __version__
from preflight.gate.policy import SCHEMA, gate_json
from preflight.gate.run_on_hosts import ask
from preflight.model.change import Area, Change, Kind, Plan, StepResult, StepState
from preflight.model.cluster import Cluster
from preflight.model.text import printable
from preflight.provision.apply import Way, compare
from preflight.report.build import new_run_id
from preflight.transport.programs import front, source

FRONT = "/usr/local/sbin/preflight-gate"  # the path in schedulers' configurations
PROGRAM = "/usr/local/lib/preflight/gate"
POLICY = "/etc/preflight/gate.json"
_KINDS = {PROGRAM: Kind.PROGRAM, FRONT: Kind.PROGRAM, POLICY: Kind.FILE}
_OURS = "# preflight-gate "  # the beginning of the program's second line


@dataclass(frozen=True)
class Site:
    """A host's answer: see preflight/remote/gate_look.py."""

    python: str
    kinds: dict[str, str]
    named: tuple[str, ...] = ()
    doubt: str = ""
    unread: str = ""


@dataclass(frozen=True)
class Planned:
    """A plan, and the hosts without one.

    `kept_off`: host → why nothing is planned for it. `kept_front`: host → why its front stays.
    """

    plan: Plan
    kept_off: Mapping[str, str]
    kept_front: Mapping[str, str] = field(default_factory=dict)


def program_text(python: str) -> str:
    """Return the node's gate as it is on a host. `python`: absolute path of its interpreter there."""
    # -I and -S: no environment of a user gets in, and no module is imported that it does not need.
    return f"#!{python} -IS\n{_OURS}{__version__}; preflight gate install puts it here\n{source('gate')}"


def front_text() -> str:
    """Return the script that schedulers start: it runs the program, and opens the gate if that does not answer."""
    return front().replace("@VERSION@", __version__)


def is_ours(path: str, text: str) -> bool:
    """Return whether preflight put this file there, in any version."""
    if path in (FRONT, PROGRAM):
        return any(line.startswith(_OURS) for line in text.split("\n", 3)[:3])  # one more line if its mode differs
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and str(document.get("schema", "")).startswith(SCHEMA.partition("/")[0] + "/")


def sites(way: Way, *, programs: Sequence[str] = ()) -> dict[str, Site | str]:
    """Return for each host the kinds of files at the gate's paths, or a sentence why they are unknown.

    `programs`: programs to find in the configuration of schedulers, empty for none.
    """
    request = {"paths": list(_KINDS), "programs": programs}
    return ask(way, source("gate_look"), lambda _: request, Site)


def installing(cluster: Cluster, way: Way, *, force: bool) -> Planned:
    """Return the changes that install the gate on the hosts. A file that is not ours is overwritten only with `force`.

    Raises UsageError, before any host is contacted, if [gate] is not sound.
    """
    policies = {host.name: gate_json(cluster, host) for host in way.hosts}
    kept_off: dict[str, str] = {}
    wanted: list[Change] = []
    for name, site in sites(way).items():
        if isinstance(site, str):
            kept_off[name] = site
        elif hindrance := _hindrance(site):
            kept_off[name] = hindrance
        else:
            texts = {PROGRAM: program_text(site.python), FRONT: front_text(), POLICY: policies[name]}
            wanted += [_change(name, path, None, text) for path, text in texts.items()]
    return _against_what_is_there(Plan(tuple(wanted)), way, kept_off, force=force)


def removing(way: Way, *, force: bool) -> Planned:
    """Return the changes that remove the gate from hosts on which no scheduler starts it.

    The verdict stays, which does no harm. The front stays where slurmd may still start it.
    """
    kept_off, kept_front = still_started(way)
    hosts = [host for host in way.hosts if host.name not in kept_off]
    # The front comes last: without its program it opens the gate.
    wanted = [
        _change(host.name, path, None, None)
        for host in hosts
        for path in (POLICY, PROGRAM, FRONT)
        if path != FRONT or host.name not in kept_front
    ]
    return replace(_against_what_is_there(Plan(tuple(wanted)), way, kept_off, force=force), kept_front=kept_front)


def undoing_allowed(plan: Plan, way: Way) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan of a rollback without what a scheduler may still start, and a sentence for each host of those."""
    losing = {change.host for change in plan.changes if change.target == FRONT and change.after is None}
    hosts = [host for host in way.hosts if host.name in losing]
    kept_off, kept_front = still_started(replace(way, hosts=hosts)) if hosts else ({}, {})
    changes = (change for change in plan.changes if change.host not in kept_off)
    allowed = tuple(change for change in changes if change.host not in kept_front or change.target != FRONT)
    return Plan(allowed), tuple(f"{name}: {why}" for name, why in {**kept_off, **kept_front}.items())


def still_started(way: Way) -> tuple[dict[str, str], dict[str, str]]:
    """Return host → why the gate stays, and host → why only its front stays.

    The gate stays on a host if a scheduler starts it there, or if the host's scheduler cannot be asked. The front stays
    if slurmd may have an old configuration: it does no harm, and without it slurmd would drain the node.
    """
    kept_off: dict[str, str] = {}
    kept_front: dict[str, str] = {}
    for name, site in sites(way, programs=(FRONT, PROGRAM)).items():
        if isinstance(site, str):
            kept_off[name] = site
        elif reason := _started_by(site):
            kept_off[name] = reason
        elif site.unread and site.kinds[FRONT] != "missing":
            kept_front[name] = (
                f"{FRONT} was kept and lets every job start. {printable(site.unread)[:200]}, and may still call it. "
                "Restart slurmd, then remove the gate again"
            )
    return kept_off, kept_front


def _started_by(site: Site) -> str:
    """Return why Slurm starts the gate, or may start it, with what to do; "" if it does not."""
    if site.named:
        live = [line for line in site.named if line.startswith("scontrol ")]  # these change with the files, if any
        lines = "; ".join(printable(line)[:200] for line in [line for line in site.named if line not in live] or live)
        return (
            f"Slurm still calls the gate, and drains every node on which it is missing. First remove {lines}. "
            "Then run scontrol reconfigure"
        )
    if site.doubt:
        return (
            "Slurm may still call the gate, and drains every node on which it is missing "
            f"({printable(site.doubt)[:200]}). Run scontrol reconfigure, and repeat this command after 10 minutes"
        )
    return ""


def _change(host: str, path: str, before: str | None, after: str | None) -> Change:
    return Change(host, Area.ENVIRONMENT, _KINDS[path], path, before, after, "gate")


def _hindrance(site: Site) -> str:
    if not re.fullmatch(r"/[!-~]{1,100}", site.python):  # allowed in a first line: kernels read 127 bytes of it
        return "the gate needs Python 3.6 or newer, and none was found on the host"
    odd = next((path for path, kind in site.kinds.items() if kind not in ("file", "missing")), "")
    return f"{odd} is a {site.kinds[odd]} on the host. Remove it" if odd else ""


def _against_what_is_there(wanted: Plan, way: Way, kept_off: dict[str, str], *, force: bool) -> Planned:
    changes: list[Change] = []
    for result in compare(wanted, way, new_run_id(datetime.now(UTC))) if wanted.changes else ():
        if why := _refusal(result, force=force):
            kept_off.setdefault(result.change.host, why.removeprefix(f"{result.change.host}: "))
        elif result.state not in (StepState.ALREADY, StepState.NOT_RUN):
            changes.append(_change(result.change.host, result.change.target, result.found, result.change.after))
    return Planned(Plan(tuple(change for change in changes if change.host not in kept_off)), kept_off)


def _refusal(met: StepResult, *, force: bool) -> str:
    """Return why this file must not be written, empty if it may be."""
    if met.state is StepState.FAILED:
        return met.message
    if met.state is StepState.MOVED and not force and not is_ours(met.change.target, met.found or ""):
        return f"{met.change.target} already exists and is not preflight's. Overwrite it with --force"
    return ""
