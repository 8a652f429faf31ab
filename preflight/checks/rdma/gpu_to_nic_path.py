"""Checks of the path between GPUs and RDMA NICs on a host, as the kernel allows it."""

from collections.abc import Iterator, Mapping
from itertools import combinations, takewhile

from preflight.checks.engine.registry import Here, host_check
from preflight.checks.rdma.ports import active_ports
from preflight.facts.sections.job import Job
from preflight.facts.sections.rdma import Rdma
from preflight.facts.types import Limits, Os
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.nics.rdma import NVIDIA, used, used_or_all

DMABUF_SINCE = (5, 12)  # The first kernel that can import DMA-BUF into RDMA.
REDIRECT = 0x0C  # ReqRedir and CmpltRedir of the ACS control register.
ENOUGH = 1 << 30  # Bytes that may be locked. The buffers of NCCL's channels take some tens of MB a peer.
_IPC_LOCK = 1 << 14  # CAP_IPC_LOCK of capability.h.


@host_check("RDM109", "GPUDirect RDMA support", severity=Outcome.WARN, products=NVIDIA, optional=("job",))
def gpu_direct(scribe: Here, rdma: Rdma, os: Os, job: Job | None) -> Iterator[Finding]:
    """Why: Without GPUDirect RDMA, all data passes through host memory, or memory registration fails: "Failed to
    register memory … Bad address". GPUDirect RDMA needs the nvidia_peermem module. On Linux 5.12 or later, NVIDIA's
    open kernel module is enough, because it uses DMA-BUF.

    Result: WARN if both are missing.

    Check manually:
      lsmod | grep peermem
      head -1 /proc/driver/nvidia/version
      uname -r

    Fix: Load the module, and add its name to a file in /etc/modules-load.d. Or install the open kernel module.
      modprobe nvidia_peermem
    """
    ports = used_or_all(scribe.cluster, job, active_ports(rdma))
    if isinstance(ports, str):
        yield scribe.skip(ports)
    elif not any(function.kind == "gpu" for function in rdma.functions):
        yield scribe.skip("no GPU on the PCI bus")
    elif rdma.peermem:
        return
    elif rdma.open_driver is None:
        yield scribe.unknown(
            f"{scribe.host.name}: it is unknown whether the NVIDIA kernel module is open or proprietary",
            remedy="check that the NVIDIA driver is loaded",
            commands=(scribe.on(scribe.host.name, "cat /proc/driver/nvidia/version"),),
        )
    elif not rdma.open_driver or _version(os.kernel) < DMABUF_SINCE:
        module = "open" if rdma.open_driver else "proprietary"
        yield scribe.bad(
            f"{scribe.host.name}: nvidia_peermem is not loaded, and the {module} kernel module on Linux {os.kernel} "
            "does not support DMA-BUF for RDMA",
            expected="nvidia_peermem, or the open module on Linux 5.12 or newer",
            found=f"{module} module, Linux {os.kernel}",
            remedy="load nvidia_peermem, now and at boot",
            commands=(
                scribe.on(scribe.host.name, "modprobe nvidia_peermem"),
                scribe.on(scribe.host.name, 'sh -c "echo nvidia_peermem >/etc/modules-load.d/nvidia-peermem.conf"'),
            ),
        )


def _version(kernel: str) -> tuple[int, ...]:
    """Return 5.15.0-91-generic as (5, 15)."""
    words = kernel.split(".")[:2]
    return tuple(int(word) if word.isdecimal() else 0 for word in words)


@host_check(
    "RDM110",
    "PCI ACS redirection",
    severity=Outcome.WARN,
    products=NVIDIA,
)
def redirected(scribe: Here, rdma: Rdma) -> Iterator[Finding]:
    """Why: Data from a GPU to a NIC or GPU below the same PCI switch stays in the switch. Access Control Services (ACS)
    may redirect the data to the root complex and back. This is slow at best, and NCCL is known to hang or to produce
    wrong numbers.

    Result: WARN if a bridge redirects data. Only the bridges below the switch that both devices share count. Virtual
    machines need ACS and are skipped.

    Check manually: Run this as root. Replace BRIDGE with the address in the finding. The output should contain
    ReqRedir- and CmpltRedir-.
      lspci -vvv -s BRIDGE | grep ACSCtl

    Fix: Turn off the redirection with this command at every boot. Replace BRIDGE with the address in the finding. Or
    turn ACS off in the firmware setup.
      setpci -s BRIDGE ECAP_ACS+0x6.w=0000
    """
    if rdma.virtual:
        yield scribe.skip("the host is a virtual machine, which needs ACS")
        return
    between = _bridges_between(rdma)
    if not between:
        yield scribe.skip("no two GPUs or RDMA NICs share a PCI switch")
        return
    hidden = sum(rdma.acs.get(bridge) is None for bridge in between)
    if hidden:
        yield scribe.unknown(
            f"{scribe.host.name}: only root can read the ACS bits of {hidden} PCI bridge{'s' if hidden > 1 else ''}",
            remedy="set sudo = true under [ssh] in the inventory, or log in as root",
        )
    redirecting = [bridge for bridge in between if _redirects(rdma, bridge)]
    if redirecting:
        endpoints = {bridge: " and ".join(between[bridge]) for bridge in redirecting}
        yield _redirection(scribe, f"0x{rdma.acs[redirecting[0]]:04x}", endpoints)


