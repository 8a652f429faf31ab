"""The variables that jobs give HCCL and torch_npu: each by itself, together, and across hosts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from preflight.checks.engine.registry import NPU, All, Here, cluster_check, host_check
from preflight.checks.shared.majority import odd_ones
from preflight.facts.sections.job import Job
from preflight.model.cluster import Cluster, Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.ports import PortSet
from preflight.model.text import quote
from preflight.rules.variables.hccl import RULES, meant, rule

_CHIEF = ("CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_SIZE", "CM_WORKER_IP")
_RANKS = ("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE")
HCCL_PORTS = 32  # ports that HCCL takes from HCCL_IF_BASE_PORT on (16 up to CANN 8.0.RC3)
_SWITCHES = ("HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE")
_SUPPORTED = {("1", ""), ("1", "0"), ("0", "1"), ("", "1"), ("0", "0"), ("", "")}
_AIV_SECONDS = 1091


@dataclass(frozen=True)
class JobVariables:
    """The variables of one host's jobs."""

    variables: Mapping[str, str]
    product: Product

    def get(self, name: str, default: str = "") -> str:
        return self.variables.get(name, default)

    def number(self, name: str) -> int:
        """Return the variable's number, or its default; 0 where HCCL would not take it (ENV104)."""
        allowed = rule(name, self.product)
        value = self.get(name, allowed.default if allowed else "")
        return int(value) if allowed and allowed.allows(value) else 0

    def never(self, name: str) -> bool:
        """Return whether a timeout is disabled by the value 0."""
        allowed, value = rule(name, self.product), self.get(name)
        return bool(allowed and allowed.allows(value) and int(value) == 0)


@host_check("ENV104", "HCCL variable names and values", products=NPU)
def valid(scribe: Here, job: Job) -> Iterator[Finding]:
    """Why: An out-of-range value makes a job fail when it creates its first communicator (EI0001), after all the data
    has been loaded. A misspelt variable name causes no error, and HCCL uses the default.

    Result: FAIL for an out-of-range value. WARN for a name that resembles the name of an HCCL variable. WARN for a
    value above the vendor's recommendation, and for a variable that has no effect on the product.

    Check manually: Run this in the jobs' environment, after the setup command under [probe] in the inventory.
      env | grep -E 'HCCL|TORCH_|ASCEND_'

    Fix: Apply the fix in the finding to the jobs' start script, the profile or the container's environment.
    """
    for name, value in sorted(job.variables.items()):
        slip = meant(name)
        if slip:
            yield scribe.warn(
                f"{scribe.host.name}: HCCL has no variable {name}. Did you mean {slip}?",
                found=name,
                expected=slip,
                remedy=f"set {slip} instead of {name} in the jobs' environment",
            )
        if name not in RULES:
            continue
        allowed = rule(name, scribe.cluster.product)
        if allowed is None:
            yield scribe.warn(
                f"{scribe.host.name}: {name} has no effect on {scribe.cluster.product}",
                found=quote(value),
                remedy=f"unset {name} in the jobs' environment",
            )
        elif not allowed.allows(value):
            yield scribe.bad(
                f"{scribe.host.name}: {name} is {quote(value) if value else 'empty'}, but it accepts only "
                f"{allowed.wants}",
                expected=allowed.wants,
                found=value,
                remedy=f"correct {name} in the jobs' environment, or unset it",
            )
        elif allowed.advised and int(value) > allowed.advised:
            yield scribe.warn(
                f"{scribe.host.name}: {name} is {quote(value)}, but the vendor recommends at most {allowed.advised}",
                found=value,
                expected=f"at most {allowed.advised}",
                evidence=(
                    "every connection uses this number of queue pairs, and jobs fail with EI0007 if none is left",
                ),
                remedy=f"lower {name} in the jobs' environment, or unset it",
            )


