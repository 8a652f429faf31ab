"""Checks of NVLinks, and of the distance between GPUs and NICs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.gpu import silent
from preflight.checks.shared.majority import odd_ones
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink import GpuNvLinks
from preflight.facts.parsers.nvidia.nvidia_smi.topology import GpuTopology
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.cluster import Host
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.gpus import GPU, gpus, profile

Pair = tuple[str, str]  # two GPUs: ("GPU0", "GPU1")
_NEAR_TO_FAR = ("PIX", "PXB", "PHB", "NODE", "SOC", "SYS")
_TOLERANCE = 0.02  # share of a link's speed, as captures have 26.562 and data sheets 26.5625


@cluster_check("GPU115", "Every GPU has all its NVLinks, at full speed", products=GPU, several=False)
def nvlinks(all_: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: a GPU that lacks NVLinks has less bandwidth to its neighbours, and every collective waits for it; without
    any, NCCL goes over PCIe. Held against [machine] of the inventory, what the model is known to have, or
    what most GPUs of that name have here. GPUs in MIG mode have no NVLink and are left out.

    Check manually: nvidia-smi nvlink -s

    Fix: reset all GPUs of the host together, or reboot it; if links stay away: the board
    """
    host_links = [
        (host, links) for host in all_.hosts if (reported := nvidia[host.name].nvlinks.value) for links in reported.gpus
    ]
    usual = {
        name: _usual([links for _, links in host_links if links.name == name])
        for name in {gpu_links.name for _, gpu_links in host_links}
    }
    for host in all_.hosts:
        nvidia_of_host = nvidia[host.name]
        if nvidia_of_host.nvlinks.value is None:
            none_expected = nvidia_of_host.gpus.value is None or not (
                nvidia_of_host.nvlinks.error or any(profile(gpu.product) for gpu in gpus(nvidia_of_host))
            )
            yield all_.finding(
                Outcome.SKIP if none_expected else Outcome.UNKNOWN,
                f"{host.name}: {nvidia_of_host.nvlinks.error or 'nvidia-smi tells of no NVLink'}",
                host=host.name,
            )
            continue
        if nvidia_of_host.nvlinks.value.unread:  # an unreadable value may have been a link
            yield all_.unknown(f"{host.name}: {nvidia_of_host.nvlinks.value.unread[0].error}", host=host.name)
            continue
        split_gpus = {gpu.uuid for gpu in gpus(nvidia_of_host) if gpu.mig.current}
        for links in nvidia_of_host.nvlinks.value.gpus:
            if links.uuid not in split_gpus and len(nvidia_of_host.nvlinks.value.gpus) > 1:
                yield from _lacking(all_, host, links, *usual[links.name])


def _usual(same: Sequence[GpuNvLinks]) -> tuple[int, float]:
    """Return the number of links that are up, and GB/s of one, of most GPUs; on a tie, the larger."""
    numbers = Counter(len(_speeds(links)) for links in same)
    speeds = Counter(speed for links in same for speed in _speeds(links))
    return (
        max(numbers, key=lambda number: (numbers[number], number), default=0),
        max(speeds, key=lambda speed: (speeds[speed], speed), default=0.0),
    )


def _speeds(links: GpuNvLinks) -> list[float]:
    return [link.speed for link in links.links if link.speed is not None]


def _lacking(all_: All, host: Host, links: GpuNvLinks, usual: int, usual_speed: float) -> Iterator[Finding]:
    machine, model = all_.cluster.machine, profile(links.name)
    number = machine.nvlinks if machine.nvlinks is not None else (model and model.nvlinks) or usual
    speed = machine.nvlink_speed or (model and model.nvlink_speed) or usual_speed
    up = _speeds(links)
    name = f"{host.name}: GPU {links.index}"
    remedy = f"reset all GPUs of {host.name} together, or reboot it; look for Xid 74 and SXid in dmesg"
    if len(up) < number:
        down = ", ".join(str(link.number) for link in links.links if link.speed is None)
        yield all_.bad(
            f"{name}: {len(up)} of {number} NVLinks are up" + (f"; link {down} is inactive" if down else ""),
            host=host.name,
            device=links.index,
            expected=f"{number} NVLinks",
            found=str(len(up)),
            remedy=remedy,
        )
    if slow := [link_speed for link_speed in up if link_speed < speed * (1 - _TOLERANCE)]:
        yield all_.bad(
            f"{name}: {len(slow)} NVLinks have {min(slow):g} GB/s",
            host=host.name,
            device=links.index,
            expected=f"{speed:g} GB/s",
            found=f"{min(slow):g} GB/s",
            remedy=remedy,
        )


