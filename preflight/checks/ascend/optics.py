"""Optical modules of the device NICs, judged by each module's own limits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.checks.shared.npu import untold, with_link
from preflight.facts.sections.nic import Band, Nic, NicDevice, Optics
from preflight.facts.types import Hccn
from preflight.model.finding import Finding

_ABSENT = "Optical module is not present"  # hccn_tool's message in place of an answer


@dataclass(frozen=True)
class OpticsFault:
    """One fault of an optical module.

    `summary`: the fault, worded alike for all devices. `values`: the readings. `dark`: too little light arrives.
    `thermal`: the module is too hot or too cold."""

    summary: str
    values: str
    dark: bool = False
    thermal: bool = False


@host_check("NIC102", "Optical module readings", products=NPU)
def optics(scribe: Here, nic: Nic, hccn: Hccn) -> Iterator[Finding]:
    """Why: If one of four lanes gets too little light, the port loses packets and later the link, in the middle of a
    job. Some drivers report a module as "not present" but return all its values. In that case, the values count. Copper
    cables have no module to query.

    Result: FAIL if the light is below the module's own limit. WARN for too much light and for overheating. Also WARN
    for a loss flag with good values, because the flag may be outdated. If the link is down, NPU107 reports this with
    the module's fault as its cause.

    Check manually:
      hccn_tool -i 0 -optical -g

    Fix: Clean and reseat the fibre at both ends. If that does not help, replace the module.
    """
    yield from untold(scribe, scribe.host, {d.index: d.optics for d in nic.devices if not _absent(d)})
    up = with_link(hccn)
    for device in nic.devices:
        faults = faults_of(device.optics.value) if device.index in up else []
        if faults:
            yield (scribe.bad if any(fault.dark for fault in faults) else scribe.warn)(
                f"{scribe.host.name}: device {device.index}: optical module {_joined(faults)}",
                device=device.index,
                found=", ".join(fault.values for fault in faults),
                evidence=_module(device.optics.value),
                remedy=_remedy(scribe.host.name, device.index, faults),
                retest=scribe.on(scribe.host.name, f"hccn_tool -i {device.index} -optical -g"),
            )


def _remedy(host: str, device: int, faults: Iterable[OpticsFault]) -> str:
    if all(fault.thermal for fault in faults):
        return f"check the fans, the airflow and the inlet temperature of {host}"
    return f"clean and reseat the fibre of device {device} at both ends. If that does not help, replace the module"


def cause_of_no_link(device: NicDevice | None) -> str:
    """Return the fault of optics or error correction that explains a link that is down; empty if there is none."""
    if device is None:
        return ""
    optics = device.optics.value
    if _absent(device) or (optics and not (optics.present or _has_power(optics))):
        return "the optical module is missing"
    if faults := faults_of(optics):
        return f"the optical module {_joined(faults)}"
    return "the port has no forward error correction (FEC)" if device.fec.value == "no" else ""


def _joined(faults: Iterable[OpticsFault]) -> str:
    return " and ".join(fault.summary for fault in faults)


def faults_of(optics: Optics | None) -> list[OpticsFault]:
    """Return the values outside the module's limits, the worst first."""
    if optics is None:
        return []
    dark = [
        *_beyond("receives too little light", optics.rx_power, optics.rx_band, too_low=True),
        *_beyond("sends too little light", optics.tx_power, optics.tx_band, too_low=True),
    ]
    faults = [
        *dark,
        *_beyond("receives too much light", optics.rx_power, optics.rx_band, too_low=False),
        *_beyond("sends too much light", optics.tx_power, optics.tx_band, too_low=False),
    ]
    flags = {"Rx LoS": optics.rx_los, "Tx LoS": optics.tx_los, "Rx LoL": optics.rx_lol, "Tx LoL": optics.tx_lol}
    if flags_set := [f"{name} {value:#x}" for name, value in flags.items() if value]:
        if dark:
            faults[0] = OpticsFault(faults[0].summary, f"{faults[0].values}, {', '.join(flags_set)}", dark=True)
        else:  # flags stay set until they are read, so alone they may be old
            faults.insert(0, OpticsFault("reports a lost signal", ", ".join(flags_set)))
    band = optics.temperature_band
    if optics.temperature is not None and band and not band.low <= optics.temperature <= band.high:
        word = "hot" if optics.temperature > band.high else "cold"
        faults.append(
            OpticsFault(
                f"is too {word}", f"{optics.temperature:g} °C (limit: {band.low:g} to {band.high:g} °C)", thermal=True
            )
        )
    return faults


def _beyond(summary: str, powers: Sequence[float | None], band: Band | None, *, too_low: bool) -> Iterator[OpticsFault]:
    """Yield the fault of the lanes with powers on one side of the band."""
    if band is None:
        return
    lanes = {
        lane: power
        for lane, power in enumerate(powers)
        if power is not None and (power < band.low if too_low else power > band.high)
    }
    if lanes:
        limit = f"at least {band.low:g} mW" if too_low else f"at most {band.high:g} mW"
        values = ", ".join(f"{power:g}" for power in lanes.values())
        lane_names = f"lane{'s' if len(lanes) > 1 else ''} {', '.join(map(str, lanes))}"
        yield OpticsFault(f"{summary} on {lane_names}", f"{values} mW (limit: {limit})", dark=too_low)


def _has_power(optics: Optics) -> bool:
    return any(power is not None for power in (*optics.tx_power, *optics.rx_power))


def _absent(device: NicDevice) -> bool:
    return _ABSENT in device.optics.error


def _module(optics: Optics | None) -> tuple[str, ...]:
    names = " ".join(filter(None, (optics.vendor, optics.part, optics.serial))) if optics else ""
    return (f"module {names}",) if names else ()