@host_check("ENV105", "HCCL variable combinations", products=NPU)
def together(scribe: Here, job: Job) -> Iterator[Finding]:
    """Why: Some variables exclude each other, and some timeouts must be longer than others. If the event timeout is
    shorter than the timeout of HCCL operators, it hides the message with the cause. The vendor supports only a few
    combinations of the two switches for traffic within a server.

    Result: FAIL for combinations that HCCL cannot use. Also FAIL if the ports that start at HCCL_IF_BASE_PORT exceed
    65535. WARN for wrong timeouts and for settings without effect.

    Check manually: In the jobs' environment:
      env | grep -E 'HCCL|RANK_TABLE|^CM_'

    Fix: Apply the fix in the finding to the jobs' start script, the profile or the container's environment.
    """
    variables = JobVariables(job.variables, scribe.cluster.product)
    for outcome, problem, remedy in (
        *_switch_conflicts(variables),
        *_connection_conflicts(variables),
        *_cluster_conflicts(variables),
        *watchdog_conflicts("HCCL", job.variables),
        *_timeout_conflicts(variables),
    ):
        yield scribe.finding(
            outcome,
            f"{scribe.host.name}: {problem}",
            host=scribe.host.name,
            remedy=f"{remedy} in the jobs' environment",
        )


Problem = tuple[Outcome, str, str]  # outcome, problem, remedy


def _switch_conflicts(variables: JobVariables) -> Iterator[Problem]:
    pcie, roce = (variables.get(name) for name in _SWITCHES)
    both_allowed = all(variables.get(name, "0") in ("0", "1") for name in _SWITCHES)  # else ENV104 reports it
    if both_allowed and (pcie, roce) not in _SUPPORTED:
        pair = " and ".join(f"{name}={variables.get(name, '(unset)')}" for name in _SWITCHES)
        yield (
            Outcome.FAIL,
            f"HCCL does not support {pair} together",
            "set exactly one of these variables to 1, or unset both",
        )


def _connection_conflicts(variables: JobVariables) -> Iterator[Problem]:
    """Yield the problems of ports and whitelist."""
    first = variables.number("HCCL_IF_BASE_PORT")
    if not variables.get("HCCL_HOST_SOCKET_PORT_RANGE") and first + HCCL_PORTS - 1 > 65535:
        problem = (
            f"HCCL_IF_BASE_PORT={first} is too high, because the last of HCCL's {HCCL_PORTS} ports would exceed 65535"
        )
        yield Outcome.FAIL, problem, "set HCCL_IF_BASE_PORT=60000"
    file, disabled = variables.get("HCCL_WHITELIST_FILE"), variables.get("HCCL_WHITELIST_DISABLE", "1")
    if disabled == "0" and not file:
        problem = "HCCL_WHITELIST_DISABLE=0 turns the whitelist on, but HCCL_WHITELIST_FILE is not set"
        yield Outcome.FAIL, problem, "set HCCL_WHITELIST_FILE, or unset HCCL_WHITELIST_DISABLE"
    elif disabled == "1" and file:
        problem = "HCCL_WHITELIST_FILE has no effect unless HCCL_WHITELIST_DISABLE is 0"
        yield Outcome.WARN, problem, "set HCCL_WHITELIST_DISABLE=0, or unset HCCL_WHITELIST_FILE"


def _cluster_conflicts(variables: JobVariables) -> Iterator[Problem]:
    """Yield the problems of the variables that give the ranks and their rendezvous."""
    chief, ranks = ([name for name in names if variables.get(name)] for names in (_CHIEF, _RANKS))
    if chief and ranks:
        problem = f"{ranks[0]} and {chief[0]} are both set, but only one of them may define the ranks"
        yield Outcome.FAIL, problem, f"unset {' and '.join(chief)}, or unset {' and '.join(ranks)}"
    if variables.get("HCCL_SOCKET_FAMILY") == "AF_INET6" and not variables.get("HCCL_SOCKET_IFNAME"):
        problem = "HCCL_SOCKET_FAMILY has no effect on the host NIC without HCCL_SOCKET_IFNAME"
        yield Outcome.WARN, problem, "also set HCCL_SOCKET_IFNAME"


