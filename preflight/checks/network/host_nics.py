"""The host NICs that jobs' libraries choose: they exist, and the other hosts reach them."""

from collections.abc import Iterator, Mapping

from preflight.checks.engine.registry import EVERY, NPU, All, Here, cluster_check, host_check
from preflight.checks.shared.chosen_nics import Library, judged
from preflight.facts.sections.firewall import Arrivals
from preflight.facts.sections.job import Job
from preflight.facts.types import Names, Network
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.text import quote
from preflight.rules.nics import library_nics
from preflight.rules.nics.hccl_nic import FIRST, NicChoice, NoNic, choose

_EXACTLY = "_SOCKET_IFNAME=={nic} in {where} (the second = stands for an exact match)"
HCCL, NCCL = (Library(name, f"set {name}{_EXACTLY}") for name in ("HCCL", "NCCL"))
GLOO = Library("gloo", "set GLOO_SOCKET_IFNAME={nic} in {where}")
MPI = Library("Open MPI", "set OMPI_MCA_btl_tcp_if_include={nic} (or a network such as 10.1.0.0/24) in {where}")
_ArrivalsOf = Mapping[str, Arrivals | None]


@cluster_check(
    "HST110",
    "HCCL host NIC selection",
    products=NPU,
    several=False,
    optional=("arrivals",),
)
def reached(
    scribe: All, job: Mapping[str, Job], network: Mapping[str, Network], arrivals: _ArrivalsOf
) -> Iterator[Finding]:
    """Why: Ranks connect over the host NICs (port 60000), and each host chooses its own NIC. HCCL takes the address in
    HCCL_IF_IP, or else the NIC in HCCL_SOCKET_IFNAME. Without both, HCCL takes the first NIC by name that is not a
    docker interface. If this is a storage NIC or a bridge, the job fails with EI0015 after two minutes.

    Result: FAIL if other hosts cannot reach the chosen address. Observed connections to the address decide. Without
    them, networks and routes decide. WARN if only the default route leads to the address, or if the inventory names
    a different NIC.

    Check manually: Run these where jobs run. Replace ADDRESS with another host's address.
      env | grep -E 'HCCL_IF_IP|HCCL_SOCKET'
      ip -brief address show
      ip route get ADDRESS

    Fix: Set the NIC in the jobs' environment, here eth0. The second = selects the exact name.
      export HCCL_SOCKET_IFNAME==eth0
    """
    chosen = {host.name: choose(job[host.name].variables, network[host.name]) for host in scribe.hosts}
    yield from judged(scribe, HCCL, _without_loopback(chosen), network, arrivals)


@cluster_check(
    "HST117",
    "NCCL host NIC selection",
    products=frozenset({Product.NVIDIA}),
    several=False,
    optional=("arrivals",),
)
def reached_by_nccl(
    scribe: All, job: Mapping[str, Job], network: Mapping[str, Network], arrivals: _ArrivalsOf
) -> Iterator[Finding]:
    """Why: Every rank sends the other ranks one address of its host NIC. Without NCCL_SOCKET_IFNAME, NCCL prefers ib*
    interfaces. If there are none, NCCL takes the first interface that is neither a docker interface nor the loopback.
    This may be a bridge that no other host can reach.

    Result: FAIL if no NIC matches ("no socket interface found"), or if other hosts cannot reach the chosen address.
    WARN if a name in the variable also matches other NICs. The variable is a list of prefixes, so eth1 also matches
    eth10. A leading = selects exact names. A leading ^ excludes names, so ^docker alone still allows the loopback.

    Check manually: Run these where jobs run. With NCCL_DEBUG=INFO, NCCL logs the chosen NIC.
      env | grep NCCL_SOCKET
      cat /etc/nccl.conf ~/.nccl.conf
      ip -brief address show

    Fix: Set the NIC in the jobs' environment, here eth0. The second = selects the exact name.
      export NCCL_SOCKET_IFNAME==eth0
    """
    chosen = {
        host.name: library_nics.nccl(
            job[host.name].variables, network[host.name], job[host.name].nccl_files.get("NCCL_SOCKET_IFNAME", "")
        )
        for host in scribe.hosts
    }
    yield from judged(scribe, NCCL, _without_loopback(chosen), network, arrivals)
    for host in scribe.hosts:
        names = job[host.name].variables.get("NCCL_SOCKET_IFNAME", "")
        surplus = library_nics.more_than_meant(names, network[host.name])
        if surplus:
            word, extra_nics = surplus
            yield scribe.warn(
                f"{host.name}: NCCL_SOCKET_IFNAME={quote(names)} also matches {', '.join(extra_nics)}. NCCL matches by "
                "prefix and uses all matching interfaces",
                host=host.name,
                expected=f"={word}",
                found=names,
                remedy=NCCL.fix(word, job[host.name].nccl_files.get("NCCL_SOCKET_IFNAME", "")),
            )


