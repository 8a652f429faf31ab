"""Checks of NVLinks, and of the distance between GPUs and NICs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from preflight.checks.engine.registry import All, Here, cluster_check
from preflight.checks.shared.by_host import by_host
from preflight.checks.shared.gpu import silent
from preflight.checks.shared.majority import odd_ones
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink import GpuNvLinks
from preflight.facts.parsers.nvidia.nvidia_smi.topology import GpuTopology
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.cluster import Machine
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.gpus import GPU, Profile, gpus, profile

Pair = tuple[str, str]  # two GPUs: ("GPU0", "GPU1")
_NEAR_TO_FAR = ("PIX", "PXB", "PHB", "NODE", "SOC", "SYS")
_TOLERANCE = 0.02  # share of a link's speed, as captures have 26.562 and data sheets 26.5625


@dataclass(frozen=True)
class _Links:
    """The NVLinks of a GPU: the number of those that are up, and GB/s of one."""

    number: int
    speed: float


@cluster_check("GPU115", "NVLink count and speed", products=GPU, several=False)
def nvlinks(scribe: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: A GPU with missing NVLinks has less bandwidth to its neighbours, and every collective waits for it. Without
    any NVLink, NCCL uses PCIe.

    Result: FAIL if links are missing or slow. The expected links are in the inventory's [machine] table. Without them,
    the model decides, or else most GPUs of the same model. GPUs in MIG mode have no NVLink and are ignored.

    Check manually:
      nvidia-smi nvlink -s

    Fix: Reset all GPUs of the host together, or reboot it. If links stay down, check the board.
    """
    links_by_name: dict[str, list[GpuNvLinks]] = defaultdict(list)
    for nvidia_of_host in nvidia.values():
        for links in gpu_links(nvidia_of_host):
            links_by_name[links.name].append(links)
    usual = {name: _usual_links(links) for name, links in links_by_name.items()}
    for host_scribe, nvidia_of_host in by_host(scribe, nvidia):
        yield from _nvlinks_of(host_scribe, nvidia_of_host, usual)


def gpu_links(nvidia: Nvidia) -> tuple[GpuNvLinks, ...]:
    return nvidia.nvlinks.value.gpus if nvidia.nvlinks.value else ()


def _nvlinks_of(scribe: Here, nvidia: Nvidia, usual: Mapping[str, _Links]) -> Iterator[Finding]:
    reported = nvidia.nvlinks.value
    if reported is None:
        yield _without_answer(scribe, nvidia)
    elif reported.unread:  # an unreadable value may have been a link
        yield scribe.unknown(f"{scribe.host.name}: {reported.unread[0].error}")
    elif len(reported.gpus) > 1:
        split_gpus = {gpu.uuid for gpu in gpus(nvidia) if gpu.mig.current}
        for links in reported.gpus:
            if links.uuid not in split_gpus:
                yield from _missing_links(scribe, links, _expected_links(scribe.cluster.machine, links.name, usual))


def _without_answer(scribe: Here, nvidia: Nvidia) -> Finding:
    """Return the finding of a host without known NVLinks: unknown where it should have some, else skip.

    A single GPU has no partner. A virtual machine with one H100 or H200 lists no NVLink (docs/gpu-run.md).
    """
    on_host = gpus(nvidia)
    if len(on_host) == 1 and not nvidia.nvlinks.error:
        return scribe.skip(f"{scribe.host.name}: there is only one GPU, and nvidia-smi lists no NVLink")
    expected = nvidia.nvlinks.error or any(profile(gpu.product) for gpu in on_host)
    report = scribe.unknown if expected and on_host else scribe.skip
    return report(f"{scribe.host.name}: {nvidia.nvlinks.error or 'nvidia-smi lists no NVLink'}")


def _usual_links(same_model: Sequence[GpuNvLinks]) -> _Links:
    """Return the links of most GPUs; on a tie, the larger number and speed."""
    numbers = Counter(len(_speeds(links)) for links in same_model)
    speeds = Counter(speed for links in same_model for speed in _speeds(links))
    return _Links(
        max(numbers, key=lambda number: (numbers[number], number), default=0),
        max(speeds, key=lambda speed: (speeds[speed], speed), default=0.0),
    )


def _expected_links(machine: Machine, name: str, usual: Mapping[str, _Links]) -> _Links:
    """Return the links that a GPU should have: those of the inventory, of its model, or else of most GPUs."""
    model = profile(name) or Profile(())
    number = model.nvlinks or usual[name].number if machine.nvlinks is None else machine.nvlinks
    return _Links(number, machine.nvlink_speed or model.nvlink_speed or usual[name].speed)


def _speeds(links: GpuNvLinks) -> list[float]:
    return [link.speed for link in links.links if link.speed is not None]


