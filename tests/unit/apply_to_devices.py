"""What the facts of devices and of /etc/hccn.conf would be after changes: a model of preflight/remote/apply/hccn.py."""

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface

from preflight.facts.parsers.ascend.hccn_conf import entries as read_entries
from preflight.facts.types import Hccn, HccnConf, HccnDevice, HostFacts, Reading
from preflight.model.change import Change, Kind

SETTING = {
    Kind.DEVICE_ADDRESS: "address",
    Kind.DEVICE_GATEWAY: "gateway",
    Kind.DEVICE_DETECT: "netdetect",
    Kind.DEVICE_MTU: "mtu",
}


def changed(host: HostFacts, change: Change) -> HostFacts:
    """The host after one change of a device; a change whose `before` is not what the facts say is its check's fault."""
    assert isinstance(host.hccn, Hccn)
    assert isinstance(host.hccn_conf, HccnConf)
    index, *keys = change.target.split()
    devices = {str(device.index): device for device in host.hccn.devices}
    device, conf = devices[index], host.hccn_conf
    if change.kind is Kind.DEVICE_SAVED:
        assert change.before == spelled(saved(conf, index), keys)
        assert change.after == spelled(has(device), keys), "only what the device has is saved"
        conf = with_lines(conf, index, {key: has(device)[key] or "" for key in keys})
    elif change.kind is Kind.DEVICE_RECOVERY:
        assert change.before == spelled(has(device), keys)
        assert change.after == spelled(saved(conf, index), keys)
        device = with_settings(device, saved(conf, index))
    else:
        key = SETTING[change.kind]
        lost_with_its_address = key == "gateway" and device.gateway.value is None
        assert change.before == has(device)[key] or lost_with_its_address
        assert change.after is not None
        if key == "address":
            device, conf = moved(device, conf, IPv4Interface(change.after))
        device = with_settings(device, {key: change.after})
        conf = with_lines(conf, index, {key: change.after})
    devices[index] = device
    return replace(host, hccn=Hccn(tuple(devices.values())), hccn_conf=conf)


def moved(device: HccnDevice, conf: HccnConf, to: IPv4Interface) -> tuple[HccnDevice, HccnConf]:
    """With its address a device loses a gateway that does not fit; the file's is given back, or dropped."""
    index = str(device.index)
    own, written = device.gateway.value, conf.entries.get(f"gateway_{index}")
    fitting = [gateway for gateway in (own, written) if gateway and IPv4Address(gateway) in to.network]
    device = replace(device, gateway=Reading(fitting[0] if fitting else None))
    return device, conf if fitting or not written else with_lines(conf, index, {"gateway": ""})


def has(device: HccnDevice) -> dict[str, str | None]:
    address = f"{device.address.value}/{device.netmask.value}"
    return {
        "address": str(IPv4Interface(address)) if device.address.value else None,
        "gateway": device.gateway.value,
        "netdetect": device.detect.value,
        "mtu": device.mtu.value,
    }


def saved(conf: HccnConf, index: str) -> dict[str, str | None]:
    said = {key: conf.entries.get(f"{key}_{index}") for key in ("address", "netmask", "gateway", "netdetect", "mtu")}
    address, netmask = said.pop("address"), said.pop("netmask")
    return {"address": str(IPv4Interface(f"{address}/{netmask}")) if address and netmask else None, **said}


def spelled(values: Mapping[str, str | None], keys: list[str]) -> str:
    return " ".join(f"{key} {values[key] or 'none'}" for key in keys)


def with_settings(device: HccnDevice, values: Mapping[str, str | None]) -> HccnDevice:
    for key, value in values.items():
        if value and key == "address":
            new = IPv4Interface(value)
            device = replace(device, address=Reading(str(new.ip)), netmask=Reading(str(new.netmask)))
        elif value and key == "netdetect":
            device = replace(device, detect=Reading(value), net_health=Reading("Success"))
        elif value and key == "gateway":
            device = replace(device, gateway=Reading(value))
        elif value:
            device = replace(device, mtu=Reading(value))
    return device


def with_lines(conf: HccnConf, index: str, values: Mapping[str, str]) -> HccnConf:
    lines: dict[str, str] = {}
    for key, value in values.items():
        if key == "address" and value:
            new = IPv4Interface(value)
            lines |= {f"address_{index}": str(new.ip), f"netmask_{index}": str(new.netmask)}
        else:
            lines[f"{key}_{index}"] = value
    text = with_entries(conf.text, lines)
    entries = read_entries(text)
    assert isinstance(entries, dict)
    return HccnConf(True, entries, text)


def with_entries(text: str, entries: Mapping[str, str]) -> str:
    """/etc/hccn.conf as hccn_tool writes it: a key's lines are dropped, and one with the value, if any, is added."""
    kept = [line for line in text.splitlines(keepends=True) if line.partition("=")[0].strip() not in entries]
    if kept and not kept[-1].endswith("\n"):
        kept[-1] += "\n"  # as hccn_conf.py on the host sees to before
    return "".join([*kept, *(f"{key}={value}\n" for key, value in entries.items() if value)])
