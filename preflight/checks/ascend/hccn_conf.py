"""/etc/hccn.conf, the vendor's file from which devices restore their settings at boot, compared with the devices."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.checks.shared.device_scribe import DeviceScribe
from preflight.checks.shared.npu import planned_device
from preflight.facts.types import Hccn, HccnConf, HccnDevice
from preflight.model.change import Area, Change, Kind, Risk
from preflight.model.cluster import Device
from preflight.model.finding import Finding
from preflight.model.ip import read_ipv4_interface

PATH = "/etc/hccn.conf"
KEYS = ("address", "gateway", "netdetect", "mtu")  # of the file; an address counts with its netmask
_Values = Mapping[str, str | None]
_RECOVERY = f"hccn_tool -cfg recovery restores all settings of the device from {PATH}, and brings its port up"


@dataclass(frozen=True)
class _Settings:
    """The settings of one device by key, on the device, in the file and in the plan.

    None is a setting that is not set. A key that could not be read is not in `has`."""

    on_device: _Values
    in_file: _Values
    plan: _Values

    def stale_keys(self) -> list[str]:
        """Return the keys for which the device has the right value and the file another.

        Without a plan the device's value counts. An MTU, which every device has, needs no line."""
        return [
            key
            for key, on_device in self.on_device.items()
            if on_device
            and on_device != self.in_file[key]
            and on_device == (self.plan[key] or on_device)
            and (key != "mtu" or self.plan[key] or self.in_file[key])
        ]

    def lost_keys(self) -> list[str]:
        """Return the keys for which the file has the right value and the device another, or none."""
        return [
            key
            for key, on_device in self.on_device.items()
            if (in_file := self.in_file[key])
            and on_device != in_file
            and (in_file == self.plan[key] if self.plan[key] else not on_device)
        ]

    def may_be_restored(self) -> bool:
        """Return whether the plan wants the values that the device has lost, and agrees with all other values of the
        file."""
        right = all(self.in_file[key] in (plan, None) for key, plan in self.plan.items() if plan)
        return (
            right
            and any(self.plan[key] for key in self.lost_keys())
            and all(key in self.on_device for key in self.keys_in_file())
        )

    def keys_in_file(self) -> list[str]:
        """Return the keys that the file sets."""
        return [key for key in KEYS if self.in_file[key]]


@host_check("NPU104", "Device settings in /etc/hccn.conf", products=NPU, configures=Area.ADDRESSES, blocks=False)
def boot_file(scribe: Here, hccn: Hccn, hccn_conf: HccnConf) -> Iterator[Finding]:
    """Why: Devices lose their settings at a reboot and restore them from /etc/hccn.conf. Frameworks read the file
    instead of the device. If the device and the file differ, an NPU is unreachable, now or after a reboot.

    Result: FAIL if the device and the file differ, WARN if only the MTU differs. The inventory decides which of the two
    is right.

    Check manually:
      hccn_tool -i 0 -ip -g
      grep _0= /etc/hccn.conf

    Fix: If the file is outdated, apply the planned settings again. This also updates the file.
      preflight configure-device-ips
    If the device is wrong, restore all settings from the file. This interrupts jobs on the device.
      preflight configure-device-ips --allow-disturbing
    Without preflight, for device 0:
      hccn_tool -i 0 -cfg recovery
    """
    for device in hccn.devices:
        settings = _settings(device, hccn_conf, planned_device(scribe.host, device.index))
        npu = DeviceScribe(scribe, scribe.host.name, device.index)
        if settings.stale_keys():
            effect = (
                "does not match the device, so a reboot changes"
                if hccn_conf.present
                else "is missing, so a reboot clears"
            )
            yield _stale_file(npu, settings, f"{PATH} {effect} the settings of the device")
        if lost_keys := settings.lost_keys():
            restore = settings.may_be_restored()
            yield _report(npu, lost_keys)(
                f"the settings in {PATH} are not in effect",
                expected=_text(settings.in_file, lost_keys),
                found=_text(settings.on_device, lost_keys),
                cause="the settings were not restored at boot, or a program other than hccn_tool changed them",
                remedy=f"{'' if restore else 'if the file is right, '}restore all settings of the device from {PATH}. "
                "This interrupts jobs on the device",
                commands=(
                    f"preflight configure-device-ips --limit {scribe.host.name} --allow-disturbing"
                    if restore
                    else npu.on(f"hccn_tool -i {device.index} -cfg recovery"),
                ),
                change=_recovery(npu, settings) if restore else None,
            )


def _stale_file(npu: DeviceScribe, settings: _Settings, summary: str) -> Finding:
    """Return the finding about a file that lacks settings that the device has."""
    stale_keys = settings.stale_keys()
    remedy, change = f"add these settings under [[hosts]] for {npu.host} in the inventory, then apply them", None
    if planned_keys := [key for key in stale_keys if settings.plan[key]]:
        remedy = f"set the planned settings again, which also saves them in {PATH}"
        change = _change(npu, Kind.DEVICE_SAVED, planned_keys, settings.in_file, settings.on_device)
    return _report(npu, stale_keys)(
        summary,
        expected=_text(settings.on_device, stale_keys),
        found=_text(settings.in_file, stale_keys),
        remedy=remedy,
        commands=(f"preflight configure-device-ips --limit {npu.host}",),
        change=change,
    )


def _recovery(npu: DeviceScribe, settings: _Settings) -> Change:
    """Return the change of the device to all that the file says of it."""
    keys = settings.keys_in_file()
    change = _change(npu, Kind.DEVICE_RECOVERY, keys, settings.on_device, settings.in_file)
    return replace(change, risk=Risk.DISTURBING, note=_RECOVERY)


def _change(npu: DeviceScribe, kind: Kind, keys: list[str], before: _Values, after: _Values) -> Change:
    change = npu.change(kind, _text(before, keys), _text(after, keys))
    return replace(change, target=" ".join((change.target, *keys)))


def _report(npu: DeviceScribe, keys: list[str]) -> Callable[..., Finding]:
    """Return the reporting method: a warning for the MTU alone, since its format is known from the tool's source
    only."""
    return npu.warn if keys == ["mtu"] else npu.bad


def _settings(device: HccnDevice, conf: HccnConf, planned: Device) -> _Settings:
    readings = {"gateway": device.gateway, "netdetect": device.detect, "mtu": device.mtu}
    on_device = {key: reading.value for key, reading in readings.items() if not reading.error}
    address = _interface(device.address.value, device.netmask.value)
    if address or not (device.address.value or device.address.error or device.netmask.error):
        on_device = {"address": address, **on_device}
    in_file = {key: conf.entries.get(f"{key}_{device.index}") for key in KEYS}
    in_file["address"] = _interface(in_file["address"], conf.entries.get(f"netmask_{device.index}"))
    planned_values = (planned.address, planned.gateway, planned.detect, planned.mtu)
    plan = {key: None if value is None else str(value) for key, value in zip(KEYS, planned_values, strict=True)}
    return _Settings(on_device, in_file, plan)


def _interface(address: str | None, netmask: str | None) -> str | None:
    try:
        return str(read_ipv4_interface(f"{address}/{netmask}")) if address and netmask else None
    except ValueError:
        return None


def _text(values: _Values, keys: list[str]) -> str:
    """Return the values as the program on the host spells them: preflight/remote/apply/hccn_conf.py."""
    return " ".join(f"{key} {values[key] or 'none'}" for key in keys)
