"""Checks of cards and device nodes: npu-smi, the PCI bus and /dev agree."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.facts.parsers.ascend.device_nodes import DeviceNodes
from preflight.facts.sections.job import Job
from preflight.facts.types import NpuChip, NpuSmi
from preflight.model.finding import Finding


@dataclass(frozen=True)
class MissingCards:
    """Cards that only one side lists, by bus id.

    `on_pci`: cards on the PCI bus that npu-smi lacks. `in_npu_smi`: the reverse. `devices`: the device nodes without a
    chip, if each must be one of the cards in `on_pci`."""

    on_pci: tuple[str, ...] = ()
    in_npu_smi: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.on_pci or self.in_npu_smi)


def missing_cards(npu_smi: NpuSmi, nodes: DeviceNodes | None) -> MissingCards:
    """Return the cards that only one side lists. Empty, too, where the PCI bus or the chips' places on it are not
    known."""
    chips = {chip.bus.lower(): chip.device for chip in npu_smi.chips if chip.bus}
    if nodes is None or not nodes.accelerators.value or len(chips) < len(npu_smi.chips):
        return MissingCards()
    on_pci = {card.bus.lower() for card in nodes.accelerators.value}
    missing = sorted(on_pci - set(chips))
    orphans = sorted(node_ids(nodes) - set(chips.values()))
    return MissingCards(
        tuple(missing), tuple(sorted(set(chips) - on_pci)), tuple(orphans) if len(orphans) == len(missing) else ()
    )


def explained_devices(npu_smi: NpuSmi, nodes: DeviceNodes | None) -> set[int]:
    """Return the devices that NPU116 or NPU119 explains better than "not in the inventory"."""
    if nodes is None:
        return set()
    missing = missing_cards(npu_smi, nodes)
    return (node_ids(nodes) ^ {chip.device for chip in npu_smi.chips}) | set(missing.devices)


def node_ids(nodes: DeviceNodes) -> set[int]:
    """Return N of every /dev/davinciN."""
    names = (node.path.removeprefix("/dev/davinci") for node in nodes.nodes)
    return {int(name) for name in names if name.isascii() and name.isdigit()}


@host_check("NPU116", "NPU card presence", products=NPU, optional=("job",))
def lost_cards(scribe: Here, npu_smi: NpuSmi, device_nodes: DeviceNodes, job: Job | None) -> Iterator[Finding]:
    """Why: If a card is on the PCI bus but not in npu-smi, the driver has lost the card. If a card is in npu-smi but
    not on the PCI bus, the card has lost its PCIe link. A rank on such a card fails to open the device (507033), or
    hangs.

    Result: FAIL in both cases. A container sees all cards on the PCI bus, but only its own device nodes, so it may have
    fewer chips.

    Check manually:
      npu-smi info
      lspci -D -d 19e5:
      dmesg | grep -i -e ascend -e pcie

    Fix: Reset the device. If that does not help, power-cycle the host. If the fault remains, the card or its slot is
    broken.
    """
    if replacement := _not_comparable(scribe, npu_smi, device_nodes, job):
        yield replacement
        return
    missing = missing_cards(npu_smi, device_nodes)
    numbers = missing.devices or (None,) * len(missing.on_pci)
    remedy = f"power-cycle {scribe.host.name}. If the card stays missing, contact the vendor"
    for bus, device in zip(missing.on_pci, numbers, strict=True):
        subject = f"card {bus}" if device is None else f"device {device}"
        yield scribe.bad(
            f"{scribe.host.name}: {subject}: is on the PCI bus, but npu-smi does not list it",
            device=device,
            expected=f"{len(npu_smi.chips) + len(missing.on_pci)} chips in npu-smi",
            found=f"{len(npu_smi.chips)} chips in npu-smi",
            cause="the driver has lost the card, although its PCIe link is up",
            remedy=remedy,
        )
    at = {chip.bus.lower(): chip.device for chip in npu_smi.chips}
    for bus in missing.in_npu_smi:
        yield scribe.bad(
            f"{scribe.host.name}: device {at[bus]}: is in npu-smi, but not on the PCI bus",
            device=at[bus],
            expected=f"a card at {bus}",
            found="none",
            cause="the card has lost its PCIe link",
            remedy=remedy,
        )


def _not_comparable(scribe: Here, npu_smi: NpuSmi, nodes: DeviceNodes, job: Job | None) -> Finding | None:
    """Return the finding in place of a comparison of chips and cards; None where they can be compared."""
    name, chips = scribe.host.name, len(npu_smi.chips)
    if nodes.accelerators.error:
        return scribe.unknown(f"{name}: the PCI bus could not be read: {nodes.accelerators.error}")
    if not nodes.accelerators.value:
        return scribe.unknown(f"{name}: the PCI bus lists no accelerator, as in some virtual machines")
    cards = len(nodes.accelerators.value)
    contained = job is not None and job.contained
    if chips < cards and _may_have_fewer(npu_smi, nodes, len(scribe.host.devices), contained=contained):
        return scribe.skip(f"{name}: this container has {chips} of the host's {cards} cards")
    unplaced = [chip.device for chip in npu_smi.chips if not chip.bus]
    if not unplaced or chips == cards:
        return None
    return scribe.unknown(
        f"{name}: npu-smi lists {chips} chips, and the PCI bus has {cards} cards. The bus id is unknown for device "
        f"{_numbers(unplaced)}",
        expected=f"{cards} chips",
        found=f"{chips} chips",
        remedy="compare the chips of npu-smi with the cards on the PCI bus",
        commands=(scribe.on(name, "npu-smi info"), scribe.on(name, "lspci -D -d 19e5:")),
    )


def _may_have_fewer(npu_smi: NpuSmi, nodes: DeviceNodes, planned: int, *, contained: bool) -> bool:
    """Return whether a container may rightly have fewer chips than the host has cards.

    Each chip has its node, and there are no other nodes. The inventory has no more devices, or, where it names none,
    jobs run in a container."""
    devices = {chip.device for chip in npu_smi.chips}
    return node_ids(nodes) == devices and (planned <= len(devices) if planned else contained)


@host_check("NPU119", "Chip device nodes", products=NPU)
def mapping(scribe: Here, npu_smi: NpuSmi, device_nodes: DeviceNodes) -> Iterator[Finding]:
    """Why: Jobs, hccn_tool -i and rank tables count devices by the number N in /dev/davinciN. The numbers in npu-smi
    may differ, for example 10, 12 and 14, or one number for both dies of an Atlas A3 chip. If the numbers do not match,
    a job uses a different device than the one that was checked, or finds none.

    Result: FAIL if a chip has no device node, or a device node has no chip.

    Check manually:
      npu-smi info -m
      ls /dev/davinci*

    Fix: Give the container the device nodes of all its devices. On the host, install or load the driver again.
    """
    nodes = node_ids(device_nodes)
    chips = {chip.device: chip for chip in npu_smi.chips}
    # NPU116 reports the cards of lost chips' nodes.
    orphans = sorted(nodes - set(chips)) if not missing_cards(npu_smi, device_nodes).on_pci else []
    unmatched_chips = sorted([*_duplicates(npu_smi), *(set(chips) - nodes)])
    remedy = (
        "compare the device numbers in npu-smi with the device nodes. Then stop all jobs on "
        f"{scribe.host.name}, and reload the driver or reboot"
    )
    commands = tuple(scribe.on(scribe.host.name, line) for line in ("npu-smi info -m", "ls -l /dev/davinci*"))
    if len(orphans) == len(unmatched_chips):  # every chip is present under another number
        for device, reported in zip(orphans, unmatched_chips, strict=True):
            yield scribe.bad(
                f"{scribe.host.name}: device {device}: npu-smi lists this device as device {reported}",
                device=device,
                expected=f"device {device} in npu-smi for /dev/davinci{device}",
                found=f"chips {_numbers(chips)}",
                cause="npu-smi numbers the chips differently, and no chip is missing",
                remedy=remedy,
                commands=commands,
            )
        return
    for device in unmatched_chips:
        fault = "npu-smi lists several chips with this number"
        if device not in nodes:
            fault = f"npu-smi lists the chip, but /dev/davinci{device} is missing"
        yield scribe.bad(
            f"{scribe.host.name}: device {device}: {fault}",
            device=device,
            expected=f"/dev/davinci{device}{_npu_number(chips[device])}",
            found=_nodes(nodes),
            remedy=remedy,
            commands=commands,
        )
    for device in orphans:
        yield scribe.bad(
            f"{scribe.host.name}: device {device}: /dev/davinci{device} exists, but npu-smi does not list the chip",
            device=device,
            expected="a chip for every device node",
            found=f"chips {_numbers(chips)}",
            remedy=remedy,
            commands=commands,
        )


def _duplicates(npu_smi: NpuSmi) -> list[int]:
    """Return the device numbers that several chips have."""
    return [device for device, count in Counter(chip.device for chip in npu_smi.chips).items() if count > 1]


def _npu_number(chip: NpuChip) -> str:
    return "" if chip.npu is None else f" (NPU {chip.npu} chip {chip.chip} of npu-smi)"


def _nodes(nodes: set[int]) -> str:
    return f"/dev/davinci[{_numbers(nodes)}]" if nodes else "no /dev/davinciN"


def _numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)[:16])) or "none"
