"""Cards and device nodes: what npu-smi, the PCI bus, /dev and the inventory say of how many there are, and which."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.checks.registry import NPU, All, Here, cluster_check, host_check
from preflight.facts.device_nodes import DeviceNodes
from preflight.facts.types import NpuSmi
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

_RINGS = ({0, 1, 2, 3}, {4, 5, 6, 7})  # of an Atlas A1 server


@dataclass(frozen=True)
class Lost:
    """Cards that only one side knows, by bus id. `on_pci`: the PCI bus has it and npu-smi has not; `devices`: the
    device nodes that are left without a chip, where each must be one of those."""

    on_pci: tuple[str, ...] = ()
    in_npu_smi: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.on_pci or self.in_npu_smi)


def lost(npu_smi: NpuSmi, nodes: DeviceNodes | None) -> Lost:
    """Nothing, too, where the PCI bus or the chips' places on it are not known."""
    chips = {chip.bus.lower(): chip.device for chip in npu_smi.chips if chip.bus}
    if nodes is None or not nodes.accelerators.value or len(chips) < len(npu_smi.chips):
        return Lost()
    on_pci = {card.bus.lower() for card in nodes.accelerators.value}
    missing = sorted(on_pci - set(chips))
    orphans = sorted(node_ids(nodes) - set(chips.values()))
    return Lost(
        tuple(missing), tuple(sorted(set(chips) - on_pci)), tuple(orphans) if len(orphans) == len(missing) else ()
    )


def explained(npu_smi: NpuSmi, nodes: DeviceNodes | None) -> set[int]:
    """The devices about which NPU116 or NPU119 says more than that the inventory has others."""
    if nodes is None:
        return set()
    seen = lost(npu_smi, nodes)
    return (node_ids(nodes) ^ {chip.device for chip in npu_smi.chips}) | set(seen.devices)


def node_ids(nodes: DeviceNodes) -> set[int]:
    """N of every /dev/davinciN."""
    names = (node.path.removeprefix("/dev/davinci") for node in nodes.nodes)
    return {int(name) for name in names if name.isascii() and name.isdigit()}


@host_check("NPU116", "No card is lost", products=NPU)
def lost_cards(here: Here, npu_smi: NpuSmi, device_nodes: DeviceNodes) -> Iterator[Finding]:
    """Why: a card that the PCI bus still has and npu-smi has not is lost to the driver; one that npu-smi shows and the
    PCI bus has not has lost its PCIe link. A job with its rank fails to open the device (507033), or hangs.

    By hand: npu-smi info; lspci -D -d 19e5: ; dmesg | grep -i -e ascend -e pcie

    Mend: reset the device, else power the host off and on; if it stays so, the card or its slot is broken
    """
    if device_nodes.accelerators.error:
        yield here.unknown(f"{here.host.name}: the PCI bus could not be looked at: {device_nodes.accelerators.error}")
        return
    if not device_nodes.accelerators.value:
        yield here.unknown(f"{here.host.name}: the PCI bus shows no accelerator at all, as in some virtual machines")
        return
    seen = lost(npu_smi, device_nodes)
    numbers = seen.devices or (None,) * len(seen.on_pci)
    remedy = f"power {here.host.name} off and on; if it stays so, call the vendor"
    for bus, device in zip(seen.on_pci, numbers, strict=True):
        subject = f"the card at {bus}" if device is None else f"device {device}"
        yield here.bad(
            f"{here.host.name}: {subject}: on the PCI bus, but not in npu-smi", device=device,
            expected=f"{len(npu_smi.chips) + len(seen.on_pci)} chips in npu-smi", found=str(len(npu_smi.chips)),
            cause="the card is lost to the driver; its PCIe link is alive", remedy=remedy,
        )  # fmt: skip
    at = {chip.bus.lower(): chip.device for chip in npu_smi.chips}
    for bus in seen.in_npu_smi:
        yield here.bad(
            f"{here.host.name}: device {at[bus]}: in npu-smi, but not on the PCI bus", device=at[bus],
            expected=f"a card at {bus}", found="none", cause="its PCIe link is lost", remedy=remedy,
        )  # fmt: skip


