"""Checks that a host's GPUs are present: in nvidia-smi, on the PCI bus, with all their lanes."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.shared.gpu import silent
from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import known
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Gpu
from preflight.facts.sections.accelerators import Accelerators
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.cluster import Host
from preflight.model.finding import Finding
from preflight.rules.accelerator_kind import other_kind
from preflight.rules.gpus import GPU, OFF_THE_BUS, called, gone, gpus, numbered, profile, xids_of

_GSP = (119, 120)  # Xids of a GPU's system processor that does not answer
_NO_HANDLE = "Unable to determine the device handle for GPU"
_TOLD = 3  # unreadable values that a finding names


@host_check("GPU101", "nvidia-smi answers", products=GPU, optional=("accelerators",))
def answers(here: Here, nvidia: Nvidia, accelerators: Accelerators | None) -> Iterator[Finding]:
    """Why: what nvidia-smi cannot do, CUDA cannot do either. A nvidia-smi that hangs waits for a driver that waits for
    a GPU (Xid 119); a job hangs in the same place, when it sets up CUDA. Answers that are not understood are
    named: a GPU that says "Unknown Error" has not said that it is well.

    Check manually: timeout 30 nvidia-smi -q; dmesg | grep -e NVRM -e Xid; cat /proc/driver/nvidia/version

    Fix: what the message asks for; of a hang: reset the GPU that Xid 119 names, else reboot the host
    """
    host, error = here.host.name, nvidia.gpus.error
    if other_kind(here.cluster.product, accelerators):
        yield here.skip("the host has NPUs and no GPU, see HST135")
        return
    if nvidia.gpus.value:
        yield from _not_answered(here, tuple(missing.error for missing in nvidia.gpus.value.unread))
    elif nvidia.hung:
        hung_gpus = sorted({xid.bus for xid in xids_of(nvidia) if xid.code in _GSP})
        yield here.bad(
            f"{host}: nvidia-smi hangs: {error}",
            expected="an answer within 25 s",
            cause=f"the system processor (GSP) of GPU {', '.join(hung_gpus)} does not answer the driver (Xid 119)"
            if hung_gpus
            else "the driver waits for a GPU; Xid 119 in dmesg names it",
            remedy=f"reset the GPU (nvidia-smi --gpu-reset -i {hung_gpus[0]}), else reboot {host}"
            if hung_gpus
            else f"dmesg | grep Xid on {host}; reboot it",
        )
    elif not nvidia.pci and nvidia.module is None:
        yield here.bad(
            f"{host}: there is no NVIDIA GPU here: none on the PCI bus, and no driver",
            expected="GPUs",
            found="none",
            remedy="give the container or virtual machine its GPUs; or the product in the inventory is another one",
        )
    elif nvidia.module is None:
        yield here.bad(
            f"{host}: {len(nvidia.pci)} GPUs on the PCI bus, and no NVIDIA driver is loaded",
            expected="a driver",
            found="no /proc/driver/nvidia/version",
            remedy=f"modprobe nvidia on {host}; after a new kernel the driver has to be built for it first",
        )
    elif known(error):
        yield here.bad(f"{host}: {error}", expected="an answer")
    else:
        yield here.unknown(f"{host}: {error}", remedy=f"run nvidia-smi -q on {host}")


def _not_answered(here: Here, errors: tuple[str, ...]) -> Iterator[Finding]:
    """Yield the values that some GPU did not report, while others did."""
    lost_gpus = tuple(error for error in errors if _NO_HANDLE in error)
    other_errors = tuple(error for error in errors if error not in lost_gpus)
    for error in dict.fromkeys(lost_gpus):
        yield here.bad(f"{here.host.name}: {error}", expected="an answer of every GPU")
    if other_errors:
        suffix = f", and {len(other_errors) - _TOLD} more" if len(other_errors) > _TOLD else ""
        yield here.unknown(
            f"{here.host.name}: {'; '.join(other_errors[:_TOLD])}{suffix}",
            remedy=f"read nvidia-smi -q on {here.host.name}",
        )


@cluster_check("GPU102", "No GPU is lost", products=GPU, several=False)
def lost(all_: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: a GPU that fell off the bus (Xid 79) takes the job's rank with it; after a reboot it may be gone without a
    word. The number is held against the inventory, else against the other hosts; the PCI bus says which one is lost.
    In a container only the GPUs that were given count.

    Check manually: nvidia-smi -L; lspci -D -d 10de: (`rev ff`: fell off the bus); dmesg | grep Xid

    Fix: reboot the host, power it off and on if that does not help; then the board, its cables or its slot
    """
    counts = {
        host.name: len(answer.gpus)
        for host in all_.hosts
        if (answer := nvidia[host.name].gpus.value) and not answer.cut
    }
    hosts_with = Counter(counts.values())
    usual = max(hosts_with, key=lambda number: (hosts_with[number], number), default=0)  # on a tie, the larger
    reference = "most hosts" if 2 * hosts_with[usual] > len(counts) else "other hosts"
    for host in all_.hosts:
        nvidia_of_host = nvidia[host.name]
        missing = gone(nvidia_of_host)
        for bus, why in missing.items():
            fell_off = any(xid.bus == bus and xid.code == OFF_THE_BUS for xid in xids_of(nvidia_of_host))
            yield all_.bad(
                f"{host.name}: the GPU at {bus} {why}",
                host=host.name,
                expected="in nvidia-smi",
                found="lost",
                cause="Xid 79: it fell off the PCIe bus" if fell_off else "",
                remedy=f"reboot {host.name}; power it off and on if the GPU stays lost, then look at the board",
            )
        if host.name not in counts:
            if nvidia_of_host.gpus.value:
                yield all_.unknown(
                    f"{host.name}: the answer of nvidia-smi breaks off: the number of GPUs is not known, see GPU101",
                    host=host.name,
                    remedy=f"run nvidia-smi -L on {host.name}",
                )
            elif not missing:
                yield from silent(all_, host, nvidia_of_host)
            continue
        number = len({gpu.bus for gpu in gpus(nvidia_of_host)} | set(missing))
        yield from _number(all_, host, nvidia_of_host, number, usual, reference)


