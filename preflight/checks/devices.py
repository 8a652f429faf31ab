"""NPUs and their own network ports: addresses, /etc/hccn.conf, link, TLS, health.

Where one cause makes several readings wrong, the check nearest to the cause speaks and the others are silent: a device
without an address is not also told that its mask, its health and /etc/hccn.conf are wrong.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import IPv4Interface

from preflight.checks.hccn_conf import PATH, with_entries
from preflight.checks.registry import NPU, All, Here, cluster_check, host_check
from preflight.facts.types import Hccn, HccnConf, HccnDevice, NpuSmi, Reading
from preflight.model.addressing import refused_range
from preflight.model.change import Area, Change, Kind, Risk
from preflight.model.cluster import Device, Host, Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

_CANNOT_UNSET = "a device has no way to drop an address: rolled back, it keeps this one until it is reset"
_A1 = frozenset({Product.ATLAS_A1})
_UNHEALTHY = {"Fault", "Socket failed", "Socket fail"}  # seen in captures; other words are known from source only


def _interface(device: HccnDevice) -> IPv4Interface | None:
    """Address and mask as the device has them; None where one of them is unset, unknown or malformed."""
    if device.address.value is None or device.netmask.value is None:
        return None
    try:
        return IPv4Interface(f"{device.address.value}/{device.netmask.value}")
    except ValueError:
        return None


def _planned(host: Host, index: int) -> Device:
    return next((device for device in host.devices if device.index == index), Device(index))


def _has_planned_address(host: Host, device: HccnDevice) -> bool:
    """Whether the device has an address, and no other than the planned one; else NPU101 speaks about it."""
    planned = _planned(host, device.index).address
    return device.address.value is not None and (planned is None or device.address.value == str(planned.ip))


def _unreadable(here: Here, hccn: Hccn, what: str, reading: Callable[[HccnDevice], Reading]) -> Iterator[Finding]:
    """One `unknown` for each device whose reading could not be taken."""
    for device in hccn.devices:
        error = reading(device).error
        if error:
            yield here.unknown(
                f"{here.host.name}: device {device.index}: {what} could not be read: {error}", device=device.index
            )


def _change(
    here: Here | All, host: Host, kind: Kind, device: int, before: str | None, after: object, *, note: str = ""
) -> Change:
    # Safe: a device that a job uses is left alone when changes are planned, so nobody loses an address in use.
    return Change(host.name, Area.ADDRESSES, kind, str(device), before, str(after), here.check.id, Risk.SAFE, note)


@host_check("NPU101", "Every device has its address", products=NPU)
def has_address(here: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: between servers, NPUs talk over their own network ports, and the address is all they are found by. A device
    without one, or with another one than the rank table says, makes every rank wait for its connect timeout.

    By hand: hccn_tool -i 0 -ip -g

    Mend: preflight configure-device-ips, or hccn_tool -i 0 -ip -s address A netmask M
    """
    yield from _unreadable(here, hccn, "the address", lambda device: device.address)
    for device in hccn.devices:
        planned, found = _planned(here.host, device.index).address, device.address.value
        if device.address.error or (found is None and planned is None and len(here.cluster.hosts) == 1):
            continue
        if found is None or (planned and found != str(planned.ip)):
            before, wrong = _interface(device), found is not None
            settable = planned is not None and (before is not None or not wrong)
            yield here.bad(
                f"{here.host.name}: device {device.index}: " + (f"address {found}" if wrong else "no address"),
                device=device.index, expected=str(planned or "an address"), found=found or "none",
                remedy="preflight configure-device-ips" if planned else "plan addresses in the inventory",
                change=_change(here, here.host, Kind.DEVICE_ADDRESS, device.index, str(before) if before else None,
                               planned, note="" if wrong else _CANNOT_UNSET) if settable else None,
            )  # fmt: skip