@host_check("NPU119", "Every chip has its device node, and every node its chip", products=NPU)
def mapping(here: Here, npu_smi: NpuSmi, device_nodes: DeviceNodes) -> Iterator[Finding]:
    """Why: jobs, hccn_tool -i and rank tables count devices by the N of /dev/davinciN, npu-smi by numbers of its own,
    which need not be the same (10, 12, 14; one for the two dies of an Atlas A3). Where the two do not match, a job gets
    another device than its operator looked at, or none.

    By hand: npu-smi info -m; ls /dev/davinci*

    Mend: give the container all nodes of its devices; on the host, install or load the driver again
    """
    chips, nodes = {chip.device: chip for chip in npu_smi.chips}, node_ids(device_nodes)
    counts = Counter(chip.device for chip in npu_smi.chips)
    for device in sorted(index for index, times in counts.items() if times > 1):
        yield here.bad(
            f"{here.host.name}: device {device}: npu-smi gives this id to {counts[device]} chips", device=device,
            expected="an id of its own for every chip", remedy="npu-smi info -m; install the driver again",
        )  # fmt: skip
    for device in sorted(set(chips) - nodes):
        number = chips[device].npu
        named = "" if number is None else f" (NPU {number} chip {chips[device].chip} of npu-smi)"
        yield here.bad(
            f"{here.host.name}: device {device}: no /dev/davinci{device}", device=device,
            expected=f"/dev/davinci{device}{named}", found=_nodes(nodes),
            remedy=f"ls -l /dev/davinci* on {here.host.name}; load the driver again",
        )  # fmt: skip
    if lost(npu_smi, device_nodes).on_pci:
        return  # NPU116 says which card the node has lost
    for device in sorted(nodes - set(chips)):
        yield here.bad(
            f"{here.host.name}: device {device}: /dev/davinci{device} has no chip in npu-smi", device=device,
            expected="a chip for every node", found=f"chips for {_numbers(set(chips))}",
            remedy=f"npu-smi info -m on {here.host.name}; load the driver again",
        )  # fmt: skip


def _nodes(nodes: set[int]) -> str:
    return f"/dev/davinci[{_numbers(nodes)}]" if nodes else "no /dev/davinciN"


def _numbers(numbers: set[int]) -> str:
    return ",".join(map(str, sorted(numbers)[:16])) or "none"


@cluster_check("NPU121", "The numbers of servers and devices suit the product", products=NPU, several=False)
def counts(all_: All) -> Iterator[Finding]:
    """Why: HCCL builds its rings for certain numbers only. Atlas A1: 1, 2, 4 or 8 devices a server; 2 and 4 within
    0-3 or within 4-7; the same number on every server. Atlas A2 and A3 want the same number on every server, too, and
    with 16 devices in two modules (Box16) over PCIe the same places in both. A job over the whole inventory is meant.

    By hand: count the devices of each host in the inventory

    Mend: leave devices or servers out of the inventory, or let every job use fitting ones only
    """
    devices = {host.name: {device.index for device in host.devices} for host in all_.hosts if host.devices}
    a1 = all_.cluster.product is Product.ATLAS_A1
    for host in all_.hosts:
        own = devices.get(host.name, set())
        if a1 and own and (len(own) not in (1, 2, 4, 8) or (len(own) < 8 and not any(own <= ring for ring in _RINGS))):
            yield all_.bad(
                f"{host.name}: HCCL builds no ring over its devices {_numbers(own)}", host=host.name,
                expected="1, 2, 4 or 8 devices, up to 4 of them within 0-3 or 4-7", found=f"{len(own)} devices",
                remedy="correct the devices of the host in the inventory, or plan jobs for fitting ones",
            )  # fmt: skip
        elif all_.cluster.product is Product.ATLAS_A2 and _unequal_modules(own):
            yield all_.warn(
                f"{host.name}: its devices {_numbers(own)} are in other places of one module than of the other",
                host=host.name, expected="0 with 8, 1 with 9 …, unless HCCL_INTRA_ROCE_ENABLE=1 (then any)",
                remedy="choose the same places in both modules, or HCCL_INTRA_ROCE_ENABLE=1 for the jobs",
            )  # fmt: skip
    usual = Counter(map(len, devices.values())).most_common(1)
    for host in all_.hosts:
        number = len(devices.get(host.name, ()))
        if number and number != usual[0][0]:
            yield all_.finding(
                Outcome.FAIL if a1 else Outcome.WARN,
                f"{host.name}: {number} devices; most servers have {usual[0][0]}", host=host.name,
                expected="the same number on every server", found=str(number),
                remedy="plan jobs with the same number of devices on every server",
            )  # fmt: skip


def _unequal_modules(own: set[int]) -> bool:
    """Of a server with two modules, 0-7 and 8-15, of which both are used: not in the same places."""
    second = {index - 8 for index in own if index >= 8}
    return bool(second) and bool(own - set(range(8, 16))) and second != {index for index in own if index < 8}
