"""Checks of modes of whole servers: SMP of Atlas A1, the super-pod of Atlas A3."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.shared.majority import odd_ones
from preflight.checks.shared.npu import untold
from preflight.facts.sections.chips import Chips
from preflight.facts.sections.nic import Nic, NicDevice
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

_MODULE = 4  # devices of an Atlas A1 share a module by four: 0-3 and 4-7


@host_check(
    "NPU122",
    "NPU mode (SMP or AMP)",
    severity=Outcome.WARN,
    products=frozenset({Product.ATLAS_A1}),
)
def smp(scribe: Here, nic: Nic) -> Iterator[Finding]:
    """Why: Atlas A1 servers run their NPUs in SMP mode (four subnets, as HCCL expects) or in AMP mode (one subnet for
    all devices). In SMP mode, a device sees the ports of all four devices of its module, eth0 to eth3. In AMP mode, it
    sees only its own port.

    Result: WARN if the mode is wrong. The check never fails, because this rule is known from users' reports.

    Check manually: In SMP mode, the output contains eth0 to eth3. In AMP mode, it contains only one of them.
      hccn_tool -i 0 -route -g

    Fix: Set the mode in the BMC (SMP for training). Or plan addresses for the current mode: four subnets for SMP, one
    subnet for AMP.
    """
    first = nic.devices[:1]
    yield from untold(scribe, scribe.host, {device.index: device.routes for device in first})
    for device in first:
        ports = _ports(device)
        if scribe.cluster.amp and len(ports) > 1:
            yield scribe.bad(
                f"{scribe.host.name}: NPUs are in SMP mode, but the address plan is for AMP mode",
                expected="AMP mode",
                found="SMP mode",
                evidence=(f"device {device.index} sees {', '.join(sorted(ports))}",),
                remedy='set AMP mode in the BMC, or set plan = "four-subnets" '
                "under [device_addresses] in the inventory",
            )
        elif not scribe.cluster.amp and len(ports) == 1 and _addressed(nic) > 1:
            yield scribe.bad(
                f"{scribe.host.name}: NPUs are probably in AMP mode, but the address plan is for SMP mode",
                expected="SMP mode",
                found="AMP mode",
                evidence=(f"device {device.index} sees only its own port",),
                remedy='set SMP mode in the BMC, or set plan = "one-subnet" under [device_addresses] in the inventory',
            )


def _ports(device: NicDevice) -> set[str]:
    """Return the ports (eth0 …) that have a separate network."""
    return {route.interface for route in device.routes.value or () if route.interface.startswith("eth")}


def _addressed(nic: Nic) -> int:
    """Return the number of the first module's devices that have a separate network."""
    return sum(bool(_ports(device)) for device in nic.devices if device.index < _MODULE)


@cluster_check(
    "NPU123",
    "Super-pod and device ids",
    severity=Outcome.WARN,
    products=frozenset({Product.ATLAS_A3}),
)
def super_pod(scribe: All, chips: Mapping[str, Chips]) -> Iterator[Finding]:
    """Why: In a super-pod, devices find each other by their SDID (super device id). Two devices with the same SDID
    receive each other's packets. Servers in different super-pods can reach each other only over RoCE.

    Result: WARN if two devices have the same SDID, or if servers are in different super-pods. The check never fails,
    because the format is known from the driver's source and not from real output.

    Check manually:
      npu-smi info -t spod-info -i 0 -c 0

    Fix: Correct the super-pod's server numbers with the vendor's tool, or remove superpod from the inventory.
    """
    if not scribe.cluster.superpod:
        yield scribe.skip("the inventory sets no superpod")
        return
    places: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    pods: dict[str, int] = {}
    for host in scribe.hosts:
        yield from untold(scribe, host, {chip.device: chip.superpod for chip in chips[host.name].chips})
        for chip in chips[host.name].chips:
            if superpod := chip.superpod.value:
                places[superpod.pod, superpod.sdid].append((host.name, chip.device))
                pods.setdefault(host.name, superpod.pod)
    for odd in odd_ones(pods):
        yield scribe.bad(
            f"{odd.host}: is in super-pod {odd.value}, not in super-pod {odd.usual} like {odd.elsewhere} "
            "(not verified on hardware)",
            host=odd.host,
            expected="the same super-pod for all servers",
            found=f"super-pod {odd.value}",
            remedy="use servers of one super-pod, or remove superpod from the inventory",
        )
    for (_, sdid), sharers in places.items():
        for name, device in sharers[1:]:
            yield scribe.bad(
                f"{name}: device {device}: SDID {sdid} is also used by "
                f"{sharers[0][0]}/{sharers[0][1]} (not verified on hardware)",
                host=name,
                device=device,
                peer=f"{sharers[0][0]}/{sharers[0][1]}",
                expected="a unique SDID",
                found=str(sdid),
                remedy=f"correct the server number of {name} in the super-pod",
            )
