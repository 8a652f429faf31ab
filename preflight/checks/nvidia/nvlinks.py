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

Pair = tuple[str, str]  # of GPUs: ("GPU0", "GPU1")
_NEAR_TO_FAR = ("PIX", "PXB", "PHB", "NODE", "SOC", "SYS")
_TOLERANCE = 0.02  # of a link's speed: captures have 26.562, data sheets 26.5625


@cluster_check("GPU115", "Every GPU has all its NVLinks, at full speed", products=GPU, several=False)
def nvlinks(all_: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: a GPU that lacks NVLinks has less bandwidth to its neighbours, and every collective waits for it; without
    any, NCCL goes over PCIe. Held against [machine] of the inventory, what the model is known to have, or
    what most GPUs of that name have here. GPUs in MIG mode have no NVLink and are left out.

    By hand: nvidia-smi nvlink -s

    Mend: reset all GPUs of the host together, or reboot it; if links stay away: the board
    """
    found = [(host, links) for host in all_.hosts if (said := nvidia[host.name].nvlinks.value) for links in said.gpus]
    usual = {name: _usual([links for _, links in found if links.name == name]) for name in {it.name for _, it in found}}
    for host in all_.hosts:
        seen = nvidia[host.name]
        if seen.nvlinks.value is None:
            nothing = seen.gpus.value is None or not (
                seen.nvlinks.error or any(profile(gpu.product) for gpu in gpus(seen))
            )
            yield all_.finding(
                Outcome.SKIP if nothing else Outcome.UNKNOWN,
                f"{host.name}: {seen.nvlinks.error or 'nvidia-smi tells of no NVLink'}",
                host=host.name,
            )
            continue
        if seen.nvlinks.value.unread:  # what is not understood may have been a link
            yield all_.unknown(f"{host.name}: {seen.nvlinks.value.unread[0].error}", host=host.name)
            continue
        cut = {gpu.uuid for gpu in gpus(seen) if gpu.mig.current}
        for links in seen.nvlinks.value.gpus:
            if links.uuid not in cut and len(seen.nvlinks.value.gpus) > 1:
                yield from _lacking(all_, host, links, *usual[links.name])


def _usual(same: Sequence[GpuNvLinks]) -> tuple[int, float]:
    """Links that are up, and GB/s of one, of most GPUs; of equals the more."""
    numbers = Counter(len(_speeds(links)) for links in same)
    speeds = Counter(speed for links in same for speed in _speeds(links))
    return (
        max(numbers, key=lambda number: (numbers[number], number), default=0),
        max(speeds, key=lambda speed: (speeds[speed], speed), default=0.0),
    )


def _speeds(links: GpuNvLinks) -> list[float]:
    return [link.speed for link in links.links if link.speed is not None]


def _lacking(all_: All, host: Host, links: GpuNvLinks, usual: int, usual_speed: float) -> Iterator[Finding]:
    machine, known = all_.cluster.machine, profile(links.name)
    number = machine.nvlinks if machine.nvlinks is not None else (known and known.nvlinks) or usual
    speed = machine.nvlink_speed or (known and known.nvlink_speed) or usual_speed
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
    if slow := [one for one in up if one < speed * (1 - _TOLERANCE)]:
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

    By hand: nvidia-smi topo -m

    Mend: GPU112 and GPU115 first: fabric manager, links; else reset all GPUs of the host together, or reboot it; of
    cards with bridges between them: the bridge
    """
    links = {host.name: _judged(nvidia[host.name]) for host in all_.hosts}
    alike: dict[tuple[str | None, ...], dict[str, dict[Pair, str]]] = defaultdict(dict)  # by the GPUs' names, in order
    for name, told in links.items():
        alike[tuple(gpu.product for gpu in gpus(nvidia[name]))][name] = told
    odd = {name: missed for same in alike.values() for name, missed in _differing(same).items()}
    for host in all_.hosts:
        said, others = nvidia[host.name], odd[host.name]
        yield from _untold(all_, host, said) if gpus(said) else silent(all_, host, said)
        switched = bool(gpus(said)) and all(profile(gpu.product) for gpu in gpus(said))
        without = {
            pair: link
            for pair, link in links[host.name].items()
            if not link.startswith("NV") and (switched or pair in others)
        }
        if without:
            yield _without_nvlink(all_, host, without, None if switched else others[next(iter(without))])
        elif others and not switched:
            pair, peer = next(iter(others.items()))
            yield all_.bad(
                f"{host.name}: {' and '.join(pair)} reach each other over NVLink, on {peer} over {links[peer][pair]}",
                host=host.name,
                peer=peer,
                expected="the same everywhere",
                found=links[host.name][pair],
                remedy=f"look for the bridge between the two GPUs of {peer}; nvidia-smi topo -m on both",
            )


def _judged(said: Nvidia) -> dict[Pair, str]:
    """Without GPUs in MIG mode, which have no NVLink, those of which GPU115 says that none is up, and those of which
    nobody knows what they are."""
    dark = _dark(said)
    if not gpus(said) or any(gpu.mig.current for gpu in gpus(said)):
        return {}
    return {pair: link for pair, link in _links(said.topology.value).items() if not dark & set(pair)}


def _differing(links: Mapping[str, Mapping[Pair, str]]) -> dict[str, dict[Pair, str]]:
    """Of hosts with the same GPUs: host → pairs without NVLink that have it on most, and a host that has it. Where as
    many have it as have not, those that have it, too. A pair that most have not is none that is missed."""
    found: dict[str, dict[Pair, str]] = {name: {} for name in links}
    for pair in dict.fromkeys(pair for told in links.values() for pair in told):
        has = {name: told[pair].startswith("NV") for name, told in links.items() if pair in told}
        for odd in odd_ones(has):
            if not odd.value or 2 * len(odd.others) == len(has):
                found[odd.host][pair] = odd.others[0]
    return found


def _dark(said: Nvidia) -> set[str]:
    """GPUs of which GPU115 says that no NVLink is up."""
    return {
        f"GPU{links.index}" for links in (said.nvlinks.value.gpus if said.nvlinks.value else ()) if not _speeds(links)
    }


def _without_nvlink(all_: All, host: Host, without: Mapping[Pair, str], peer: str | None) -> Finding:
    """Names the one GPU that all of several pairs have in common, if there is one, and `peer`, which has NVLink."""
    (one, other), link = next(iter(without.items()))
    common = set.intersection(*map(set, without)) if len(without) > 1 else set()
    more = f", and {len(without) - 1} more pairs" if len(without) > 1 else ""
    return all_.bad(
        f"{host.name}: {one} and {other} reach each other over {link}, not over NVLink{more}",
        host=host.name,
        peer=peer,
        device=int(common.pop()[3:]) if len(common) == 1 else None,
        expected="NV and a number",
        found=link,
        remedy=f"reset all GPUs of {host.name} together, or reboot it; nvidia-smi topo -m",
    )


def _links(topology: GpuTopology | None) -> dict[Pair, str]:
    """(GPU, GPU) → the link between them, each pair once."""
    if topology is None:
        return {}
    names = [name for name in topology.devices if name.startswith("GPU")]
    rows = {row.device: dict(zip(topology.devices, row.links, strict=True)) for row in topology.rows}
    return {
        (one, other): rows[one][other]
        for at, one in enumerate(names)
        if one in rows
        for other in names[at + 1 :]
        if rows[one][other] != "N/A"
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

    By hand: nvidia-smi topo -m

    Mend: find the missing NIC (lspci, ip link), or the card that is in another slot than on the other hosts
    """
    near = {host.name: _nearest(nvidia[host.name].topology.value) for host in all_.hosts}
    for host in all_.hosts:
        yield from _untold(all_, host, nvidia[host.name])
        for gpu, place in near[host.name].items():
            others = Counter(links[gpu] for name, links in near.items() if name != host.name and gpu in links)
            usual = max(others, key=lambda at: (others[at], -at), default=place)
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
    """GPU → the place of its nearest NIC in _NEAR_TO_FAR; nothing where no NIC is told."""
    found = {}
    for row in topology.rows if topology else ():
        if row.device.startswith("GPU"):
            links = zip(topology.devices, row.links, strict=True) if topology else ()
            places = [
                _NEAR_TO_FAR.index(link)
                for device, link in links
                if not device.startswith("GPU") and link in _NEAR_TO_FAR
            ]
            if places:
                found[row.device] = min(places)
    return found