@cluster_check("HST118", "Gloo host NIC selection", several=False, optional=("arrivals",))
def reached_by_gloo(
    scribe: All,
    job: Mapping[str, Job],
    network: Mapping[str, Network],
    names: Mapping[str, Names],
    arrivals: _ArrivalsOf,
) -> Iterator[Finding]:
    """Why: PyTorch process groups on the host (gloo) use an interface in GLOO_SOCKET_IFNAME. The value is a
    comma-separated list of exact names, and all of these interfaces must exist. A value in NCCL's or HCCL's form (a
    prefix, ^ or =) ends the job. Without the variable, gloo takes the address that the host's own name resolves to.

    Result: FAIL if an interface is missing, or if other hosts cannot reach the chosen address. If jobs use NPUs, HST104
    covers the address of the host's own name.

    Check manually: Where jobs run:
      echo $GLOO_SOCKET_IFNAME
      ip -brief address show
      getent ahosts "$(hostname)"

    Fix: Set the NIC in the jobs' environment, here eth0.
      export GLOO_SOCKET_IFNAME=eth0
    """
    chosen: dict[str, NicChoice | NoNic] = {}
    for host in scribe.hosts:
        choice = library_nics.gloo(job[host.name].variables, network[host.name], names[host.name].hostname)
        by_itself = isinstance(choice, NicChoice) and choice.why == library_nics.BY_NAME
        if choice is not None and not (by_itself and scribe.cluster.product.is_npu):
            chosen[host.name] = choice
    yield from judged(scribe, GLOO, chosen, network, arrivals)


@cluster_check("HST119", "Open MPI host NIC selection", several=False, optional=("arrivals",), blocks=False)
def reached_by_mpi(
    scribe: All, job: Mapping[str, Job], network: Mapping[str, Network], arrivals: _ArrivalsOf
) -> Iterator[Finding]:
    """Why: The parameter btl_tcp_if_include is a list of exact interface names and networks. If a host does not have
    one of the interfaces, Open MPI cannot use TCP there. The job then reports that processes cannot reach each other. A
    network works for hosts with different NIC names.

    Result: FAIL if other hosts cannot reach the chosen address. The value comes from OMPI_MCA_btl_tcp_if_include, the
    user's file or the installation's file, in this order. Options of `mpirun --mca` are not visible here.

    Check manually: Where jobs run:
      env | grep OMPI_MCA
      grep if_include ~/.openmpi/mca-params.conf
      grep if_include /etc/openmpi/openmpi-mca-params.conf

    Fix: Set the network of the host NICs in the jobs' environment, here 10.1.0.0/24.
      export OMPI_MCA_btl_tcp_if_include=10.1.0.0/24
    """
    choices = {host.name: library_nics.mpi(job[host.name].mpi, network[host.name]) for host in scribe.hosts}
    yield from judged(scribe, MPI, {name: choice for name, choice in choices.items() if choice}, network, arrivals)


@host_check("ENV111", "Host NIC selection across libraries", products=EVERY, severity=Outcome.WARN)
def same_nic(scribe: Here, job: Job, network: Network, names: Names) -> Iterator[Finding]:
    """Why: HCCL, NCCL and gloo interpret their interface variables differently. For HCCL and NCCL, eth selects every
    NIC with a name that starts with eth. For gloo, it selects only the NIC with exactly that name. If the libraries
    select two different NICs, the job needs both networks. If one network is blocked, half of the job's steps fail.

    Result: WARN if the libraries select different NICs.

    Check manually: Where jobs run:
      env | grep SOCKET_IFNAME
      ip -brief address show

    Fix: Set the same NIC for all three in the jobs' environment, here eth0. The second = selects the exact name.
      export HCCL_SOCKET_IFNAME==eth0
      export NCCL_SOCKET_IFNAME==eth0
      export GLOO_SOCKET_IFNAME=eth0
    """
    libraries = {
        "HCCL": choose(job.variables, network),
        "NCCL": library_nics.nccl(job.variables, network),
        "gloo": library_nics.gloo(job.variables, network, names.hostname),
    }
    by_variable = {
        library: choice
        for library, choice in libraries.items()
        if isinstance(choice, NicChoice) and "_SOCKET_IFNAME" in choice.why
    }
    if len({choice.nic for choice in by_variable.values()}) > 1:
        nics = ", ".join(f"{library} uses {choice.nic} ({choice.why})" for library, choice in by_variable.items())
        yield scribe.bad(
            f"{scribe.host.name}: libraries use different NICs: {nics}",
            found=", ".join(choice.nic for choice in by_variable.values()),
            expected="one NIC",
            remedy="set the same NIC for all libraries in the jobs' environment (for eth0: =eth0 for HCCL and NCCL, "
            "eth0 for gloo)",
        )


def _without_loopback(chosen: Mapping[str, NicChoice | NoNic]) -> dict[str, NicChoice | NoNic]:
    """Return the choices without hosts that took the loopback because nothing else is up, which HST103 reports."""
    return {
        name: choice
        for name, choice in chosen.items()
        if not (isinstance(choice, NicChoice) and choice.address.ip.is_loopback and choice.why == FIRST)
    }