def watchdog_conflicts(library: str, variables: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the settings that torch's ProcessGroupNCCL and torch_npu's ProcessGroupHCCL switch off or on by themselves.

    They report that in their log alone. A variable's current name counts before the one without TORCH_."""
    blocking, handling, desync = (
        variables.get(f"TORCH_{library}_{name}") or variables.get(f"{library}_{name}", "")
        for name in ("BLOCKING_WAIT", "ASYNC_ERROR_HANDLING", "DESYNC_DEBUG")
    )
    if blocking == "1" and (handling in ("1", "2", "3") or desync == "1"):
        overridden = f"{library}_ASYNC_ERROR_HANDLING and {library}_DESYNC_DEBUG"
        problem = f"{library}_BLOCKING_WAIT=1 disables {overridden}. At least one of these is set"
        yield Outcome.WARN, problem, f"unset TORCH_{library}_BLOCKING_WAIT, or unset the other two"
    elif desync == "1" and handling == "0":
        problem = f"{library}_DESYNC_DEBUG=1 turns on {library}_ASYNC_ERROR_HANDLING, which is set to 0"
        yield Outcome.WARN, problem, "unset one of these variables"


def _timeout_conflicts(variables: JobVariables) -> Iterator[Problem]:
    connect, running, event = (variables.number(f"HCCL_{name}_TIMEOUT") for name in ("CONNECT", "EXEC", "EVENT"))
    if 0 < running <= connect:
        problem = f"HCCL_CONNECT_TIMEOUT ({connect} s) is not shorter than HCCL_EXEC_TIMEOUT ({running} s)"
        yield Outcome.WARN, problem, f"set HCCL_EXEC_TIMEOUT to {connect + 60} or more"
    # If it is not set, torch_npu makes it longer than HCCL_EXEC_TIMEOUT.
    if variables.get("HCCL_EVENT_TIMEOUT") and event > 0:
        if event <= running:
            problem = f"HCCL_EVENT_TIMEOUT ({event} s) is not longer than HCCL_EXEC_TIMEOUT ({running} s)"
            yield Outcome.WARN, problem, f"set HCCL_EVENT_TIMEOUT={running + 32}, or unset it"
        if variables.never("HCCL_EXEC_TIMEOUT"):
            problem = f"HCCL_EVENT_TIMEOUT ({event} s) ends operators that HCCL_EXEC_TIMEOUT=0 lets wait forever"
            yield Outcome.WARN, problem, f"unset HCCL_EVENT_TIMEOUT, or set HCCL_EXEC_TIMEOUT to less than {event}"
    if (
        variables.get("HCCL_OP_EXPANSION_MODE") == "AIV"
        and running > _AIV_SECONDS
        and variables.get("HCCL_EXEC_TIMEOUT")
    ):
        problem = f"HCCL_EXEC_TIMEOUT is {running} s, but HCCL_OP_EXPANSION_MODE=AIV limits it to {_AIV_SECONDS} s"
        yield Outcome.WARN, problem, f"set HCCL_EXEC_TIMEOUT={_AIV_SECONDS}"


@cluster_check("ENV106", "HCCL variables across hosts", products=NPU)
def same_everywhere(scribe: All, job: Mapping[str, Job]) -> Iterator[Finding]:
    """Why: Ranks with different algorithms, buffers, traffic classes or NPU port ranges cannot connect, or wait in
    different operators. The error message does not mention the variable.

    Result: FAIL or WARN if a variable differs between hosts, depending on the variable. Only HCCL_IF_IP must differ. An
    unset variable counts as its default, and different spellings of one value count as equal.

    Check manually: In the jobs' environment on every host:
      env | grep HCCL

    Fix: Use the same start script, profile or image on every host. On each host, set HCCL_IF_IP to the host's own
    address.
    """
    for name in RULES:
        allowed = rule(name, scribe.cluster.product)
        if allowed is None or allowed.unequal is None:
            continue
        values = {host: allowed.meaning(job_of_host.variables.get(name)) for host, job_of_host in job.items()}
        for odd in odd_ones(values):
            own, usual = (job[host].variables.get(name, allowed.default) for host in (odd.host, odd.others[0]))
            own_value, usual_value = (quote(value) if value else "not set" for value in (own, usual))
            yield scribe.finding(
                allowed.unequal,
                f"{odd.host}: {name} is {own_value}, but {usual_value} on {odd.elsewhere}",
                host=odd.host,
                peer=odd.others[0],
                found=own or "not set",
                remedy=f"set {name} to the same value in the jobs' environment on all hosts",
            )
    yield from _own_address(scribe, job)


def _own_address(scribe: All, job: Mapping[str, Job]) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for host, job_of_host in job.items():
        address = job_of_host.variables.get("HCCL_IF_IP")
        if address and (first_host := first.setdefault(address, host)) != host:
            yield scribe.bad(
                f"{host}: HCCL_IF_IP is {quote(address)} here and on {first_host}, but must be each host's own address",
                host=host,
                peer=first_host,
                expected="the host's own address",
                found=address,
                cause="the value was copied from one host to the other",
                remedy="unset HCCL_IF_IP in the jobs' environment, or set it to each host's own address",
            )


@host_check("ENV109", "HCCL port variables", products=NPU, severity=Outcome.WARN)
def inventory_ports(scribe: Here, job: Job) -> Iterator[Finding]:
    """Why: preflight checks, reserves and opens the ports in the inventory. If jobs use other HCCL ports, they listen
    on ports that were not checked.

    Result: WARN if a variable sets other ports than the inventory. Unset variables are not compared, because a start
    script may set them.

    Check manually: In the jobs' environment:
      env | grep -E 'HCCL_IF_BASE_PORT|HCCL_HOST_SOCKET_PORT_RANGE'

    Fix: Set hccl_base, hccl_count or hccl_host_range under [ports] in the inventory, or correct the variable.
    """
    variables = JobVariables(job.variables, scribe.cluster.product)
    ranges = variables.get("HCCL_HOST_SOCKET_PORT_RANGE")
    first = variables.number("HCCL_IF_BASE_PORT") if variables.get("HCCL_IF_BASE_PORT") else 0
    if not _has_planned_ports(ranges, first, scribe.cluster):
        setting = f"HCCL_HOST_SOCKET_PORT_RANGE={ranges}" if ranges else f"HCCL_IF_BASE_PORT={first}"
        wanted = scribe.cluster.hccl_host_range or str(scribe.cluster.hccl_ports)
        yield scribe.bad(
            f"{scribe.host.name}: the jobs' environment sets {quote(setting)}, but the inventory's HCCL ports are "
            f"{wanted}",
            expected=wanted,
            found=setting,
            remedy=_same_ports(scribe.cluster, ranges, first),
        )


def _same_ports(cluster: Cluster, ranges: str, first: int) -> str:
    """Return the remedy for jobs with other HCCL ports: the value for either side."""
    variable = f"HCCL_IF_BASE_PORT={cluster.hccl_ports.ranges[0][0]}" if cluster.hccl_ports.ranges else ""
    key = f"hccl_base = {first}"
    if ranges or cluster.hccl_host_range:
        variable = f"HCCL_HOST_SOCKET_PORT_RANGE={cluster.hccl_host_range or cluster.hccl_ports}"
    if ranges:
        value = '"auto"' if ranges == "auto" else "[{}]".format(", ".join(f'"{part}"' for part in ranges.split(",")))
        key = f"hccl_host_range = {value}"
        key += "" if cluster.hccl_host_range else " instead of hccl_base and hccl_count"
    elif cluster.hccl_host_range:
        key += " instead of hccl_host_range"
    return f"set {variable} in the jobs' environment. Or set {key} under [ports] in the inventory"


def _has_planned_ports(ranges: str, first: int, cluster: Cluster) -> bool:
    """Return whether jobs give HCCL ports of the inventory, or none. ENV104 reports values that are no ports."""
    if "auto" in (ranges, cluster.hccl_host_range):
        return ranges in ("", cluster.hccl_host_range)
    if not ranges:
        return not first or first in cluster.hccl_ports
    try:
        return PortSet.parse(ranges) <= cluster.hccl_ports
    except ValueError:
        return True
