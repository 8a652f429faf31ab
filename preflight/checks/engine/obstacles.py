"""Obstacles to collecting facts (no Python, no tool, no root), and the key or command that removes them."""

import re
from dataclasses import replace

from preflight.model.cluster import Cluster, ProbeSettings
from preflight.model.finding import Finding
from preflight.model.host_command import on_host
from preflight.model.outcome import Outcome

_BLIND = re.compile(r"could not (?:be checked|be read|test a connection to this host): (.*)", re.DOTALL)
_OF_PEER = "could not test a connection to this host: "
# A status of 128 and more is that of a signal. Python was killed, and is not at fault.
_NO_ANSWER = re.compile(
    r"the (?:program on the host exited with (?:1[01]\d|12[0-7]|\d\d?) and gave no answer"
    r"|host sent more than \d+ bytes, but no|collector's response is corrupted)"
)
_NO_PYTHON = "the Python of the jobs is not installed"
_WHERE_JOBS_RUN = ", where the jobs run,"
_ABSENT = re.compile(r"No such file|not found|Permission denied|Exec format error|[Nn]ot a directory|Is a directory")
_NO_TOOL = re.compile(r"(\S{1,80}) is not installed, or not on PATH")
_HANGS = re.compile(r"(\S{1,80})(?: .{0,80})? did not finish in time|(\S{1,80}) did not answer in time")
_ROOT = re.compile(r"root is needed|root may be needed|must be root")
_PACKAGES = {"hccn_tool": "the Ascend driver", "npu-smi": "the Ascend driver", "ss": "iproute2", "ip": "iproute2"}


def reason(finding: Finding) -> str:
    """Return why the check could not inspect the host; empty if it could."""
    match = _BLIND.search(finding.summary) if finding.outcome is Outcome.UNKNOWN else None
    return match.group(1) if match else ""


def host_of(finding: Finding) -> str:
    """Return the host with the obstacle: the peer, if that one could not run its part."""
    return (finding.peer if _OF_PEER in finding.summary else finding.host) or ""


def no_answer(error: str) -> bool:
    """Return whether Python on the host, or a program in its place, ran without a readable answer."""
    return bool(_NO_ANSWER.match(error))


def with_remedy(cluster: Cluster, finding: Finding, *, other_product: bool = False) -> Finding:
    """Return the finding, with the obstacle's remedy if an obstacle blocks it and it has none.

    `other_product`: the host has accelerators of another kind than the inventory, so missing tools are expected."""
    why = reason(finding) if finding.host and not finding.remedy else ""
    if not why:
        return finding
    if other_product and _NO_TOOL.search(why):
        return replace(
            finding, remedy="correct the product in the inventory first", commands=("preflight explain HST135",)
        )
    host = host_of(finding)
    remedy, *commands = _fix(cluster, host, why)
    return replace(finding, remedy=remedy, commands=tuple(on_host(cluster.by_name[host], line) for line in commands))


def _fix(cluster: Cluster, host: str, error: str) -> tuple[str, ...]:
    """Return the action that removes `error`, and the commands for it on the host; empty where none is known."""
    if no_answer(error):
        return f"repair python3 on {host}, which must run programs and print nothing else", "python3 -I -c pass"
    if _WHERE_JOBS_RUN in error or error.startswith(_NO_PYTHON):
        return (_python(cluster, host, error),)
    if _ROOT.search(error):
        return ('set sudo = true under [ssh] in the inventory, or log in as root (user = "root")',)
    if tool := _NO_TOOL.search(error):
        name = tool.group(1)
        return (f"install {_PACKAGES.get(name, name)} on {host}, so that {name} is on PATH",)
    if tool := _HANGS.search(error):
        name = tool.group(1) or tool.group(2)
        return (
            f"reboot {host} if {name} hangs",
            f"timeout 30 {name} {'info' if name == 'npu-smi' else '-h'}",
        )
    return ("",)


def _python(cluster: Cluster, host: str, error: str) -> str:
    """Return the remedy for the wrong key of [probe] among those that lead to the jobs' Python."""
    probe = cluster.probe
    if _has_no_python(probe, error):
        return f"set python under [probe] in the inventory: {probe.python} does not run on the hosts"
    keys = [key for key, value in (("exec", probe.wrapper), ("setup", probe.setup)) if value]
    if "did not finish in time" in error:
        cause = " or ".join(keys or ["python"])
        return f"correct {cause} under [probe] in the inventory: it does not finish on {host}"
    keys = [*(["user"] if probe.user else []), *keys, "python"]
    return f"correct {' or '.join(keys)} under [probe] in the inventory: the jobs' Python does not start"


def _has_no_python(probe: ProbeSettings, error: str) -> bool:
    """Return whether the host has no such Python, and no other key of [probe] can be the reason."""
    is_direct = not (probe.setup or probe.wrapper or probe.user)
    is_absent = probe.python in error.partition(_WHERE_JOBS_RUN)[2] and bool(_ABSENT.search(error))
    return error.startswith(_NO_PYTHON) or is_absent or (is_direct and "does not start" in error)
