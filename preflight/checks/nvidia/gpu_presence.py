"""Checks that a host's GPUs are present: in nvidia-smi, on the PCI bus, with all their lanes."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.shared.by_host import by_host
from preflight.checks.shared.gpu import silent
from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import known
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Gpu
from preflight.facts.sections.accelerators import Accelerators
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.finding import Finding
from preflight.rules.accelerator_kind import other_kind
from preflight.rules.gpus import GPU, OFF_THE_BUS, called, gone, gpus, numbered, profile, xids_of

_GSP = (119, 120)  # Xids of a GPU's system processor that does not answer
_NO_HANDLE = "Unable to determine the device handle for GPU"
_BUS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")


@dataclass(frozen=True)
class _Advice:
    """The fix for an error message of nvidia-smi, with the first command for it and the usual cause."""

    remedy: str
    command: str
    cause: str = ""


_LOST_GPU = _Advice(
    "search the kernel log for the Xid of the GPU, then reboot {host}. If the error returns, reseat or replace {gpu}",
    "dmesg | grep Xid",
    "the GPU fell off the bus (Xid 79)",
)
_NO_MODULE = _Advice(
    "load the NVIDIA driver. After a kernel update, build it for the new kernel first", "modprobe nvidia"
)
_NO_LIBRARY = _Advice(
    "install the driver's libraries. A container gets them from its host, with the NVIDIA Container Toolkit",
    "ldconfig -p | grep libnvidia-ml",
)
_ADVICE = {
    _NO_HANDLE: _LOST_GPU,
    "GPU is lost": _LOST_GPU,
    "Driver/library version mismatch": _Advice(
        "compare the loaded driver with the installed one, then reboot {host}", "cat /proc/driver/nvidia/version"
    ),
    "communicate with the NVIDIA driver": _NO_MODULE,
    "Driver Not Loaded": _NO_MODULE,
    "find libnvidia-ml.so": _NO_LIBRARY,
    "NVML Shared Library Not Found": _NO_LIBRARY,
    "No devices were found": _Advice(
        "search the kernel log for messages of the driver, then reboot {host}", "dmesg | grep NVRM"
    ),
    "Insufficient Permissions": _Advice("give the login user access to these files", "ls -l /dev/nvidia*"),
    "Failed to initialize NVML: Unknown Error": _Advice(
        "restart the container that preflight logs in to. If {host} is not a container, search the kernel log for "
        "messages of the driver",
        "dmesg | grep NVRM",
        "the container lost its access to the GPUs, for example after systemctl daemon-reload",
    ),
    "command not found": _Advice("install the driver's tools, or add them to PATH", "which nvidia-smi"),
}
_SHOWN = 3  # unreadable values that a finding names


@host_check("GPU101", "Response of nvidia-smi", products=GPU, optional=("accelerators",))
def answers(scribe: Here, nvidia: Nvidia, accelerators: Accelerators | None) -> Iterator[Finding]:
    """Why: If nvidia-smi fails, CUDA fails, too. If nvidia-smi hangs, the driver is waiting for a GPU (Xid 119), and a
    job hangs when it initializes CUDA.

    Result: FAIL if nvidia-smi hangs or reports a known error, or if a GPU or the driver is missing. UNKNOWN if
    preflight does not recognize the output. A GPU that reports "Unknown Error" may be unhealthy.

    Check manually:
      timeout 30 nvidia-smi -q
      dmesg | grep -e NVRM -e Xid
      cat /proc/driver/nvidia/version

    Fix: Follow the error message. If nvidia-smi hangs, reset the GPU in the Xid 119 message, or reboot the host.
    """
    host, error = scribe.host.name, nvidia.gpus.error
    if other_kind(scribe.cluster.product, accelerators):
        yield scribe.skip("the host has NPUs and no GPUs, see HST135")
        return
    if nvidia.gpus.value:
        yield from _unread_values(scribe, tuple(missing.error for missing in nvidia.gpus.value.unread))
    elif nvidia.hung:
        yield _hang(scribe, nvidia)
    elif not nvidia.pci and nvidia.module is None:
        yield scribe.bad(
            f"{host}: no NVIDIA GPU is on the PCI bus, and no NVIDIA driver is loaded",
            expected="GPUs",
            found="none",
            remedy="give the container or virtual machine access to the GPUs, or correct product in the inventory",
        )
    elif nvidia.module is None:
        yield scribe.bad(
            f"{host}: the PCI bus has {_gpus(len(nvidia.pci))}, but no NVIDIA driver is loaded",
            expected="a loaded driver",
            found="no /proc/driver/nvidia/version",
            remedy="load the NVIDIA driver. After a kernel update, build it for the new kernel first",
            commands=(scribe.on(host, "modprobe nvidia"),),
        )
    elif known(error):
        yield _known_error(scribe, error, "an answer")
    else:
        yield scribe.unknown(f"{host}: {error}", remedy="run nvidia-smi on the host", commands=_query(scribe))


def _query(scribe: Here) -> tuple[str, ...]:
    return (scribe.on(scribe.host.name, "nvidia-smi -q"),)


def _known_error(scribe: Here, error: str, expected: str) -> Finding:
    """Return the finding about an error message of nvidia-smi, with the fix for it."""
    host, bus = scribe.host.name, _BUS.search(error)
    advice = next(
        (advice for message, advice in _ADVICE.items() if message.casefold() in error.casefold()),
        _Advice("run nvidia-smi", "nvidia-smi -q"),
    )
    return scribe.bad(
        f"{host}: {error}",
        expected=expected,
        cause=advice.cause,
        remedy=advice.remedy.format(host=host, gpu=f"the GPU at {bus[0]}" if bus else "the GPU"),
        commands=(scribe.on(host, advice.command),),
        retest=scribe.on(host, "nvidia-smi -L"),
    )


def _hang(scribe: Here, nvidia: Nvidia) -> Finding:
    host = scribe.host.name
    hung_gpus = sorted({xid.bus for xid in xids_of(nvidia) if xid.code in _GSP})
    summary, expected = f"{host}: nvidia-smi hangs: {nvidia.gpus.error}", "an answer within 25 s"
    if hung_gpus:
        return scribe.bad(
            summary,
            expected=expected,
            evidence=(f"the system processor (GSP) of GPU {', '.join(hung_gpus)} did not answer the driver (Xid 119)",),
            remedy=f"reset the GPU. Reboot {host} if that fails",
            commands=(scribe.on(host, f"nvidia-smi --gpu-reset -i {hung_gpus[0]}"),),
        )
    return scribe.bad(
        summary,
        expected=expected,
        cause="the driver is waiting for a GPU",
        remedy=f"find the GPU in the kernel log (Xid 119), then reboot {host}",
        commands=(scribe.on(host, "dmesg | grep Xid"),),
    )


def _unread_values(scribe: Here, errors: tuple[str, ...]) -> Iterator[Finding]:
    """Yield the values that some GPU did not report, while others did."""
    lost_gpus = tuple(error for error in errors if _NO_HANDLE in error)
    other_errors = tuple(error for error in errors if error not in lost_gpus)
    for error in dict.fromkeys(lost_gpus):
        yield _known_error(scribe, error, "an answer from every GPU")
    if other_errors:
        suffix = f", and {len(other_errors) - _SHOWN} more" if len(other_errors) > _SHOWN else ""
        yield scribe.unknown(
            f"{scribe.host.name}: {'; '.join(other_errors[:_SHOWN])}{suffix}",
            remedy="check these values in the output of nvidia-smi",
            commands=_query(scribe),
        )


@dataclass(frozen=True)
class _PeerCount:
    """The number of GPUs that is most frequent among the hosts. `hosts`: text for these hosts."""

    number: int
    hosts: str


@cluster_check("GPU102", "GPU presence", products=GPU, several=False)
def lost(scribe: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: A GPU that fell off the bus (Xid 79) ends the job's rank. After a reboot, the GPU may be missing without a
    message. The PCI bus shows which GPU is lost.

    Result: FAIL if a GPU is lost, or if the number of GPUs differs from the inventory or the other hosts. WARN if the
    number is unusual for the model. In a container, only the GPUs that the container was given count.

    Check manually: In the output of lspci, rev ff marks a GPU that fell off the bus.
      nvidia-smi -L
      lspci -D -d 10de:
      dmesg | grep Xid

    Fix: Reboot the host. If that does not help, power-cycle it. Then check the board, its cables and its slot.
    """
    counts = {
        host.name: len(answer.gpus)
        for host in scribe.hosts
        if (answer := nvidia[host.name].gpus.value) and not answer.cut
    }
    hosts_with = Counter(counts.values())
    usual = max(hosts_with, key=lambda number: (hosts_with[number], number), default=0)  # on a tie, the larger
    peers = _PeerCount(usual, "most hosts" if 2 * hosts_with[usual] > len(counts) else "other hosts")
    for host_scribe, nvidia_of_host in by_host(scribe, nvidia):
        name, missing = host_scribe.host.name, gone(nvidia_of_host)
        yield from _lost_gpus(host_scribe, nvidia_of_host, missing)
        if name in counts:
            number = len({gpu.bus for gpu in gpus(nvidia_of_host)} | set(missing))
            yield from _odd_number(host_scribe, nvidia_of_host, number, peers)
        elif nvidia_of_host.gpus.value:
            yield host_scribe.unknown(
                f"{name}: the output of nvidia-smi is cut off, so the number of GPUs is unknown (see GPU101)",
                remedy="count the GPUs",
                commands=(scribe.on(name, "nvidia-smi -L"),),
            )
        elif not missing:
            yield from silent(host_scribe, nvidia_of_host)