def _number(all_: All, host: Host, seen: Nvidia, found: int, usual: int, whose: str) -> Iterator[Finding]:
    planned = len(host.devices)
    model = next((gpu.product for gpu in gpus(seen)), None)
    plan = profile(model)
    remedy = "compare nvidia-smi -L with lspci -D -d 10de: ; correct the inventory if it is wrong"
    if planned and found != planned:
        yield all_.bad(
            f"{host.name}: {_gpus(found)}; the inventory plans {planned}",
            host=host.name,
            expected=f"{planned} GPUs",
            found=str(found),
            remedy=remedy,
        )
    elif not planned and found < usual:
        yield all_.bad(
            f"{host.name}: {_gpus(found)}; {whose} have {usual}",
            host=host.name,
            expected=f"{usual} GPUs",
            found=str(found),
            remedy=remedy,
        )
    elif not planned and plan and found not in plan.gpus and not seen.contained:
        numbers = " or ".join(map(str, plan.gpus))
        yield all_.warn(
            f"{host.name}: {_gpus(found)}; servers with {model} have {numbers}",
            host=host.name,
            expected=f"{numbers} GPUs",
            found=str(found),
            remedy="lspci -D -d 10de: ; devices under [cluster] of the inventory says how many there should be",
        )


def _gpus(number: int) -> str:
    return f"{number} GPU" + ("s" if number != 1 else "")


@cluster_check("GPU106", "Every GPU has all its PCIe lanes", products=GPU, several=False)
def lanes(all_: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: a GPU on 8 of 16 lanes works, and is half as fast to and from the host and the NICs; every job waits for it.
    The width does not fall while a GPU idles, as the generation does. A failure where the GPUs of that number on most
    hosts have more, or, where that is not decided, most GPUs of the name; else the servers may be made like that, and
    it is a warning.

    Check manually: nvidia-smi -q | grep -A2 'Link Width'; lspci -vv -s 0000:9b:00.0 | grep LnkSta

    Fix: power the host off and on; then the seat of the board, its riser or retimer
    """
    lanes_by_gpu = {
        (host.name, index): (gpu, *_lanes(nvidia[host.name], gpu))
        for host in all_.hosts
        for index, gpu in numbered(nvidia[host.name])
    }
    widths: dict[tuple[str | None, int | None], list[int]] = defaultdict(list)  # by product, and by product and number
    for (_, index), (gpu, width, _) in lanes_by_gpu.items():
        if width is not None:
            widths[gpu.product, None].append(width)
            widths[gpu.product, index].append(width)
    for host in all_.hosts:
        yield from silent(all_, host, nvidia[host.name])
    hosts = {host.name: host for host in all_.hosts}
    for (name, index), (gpu, width, width_max) in lanes_by_gpu.items():
        if width is None or width_max is None or width >= width_max:
            continue
        fewer = _fewer(width, widths[gpu.product, index], widths[gpu.product, None])
        report = all_.bad if fewer else all_.warn
        yield report(
            f"{called(hosts[name], index, gpu)}: {width} PCIe lanes of {width_max}",
            host=name,
            device=index,
            expected=f"{width_max} lanes",
            found=str(width),
            remedy=f"power {name} off and on; then look at the board's seat and riser"
            if fewer
            else "none, where the server's slots have no more lanes",
        )


def _fewer(width: int, same_number: Sequence[int], same_name: Sequence[int]) -> bool:
    """Return whether most GPUs have more lanes.

    First the GPUs of this number on all hosts decide, which have the same slot. All GPUs of the name decide on a tie,
    or where there is only one of the number."""
    with_more = 2 * sum(peer_width > width for peer_width in same_number)
    if len(same_number) > 1 and with_more != len(same_number):
        return with_more > len(same_number)
    return 2 * sum(peer_width > width for peer_width in same_name) > len(same_name)


def _lanes(seen: Nvidia, gpu: Gpu) -> tuple[int | None, int | None]:
    """Return the lanes in use and the most, from nvidia-smi, or from the kernel where nvidia-smi does not report
    them."""
    if gpu.pcie.width is not None and gpu.pcie.width_max is not None:
        return gpu.pcie.width, gpu.pcie.width_max
    return next(((card.width, card.width_max) for card in seen.pci if card.bus == gpu.bus), (None, None))