@cluster_check("NPU102", "Every device address is unique in the cluster", products=NPU, several=False)
def addresses_unique(all_: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: with two devices at one address, switches send frames to whichever spoke last: connections come up and
    break at random, and no error names the reason.

    By hand: for i in 0 1 2 3 4 5 6 7; do hccn_tool -i $i -ip -g; done   (on every host, then look for duplicates)

    Mend: preflight configure-device-ips gives each device its planned address
    """
    holders: dict[str, list[tuple[Host, int]]] = defaultdict(list)
    for host in all_.hosts:
        for device in hccn[host.name].devices:
            if device.address.value:
                holders[device.address.value].append((host, device.index))
    for address, same in holders.items():
        # The one that the inventory gives this address to is in its right.
        wrong = [(h, i) for h, i in same if (p := _planned(h, i).address) is None or str(p.ip) != address] or same
        for host, index in wrong if len(same) > 1 else ():
            others = [f"{h.name}/{i}" for h, i in same if (h, i) != (host, index)]
            yield all_.bad(
                f"{host.name}: device {index}: its address {address} is also that of {', '.join(others)}",
                host=host.name, device=index, peer=others[0], expected="an address of its own", found=address,
                remedy="preflight configure-device-ips",
            )  # fmt: skip


@cluster_check("NPU103", "Every device has the planned mask, equal across its rail", products=NPU, several=False)
def masks(all_: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: a device whose mask is too long sends to its peers through a gateway that is not there; one whose mask is
    too short looks for distant peers on its own wire. Both look like a dead link from one side only.

    By hand: hccn_tool -i 0 -ip -g

    Mend: preflight configure-device-ips, or hccn_tool -i 0 -ip -s address A netmask M with the right mask
    """
    rails: dict[int, list[tuple[Host, IPv4Interface]]] = defaultdict(list)
    for host in all_.hosts:
        for device in hccn[host.name].devices:
            if device.address.value and device.netmask.error:
                yield all_.unknown(f"{host.name}: device {device.index}: the mask could not be read: "
                                   f"{device.netmask.error}", host=host.name, device=device.index)  # fmt: skip
            interface = _interface(device)
            if interface and _has_planned_address(host, device):
                rails[device.index].append((host, interface))
    for index, rail in rails.items():
        usual = Counter(interface.netmask for _, interface in rail).most_common(1)[0][0]
        for host, interface in rail:
            planned = _planned(host, index).address
            wanted = planned.netmask if planned else usual
            if interface.netmask != wanted:
                yield all_.bad(
                    f"{host.name}: device {index}: mask {interface.netmask}", host=host.name, device=index,
                    rail=index, expected=str(wanted), found=str(interface.netmask),
                    remedy="preflight configure-device-ips" if planned else
                    f"hccn_tool -i {index} -ip -s address {interface.ip} netmask {wanted}",
                    change=_change(all_, host, Kind.DEVICE_ADDRESS, index, str(interface), planned)
                    if planned else None,
                )  # fmt: skip


@host_check("NPU104", f"{PATH} says what the devices have", products=NPU)
def boot_file(here: Here, hccn: Hccn, hccn_conf: HccnConf) -> Iterator[Finding]:
    """Why: devices forget their addresses at a reboot and get them back from /etc/hccn.conf, and frameworks read the
    file instead of asking the device. If the two disagree, one NPU of many is unreachable, now or after a reboot.

    By hand: hccn_tool -i 0 -ip -g; grep -E '^(address|netmask|gateway)_0=' /etc/hccn.conf

    Mend: preflight configure-device-ips, or set the address again with hccn_tool, which rewrites its lines
    """
    wanted: dict[str, str] = {}
    for device in hccn.devices:
        interface, planned = _interface(device), _planned(here.host, device.index).address
        if interface and planned in (None, interface):  # else NPU101 or NPU103 sets it, and the tool writes the file
            wanted[f"address_{device.index}"] = str(interface.ip)
            wanted[f"netmask_{device.index}"] = str(interface.netmask)
            if device.gateway.value:
                wanted[f"gateway_{device.index}"] = device.gateway.value
    stale = {key: value for key, value in wanted.items() if hccn_conf.entries.get(key) != value}
    if not stale:
        return
    indexes = sorted({int(key.rpartition("_")[2]) for key in stale})
    before = hccn_conf.text if hccn_conf.present else None
    known = before is None or bool(before) or not hccn_conf.entries  # facts of old files carry no text
    yield here.bad(
        f"{here.host.name}: {PATH} " + ("disagrees with " if hccn_conf.present else "is missing; it should name ")
        + f"device{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}",
        device=indexes[0] if len(indexes) == 1 else None,
        expected=", ".join(f"{key}={value}" for key, value in stale.items()),
        found=", ".join(f"{key}={hccn_conf.entries.get(key, '')}" for key in stale),
        cause="after a reboot the device would have the file's values",
        remedy="preflight configure-device-ips, or set address and gateway again with hccn_tool",
        change=Change(here.host.name, Area.ADDRESSES, Kind.FILE, PATH, before, with_entries(before or "", stale),
                      here.check.id) if known else None,
    )  # fmt: skip


def _on_one_wire(one: IPv4Interface, other: IPv4Interface) -> bool:
    return one.ip in other.network and other.ip in one.network


@cluster_check("NPU105", "Device addresses follow the product's subnet rule", products=_A1, several=False)
def subnet_rule(all_: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: on Atlas A1 in SMP mode devices 0/4, 1/5, 2/6 and 3/7 share a subnet each, devices 0–3 stand in four
    different ones, and a position has the same subnet on every host (vendor's installation guide and address
    generator). HCCL builds its rings by that rule. In AMP mode one subnet for all eight is right: a warning here.

    By hand: hccn_tool -i 0 -ip -g, for devices 0 to 7

    Mend: plan the addresses by the rule (in the inventory: the A1 plan of four subnets), then configure-device-ips
    """
    first: dict[int, tuple[Host, IPv4Interface]] = {}
    for host in all_.hosts:
        seen = {
            device.index: _planned(host, device.index).address or interface
            for device in hccn[host.name].devices
            if (interface := _interface(device)) and _has_planned_address(host, device)
        }
        flat = len(seen) > 2 and all(_on_one_wire(a, b) for a in seen.values() for b in seen.values())
        if flat:
            yield all_.warn(
                f"{host.name}: all devices share one subnet, which is right in AMP mode only", host=host.name
            )
        for index, interface in seen.items():
            partner = seen.get(index + 4)
            if index < 4 and partner and not _on_one_wire(interface, partner):
                yield _off_rule(all_, host, index + 4, partner, f"share a subnet with device {index} ({interface})")
            for other in range(index + 1, 4):
                if not flat and other in seen and _on_one_wire(interface, seen[other]):
                    yield _off_rule(all_, host, other, seen[other], f"be in another subnet than device {index}")
            model, same = first.setdefault(index, (host, interface))
            if not _on_one_wire(interface, same):
                yield _off_rule(all_, host, index, interface, f"share a subnet with {model.name}/{index} ({same})")


def _off_rule(all_: All, host: Host, device: int, interface: IPv4Interface, rule: str) -> Finding:
    return all_.bad(
        f"{host.name}: device {device}: {interface} should {rule}", host=host.name, device=device,
        found=str(interface), remedy="correct the plan in the inventory, then preflight configure-device-ips",
    )  # fmt: skip


@host_check("NPU106", "No device address lies in a range that hccn_tool refuses", products=NPU)
def not_refused(here: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: some private ranges belong to the server's inner networks. hccn_tool refuses them ("The ip address
    configured is conflicted!"), and an address there that slipped in by another way is routed inside the server.

    By hand: compare hccn_tool -i 0 -ip -g with 192.168.1.0/24 and the other ranges of the product's manual

    Mend: plan other addresses in the inventory
    """
    for device in hccn.devices:
        planned, found = _planned(here.host, device.index).address, _interface(device)
        address = planned.ip if planned else found.ip if found else None
        range_ = refused_range(here.cluster.product, address) if address else None
        if range_:
            yield here.bad(
                f"{here.host.name}: device {device.index}: {address} lies in {range_}, which hccn_tool refuses",
                device=device.index, expected=f"an address outside {range_}", found=str(address),
                remedy="plan addresses in another range in the inventory",
            )  # fmt: skip


@host_check("NPU107", "Every device's link is up", products=NPU)
def link_up(here: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: a device whose port is down reaches no other server; jobs on this host alone still work, so it stays
    unnoticed until the first job over several servers.

    By hand: hccn_tool -i 0 -link -g; hccn_tool -i 0 -optical -g

    Mend: cable, optical module, switch port; then hccn_tool -i 0 -cfg recovery
    """
    yield from _unreadable(here, hccn, "the link", lambda device: device.link)
    for device in hccn.devices:
        if device.link.error or device.link.value == "UP":
            continue
        if device.link.value == "DOWN":
            yield here.bad(
                f"{here.host.name}: device {device.index}: link is DOWN", device=device.index, expected="UP",
                found="DOWN", remedy=f"look at cable, optical module and switch port of device {device.index}",
            )  # fmt: skip
        else:
            yield here.unknown(
                f"{here.host.name}: device {device.index}: link is {device.link.value or 'not told'}",
                device=device.index,
            )


@cluster_check("NPU108", "The TLS switch is the same on every device", products=NPU, several=False)
def tls_equal(all_: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: a device with TLS and one without never finish their handshake; HCCL calls it a connect timeout, or
    EI0016 in newer versions. Which of the two is right is a matter of the site's security, so no program sets it.

    By hand: hccn_tool -i 0 -tls -g

    Mend: hccn_tool -i N -tls -s enable 0 (or 1), the same on every device of the cluster
    """
    switches: dict[str, list[tuple[str, int]]] = {"0": [], "1": []}
    for name, seen in hccn.items():
        for device in seen.devices:
            if device.tls.error:
                yield all_.unknown(f"{name}: device {device.index}: the TLS switch could not be read: "
                                   f"{device.tls.error}", host=name, device=device.index)  # fmt: skip
            elif device.tls.value in switches:
                switches[device.tls.value].append((name, device.index))
    minority = min(switches, key=lambda value: len(switches[value]))
    other = "1" if minority == "0" else "0"
    word = {"0": "off", "1": "on"}
    if len(switches["0"]) == len(switches["1"]) > 0:
        yield all_.bad(
            f"TLS is on on {_list(switches['1'])} and off on {_list(switches['0'])}", host=None,
            expected="the same everywhere", remedy="decide which is right; hccn_tool -i N -tls -s enable 0|1",
        )  # fmt: skip
        return
    for name, index in switches[minority]:
        yield all_.bad(
            f"{name}: device {index}: TLS is {word[minority]}; {word[other]} on {len(switches[other])} others",
            host=name, device=index, expected=other, found=minority,
            remedy=f"hccn_tool -i {index} -tls -s enable {other}, if the majority is right",
        )  # fmt: skip


def _list(places: Sequence[tuple[str, int]]) -> str:
    shown = ", ".join(f"{name}/{index}" for name, index in places[:4])
    return shown + (f" and {len(places) - 4} more" if len(places) > 4 else "")


@host_check("NPU109", "The host has the devices of the inventory", products=NPU)
def device_count(here: Here, hccn: Hccn, npu_smi: NpuSmi) -> Iterator[Finding]:
    """Why: a card that fell off the bus, or a container that got fewer devices, is noticed by the job as a rank that
    never comes.

    By hand: npu-smi info -l; ls /dev/davinci*; lspci | grep -c 'Processing accelerators'

    Mend: fewer in npu-smi than in lspci: the card is lost, reset it or the host; else correct the inventory
    """
    wanted = {device.index for device in here.host.devices}
    for tool, found in (
        ("hccn_tool", {device.index for device in hccn.devices}),
        ("npu-smi", {chip.device for chip in npu_smi.chips}),
    ):
        for word, difference in (
            ("missing in", wanted - found),
            ("not in the inventory, but in", found - wanted),
        ):
            for index in sorted(difference if wanted else ()):
                yield here.bad(
                    f"{here.host.name}: device {index}: {word} {tool}", device=index,
                    expected=f"{len(wanted)} devices", found=f"{len(found)} devices",
                    remedy="compare npu-smi info -l with lspci; correct the inventory if it is wrong",
                )  # fmt: skip


@host_check("NPU110", "Every device finds its detect address healthy", products=NPU)
def net_health(here: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: the device itself probes its detect address all the time; anything but Success means that it does not get
    through. Without a detect address the state stays Init and says nothing.

    By hand: hccn_tool -i 0 -net_health -g; hccn_tool -i 0 -netdetect -g

    Mend: preflight configure-device-ips sets the planned detect address; a Fault: look at link, switch and peer
    """
    for device in hccn.devices:
        index, name = device.index, f"{here.host.name}: device {device.index}"
        planned, found, health = _planned(here.host, index).detect, device.detect.value, device.net_health.value
        if planned and found != str(planned) and not device.detect.error:
            yield here.warn(
                f"{name}: " + (f"detect address {found}" if found else "no detect address"), device=index,
                expected=str(planned), found=found or "none", remedy="preflight configure-device-ips",
                change=_change(here, here.host, Kind.DEVICE_DETECT, index, found, planned),
            )  # fmt: skip
        elif device.address.value is None or device.link.value == "DOWN" or health == "Success":
            continue
        elif device.detect.error or device.net_health.error:
            error = device.detect.error or device.net_health.error
            yield here.unknown(f"{name}: net health could not be read: {error}", device=index)
        elif health in _UNHEALTHY:
            yield here.bad(
                f"{name}: net health is {health}", device=index, expected="Success", found=health,
                cause=f"the device does not reach {found or 'its detect address'}",
                remedy=f"hccn_tool -i {index} -ping -g address {found or 'A'}; look at link, switch and peer",
            )  # fmt: skip
        elif health == "Init":
            why = "the probe of its detect address has only started" if found else "it has no detect address"
            yield here.warn(f"{name}: net health is Init: {why}", device=index, expected="Success", found="Init",
                            remedy="plan a detect address in the inventory" if not found else "look again in a minute",
                            )  # fmt: skip
        else:
            yield here.warn(f"{name}: net health is {health} (format unconfirmed)", device=index, expected="Success")


@host_check("NPU111", "Every device has the planned gateway", products=NPU)
def gateway(here: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: devices in different subnets reach each other through the gateway only. Within one subnet none is needed,
    so only what the inventory plans is asked for.

    By hand: hccn_tool -i 0 -gateway -g

    Mend: preflight configure-device-ips, or hccn_tool -i 0 -gateway -s gateway G (the address has to be set first)
    """
    for device in hccn.devices:
        planned, found = _planned(here.host, device.index).gateway, device.gateway.value
        name = f"{here.host.name}: device {device.index}"
        if planned and device.gateway.error:
            if device.address.value is not None:  # without an address, the tool may well refuse to tell
                yield here.unknown(
                    f"{name}: the gateway could not be read: {device.gateway.error}", device=device.index
                )
        elif planned and found != str(planned):
            yield here.bad(
                f"{name}: " + (f"gateway {found}" if found else "no gateway"), device=device.index,
                expected=str(planned), found=found or "none", remedy="preflight configure-device-ips",
                change=_change(here, here.host, Kind.DEVICE_GATEWAY, device.index, found, planned),
            )  # fmt: skip


@host_check("NPU112", "The devices' settings were restored at boot", severity=Outcome.WARN, products=NPU)
def recovered(here: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: at boot a background script feeds /etc/hccn.conf to every device and throws its messages away; when that
    fails, devices come up without address or gateway. Only a warning: the format is known from the tool's source, not
    from a capture.

    By hand: hccn_tool -i 0 -cfg status; tail /var/log/hccn_tool/hccn_config.log

    Mend: hccn_tool -a -cfg recovery, as root
    """
    for device in hccn.devices:
        if device.config_status.value in ("FAIL", "FAULT"):
            yield here.bad(
                f"{here.host.name}: device {device.index}: restoring its settings at boot ended in "
                f"{device.config_status.value} (format unconfirmed)", device=device.index, expected="SUCCESS or NONE",
                found=device.config_status.value, remedy=f"hccn_tool -i {device.index} -cfg recovery",
            )  # fmt: skip


@host_check("NPU113", "Every device is healthy", products=NPU)
def health(here: Here, npu_smi: NpuSmi) -> Iterator[Finding]:
    """Why: Alarm and Critical mean that the hardware or its firmware gave up on something; a job on that device stops
    sooner or later. Warning is common on machines in use, so it is only a warning here.

    By hand: npu-smi info; npu-smi info -t health -i 0 -c 0

    Mend: look the error code up (npu-smi info -t health), then reset the device or call the vendor
    """
    for chip in npu_smi.chips:
        summary = f"{here.host.name}: device {chip.device}: health is {chip.health}"
        remedy = f"npu-smi info -t health -i {chip.device} names the error code (-i is npu-smi's own NPU number)"
        if chip.health in ("Alarm", "Critical"):
            yield here.bad(summary, device=chip.device, expected="OK", found=chip.health, remedy=remedy)
        elif chip.health == "Warning":
            yield here.warn(summary, device=chip.device, expected="OK", found=chip.health, remedy=remedy)
        elif chip.health != "OK":
            yield here.unknown(summary, device=chip.device, remedy=remedy)


@host_check("NPU114", "The devices are idle", severity=Outcome.WARN, products=NPU)
def idle(here: Here, npu_smi: NpuSmi) -> Iterator[Finding]:
    """Why: a process left over from an earlier job keeps device memory and HCCL's ports, and most products take one
    process a device. A running job is no fault, but the probe keeps away from it and addresses are not changed.

    By hand: npu-smi info   (the second table)

    Mend: wait for the job, or end what is left of it: kill PID
    """
    if not npu_smi.processes_listed:
        yield here.unknown(f"{here.host.name}: npu-smi lists no processes, so who uses the devices is not known",
                           remedy="look for processes that hold /dev/davinci*: fuser -v /dev/davinci*")  # fmt: skip
    for process in npu_smi.processes:
        yield here.bad(
            f"{here.host.name}: device {process.device}: used by {process.name or 'a process'} (pid {process.pid})",
            device=process.device, expected="no process", found=f"pid {process.pid}",
            remedy=f"wait for the job, or on {here.host.name}: kill {process.pid}",
        )  # fmt: skip