@cluster_check(
    "GPU117", "All GPUs of a host reach each other over NVLink where they should", products=GPU, several=False
)
def pairs(all_: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: two GPUs without NVLink between them exchange data over PCIe (PIX, PHB) or between processors (SYS), at a
    tenth of the speed. They should have one where the model's servers have NVSwitches, or where the same pair has
    one on most hosts with the same GPUs. Where as many have it as have not, nobody is right, and both sides are told.

    Check manually: nvidia-smi topo -m

    Fix: GPU112 and GPU115 first: fabric manager, links; else reset all GPUs of the host together, or reboot it; of
    cards with bridges between them: the bridge
    """
    links = {host.name: _judged(nvidia[host.name]) for host in all_.hosts}
    # Keyed by the GPUs' names, in order.
    alike: dict[tuple[str | None, ...], dict[str, dict[Pair, str]]] = defaultdict(dict)
    for name, links_of_host in links.items():
        alike[tuple(gpu.product for gpu in gpus(nvidia[name]))][name] = links_of_host
    odd = {name: missed for group in alike.values() for name, missed in _differing(group).items()}
    for host in all_.hosts:
        nvidia_of_host, pairs_missed = nvidia[host.name], odd[host.name]
        yield from _untold(all_, host, nvidia_of_host) if gpus(nvidia_of_host) else silent(all_, host, nvidia_of_host)
        switched = bool(gpus(nvidia_of_host)) and all(profile(gpu.product) for gpu in gpus(nvidia_of_host))
        without = {
            pair: link
            for pair, link in links[host.name].items()
            if not link.startswith("NV") and (switched or pair in pairs_missed)
        }
        if without:
            yield _without_nvlink(all_, host, without, None if switched else pairs_missed[next(iter(without))])
        elif pairs_missed and not switched:
            pair, peer = next(iter(pairs_missed.items()))
            yield all_.bad(
                f"{host.name}: {' and '.join(pair)} reach each other over NVLink, on {peer} over {links[peer][pair]}",
                host=host.name,
                peer=peer,
                expected="the same everywhere",
                found=links[host.name][pair],
                remedy=f"look for the bridge between the two GPUs of {peer}; nvidia-smi topo -m on both",
            )


def _judged(said: Nvidia) -> dict[Pair, str]:
    """Return the links between GPUs that are to have NVLink.

    Empty for a host with GPUs in MIG mode, or without known GPUs. GPUs without an active NVLink, which GPU115 reports,
    are left out."""
    dark = _dark(said)
    if not gpus(said) or any(gpu.mig.current for gpu in gpus(said)):
        return {}
    return {pair: link for pair, link in _links(said.topology.value).items() if not dark & set(pair)}


def _differing(links: Mapping[str, Mapping[Pair, str]]) -> dict[str, dict[Pair, str]]:
    """Return host → pairs without NVLink that have it on most hosts, and a host with it, for hosts with the same GPUs.

    On a tie, the pairs with NVLink are in the result, too. A pair that most hosts lack is not missed."""
    missed: dict[str, dict[Pair, str]] = {name: {} for name in links}
    for pair in dict.fromkeys(pair for links_of_host in links.values() for pair in links_of_host):
        has = {
            name: links_of_host[pair].startswith("NV") for name, links_of_host in links.items() if pair in links_of_host
        }
        for odd in odd_ones(has):
            if not odd.value or 2 * len(odd.others) == len(has):
                missed[odd.host][pair] = odd.others[0]
    return missed


def _dark(said: Nvidia) -> set[str]:
    """Return the GPUs without an active NVLink, which GPU115 reports."""
    return {
        f"GPU{links.index}" for links in (said.nvlinks.value.gpus if said.nvlinks.value else ()) if not _speeds(links)
    }


def _without_nvlink(all_: All, host: Host, without: Mapping[Pair, str], peer: str | None) -> Finding:
    """Return the finding about pairs without NVLink. It names the GPU that all of several pairs have in common, and a
    `peer` with NVLink."""
    (first, second), link = next(iter(without.items()))
    common = set.intersection(*map(set, without)) if len(without) > 1 else set()
    suffix = f", and {len(without) - 1} more pairs" if len(without) > 1 else ""
    return all_.bad(
        f"{host.name}: {first} and {second} reach each other over {link}, not over NVLink{suffix}",
        host=host.name,
        peer=peer,
        device=int(common.pop()[3:]) if len(common) == 1 else None,
        expected="NV and a number",
        found=link,
        remedy=f"reset all GPUs of {host.name} together, or reboot it; nvidia-smi topo -m",
    )


def _links(topology: GpuTopology | None) -> dict[Pair, str]:
    """Return (GPU, GPU) → the link between them, each pair once."""
    if topology is None:
        return {}
    names = [name for name in topology.devices if name.startswith("GPU")]
    rows = {row.device: dict(zip(topology.devices, row.links, strict=True)) for row in topology.rows}
    return {
        (first, second): rows[first][second]
        for at, first in enumerate(names)
        if first in rows
        for second in names[at + 1 :]
        if rows[first][second] != "N/A"
    }


def _untold(all_: All, host: Host, said: Nvidia) -> Iterator[Finding]:
    if said.topology.value is None:
        yield all_.finding(
            Outcome.SKIP if said.gpus.value is None else Outcome.UNKNOWN,
            f"{host.name}: {said.topology.error}",
            host=host.name,
        )
    else:
        for missing in said.topology.value.unread[:1]:
            yield all_.unknown(f"{host.name}: {missing.error}", host=host.name)


@cluster_check("GPU118", "Every GPU has a NIC as near as on the other hosts", severity=Outcome.WARN, products=GPU)
def near_nics(all_: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: a GPU sends over the NIC behind its own PCIe switch (PIX, PXB) without the processor. Where that NIC is
    missing, or another card took its slot, the data goes through the host (NODE, SYS), and the rail is slow.

    Check manually: nvidia-smi topo -m

    Fix: find the missing NIC (lspci, ip link), or the card that is in another slot than on the other hosts
    """
    near = {host.name: _nearest(nvidia[host.name].topology.value) for host in all_.hosts}
    for host in all_.hosts:
        yield from _untold(all_, host, nvidia[host.name])
        for gpu, place in near[host.name].items():
            places_elsewhere = Counter(links[gpu] for name, links in near.items() if name != host.name and gpu in links)
            usual = max(places_elsewhere, key=lambda at: (places_elsewhere[at], -at), default=place)
            if place > usual:
                yield all_.bad(
                    f"{host.name}: the nearest NIC of {gpu} is {_NEAR_TO_FAR[place]} away; on most other hosts "
                    f"{_NEAR_TO_FAR[usual]}",
                    host=host.name,
                    device=int(gpu[3:]),
                    expected=_NEAR_TO_FAR[usual],
                    found=_NEAR_TO_FAR[place],
                    remedy=f"compare nvidia-smi topo -m of {host.name} with another host's",
                )


def _nearest(topology: GpuTopology | None) -> dict[str, int]:
    """Return GPU → the place of its nearest NIC in _NEAR_TO_FAR; nothing where no NIC is reported."""
    nearest = {}
    for row in topology.rows if topology else ():
        if row.device.startswith("GPU"):
            links = zip(topology.devices, row.links, strict=True) if topology else ()
            places = [
                _NEAR_TO_FAR.index(link)
                for device, link in links
                if not device.startswith("GPU") and link in _NEAR_TO_FAR
            ]
            if places:
                nearest[row.device] = min(places)
    return nearest
