"""The files of [host_setup] in the inventory: names in /etc/hosts, limits, a profile for HCCL jobs. Off by default.

A file that was written before and is not wanted any more is a warning, with the change that removes it."""

from collections.abc import Iterator

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.facts.sections.environment import Environment
from preflight.facts.types import Network
from preflight.model.change import Area, Change, Kind
from preflight.model.finding import Finding
from preflight.rules.nics.inventory_nic import named_by
from preflight.rules.setup_files import (
    HOSTS_FILE,
    LIMITS_FILE,
    LIMITS_LINE,
    PROFILE_FILE,
    PROFILE_LINE,
    BlockDamagedError,
    limits_file,
    lower_limits,
    ours,
    profile_file,
    with_block,
    with_others,
)

_NOT_REQUESTED = "not requested under [host_setup] of the inventory"
_CONFIGURE = ("preflight configure-environment",)
# The header of a file that cloud-init renders at every boot.
_CLOUD_INIT = "'manage_etc_hosts' as True"


@host_check("ENV101", "Cluster entries in /etc/hosts", configures=Area.ENVIRONMENT)
def in_hosts_file(scribe: Here, environment: Environment) -> Iterator[Finding]:
    """Why: MASTER_ADDR, host files and rank tables often contain names. Without a name server, each host needs the same
    lines. preflight writes them between two comment lines and changes nothing else in the file. If the inventory asks
    for them, missing or outdated lines fail. Lines that are no longer wanted are a warning, and so is a file that
    cloud-init rewrites at every boot.

    Check manually: grep -n -A99 'BEGIN preflight' /etc/hosts

    Fix: Run preflight configure-environment. To remove the lines again, set hosts_file = false in [host_setup] first.
    """
    name, wanted, before = scribe.host.name, scribe.cluster.setup.hosts_file, environment.hosts or ""
    try:
        after = with_block(before, scribe.cluster.host_lines if wanted else ())
    except BlockDamagedError as error:
        yield scribe.bad(f"{name}: {HOSTS_FILE}: {error}", remedy="remove preflight's lines from the file manually")
        return
    if wanted and _CLOUD_INIT in before:
        yield scribe.warn(
            f"{name}: cloud-init rewrites {HOSTS_FILE} at every boot, without preflight's lines",
            remedy="set manage_etc_hosts: false in a file of /etc/cloud/cloud.cfg.d",
        )
    if after == before:
        if not wanted:
            yield scribe.skip(_NOT_REQUESTED)
    elif wanted:
        state = "outdated" if ours(before) else "missing"
        yield scribe.bad(
            f"{name}: the cluster's names in {HOSTS_FILE} are {state}",
            found=state,
            remedy="write the cluster's names",
            commands=_CONFIGURE,
            change=_change(scribe, HOSTS_FILE, environment.hosts, after),
        )
    else:
        change = _change(scribe, HOSTS_FILE, environment.hosts, after)
        yield _removal(scribe, f"the block in {HOSTS_FILE}", change)


@host_check("ENV102", "Job limits in limits.d", configures=Area.ENVIRONMENT)
def limits_for_jobs(scribe: Here, environment: Environment) -> Iterator[Finding]:
    """Why: RDMA pins memory, and with a memlock limit of 64 KiB every registration fails. A rank of a large job holds
    thousands of sockets. At the next login, pam_limits reads limits.d. Services take LimitMEMLOCK= and LimitNOFILE= of
    their unit instead. If the inventory asks for limits, a missing or different file fails, and so does a nofile above
    fs.nr_open. A lower limit in another file is a warning.

    Check manually: cat /etc/security/limits.d/90-preflight.conf; ulimit -l; ulimit -n; sysctl fs.nr_open

    Fix: Run preflight configure-environment, then log in again.
    """
    setup, name = scribe.cluster.setup, scribe.host.name
    if environment.nr_open is not None and setup.nofile > environment.nr_open:
        yield scribe.bad(
            f"{name}: nofile = {setup.nofile} exceeds fs.nr_open ({environment.nr_open}), so it is not written",
            expected=f"at most {environment.nr_open}",
            found=str(setup.nofile),
            evidence=("pam_limits would refuse every login with such a limit",),
            remedy=f"set nofile = {environment.nr_open} under [host_setup] of the inventory, or raise fs.nr_open "
            "permanently",
        )
        return
    text = environment.limits_files.get(LIMITS_FILE)
    yield from _own_file(scribe, LIMITS_FILE, text, with_others(text, limits_file(setup), LIMITS_LINE))
    for path, line in lower_limits(setup, environment.limits_files):
        yield scribe.warn(
            f"{name}: {path} sets a lower limit, which overrides the inventory's: {line}",
            found=line,
            remedy=f"remove the line from {path}, if jobs need the limits of the inventory",
        )


@host_check(
    "ENV103",
    "HCCL environment profile",
    products=NPU,
    configures=Area.ENVIRONMENT,
)
def profile_for_hccl(scribe: Here, environment: Environment, network: Network) -> Iterator[Finding]:
    """Why: Ranks that differ in HCCL's ports, interface or timeouts hang or fail when they connect. The usual reason is
    a variable that only some users' start scripts set. Login shells read /etc/profile.d; containers and services do
    not. If the inventory asks for a profile, a missing or different file fails. A profile that is no longer wanted is a
    warning.

    Check manually: cat /etc/profile.d/preflight-hccl.sh; env | grep ^HCCL_

    Fix: Run preflight configure-environment, then log in again.
    """
    nic = scribe.host.nic
    interfaces = [interface.name for interface in named_by(nic, network)] if nic else []
    if scribe.cluster.setup.profile is not None and nic and len(interfaces) != 1:
        matches = ", ".join(interfaces) or "no interface"
        yield scribe.unknown(
            f"{scribe.host.name}: {PROFILE_FILE} needs the host NIC, but the inventory's nic {nic} matches {matches} "
            "(HST103)"
        )
        return
    wanted = profile_file(scribe.cluster, interfaces[0] if interfaces else "")
    after = with_others(environment.profile, wanted, PROFILE_LINE)
    yield from _own_file(scribe, PROFILE_FILE, environment.profile, after)


def _own_file(scribe: Here, path: str, before: str | None, after: str | None) -> Iterator[Finding]:
    """Yield the finding about a file of ours. `after` without our mark: the inventory does not request the file."""
    if not ours(after) and ours(before):
        yield _removal(scribe, path, _change(scribe, path, before, after))
    elif not ours(after):
        yield scribe.skip(_NOT_REQUESTED)
    elif before != after:
        state = "does not exist" if before is None else "differs from the inventory"
        yield scribe.bad(
            f"{scribe.host.name}: {path} {state}",
            found=state,
            remedy="write the file",
            commands=_CONFIGURE,
            change=_change(scribe, path, before, after),
        )


def _removal(scribe: Here, place: str, change: Change) -> Finding:
    text = f"{scribe.host.name}: preflight wrote {place}, but the inventory no longer requests it"
    return scribe.warn(text, remedy="remove it", commands=_CONFIGURE, change=change)


def _change(scribe: Here, path: str, before: str | None, after: str | None) -> Change:
    return Change(scribe.host.name, Area.ENVIRONMENT, Kind.FILE, path, before, after, scribe.check.id)
