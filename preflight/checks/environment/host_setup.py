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

_NOT_REQUESTED = "not requested under [host_setup] in the inventory"
_CONFIGURE = ("preflight configure-environment",)
# The header of a file that cloud-init renders at every boot.
_CLOUD_INIT = "'manage_etc_hosts' as True"


@host_check("ENV101", "Cluster entries in /etc/hosts", configures=Area.ENVIRONMENT, blocks=False)
def in_hosts_file(scribe: Here, environment: Environment) -> Iterator[Finding]:
    """Why: MASTER_ADDR, host files and rank tables often contain host names. Without a name server, every host needs
    the same entries in /etc/hosts. preflight writes its entries between two comment lines and changes nothing else.

    Result: FAIL if the inventory requires entries that are missing or outdated. WARN if entries remain that are no
    longer required, or if cloud-init rewrites the file at every boot.

    Check manually:
      grep -n -A99 'BEGIN preflight' /etc/hosts

    Fix: Write the entries. To remove them instead, first set hosts_file = false under [host_setup] in the inventory.
      preflight configure-environment
    """
    name, wanted, before = scribe.host.name, scribe.cluster.setup.hosts_file, environment.hosts or ""
    try:
        after = with_block(before, scribe.cluster.host_lines if wanted else ())
    except BlockDamagedError as error:
        yield scribe.bad(
            f"{name}: in {HOSTS_FILE}, {error}", remedy=f"remove preflight's lines from {HOSTS_FILE} manually"
        )
        return
    if wanted and _CLOUD_INIT in before:
        yield scribe.warn(
            f"{name}: cloud-init rewrites {HOSTS_FILE} at every boot and drops preflight's lines",
            remedy="set manage_etc_hosts: false in a file in /etc/cloud/cloud.cfg.d",
        )
    if after == before:
        if not wanted:
            yield scribe.skip(_NOT_REQUESTED)
    elif wanted:
        state = f"in {HOSTS_FILE} are outdated" if ours(before) else f"are missing from {HOSTS_FILE}"
        yield scribe.bad(
            f"{name}: the cluster's host names {state}",
            remedy=f"write the cluster's host names to {HOSTS_FILE}",
            commands=_CONFIGURE,
            change=_change(scribe, HOSTS_FILE, environment.hosts, after),
        )
    else:
        change = _change(scribe, HOSTS_FILE, environment.hosts, after)
        yield _removal(scribe, f"the block in {HOSTS_FILE}", change)


@host_check("ENV102", "Job limits in limits.d", configures=Area.ENVIRONMENT, blocks=False)
def limits_for_jobs(scribe: Here, environment: Environment) -> Iterator[Finding]:
    """Why: RDMA locks memory. With a memlock limit of 64 KiB, every memory registration fails. A rank of a large job
    also opens thousands of sockets. Login sessions get the limits in limits.d. Services get LimitMEMLOCK= and
    LimitNOFILE= from their unit instead.

    Result: FAIL if the inventory requires limits and the file is missing or different. Also FAIL if nofile is above
    fs.nr_open. WARN if another file sets a lower limit.

    Check manually:
      cat /etc/security/limits.d/90-preflight.conf
      ulimit -l
      ulimit -n
      sysctl fs.nr_open

    Fix: Write the file, then log in again.
      preflight configure-environment
    """
    setup, name = scribe.cluster.setup, scribe.host.name
    if environment.nr_open is not None and setup.nofile > environment.nr_open:
        yield scribe.bad(
            f"{name}: nofile = {setup.nofile} in the inventory exceeds fs.nr_open ({environment.nr_open}), so "
            "preflight does not write it",
            expected=f"at most {environment.nr_open}",
            found=str(setup.nofile),
            evidence=("with this limit, pam_limits would refuse every login",),
            remedy=f"set nofile = {environment.nr_open} under [host_setup] in the inventory, or raise fs.nr_open "
            "permanently",
        )
        return
    text = environment.limits_files.get(LIMITS_FILE)
    yield from _own_file(scribe, LIMITS_FILE, text, with_others(text, limits_file(setup), LIMITS_LINE))
    for path, line in lower_limits(setup, environment.limits_files):
        yield scribe.warn(
            f"{name}: {path} overrides the inventory's limit with a lower one: {line}",
            found=line,
            remedy=f"remove this line from {path} if jobs need the inventory's limits",
        )


@host_check("ENV103", "HCCL environment profile", products=NPU, configures=Area.ENVIRONMENT, blocks=False)
def profile_for_hccl(scribe: Here, environment: Environment, network: Network) -> Iterator[Finding]:
    """Why: Ranks with different HCCL ports, interfaces or timeouts hang or fail when they connect. Often, only some
    users' start scripts set such a variable. Login shells read /etc/profile.d, but containers and services do not.

    Result: FAIL if the inventory requires a profile and the file is missing or different. WARN if a profile remains
    that is no longer required.

    Check manually:
      cat /etc/profile.d/preflight-hccl.sh
      env | grep ^HCCL_

    Fix: Write the profile, then log in again.
      preflight configure-environment
    """
    nic = scribe.host.nic
    interfaces = [interface.name for interface in named_by(nic, network)] if nic else []
    if scribe.cluster.setup.profile is not None and nic and len(interfaces) != 1:
        matches = ", ".join(interfaces) or "no interface"
        yield scribe.unknown(
            f"{scribe.host.name}: {PROFILE_FILE} needs the host NIC, but the inventory's nic {nic} matches {matches} "
            "(see HST103)"
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
            remedy=f"write {path}",
            commands=_CONFIGURE,
            change=_change(scribe, path, before, after),
        )


def _removal(scribe: Here, place: str, change: Change) -> Finding:
    text = f"{scribe.host.name}: preflight wrote {place}, but the inventory no longer requests it"
    return scribe.warn(text, remedy=f"remove {place}", commands=_CONFIGURE, change=change)


def _change(scribe: Here, path: str, before: str | None, after: str | None) -> Change:
    return Change(scribe.host.name, Area.ENVIRONMENT, Kind.FILE, path, before, after, scribe.check.id)