def _missing_links(scribe: Here, links: GpuNvLinks, expected: _Links) -> Iterator[Finding]:
    up = _speeds(links)
    name = f"{scribe.host.name}: GPU {links.index}"
    fix: dict[str, Any] = {
        "remedy": f"search the kernel log for Xid 74 and SXid errors. Then reset all GPUs on {scribe.host.name} "
        "together, or reboot the host",
        "commands": (scribe.on(scribe.host.name, "dmesg | grep Xid"),),
    }
    if len(up) < expected.number:
        down = ", ".join(str(link.number) for link in links.links if link.speed is None)
        yield scribe.bad(
            f"{name}: {len(up)} of {expected.number} NVLinks are up" + (f" (inactive: {down})" if down else ""),
            device=links.index,
            expected=f"{expected.number} NVLinks",
            found=str(len(up)),
            **fix,
        )
    if slow := [link_speed for link_speed in up if link_speed < expected.speed * (1 - _TOLERANCE)]:
        yield scribe.bad(
            f"{name}: {len(slow)} of {len(up)} NVLinks are slow: the slowest runs at {min(slow):g} GB/s, "
            f"expected {expected.speed:g} GB/s",
            device=links.index,
            expected=f"{expected.speed:g} GB/s",
            found=f"{min(slow):g} GB/s",
            **fix,
        )


