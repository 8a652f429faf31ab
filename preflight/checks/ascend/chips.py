"""Chips in depth: alarm codes, versions of driver and firmware, and the links between the devices of a host."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from preflight.checks.engine.registry import NPU, All, Here, Scribe, cluster_check, host_check
from preflight.checks.shared.npu import untold
from preflight.facts.compatibility import driver_fits, firmware_fits
from preflight.facts.parsers.ascend.packages import Package, Ranges
from preflight.facts.refusal import refused
from preflight.facts.sections.chips import Chip, Chips, Health, Topology
from preflight.facts.types import Versions
from preflight.model.finding import Finding
from preflight.model.text import quote

_FAST = {"HCCS", "HCCS_SW", "SIO"}

_Links = Mapping[tuple[int, int], str]  # (lower, higher device) → the link between them


@dataclass
class _PairLinks:
    """The links of a pair of devices: the number of hosts that report one, and of those with each fast one."""

    hosts: int = 0
    fast: Counter[str] = field(default_factory=Counter)

    @property
    def usual(self) -> str:
        return self.fast.most_common(1)[0][0]

    @property
    def mostly_fast(self) -> bool:
        return 2 * self.fast.total() > self.hosts


@host_check("NPU117", "Chip alarms", products=NPU)
def alarms(scribe: Here, chips: Chips) -> Iterator[Finding]:
    """Why: The health states Alarm and Critical mean that a part of the hardware or its firmware has failed. The alarm
    codes identify that part. A job on that device fails sooner or later. The state Warning is common on machines in
    use.

    Result: FAIL for Alarm and Critical. WARN for Warning, and for alarm codes of a chip with health OK.

    Check manually: The number after -i is the card's number in npu-smi.
      npu-smi info -t health -i 0 -c 0

    Fix: Look up the code in the vendor's fault list. Then reset the device or contact the vendor.
    """
    yield from untold(scribe, scribe.host, {chip.device: chip.health for chip in chips.chips})
    for chip in chips.chips:
        name, health = f"{scribe.host.name}: device {chip.device}", chip.health.value
        if health is None or (health.status == "OK" and not health.codes):
            continue
        report = scribe.bad if health.status in ("Alarm", "Critical") else scribe.warn
        if health.status not in ("OK", "Warning", "Alarm", "Critical"):
            report = scribe.unknown
        yield report(
            f"{name}: health is {health.status}" + _codes(health),
            device=chip.device,
            expected="OK",
            found=quote(health.words) if health.words else health.status,
            remedy=f"look up {' and '.join(health.codes[:4]) or 'the error code'} in the vendor's fault list",
            commands=(_query(scribe, scribe.host.name, chip, "health"),),
        )


def _codes(health: Health) -> str:
    if not health.codes:
        return ""
    noun = "code" if len(health.codes) == 1 else "codes"
    return f" with {noun} {', '.join(health.codes[:4])}" + (" …" if len(health.codes) > 4 else "")


def _query(scribe: Scribe, host: str, chip: Chip, topic: str) -> str:
    return scribe.on(host, f"npu-smi info -t {topic} -i {chip.npu} -c {chip.chip}")


def alarming(chips: Chips | None) -> set[int]:
    """Return the devices that NPU117 reports as unhealthy."""
    chips_of_host = chips.chips if chips else ()
    return {
        chip.device
        for chip in chips_of_host
        if (health := chip.health.value) and (health.status != "OK" or health.codes)
    }


@host_check("NPU120", "NPU driver and firmware compatibility", products=NPU, optional=("versions",))
def compatible(scribe: Here, chips: Chips, versions: Versions | None) -> Iterator[Finding]:
    """Why: Driver and firmware are released in pairs. npu-smi and the version files of both report a mismatch. With a
    mismatch, jobs fail with other errors, such as failing queue pairs, SDMA errors and internal HCCL errors.

    Result: FAIL if driver and firmware do not match. WARN if npu-smi reports a match and a version file does not. Also
    WARN if the driver is not in the firmware's list of drivers, because that list leaves out patch releases.

    Check manually: The Compatibility line shows the verdict of npu-smi.
      npu-smi info -t board -i 0
      grep compatible_version /usr/local/Ascend/*/version.info

    Fix: Install the firmware that matches the driver, then reboot.
    """
    yield from untold(scribe, scribe.host, {chip.device: chip.board for chip in chips.chips})
    yield from _incompatible(scribe, chips)
    verdicts = {chip.device: board.compatible for chip in chips.chips if (board := chip.board.value)}
    pair = _driver_and_firmware(versions)
    if pair and set(verdicts.values()) <= {"", "OK"}:
        yield from _by_their_files(scribe, *pair, says_ok="OK" in verdicts.values())
    if not (pair and _files_tell(*pair)):
        yield from _without_verdict(scribe, verdicts, len(chips.chips))


def _incompatible(scribe: Here, chips: Chips) -> Iterator[Finding]:
    """Yield the devices that npu-smi calls incompatible."""
    for chip in chips.chips:
        board = chip.board.value
        if board and board.compatible not in ("", "OK"):
            yield scribe.bad(
                f"{scribe.host.name}: device {chip.device}: driver {board.driver} and firmware {board.firmware} are "
                "incompatible according to npu-smi",
                device=chip.device,
                expected="Compatibility: OK",
                found=quote(board.compatible),
                remedy=f"install the firmware that matches driver {board.driver}, then reboot {scribe.host.name}",
            )


def _driver_and_firmware(versions: Versions | None) -> tuple[Package, Package] | None:
    packages = versions.packages if versions else {}
    return (packages["driver"], packages["firmware"]) if {"driver", "firmware"} <= packages.keys() else None


def _files_tell(driver: Package, firmware: Package) -> bool:
    return firmware_fits(driver, firmware.version) is not None or driver_fits(firmware, driver) is not None


def _without_verdict(scribe: Here, verdicts: Mapping[int, str], number: int) -> Iterator[Finding]:
    """Yield the finding about those of the `number` devices for which npu-smi has no verdict."""
    devices = [device for device, verdict in verdicts.items() if not verdict]
    if devices:
        subject = "" if len(devices) == number else f"{_devices(devices)}: "
        summary = (
            f"{scribe.host.name}: {subject}neither npu-smi nor a version file shows whether driver and firmware match"
        )
        yield scribe.skip(summary)


def _by_their_files(scribe: Here, driver: Package, firmware: Package, *, says_ok: bool) -> Iterator[Finding]:
    """Yield the findings of the version files. `says_ok`: npu-smi reports OK, which outweighs the files' inferred
    rule."""
    remedy = f"install the firmware that matches driver {driver.version}, then reboot {scribe.host.name}"
    if firmware_fits(driver, firmware.version) is False:
        yield (scribe.warn if says_ok else scribe.bad)(
            f"{scribe.host.name}: driver {driver.version} does not accept firmware {firmware.version}",
            expected=f"firmware {_ranges(driver.takes_firmware)}",
            found=firmware.version,
            remedy=remedy,
        )
    elif driver_fits(firmware, driver) is False:
        yield scribe.warn(
            f"{scribe.host.name}: firmware {firmware.version} does not list driver {driver.version}",
            expected=f"driver {_ranges(firmware.takes_driver)}",
            found=driver.version,
            remedy=remedy,
        )


def _ranges(ranges: Ranges) -> str:
    return ", ".join(" to ".join(dict.fromkeys((versions[0], versions[-1]))) for versions in ranges[:8])


@cluster_check("NPU124", "HCCS topology", products=NPU)
def topology(scribe: All, chips: Mapping[str, Chips]) -> Iterator[Finding]:
    """Why: The devices in a server communicate over HCCS. If HCCS is lost, npu-smi shows SYS or NA instead. The server
    then has a fraction of its bandwidth, or HCCL fails at its first connection within the host.

    Result: FAIL if a link is slower than on most hosts. WARN if half of the hosts have no HCCS at all, because they may
    be built that way.

    Check manually: On this host and on another one:
      npu-smi info -t topo

    Fix: Read the link's state and reset the devices. If that does not help, power-cycle the host.
      npu-smi info -t hccs -i 0 -c 0
    """
    links: dict[str, _Links] = {}
    for host in scribe.hosts:
        reading = chips[host.name].topology
        if reading.value is not None:
            links[host.name] = _links(reading.value)
        elif refused(reading.error):
            yield scribe.skip("npu-smi does not report the topology", host=host.name)
        else:
            error = reading.error or "npu-smi reported nothing"
            yield scribe.unknown(f"{host.name}: could not be checked: {error}", host=host.name)
    fast = _fast_pairs(links.values())
    for name, own in links.items():
        queries = {chip.device: _query(scribe, name, chip, "hccs") for chip in chips[name].chips}
        yield from _slow_links(scribe, name, own, fast, queries)


def _slow_links(
    scribe: All, host: str, own: _Links, fast: Mapping[tuple[int, int], _PairLinks], queries: Mapping[int, str]
) -> Iterator[Finding]:
    """Yield the devices of a host with links that are slower than on other hosts. `queries`: the command to inspect
    each device."""
    slow = {pair: own[pair] for pair in own.keys() & fast if own[pair] not in _FAST}
    has_hccs = not _FAST.isdisjoint(own.values())
    for device, peers in _by_culprit(list(slow)):
        pairs = [(min(device, peer), max(device, peer)) for peer in peers]
        actual = "/".join(sorted({slow[pair] for pair in pairs}))
        expected = "/".join(sorted({fast[pair].usual for pair in pairs}))
        certain = has_hccs or any(fast[pair].mostly_fast for pair in pairs)
        yield (scribe.bad if certain else scribe.warn)(
            f"{host}: device {device}: reaches {_devices(peers)} over {actual}, but over {expected} on other hosts",
            host=host,
            device=device,
            expected=expected,
            found=actual,
            remedy=f"check the HCCS lanes, then reset device {device}. If that does not help, power-cycle {host}",
            commands=tuple(filter(None, (queries.get(device),))),
        )


def _fast_pairs(links: Iterable[_Links]) -> dict[tuple[int, int], _PairLinks]:
    """Return the pairs with a fast link on at least half of the hosts."""
    links_by_pair: dict[tuple[int, int], _PairLinks] = defaultdict(_PairLinks)
    for of_host in links:
        for pair, link in of_host.items():
            links_by_pair[pair].hosts += 1
            links_by_pair[pair].fast.update([link] if link in _FAST else [])
    return {pair: counts for pair, counts in links_by_pair.items() if 2 * counts.fast.total() >= counts.hosts}


def _links(topology: Topology) -> _Links:
    return {
        (device, peer): link
        for device, row in zip(topology.devices, topology.links, strict=False)
        for peer, link in zip(topology.devices, row, strict=False)
        if device < peer
    }


def _by_culprit(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Yield each pair once, under the device that most of the pairs have in common."""
    pairs_left = list(pairs)
    while pairs_left:
        counts = Counter(device for pair in pairs_left for device in pair)
        culprit = max(counts, key=lambda device: (counts[device], -device))
        yield culprit, sorted(low + high - culprit for low, high in pairs_left if culprit in (low, high))
        pairs_left = [pair for pair in pairs_left if culprit not in pair]


def _devices(devices: list[int]) -> str:
    return f"{'devices' if len(devices) > 1 else 'device'} {', '.join(map(str, devices))}"
