"""Checks of ARP tables: each device address is answered by its device."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.checks.shared.npu import untold
from preflight.facts.sections.nic import Nic, NicDevice
from preflight.facts.types import Hccn
from preflight.model.finding import Finding

_VIRTUAL_ROUTERS = ("00:00:5e:00:01:", "00:00:5e:00:02:")  # VRRP, RFC 5798; also used by EVPN's gateways
_MacTable = Mapping[str, Mapping[str, list[str]]]  # address → MAC → the devices ("node02/3") with that entry


@dataclass(frozen=True)
class _Owner:
    """The device that has an address."""

    host: str
    device: int
    mac: str | None


@cluster_check("NIC106", "Device address conflicts", products=NPU, several=False)
def arp(scribe: All, nic: Mapping[str, Nic], hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: A machine outside the cluster may have the same address as a device and intermittently receive its packets.
    Connections then come up and break at random.

    Result: FAIL if a different MAC address answers for a device's address. The cause may also be an outdated ARP table.
    WARN if a switch answers for the devices behind it (proxy ARP, as in EVPN). Also WARN if an address that belongs to
    no device here, such as a gateway, has several MAC addresses. NPU102 reports an address that two of the cluster's
    devices share.

    Check manually: On the host that reports the conflict:
      hccn_tool -i 0 -arp -g
    On the host that should have the address:
      hccn_tool -i 0 -mac -g

    Fix: Find the switch port of the MAC address, and give the machine on that port another address. On Huawei switches:
      display mac-address
    """
    for host in scribe.hosts:
        devices = nic[host.name].devices
        yield from untold(scribe, host, {d.index: d.arp for d in devices}, {d.index: d.mac for d in devices})
    owners, macs_by_address = _owners(nic, hccn), _macs(nic)
    switches = _switches(owners, macs_by_address)
    for mac, addresses in switches.items():
        yield scribe.warn(
            f"MAC {mac} answers ARP for {_some(addresses)}, as a switch with proxy ARP does",
            host=None,
            expected="each device answers ARP for its address",
            found=mac,
            remedy=f"find the switch with MAC {mac}. Turn off proxy ARP there, unless it is intended",
        )
    for address, macs in macs_by_address.items():
        holders = owners.get(address, [])
        if len(holders) == 1:
            yield from _foreign_macs(scribe, holders[0], address, macs, switches)
        elif not holders and len(macs) > 1:
            yield scribe.warn(
                f"address {address} has {len(macs)} MACs",
                host=None,
                expected="one MAC per address",
                remedy=f"find the second machine with address {address}, unless several switches share this address",
                evidence=tuple(
                    f"{mac} in the ARP table of {_some(devices)}" for mac, devices in sorted(macs.items())[:4]
                ),
            )


def _foreign_macs(
    scribe: All, owner: _Owner, address: str, macs: Mapping[str, list[str]], switches: Collection[str]
) -> Iterator[Finding]:
    for mac, devices in macs.items():
        if owner.mac and mac != owner.mac and mac not in switches:
            yield scribe.bad(
                f"{owner.host}: device {owner.device}: address {address} is answered by MAC {mac}, not by the device",
                host=owner.host,
                device=owner.device,
                expected=owner.mac,
                found=f"{mac} in the ARP table of {_some(devices)}",
                remedy=f"give the machine with MAC {mac} another address, then announce the device's address again",
                commands=(scribe.on(owner.host, f"hccn_tool -i {owner.device} -send_arp -s enable 1"),),
            )


def _owners(nic: Mapping[str, Nic], hccn: Mapping[str, Hccn]) -> Mapping[str, list[_Owner]]:
    """Return the owners of each address. NPU102 reports more than one."""
    owners = defaultdict(list)
    for host, hccn_of_host in hccn.items():
        macs = {device.index: device.mac.value for device in nic[host].devices}
        for device in hccn_of_host.devices:
            if device.address.value:
                mac = macs.get(device.index)
                owners[device.address.value].append(_Owner(host, device.index, mac.lower() if mac else None))
    return owners


def _macs(nic: Mapping[str, Nic]) -> _MacTable:
    """Return the entries of all devices' ARP tables."""
    macs_by_address: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for host, devices in nic.items():
        for device in devices.devices:
            for address, mac in _outward_entries(device):
                macs_by_address[address][mac].append(f"{host}/{device.index}")
    return macs_by_address


def _switches(owners: Mapping[str, list[_Owner]], macs_by_address: _MacTable) -> Mapping[str, list[str]]:
    """Return the MAC of each switch → the devices' addresses that it answers for.

    Such a MAC is no device's. It answers for several devices, or is that of a virtual router. A stranger with a
    device's address answers for one."""
    own = {owner.mac for owners_of_address in owners.values() for owner in owners_of_address if owner.mac}
    addresses_by_mac = defaultdict(list)
    for address in sorted(owners.keys() & macs_by_address.keys()):
        for mac in sorted(macs_by_address[address].keys() - own):
            addresses_by_mac[mac].append(address)
    return {
        mac: addresses
        for mac, addresses in addresses_by_mac.items()
        if len(addresses) > 1 or mac.startswith(_VIRTUAL_ROUTERS)
    }


def _outward_entries(device: NicDevice) -> Iterator[tuple[str, str]]:
    """Yield the complete entries of the device's own ports (eth0 …). Those of endXvY belong to the server's inner
    networks, which are alike everywhere."""
    for entry in device.arp.value or ():
        if entry.mac and entry.interface.startswith("eth"):
            yield entry.address, entry.mac.lower()


def _some(places: list[str]) -> str:
    return ", ".join(places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