def _redirection(scribe: Here, control: str, endpoints: Mapping[str, str]) -> Finding:
    """Return the finding about bridges that redirect. `control`: the ACS bits of the first of them."""
    first, *further = endpoints
    suffix = f" (and {len(further)} more)" if further else ""
    return scribe.bad(
        f"{scribe.host.name}: PCI bridge {first}{suffix} redirects traffic between {endpoints[first]}",
        expected="ReqRedir- CmpltRedir-",
        found=f"ACS control {control}",
        evidence=tuple(f"{bridge}: {devices}" for bridge, devices in endpoints.items()),
        remedy="turn off ACS in the firmware's setup, or on these bridges at every boot",
        commands=tuple(scribe.on(scribe.host.name, f"setpci -s {bridge} ECAP_ACS+0x6.w=0000") for bridge in endpoints),
    )


def _redirects(rdma: Rdma, bridge: str) -> bool:
    """Return whether a bridge is known to redirect packets to the root."""
    return bool((rdma.acs.get(bridge) or 0) & REDIRECT)


def _bridges_between(rdma: Rdma) -> dict[str, tuple[str, str]]:
    """Return bridges below a switch that two functions share → the first two functions with the bridge between them.

    Two NICs do not send to each other."""
    bridges: dict[str, tuple[str, str]] = {}
    for first, second in combinations(rdma.functions, 2):
        if first.kind == second.kind == "nic":
            continue
        levels = zip(first.path[:-1], second.path[:-1], strict=False)  # from the root down
        shared = len(list(takewhile(lambda bridges: bridges[0] == bridges[1], levels)))
        # A shared root port is not a switch. A shared switch has its upstream port below the root port, too.
        if shared >= 2:
            for bridge in (*first.path[shared:-1], *second.path[shared:-1]):
                bridges.setdefault(bridge, (first.name, second.name))
    return bridges


@host_check("RDM111", "IOMMU mode", severity=Outcome.WARN, products=NVIDIA)
def iommu(scribe: Here, rdma: Rdma) -> Iterator[Finding]:
    """Why: If the IOMMU translates addresses, traffic among GPUs and between GPUs and NICs has to pass through the
    root complex. Jobs were slow or hung. In one reported case, a job computed wrong numbers without any error.

    Result: WARN if the IOMMU translates addresses, or is on without iommu=pt.

    Check manually: Replace ADDRESS with the GPU's PCI address. The type should be identity.
      ls /sys/class/iommu
      cat /proc/cmdline
      cat /sys/bus/pci/devices/ADDRESS/iommu_group/type

    Fix: Add iommu=pt to the kernel command line in /etc/default/grub. Then update the boot configuration and reboot. Or
    turn the IOMMU off in the firmware setup.
      update-grub
    """
    if rdma.virtual:
        yield scribe.skip("the host is a virtual machine, and the hypervisor controls the IOMMU")
        return
    if problem := _iommu_problem(rdma):
        yield scribe.bad(
            f"{scribe.host.name}: the IOMMU {problem}",
            expected="iommu=pt",
            found=" ".join(rdma.iommu_arguments) or "no IOMMU argument",
            remedy="add iommu=pt to the kernel command line, then reboot",
        )


def _iommu_problem(rdma: Rdma) -> str:
    """Return the problem of an IOMMU, by the types of its groups, or else by the kernel's arguments."""
    translated = [function.name for function in rdma.functions if function.iommu not in ("", "identity")]
    if translated:
        suffix = f" and {len(translated) - 3} more" if len(translated) > 3 else ""
        return f"translates the addresses of {', '.join(translated[:3])}{suffix}"
    are_typed = any(function.iommu for function in rdma.functions)
    if not are_typed and rdma.iommus and rdma.functions and "iommu=pt" not in rdma.iommu_arguments:
        return "is on, but iommu=pt is not set"
    return ""


# "-" sets the soft and the hard limit.
_UNLIMITED = r'sh -c "echo \* - memlock unlimited >/etc/security/limits.d/91-memlock.conf"'


@host_check("RDM112", "Locked-memory limit", products=NVIDIA, optional=("job",))
def memlock(scribe: Here, rdma: Rdma, limits: Limits, job: Job | None) -> Iterator[Finding]:
    """Why: RDMA locks the memory that a NIC reads and writes. If the limit is too small, NCCL fails with "Call to
    ibv_reg_mr_iova2 failed with error Cannot allocate memory". The error can also be "ibv_create_qp failed". Daemons
    and containers pass their own limit on to jobs.

    Result: FAIL if the limit is below 1 GiB, unless the job has CAP_IPC_LOCK. The limit is read where jobs run. It may
    differ for jobs that a scheduler starts.

    Check manually: Run this in the way that jobs start: through sshd, the scheduler or the container.
      ulimit -l

    Fix: Write these lines to a file in /etc/security/limits.d, then log in again.
      * soft memlock unlimited
      * hard memlock unlimited
    If the hard limit is high enough, add this line to the job script instead.
      ulimit -l unlimited
    For containers, use docker run --ulimit memlock=-1. For Slurm, set LimitMEMLOCK=infinity in slurmd's unit.
    """
    ports = used(scribe.cluster, job, active_ports(rdma))
    if isinstance(ports, str):
        yield scribe.skip(ports)
    elif not 0 <= limits.memlock_soft < ENOUGH:
        return
    elif job is None:
        yield scribe.skip("the capability to exceed the memlock limit is visible only where the jobs run")
    elif not job.capabilities & _IPC_LOCK:
        yield scribe.bad(
            f"{scribe.host.name}: jobs may lock only {limits.memlock_soft >> 10} KiB of memory",
            expected="unlimited",
            remedy="start the container with docker run --ulimit memlock=-1"
            if job.contained
            else "write the limit to a file in limits.d, then log in again. If slurmd or another daemon starts jobs, "
            "also set LimitMEMLOCK=infinity in its systemd unit",
            commands=() if job.contained else (scribe.on(scribe.host.name, _UNLIMITED),),
        )
