"""Optical modules of the device NICs, judged by the limits that each module has for itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.checks.shared.npu import untold, with_link
from preflight.facts.sections.nic import Band, Nic, NicDevice, Optics
from preflight.facts.types import Hccn
from preflight.model.finding import Finding

_ABSENT = "Optical module is not present"  # what hccn_tool says instead of an answer


@dataclass(frozen=True)
class OpticsFault:
    """`what` reads alike for devices with the same trouble; the values are in `seen`. `dark`: too little arrives."""

    what: str
    seen: str
    dark: bool = False


@host_check("NIC102", "Every optical module is within its own limits", products=NPU)
def optics(here: Here, nic: Nic, hccn: Hccn) -> Iterator[Finding]:
    """Why: too little light on one of four lanes loses packets and then the link, in the middle of a job. Light below
    the module's own limit is a failure; too much of it, heat, or a loss flag with good values (it may be left over
    from an earlier loss) is a warning. Some drivers call a module "not present" and tell all its values: then the
    values count. Copper has no module to ask. A link that is down is NPU107's, with what the module says as its cause.

    By hand: hccn_tool -i 0 -optical -g

    Mend: clean and reseat the fibre at both ends, then change the module
    """
    yield from untold(here, here.host, {d.index: d.optics for d in nic.devices if not _absent(d)})
    up = with_link(hccn)
    for device in nic.devices:
        found = troubles(device.optics.value) if device.optics.value and device.index in up else []
        if found:
            yield (here.bad if any(one.dark for one in found) else here.warn)(
                f"{here.host.name}: device {device.index}: its optical module {' and '.join(t.what for t in found)}",
                device=device.index,
                found="; ".join(one.seen for one in found),
                evidence=tuple(filter(None, (_named(device.optics.value),))),
                remedy=f"clean and reseat the fibre of device {device.index} at both ends, then change the module",
            )


def cause_of_no_link(device: NicDevice | None) -> str:
    """What optics and error correction have to say about a link that is down; empty: nothing."""
    if device is None:
        return ""
    if _absent(device) or (device.optics.value and not (device.optics.value.present or _tells(device.optics.value))):
        return "no optical module is there"
    found = troubles(device.optics.value) if device.optics.value else []
    if found:
        return f"its optical module {' and '.join(one.what for one in found)}"
    return "the port has no error correction (no FEC mode)" if device.fec.value == "no" else ""


def troubles(optics: Optics) -> list[OpticsFault]:
    """What is outside the module's limits, the worst first."""
    dark = [
        *_beyond("receives too little light", optics.rx_power, optics.rx_band, too_low=True),
        *_beyond("sends too little light", optics.tx_power, optics.tx_band, too_low=True),
    ]
    found = [
        *dark,
        *_beyond("receives too much light", optics.rx_power, optics.rx_band, too_low=False),
        *_beyond("sends too much light", optics.tx_power, optics.tx_band, too_low=False),
    ]
    flags = {"Rx LoS": optics.rx_los, "Tx LoS": optics.tx_los, "Rx LoL": optics.rx_lol, "Tx LoL": optics.tx_lol}
    if set_ := [f"{name} {value:#x}" for name, value in flags.items() if value]:
        if dark:
            found[0] = OpticsFault(found[0].what, f"{found[0].seen}, {', '.join(set_)}", dark=True)
        else:  # flags stay set until they are read once: alone they may tell of the past
            found.insert(0, OpticsFault("tells of a lost signal", ", ".join(set_)))
    band = optics.temperature_band
    if optics.temperature is not None and band and not band.low <= optics.temperature <= band.high:
        word = "hot" if optics.temperature > band.high else "cold"
        found.append(OpticsFault(f"is too {word}", f"{optics.temperature:g} °C of {band.low:g} to {band.high:g}"))
    return found


def _beyond(what: str, powers: Sequence[float | None], band: Band | None, *, too_low: bool) -> Iterator[OpticsFault]:
    lanes = {
        lane: power
        for lane, power in enumerate(powers)
        if power is not None and band and (power < band.low if too_low else power > band.high)
    }
    if lanes and band:
        limit = f"at least {band.low:g}" if too_low else f"at most {band.high:g}"
        values = ", ".join(f"{power:g}" for power in lanes.values())
        named = f"lane{'s' if len(lanes) > 1 else ''} {', '.join(map(str, lanes))}"
        yield OpticsFault(f"{what} on {named}", f"{values} mW, {limit}", dark=too_low)


def _tells(optics: Optics) -> bool:
    return any(power is not None for power in (*optics.tx_power, *optics.rx_power))


def _absent(device: NicDevice) -> bool:
    return _ABSENT in device.optics.error


def _named(optics: Optics | None) -> str:
    return " ".join(filter(None, (optics.vendor, optics.part, optics.serial))) if optics else ""