def _lost_gpus(scribe: Here, nvidia: Nvidia, missing: Mapping[str, str]) -> Iterator[Finding]:
    for bus, symptom in missing.items():
        fell_off = any(xid.bus == bus and xid.code == OFF_THE_BUS for xid in xids_of(nvidia))
        yield scribe.bad(
            f"{scribe.host.name}: the GPU at {bus} {symptom}",
            expected="listed by nvidia-smi",
            found="not listed",
            evidence=("Xid 79 in the kernel log: the GPU fell off the PCIe bus",) if fell_off else (),
            remedy=f"reboot {scribe.host.name}. If the GPU stays lost, power-cycle the host, then check the GPU board",
        )


def _odd_number(scribe: Here, nvidia: Nvidia, number: int, peers: _PeerCount) -> Iterator[Finding]:
    """Yield the finding about the number of GPUs, the lost ones among them."""
    planned, host = len(scribe.host.devices), scribe.host.name
    list_on_bus = scribe.on(host, "lspci -D -d 10de:")
    model = next((gpu.product for gpu in gpus(nvidia)), None)
    plan = profile(model)
    if number != planned if planned else number < peers.number:
        reference = f"the inventory lists {planned}" if planned else f"{peers.hosts} have {peers.number}"
        yield scribe.bad(
            f"{host}: has {_gpus(number)}, but {reference}",
            expected=f"{planned or peers.number} GPUs",
            found=str(number),
            remedy="compare the GPUs in nvidia-smi with the GPUs on the PCI bus. If the inventory is wrong, correct it",
            commands=(scribe.on(host, "nvidia-smi -L"), list_on_bus),
        )
    elif not planned and plan and number not in plan.gpus and not nvidia.contained:
        numbers = " or ".join(map(str, plan.gpus))
        yield scribe.warn(
            f"{host}: has {_gpus(number)}, but servers with {model} usually have {numbers}",
            expected=f"{numbers} GPUs",
            found=str(number),
            remedy="count the GPUs on the PCI bus. If all are there, set devices under [cluster] in the inventory",
            commands=(list_on_bus,),
        )


