"""Links of the device NICs in depth: losses, speed, duplex and error correction."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.checks.engine.registry import NPU, All, Here, cluster_check, host_check
from preflight.checks.shared.device_scribe import DeviceScribe
from preflight.checks.shared.npu import untold, with_link
from preflight.facts.sections.nic import LinkHistory, Nic, NicDevice
from preflight.facts.types import Hccn
from preflight.model.cluster import Host, Product
from preflight.model.finding import Finding

HOUR, DAY = 3600.0, 86400.0
SETTLING = 60.0  # Seconds in which a port that has just come up may lose its link once more, as in both captures.
_CLOCK_SET = 946684800.0  # 2000-01-01. An earlier date is from before the device's clock was set.
RATED = {Product.ATLAS_A1: 100_000, Product.ATLAS_A2: 200_000, Product.ATLAS_A3: 200_000}  # Mb/s of a device's port
_CORRECTED = 100_000  # Mb/s; from this speed on a link without error correction is a known fault


@host_check("NIC101", "Device link flaps", products=NPU, blocks=False)
def flaps(scribe: Here, nic: Nic) -> Iterator[Finding]:
    """Why: A link flap interrupts a collective. The collective then waits half an hour for its notify (EI0002, EI0013).
    Older flaps, and flaps in a port's first minute, are ignored because they do not affect the next job.

    Result: FAIL if the link went down twice in the last hour. WARN if it went down once in the last day. The times are
    from the device's own clock.

    Check manually:
      hccn_tool -i 0 -link_stat -g

    Fix: Clean or replace the optics and the cable, and read the switch port's log. Then check the counts again.
    """
    yield from untold(scribe, scribe.host, {device.index: device.history for device in nic.devices})
    for device in nic.devices:
        history = device.history.value
        if history is None or (history.changes and not history.changes[0].up):
            continue  # it is down now: NPU107
        losses = _losses(history)
        counts = _count(losses, history.now)
        if when := counts.description(is_dated=any(losses)):
            yield (scribe.bad if counts.in_hour >= 2 else scribe.warn)(
                f"{scribe.host.name}: device {device.index}: link went down {when}",
                device=device.index,
                evidence=_last(losses),
                remedy="search the log of the device's switch port for link-down messages and errors. Then clean or "
                "replace the optics and the cable",
                retest=scribe.on(scribe.host.name, f"hccn_tool -i {device.index} -link_stat -g"),
            )


@dataclass(frozen=True)
class _LossCounts:
    """Numbers of lost links in the last hour, in the last day and at a time that is not known."""

    in_hour: int
    in_day: int
    undated: int

    def description(self, *, is_dated: bool) -> str:
        """Return the worst of the losses; empty if there is none. `is_dated`: the device recorded dates."""
        if self.in_hour:
            return _times(self.in_hour, "in the last hour")
        if self.in_day:
            return _times(self.in_day, "in the last day")
        reason = "the device's clock does not tell how long ago" if is_dated else "the device recorded no times"
        return _times(self.undated, f"({reason})") if self.undated else ""


def _count(losses: Sequence[float | None], now: float | None) -> _LossCounts:
    ages = [now - at for at in losses if at is not None and now is not None]
    in_hour, in_day = (sum(0 <= age <= span for age in ages) for span in (HOUR, DAY))
    return _LossCounts(in_hour, in_day, len(losses) - sum(age >= 0 for age in ages))


def _times(number: int, when: str) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times") + f" {when}"


def _losses(history: LinkHistory) -> Sequence[float | None]:
    """Return the times of the link's losses, newest first; None for a loss that was counted and never recorded.

    Losses in the first minute after the link first came up do not count, where the records go back that far."""
    if not history.changes:
        return [None] * (history.downs or 0)
    settled = _settled(history)
    return [change.at for change in history.changes if not change.up and (change.at is None or change.at > settled)]


def _settled(history: LinkHistory) -> float:
    """Return the end of the first minute after the link first came up."""
    complete = sum(change.up for change in history.changes) == history.ups
    # The oldest record is of a link that goes down after `-link_stat -c`.
    first_up = _born(history) if complete and history.changes[-1].up else None
    return -math.inf if first_up is None else first_up + SETTLING


def _born(history: LinkHistory) -> float | None:
    """Return when the port first came up.

    A device boots with the clock of 1970, which is set in the middle of that minute. The first date after that
    counts."""
    first = history.changes[-1].at
    if first is None or first >= _CLOCK_SET or (history.now or 0) < _CLOCK_SET:
        return first
    dates = (change.at for change in reversed(history.changes))
    return next((at for at in dates if at is not None and at >= _CLOCK_SET), None)


def _last(losses: Sequence[float | None]) -> tuple[str, ...]:
    """Return the date of the newest loss as evidence; none where no loss has one."""
    dates = [time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime(at)) for at in losses if at is not None]
    return tuple(f"the device's clock showed {date} when the link last went down" for date in dates[:1])


@cluster_check("NIC103", "Device link error correction", products=NPU, several=False)
def error_correction(scribe: All, nic: Mapping[str, Nic], hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: A link at 100 Gb/s or more needs forward error correction. Without it, the link constantly loses frames or
    does not come up. NPU107 reports links that are down.

    Result: FAIL if a link has no error correction and most devices have it. Otherwise, this is WARN, because the links
    may be planned without error correction.

    Check manually:
      hccn_tool -i 0 -fec -g

    Fix: Set RS-FEC on the switch port. On Atlas A1, also set it on the device. Later products use the mode of the
    switch port.
      hccn_tool -i 0 -fec -s encoding rs
    """
    devices = list(_linked(scribe, nic, hccn))
    modes = Counter(device.fec.value for _, device in devices if device.fec.value)
    with_correction = modes.total() - modes["no"]
    for host in scribe.hosts:
        yield from untold(scribe, host, {device.index: device.fec for device in nic[host.name].devices})
    for host, device in devices:
        if _lacks_correction(device):
            port = f"the switch port of device {device.index}"
            a1 = scribe.cluster.product is Product.ATLAS_A1
            command = scribe.on(host.name, f"hccn_tool -i {device.index} -fec -s encoding rs")
            yield (scribe.bad if with_correction > modes["no"] else scribe.warn)(
                f"{host.name}: device {device.index}: link has no error correction (FEC)",
                host=host.name,
                device=device.index,
                expected="RS-FEC",
                found="no FEC mode",
                remedy=f"set RS-FEC on the device and on {port}" if a1 else f"set RS-FEC on {port}",
                commands=(command,) if a1 else (),
            )


