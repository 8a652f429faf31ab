"""Faults of device addresses and of /etc/hccn.conf, made with the host's own hccn_tool."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

from preflight.lab import kernel
from preflight.lab.faults.fault import Fault, FaultPlace, Undo, text_of
from preflight.lab.lifecycle import hosts_of
from preflight.model.errors import PreflightError, UsageError

WRONG_MASK = "255.255.0.0"


@dataclass(frozen=True)
class AddressAndMask:
    address: str
    netmask: str


def address_of(place: FaultPlace) -> AddressAndMask:
    try:
        lines = place.hccn("-ip", "-g").splitlines()
    except PreflightError:
        raise UsageError(f"{place.host.name}/{place.device} has no address yet; configure it first.") from None
    values = dict(line.split(":", 1) for line in lines)
    return AddressAndMask(values["ipaddr"], values["netmask"])


def _set_address(place: FaultPlace, to: AddressAndMask) -> None:
    place.hccn("-ip", "-s", "address", to.address, "netmask", to.netmask)


def _remember_conf(place: FaultPlace, change: Callable[[], object]) -> Undo:
    """Apply a change. Return the text of /etc/hccn.conf before and after it (null if there was no file)."""
    before = text_of(place.hccn_conf)
    change()
    return {"conf_before": before, "conf_after": text_of(place.hccn_conf)}


def _restore_conf(place: FaultPlace, undo: Undo, change: Callable[[], object] = lambda: None) -> None:
    """Undo a change, then restore the file's old bytes, unless another program has written to it since."""
    untouched = text_of(place.hccn_conf) == undo["conf_after"]
    change()
    if untouched and undo["conf_before"] is None:
        place.hccn_conf.unlink()
    elif untouched:
        place.hccn_conf.write_text(undo["conf_before"])


def _wrong_mask(place: FaultPlace) -> Undo:
    was = address_of(place)
    return {
        **vars(was),
        **_remember_conf(place, lambda: _set_address(place, AddressAndMask(was.address, WRONG_MASK))),
    }


def _duplicate(place: FaultPlace) -> Undo:
    was = address_of(place)
    other_hosts = [host for host in hosts_of(place.lab, place.directory) if host.name != place.host.name]
    if not other_hosts:
        raise UsageError("duplicate-address takes the address of another host; this lab has only one.")
    after = next((host for host in other_hosts if host.number > place.host.number), other_hosts[0])
    stolen = address_of(FaultPlace(place.lab, place.directory, after, place.device))
    return {
        **vars(was),
        **_remember_conf(place, lambda: _set_address(place, AddressAndMask(stolen.address, was.netmask))),
    }


def _old_address(place: FaultPlace, undo: Undo) -> None:
    _restore_conf(place, undo, lambda: _set_address(place, AddressAndMask(undo["address"], undo["netmask"])))
    forget_neighbours(place)


def forget_neighbours(place: FaultPlace) -> None:
    """Flush the neighbour tables of the fabric and of all devices, or a fault would outlive its removal by a minute."""
    for namespace in (place.fabric, *(n for n in kernel.namespaces(place.lab.names.prefix) if "-d" in n)):
        kernel.run("ip", "-n", namespace, "neigh", "flush", "all")


def _tls_off(place: FaultPlace) -> Undo:
    switch = place.hccn("-tls", "-g").partition("switch[")[2][0]
    return {"switch": switch, **_remember_conf(place, lambda: place.hccn("-tls", "-s", "enable", "0"))}


def _tls_as_before(place: FaultPlace, undo: Undo) -> None:
    _restore_conf(place, undo, lambda: place.hccn("-tls", "-s", "enable", undo["switch"]))


def _stale_conf(place: FaultPlace) -> Undo:
    key = f"address_{place.device}="
    lines = (text_of(place.hccn_conf) or "").splitlines(keepends=True)
    if not any(line.startswith(key) for line in lines):
        raise UsageError(f"{place.host.name} has no {key.rstrip('=')} in /etc/hccn.conf yet; configure it first.")
    stale = ipaddress.IPv4Address(address_of(place).address) + 100
    edited = "".join(f"{key}{stale}\n" if line.startswith(key) else line for line in lines)
    return _remember_conf(place, lambda: place.hccn_conf.write_text(edited))


FAULTS = (
    Fault(
        "wrong-mask",
        "device",
        ("NPU103",),
        False,
        f"the netmask of the device is {WRONG_MASK}.",
        _wrong_mask,
        _old_address,
    ),
    Fault(
        "duplicate-address",
        "device",
        ("NPU102", "NPU101", "NPU110", "PNG101"),
        False,
        "the device has the address of the same device on another host.",
        _duplicate,
        _old_address,
    ),
    Fault(
        "tls-off",
        "device",
        ("NPU108", "PRB101"),
        True,
        "TLS is off on this device but on for all other devices.",
        _tls_off,
        _tls_as_before,
    ),
    Fault(
        "stale-hccn-conf",
        "device",
        ("NPU104",),
        True,
        "/etc/hccn.conf has another address than the device.",
        _stale_conf,
        _restore_conf,
    ),
)