def _gpus(number: int) -> str:
    return f"{number} GPU" + ("s" if number != 1 else "")


@cluster_check("GPU106", "GPU PCIe link width", products=GPU, several=False)
def lanes(scribe: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: A GPU with 8 instead of 16 PCIe lanes works, but transfers to the host and the NICs are half as fast. Every
    job waits for that GPU. An idle GPU lowers the PCIe generation, but not the width.

    Result: FAIL if a GPU has fewer lanes than the GPU with the same number on most hosts. If there is no such majority,
    most GPUs of the same model decide. Otherwise, this is WARN, because the servers may be built that way.

    Check manually: Replace the bus address with the one in the finding.
      nvidia-smi -q | grep -A2 'Link Width'
      lspci -vv -s 0000:9b:00.0 | grep LnkSta

    Fix: Power-cycle the host. If that does not help, check the seat of the board and its riser or retimer.
    """
    lanes_by_gpu = {
        (host_scribe.host.name, index): (host_scribe, gpu, *_lanes(nvidia_of_host, gpu))
        for host_scribe, nvidia_of_host in by_host(scribe, nvidia)
        for index, gpu in numbered(nvidia_of_host)
    }
    widths: dict[tuple[str | None, int | None], list[int]] = defaultdict(list)  # by product, and by product and number
    for (_, index), (_, gpu, width, _) in lanes_by_gpu.items():
        if width is not None:
            widths[gpu.product, None].append(width)
            widths[gpu.product, index].append(width)
    for host_scribe, nvidia_of_host in by_host(scribe, nvidia):
        yield from silent(host_scribe, nvidia_of_host)
    for (name, index), (host_scribe, gpu, width, width_max) in lanes_by_gpu.items():
        if width is None or width >= width_max:
            continue
        if _most_have_more(width, widths[gpu.product, index], widths[gpu.product, None]):
            commands: tuple[str, ...] = ()
            report, remedy = (
                host_scribe.bad,
                f"power-cycle {name}. If the GPU still has too few lanes, reseat the GPU board and its riser",
            )
        else:
            commands = (host_scribe.on(name, f"cat /sys/bus/pci/devices/{gpu.bus}/../max_link_width"),)
            report, remedy = (
                host_scribe.warn,
                f"read how many lanes the GPU's slot has. If it has more than {width}, reseat the GPU",
            )
        yield report(
            f"{called(host_scribe.host, index, gpu)}: uses {width} of {width_max} PCIe lanes",
            device=index,
            expected=f"{width_max} lanes",
            found=f"{width} lanes",
            remedy=remedy,
            commands=commands,
        )


def _most_have_more(width: int, same_number: Sequence[int], same_name: Sequence[int]) -> bool:
    """Return whether most GPUs have more lanes.

    First the GPUs of this number on all hosts decide, which have the same slot. All GPUs of the name decide on a tie,
    or where there is only one of the number."""
    with_more = 2 * sum(peer_width > width for peer_width in same_number)
    if len(same_number) > 1 and with_more != len(same_number):
        return with_more > len(same_number)
    return 2 * sum(peer_width > width for peer_width in same_name) > len(same_name)


def _lanes(nvidia: Nvidia, gpu: Gpu) -> tuple[int | None, int]:
    """Return the lanes in use and the most, from nvidia-smi, or from the kernel where nvidia-smi does not report
    them. The most are 0 where they are not known."""
    if gpu.pcie.width is not None and gpu.pcie.width_max is not None:
        return gpu.pcie.width, gpu.pcie.width_max
    return next(((card.width, card.width_max or 0) for card in nvidia.pci if card.bus == gpu.bus), (None, 0))