@cluster_check("NIC104", "Device link speed and duplex", products=NPU, several=False)
def speed(scribe: All, nic: Mapping[str, Nic], hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: A collective is only as fast as its slowest link. The devices of Atlas A1 have 100 Gb/s each. The devices of
    A2 and A3 have 200 Gb/s each.

    Result: FAIL if a device is slower than most others or uses half duplex. WARN if all devices are equally slow,
    because this may be intended.

    Check manually:
      hccn_tool -i 0 -speed -g
      hccn_tool -i 0 -duplex -g
      grep static_speed /etc/hccn.conf

    Fix: Use a module, cable and switch port that support the speed. Remove static_speed from /etc/hccn.conf.
    """
    devices = list(_linked(scribe, nic, hccn))
    speeds = Counter(device.speed.value for _, device in devices if device.speed.value)
    usual = max(speeds, key=lambda value: (speeds[value], value), default=0)  # on a tie, the faster
    for host in scribe.hosts:
        own = nic[host.name].devices
        yield from untold(scribe, host, {d.index: d.speed for d in own}, {d.index: d.duplex for d in own}, unset=True)
    for host, device in devices:
        yield from _speed_findings(scribe, host, device, usual, hccn[host.name])


def _speed_findings(scribe: All, host: Host, device: NicDevice, usual: int, hccn: Hccn) -> Iterator[Finding]:
    """Yield the finding about a link in half duplex, or slower than the product's or the `usual` speed."""
    npu, actual = DeviceScribe(scribe, host.name, device.index), device.speed.value
    expected = max(usual, RATED[scribe.cluster.product])
    if device.duplex.value == "Half":
        yield npu.bad(
            "link is half duplex",
            expected="full duplex",
            found="half duplex",
            remedy=f"set the switch port of device {npu.index} to full duplex",
        )
    elif actual and actual < expected:
        yield (npu.bad if actual < usual else npu.warn)(
            f"link runs at {actual / 1000:g} Gb/s, expected {expected / 1000:g} Gb/s",
            expected=f"{expected / 1000:g} Gb/s",
            found=f"{actual / 1000:g} Gb/s",
            remedy=f"check the module, cable and switch port of device {npu.index}, and check "
            f"static_speed_{npu.index} in /etc/hccn.conf",
            commands=(npu.on(f"grep static_speed_{npu.index} /etc/hccn.conf"),),
        )
    elif actual is None and not device.speed.error and _reports_up(hccn, npu.index):
        yield npu.unknown("hccn_tool does not report the link speed")


def _lacks_correction(device: NicDevice) -> bool:
    return device.fec.value == "no" and (device.speed.value or _CORRECTED) >= _CORRECTED


def _reports_up(hccn: Hccn, index: int) -> bool:
    return any(device.index == index and device.link.value == "UP" for device in hccn.devices)


def _linked(scribe: All, nic: Mapping[str, Nic], hccn: Mapping[str, Hccn]) -> Iterator[tuple[Host, NicDevice]]:
    """Yield the devices with a link that is not down."""
    for host in scribe.hosts:
        up = with_link(hccn[host.name])
        yield from ((host, device) for device in nic[host.name].devices if device.index in up)
