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

_NOT_ASKED = "the inventory does not ask for it"
# The header of a file that cloud-init renders at every boot.
_CLOUD_INIT = "'manage_etc_hosts' as True"


@host_check(
    "ENV101", "The cluster's names stand in /etc/hosts, where the inventory asks for that", configures=Area.ENVIRONMENT
)
def in_hosts_file(here: Here, environment: Environment) -> Iterator[Finding]:
    """Why: MASTER_ADDR, host files and rank tables are often written with names, and without a name server each host
    needs the same lines. They stand between two comment lines of ours; nothing else of the file is touched.

    Check manually: grep -n -A99 'BEGIN preflight' /etc/hosts

    Fix: preflight configure-environment; or hosts_file = false in [host_setup], and our block is taken out again
    """
    name, text, wanted = here.host.name, environment.hosts, here.cluster.setup.hosts_file
    try:
        after = with_block(text or "", here.cluster.host_lines if wanted else ())
    except BlockDamagedError as error:
        yield here.bad(f"{name}: {HOSTS_FILE}: {error}", remedy=f"take our lines out of {HOSTS_FILE} by hand")
        return
    if wanted and _CLOUD_INIT in (text or ""):
        yield here.warn(
            f"{name}: cloud-init writes {HOSTS_FILE} anew at every boot, without our lines",
            remedy="manage_etc_hosts: false in /etc/cloud/cloud.cfg.d",
        )
    if after == (text or ""):
        if not wanted:
            yield here.skip(_NOT_ASKED)
    elif wanted:
        state = "our block is out of date" if ours(text) else "our block is not there"
        yield here.bad(
            f"{name}: {HOSTS_FILE} does not hold the cluster's names: {state}",
            found=state,
            remedy="preflight configure-environment",
            change=_change(here, HOSTS_FILE, text, after),
        )
    else:
        yield _left_behind(here, f"our block in {HOSTS_FILE}", _change(here, HOSTS_FILE, text, after))


@host_check(
    "ENV102", "Limits for jobs stand in limits.d, where the inventory asks for that", configures=Area.ENVIRONMENT
)
def limits_for_jobs(here: Here, environment: Environment) -> Iterator[Finding]:
    """Why: RDMA pins memory, and a memlock limit of 64 KiB lets every registration fail; a rank of a large job holds
    thousands of sockets. pam_limits reads limits.d at the next login; services take LimitMEMLOCK= and LimitNOFILE= of
    their unit instead.

    Check manually: cat /etc/security/limits.d/90-preflight.conf; ulimit -l; ulimit -n; sysctl fs.nr_open

    Fix: preflight configure-environment, then log in again
    """
    setup, name = here.cluster.setup, here.host.name
    if environment.nr_open is not None and setup.nofile > environment.nr_open:
        yield here.bad(
            f"{name}: nofile = {setup.nofile} is more than the kernel allows a process, {environment.nr_open}: "
            "pam_limits would refuse every login, so it is not written",
            expected=f"at most {environment.nr_open}",
            found=str(setup.nofile),
            remedy=f"nofile = {environment.nr_open} in [host_setup], or sysctl -w fs.nr_open={setup.nofile}, for good",
        )
        return
    text = environment.limits_files.get(LIMITS_FILE)
    yield from _own_file(here, LIMITS_FILE, text, with_others(text, limits_file(setup), LIMITS_LINE))
    for path, line in lower_limits(setup, environment.limits_files):
        yield here.warn(
            f"{name}: {path} sets a lower limit, which counts before ours: {line}",
            found=line,
            remedy=f"take the line out of {path}, if jobs are to have the limits of the inventory",
        )


@host_check(
    "ENV103",
    "A profile sets HCCL's variables, where the inventory asks for that",
    products=NPU,
    configures=Area.ENVIRONMENT,
)
def profile_for_hccl(here: Here, environment: Environment, network: Network) -> Iterator[Finding]:
    """Why: ranks that differ in HCCL's ports, interface or timeouts hang or fail at connecting, and a variable that
    only some people's start scripts set is the usual reason. Login shells read /etc/profile.d; containers and services
    do not.

    Check manually: cat /etc/profile.d/preflight-hccl.sh; env | grep ^HCCL_

    Fix: preflight configure-environment, then log in again
    """
    nic = here.host.nic
    interfaces = [interface.name for interface in named_by(nic, network)] if nic else []
    if here.cluster.setup.profile is not None and nic and len(interfaces) != 1:
        matches = ", ".join(interfaces) or "no interface"
        yield here.unknown(
            f"{here.host.name}: {PROFILE_FILE} needs the host NIC, and the inventory's nic {nic} is {matches} (HST103)"
        )
        return
    wanted = profile_file(here.cluster, interfaces[0] if interfaces else "")
    after = with_others(environment.profile, wanted, PROFILE_LINE)
    yield from _own_file(here, PROFILE_FILE, environment.profile, after)


def _own_file(here: Here, path: str, found: str | None, wanted: str | None) -> Iterator[Finding]:
    """Yield the finding about a file of ours. `wanted` without our mark: the inventory does not ask for the file."""
    if not ours(wanted) and ours(found):
        yield _left_behind(here, path, _change(here, path, found, wanted))
    elif not ours(wanted):
        yield here.skip(_NOT_ASKED)
    elif found != wanted:
        state = "does not exist" if found is None else "is not what the inventory asks for"
        yield here.bad(
            f"{here.host.name}: {path} {state}",
            found=state,
            remedy="preflight configure-environment",
            change=_change(here, path, found, wanted),
        )


def _left_behind(here: Here, what: str, change: Change) -> Finding:
    text = f"{here.host.name}: {what} was written by preflight, and the inventory does not ask for it any more"
    return here.warn(text, remedy="preflight configure-environment takes it away", change=change)


def _change(here: Here, path: str, before: str | None, after: str | None) -> Change:
    return Change(here.host.name, Area.ENVIRONMENT, Kind.FILE, path, before, after, here.check.id)