@cluster_check("GPU117", "NVLink topology", products=GPU, several=False)
def pairs(scribe: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: Two GPUs without NVLink between them exchange data over PCIe (PIX, PHB) or across the CPU interconnect
    (SYS), at a tenth of the speed.

    Result: FAIL if the model's servers have NVSwitches, or if the pair has NVLink on most hosts with the same GPUs. If
    half of the hosts have NVLink between the pair, both halves are reported.

    Check manually:
      nvidia-smi topo -m

    Fix: First fix the findings of GPU112 (fabric manager) and GPU115 (links). Otherwise, reset all GPUs of the host
    together, or reboot it. If a bridge connects the cards, check the bridge.
    """
    links = {host.name: _compared_links(nvidia[host.name]) for host in scribe.hosts}
    # Keyed by the GPUs' names, in order.
    alike: dict[tuple[str | None, ...], dict[str, dict[Pair, str]]] = defaultdict(dict)
    for name, links_of_host in links.items():
        alike[tuple(gpu.product for gpu in gpus(nvidia[name]))][name] = links_of_host
    missed = {name: pairs_missed for group in alike.values() for name, pairs_missed in _odd_pairs(group).items()}
    for host_scribe, nvidia_of_host in by_host(scribe, nvidia):
        yield from _pairs_of(host_scribe, nvidia_of_host, links, missed[host_scribe.host.name])


def _pairs_of(
    scribe: Here,
    nvidia: Nvidia,
    links: Mapping[str, Mapping[Pair, str]],
    missed: Mapping[Pair, str],
) -> Iterator[Finding]:
    """Yield the findings of one host. `missed`: pairs in which it differs → a host that differs from it."""
    yield from _unread_topology(scribe, nvidia) if gpus(nvidia) else silent(scribe, nvidia)
    own, has_switches = links[scribe.host.name], _has_switches(nvidia)
    without = {
        pair: link for pair, link in own.items() if not link.startswith("NV") and (has_switches or pair in missed)
    }
    if without:
        yield _without_nvlink(scribe, without, None if has_switches else missed[next(iter(without))])
    elif missed and not has_switches:
        pair, peer = next(iter(missed.items()))
        yield scribe.bad(
            f"{scribe.host.name}: {' and '.join(pair)} are connected by NVLink, but by {links[peer][pair]} on {peer}",
            peer=peer,
            expected="the same on all hosts",
            found=own[pair],
            remedy=f"check the NVLink bridge between these GPUs on {peer}",
            commands=_show_topology(scribe, peer),
        )


def _has_switches(nvidia: Nvidia) -> bool:
    """Return whether all GPUs of the host are models with NVSwitches in their servers."""
    return bool(gpus(nvidia)) and all(profile(gpu.product) for gpu in gpus(nvidia))


def _compared_links(nvidia: Nvidia) -> dict[Pair, str]:
    """Return the links between GPUs that are to have NVLink.

    Empty for a host with GPUs in MIG mode, or without known GPUs. GPUs without an active NVLink, which GPU115 reports,
    are left out."""
    if not gpus(nvidia) or any(gpu.mig.current for gpu in gpus(nvidia)):
        return {}
    dark = {f"GPU{links.index}" for links in gpu_links(nvidia) if not _speeds(links)}
    return {pair: link for pair, link in _links_by_pair(nvidia.topology.value).items() if not dark & set(pair)}


def _odd_pairs(links: Mapping[str, Mapping[Pair, str]]) -> dict[str, dict[Pair, str]]:
    """Return host → pairs without NVLink that have it on most hosts, and a host with it, for hosts with the same GPUs.

    On a tie, the pairs with NVLink are in the result, too. A pair that most hosts lack is not missed."""
    missed: dict[str, dict[Pair, str]] = {name: {} for name in links}
    for pair in dict.fromkeys(pair for links_of_host in links.values() for pair in links_of_host):
        has_nvlink = {
            name: links_of_host[pair].startswith("NV") for name, links_of_host in links.items() if pair in links_of_host
        }
        for odd in odd_ones(has_nvlink):
            if not odd.value or 2 * len(odd.others) == len(has_nvlink):
                missed[odd.host][pair] = odd.others[0]
    return missed


def _without_nvlink(scribe: Here, without: Mapping[Pair, str], peer: str | None) -> Finding:
    """Return the finding about pairs without NVLink. It names the GPU that all of several pairs have in common, and a
    `peer` with NVLink."""
    (first, second), link = next(iter(without.items()))
    common = set.intersection(*map(set, without)) if len(without) > 1 else set()
    suffix = f" (and {len(without) - 1} more pair{'s' if len(without) > 2 else ''})" if len(without) > 1 else ""
    return scribe.bad(
        f"{scribe.host.name}: {first} and {second} are connected by {link}, not by NVLink{suffix}",
        peer=peer,
        device=int(common.pop()[3:]) if len(common) == 1 else None,
        expected="NVLink (NV followed by a number)",
        found=link,
        remedy=f"reset all GPUs on {scribe.host.name} together, or reboot the host. Then check the topology again",
        commands=_show_topology(scribe),
    )


def _show_topology(scribe: Here, *peers: str) -> tuple[str, ...]:
    return tuple(scribe.on(host, "nvidia-smi topo -m") for host in (scribe.host.name, *peers))


def _links_by_pair(topology: GpuTopology | None) -> dict[Pair, str]:
    """Return (GPU, GPU) → the link between them, each pair once."""
    if topology is None:
        return {}
    names = [name for name in topology.devices if name.startswith("GPU")]
    rows = {row.device: dict(zip(topology.devices, row.links, strict=True)) for row in topology.rows}
    return {
        (first, second): rows[first][second]
        for first, second in combinations(names, 2)
        if first in rows and rows[first][second] != "N/A"
    }


def _unread_topology(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    if nvidia.topology.value is None:
        report = scribe.skip if nvidia.gpus.value is None else scribe.unknown
        yield report(f"{scribe.host.name}: {nvidia.topology.error}")
    else:
        for missing in nvidia.topology.value.unread[:1]:
            yield scribe.unknown(f"{scribe.host.name}: {missing.error}")


@cluster_check("GPU118", "GPU-to-NIC distance", severity=Outcome.WARN, products=GPU)
def near_nics(scribe: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: A GPU sends over the NIC behind its own PCIe switch (PIX, PXB) without using the processor. If that NIC is
    missing, or another card is in its slot, the data passes through the host (NODE, SYS). The rail is then slow.

    Result: WARN if the nearest NIC is farther away than on most other hosts.

    Check manually:
      nvidia-smi topo -m

    Fix: Find the missing NIC, or the card that is in a different slot than on the other hosts.
      lspci
      ip link
    """
    near = {host.name: _nearest(nvidia[host.name].topology.value) for host in scribe.hosts}
    for host_scribe, nvidia_of_host in by_host(scribe, nvidia):
        host = host_scribe.host
        yield from _unread_topology(host_scribe, nvidia_of_host)
        for gpu, place in near[host.name].items():
            places_elsewhere = Counter(links[gpu] for name, links in near.items() if name != host.name and gpu in links)
            usual = max(places_elsewhere, key=lambda at: (places_elsewhere[at], -at), default=place)
            if place > usual:
                yield host_scribe.bad(
                    f"{host.name}: the nearest NIC of {gpu} is at distance {_NEAR_TO_FAR[place]}, but at "
                    f"{_NEAR_TO_FAR[usual]} on most other hosts",
                    device=int(gpu[3:]),
                    expected=_NEAR_TO_FAR[usual],
                    found=_NEAR_TO_FAR[place],
                    remedy="compare the topology with that of another host",
                    commands=_show_topology(host_scribe),
                )


def _nearest(topology: GpuTopology | None) -> dict[str, int]:
    """Return GPU → the place of its nearest NIC in _NEAR_TO_FAR; nothing where no NIC is reported."""
    nearest = dict[str, int]()
    if topology is None:
        return nearest
    for row in topology.rows:
        if row.device.startswith("GPU"):
            places = [
                _NEAR_TO_FAR.index(link)
                for device, link in zip(topology.devices, row.links, strict=True)
                if not device.startswith("GPU") and link in _NEAR_TO_FAR
            ]
            if places:
                nearest[row.device] = min(places)
    return nearest
