"""NPUs as such: link, MTU, TLS switch, number, health, and the processes that use them."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from preflight.checks.ascend import cards
from preflight.checks.ascend.chips import alarming
from preflight.checks.ascend.optics import cause_of_no_link
from preflight.checks.engine.registry import NPU, All, Here, cluster_check, host_check
from preflight.checks.shared.device_scribe import DeviceScribe
from preflight.checks.shared.npu import devices_of, planned_device, unreadable, untold
from preflight.facts.parsers.ascend.device_nodes import DeviceNodes
from preflight.facts.sections.chips import Chips
from preflight.facts.sections.nic import Nic
from preflight.facts.types import Hccn, HccnDevice, NpuSmi, Os, Reading
from preflight.model.change import Area, Kind
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.own_processes import WAIT, Owner, owner, show_run

_LOG = "/var/log/hccn_tool/hccn_config.log"  # on the host
_UNHEALTHY = {"Fault", "Socket failed", "Socket fail"}  # from captures; other words are known from source only
# Reasons of the state Init, each with its remedy.
_STARTING = "the probe of its detect address has just started", "check again in a minute"
_NO_DETECT_ADDRESS = (
    "no detect address is set",
    'set detect = "gateway" or "next-host" under [device_addresses] in the inventory',
)
_CONFIGURE = ("preflight configure-device-ips",)


@host_check("NPU107", "Device link state", products=NPU, optional=("nic",), configures=Area.ADDRESSES)
def link_up(scribe: Here, hccn: Hccn, nic: Nic | None) -> Iterator[Finding]:
    """Why: If a device's port is down, the device cannot reach any other server. Jobs on this host alone still work, so
    the fault first appears in a job that uses several servers.

    Result: FAIL if a link is down.

    Check manually:
      hccn_tool -i 0 -link -g
      hccn_tool -i 0 -optical -g

    Fix: Check the cable, the optical module and the switch port. Then restore the device's settings.
      hccn_tool -i 0 -cfg recovery
    """
    yield from unreadable(scribe, hccn, "the link", lambda device: device.link)
    deep = {device.index: device for device in nic.devices} if nic else {}
    for device in hccn.devices:
        if device.link.error or device.link.value == "UP":
            continue
        npu = DeviceScribe(scribe, scribe.host.name, device.index)
        if device.link.value == "DOWN":
            yield npu.bad(
                "link is DOWN",
                expected="UP",
                found="DOWN",
                cause=cause_of_no_link(deep.get(device.index)),
                remedy=f"check the cable, optical module and switch port of device {device.index}",
                commands=(npu.on(f"hccn_tool -i {device.index} -optical -g"),),
                retest=npu.on(f"hccn_tool -i {device.index} -link -g"),
            )
        else:
            yield npu.unknown(f"link is {device.link.value}" if device.link.value else "link state is not reported")


@cluster_check(
    "NPU115",
    "Device MTU",
    severity=Outcome.WARN,
    products=NPU,
    several=False,
    configures=Area.ADDRESSES,
)
def mtu(scribe: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: If two devices have different MTUs, frames from the device with the larger MTU are dropped without an error.
    Pings pass, but large transfers hang.

    Result: WARN if an MTU differs from the plan or, without a plan, from most devices. The check never fails, because
    the format is known from the tool's source and not from real output.

    Check manually: Replace ADDRESS with another device's address.
      hccn_tool -i 0 -mtu -g
      hccn_tool -i 0 -ping -g address ADDRESS pkt 4000

    Fix: Set device_mtu under [cluster] in the inventory, then write it to the devices.
      preflight configure-device-ips
    Or set the planned MTU manually.
      hccn_tool -i 0 -mtu -s size MTU
    """
    devices = list(devices_of(scribe.hosts, hccn))
    counts = Counter(device.mtu.value for _, device in devices if device.mtu.value)
    usual = max(counts, key=counts.__getitem__, default="")
    for host, device in devices:
        planned, actual = planned_device(host, device.index).mtu, device.mtu.value
        npu = DeviceScribe(scribe, host.name, device.index)
        if planned:
            yield from _other_than_planned(npu, device.mtu, planned)
        elif actual and actual != usual:
            yield npu.bad(
                f"MTU is {actual}, and most devices have {usual}",
                expected=usual,
                found=actual,
                remedy="set device_mtu under [cluster] in the inventory",
                commands=_CONFIGURE,
            )


def _other_than_planned(npu: DeviceScribe, mtu: Reading, planned: int) -> Iterator[Finding]:
    if mtu.error:
        yield npu.unknown(f"the MTU could not be read: {mtu.error}")
    elif mtu.value and mtu.value != str(planned):
        yield npu.bad(
            f"MTU is {mtu.value} instead of {planned}",
            expected=str(planned),
            found=mtu.value,
            change=npu.change(Kind.DEVICE_MTU, mtu.value, planned),
            remedy="set the planned MTU",
            commands=_CONFIGURE,
        )


@cluster_check("NPU108", "Device TLS setting", products=NPU, several=False, configures=Area.ADDRESSES)
def tls_equal(scribe: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: A device with TLS and a device without TLS cannot complete their handshake. HCCL reports a connect timeout,
    or EI0016 in newer versions. The right value depends on the site's security rules, so preflight does not set it.

    Result: FAIL if a device's setting differs from most others.

    Check manually:
      hccn_tool -i 0 -tls -g

    Fix: Set the same value (0 or 1) on every device of the cluster.
      hccn_tool -i 0 -tls -s enable 0
    """
    switches: dict[str, list[tuple[str, int]]] = {"0": [], "1": []}
    no_certificate: list[tuple[str, int]] = []
    for host, device in devices_of(scribe.hosts, hccn):
        if device.tls.error:
            yield DeviceScribe(scribe, host.name, device.index).unknown(
                f"the TLS setting could not be read: {device.tls.error}"
            )
        else:
            switches.get(device.tls.value or "", no_certificate).append((host.name, device.index))
    for name, index in no_certificate if switches["1"] else ():
        yield DeviceScribe(scribe, name, index).unknown(
            f"has no certificate, so its TLS setting is unknown. TLS is on for {len(switches['1'])} other devices"
        )
    minority = min(switches, key=lambda value: len(switches[value]))
    majority = "1" if minority == "0" else "0"
    word = {"0": "off", "1": "on"}
    if len(switches["0"]) == len(switches["1"]) > 0:
        name, index = switches["0"][0]
        yield scribe.bad(
            f"TLS is on for {_device_list(switches['1'])} and off for {_device_list(switches['0'])}",
            host=None,
            expected="the same setting on every device",
            remedy="decide whether TLS has to be on (1) or off (0), then change the devices that differ",
            commands=(scribe.on(name, f"hccn_tool -i {index} -tls -s enable 1"),),
        )
        return
    for name, index in switches[minority]:
        yield DeviceScribe(scribe, name, index).bad(
            f"TLS is {word[minority]}, but {word[majority]} for {len(switches[majority])} other devices",
            expected=word[majority],
            found=word[minority],
            remedy=f"if the other devices are right, turn TLS {word[majority]} for this device",
            commands=(scribe.on(name, f"hccn_tool -i {index} -tls -s enable {majority}"),),
        )


def _device_list(places: Sequence[tuple[str, int]]) -> str:
    shown = ", ".join(f"{name}/{index}" for name, index in places[:4])
    return shown + (f" and {len(places) - 4} more" if len(places) > 4 else "")


@host_check(
    "NPU109",
    "Device count",
    products=NPU,
    optional=("device_nodes",),
    configures=Area.ADDRESSES,
)
def device_count(scribe: Here, hccn: Hccn, npu_smi: NpuSmi, device_nodes: DeviceNodes | None) -> Iterator[Finding]:
    """Why: A card may fall off the bus, or a container may get too few devices. In the job, this appears as a rank that
    never connects.

    Result: FAIL if the devices in hccn_tool or npu-smi differ from the inventory.

    Check manually:
      npu-smi info -l
      ls /dev/davinci*
      lspci | grep -c 'Processing accelerators'

    Fix: If npu-smi lists fewer devices than lspci, a card is lost. In that case, reset the card or the host. Otherwise,
    correct the inventory.
    """
    wanted = {device.index for device in scribe.host.devices}
    if not wanted:
        yield scribe.skip("the inventory lists no devices")
        return
    explained = cards.explained_devices(npu_smi, device_nodes)
    for tool, present in (
        ("hccn_tool", {device.index for device in hccn.devices}),
        ("npu-smi", {chip.device for chip in npu_smi.chips}),
    ):
        lost = "compare npu-smi with the PCI bus to find a lost card, or correct the inventory"
        for fault, remedy, difference in (
            (f"is missing in {tool}", lost, wanted - present),
            (
                f"is listed by {tool}, but is not in the inventory",
                "correct the devices in the inventory",
                present - wanted,
            ),
        ):
            for index in sorted(difference - explained):
                yield scribe.bad(
                    f"{scribe.host.name}: device {index}: {fault}",
                    device=index,
                    expected=f"{len(wanted)} devices",
                    found=f"{len(present)} devices",
                    remedy=remedy,
                    commands=tuple(
                        scribe.on(scribe.host.name, line) for line in ("npu-smi info -l", "lspci -D -d 19e5:")
                    ),
                )


@host_check("NPU110", "Device detect address status", products=NPU, configures=Area.ADDRESSES)
def net_health(scribe: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: Each device constantly probes its detect address. Any state other than Success means that the device cannot
    reach that address. Without a detect address, the state stays Init, which proves nothing.

    Result: FAIL for the states Fault and Socket failed. WARN for other states, and for an unplanned detect address.

    Check manually:
      hccn_tool -i 0 -net_health -g
      hccn_tool -i 0 -netdetect -g

    Fix: Write the planned detect address. If the state is Fault, check the link, the switch and the peer.
      preflight configure-device-ips
    """
    for device in hccn.devices:
        planned, detect_address = planned_device(scribe.host, device.index).detect, device.detect.value
        npu = DeviceScribe(scribe, scribe.host.name, device.index)
        if planned and detect_address != str(planned) and not device.detect.error:
            yield npu.warn(
                f"the detect address is {detect_address} instead of {planned}"
                if detect_address
                else "no detect address is set",
                expected=str(planned),
                found=detect_address or "none",
                remedy="set the planned detect address",
                commands=_CONFIGURE,
                change=npu.change(Kind.DEVICE_DETECT, detect_address, planned),
            )
        elif device.address.value is not None and device.link.value != "DOWN":
            yield from _unhealthy(npu, device)


def _unhealthy(npu: DeviceScribe, device: HccnDevice) -> Iterator[Finding]:
    """Yield the finding about a device that does not report success with its detect address."""
    detect_address, health = device.detect.value, device.net_health.value
    if health == "Success":
        return
    if error := device.detect.error or device.net_health.error:
        yield npu.unknown(f"net health could not be read: {error}")
    elif health in _UNHEALTHY:
        yield npu.bad(
            f"net health is {health}",
            expected="Success",
            found=health,
            remedy="check the link, the switch port and the peer",
            commands=(npu.on(f"hccn_tool -i {npu.index} -ping -g address {shlex.quote(detect_address)}"),)
            if detect_address
            else (),
            retest=npu.on(f"hccn_tool -i {npu.index} -net_health -g"),
            evidence=(f"the device does not reach {detect_address or 'its detect address'}",),
        )
    elif health == "Init":
        reason, remedy = _STARTING if detect_address else _NO_DETECT_ADDRESS
        yield npu.warn(
            f"net health is Init, because {reason}",
            expected="Success",
            found="Init",
            remedy=remedy,
            commands=() if detect_address else _CONFIGURE,
            retest=npu.on(f"hccn_tool -i {npu.index} -net_health -g"),
        )
    else:
        yield npu.warn(f"net health is {health} (not verified on hardware)", expected="Success")


@host_check(
    "NPU112",
    "Boot restore of device settings",
    severity=Outcome.WARN,
    products=NPU,
    configures=Area.ADDRESSES,
)
def recovered(scribe: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: At boot, a background script applies /etc/hccn.conf to every device and discards its messages. If the script
    fails, devices start without an address or a gateway.

    Result: WARN if the restore failed. The check never fails, because the format is known from the tool's source and
    not from real output.

    Check manually:
      hccn_tool -i 0 -cfg status
      tail /var/log/hccn_tool/hccn_config.log

    Fix: Fix the error in the log. Then restore the settings as root.
      hccn_tool -a -cfg recovery
    """
    yield from untold(scribe, scribe.host, {device.index: device.config_status for device in hccn.devices}, unset=True)
    for device in hccn.devices:
        npu, status = DeviceScribe(scribe, scribe.host.name, device.index), device.config_status.value
        if status in ("FAIL", "FAULT"):
            yield npu.bad(
                f"the restore of the settings at boot ended with {status} (not verified on hardware)",
                expected="SUCCESS or NONE",
                found=status,
                remedy="correct the fault that the log reports, then restore the settings",
                commands=(npu.on(f"tail {_LOG}"), npu.on(f"hccn_tool -i {device.index} -cfg recovery")),
                retest=npu.on(f"hccn_tool -i {device.index} -cfg status"),
            )
        elif status == "START":
            yield npu.unknown(
                "settings are still being restored (not verified on hardware)",
                remedy="check again in a minute, and read the log if the state does not change",
                commands=(npu.on(f"tail {_LOG}"),),
                retest=npu.on(f"hccn_tool -i {device.index} -cfg status"),
            )


@host_check("NPU113", "Device health", products=NPU, optional=("chips",), configures=Area.ADDRESSES)
def health(scribe: Here, npu_smi: NpuSmi, chips: Chips | None) -> Iterator[Finding]:
    """Why: The health states Alarm and Critical mean that a part of the hardware or its firmware has failed. A job on
    that device fails sooner or later. The state Warning is common on machines in use.

    Result: FAIL for Alarm and Critical. WARN for Warning.

    Check manually:
      npu-smi info
      npu-smi info -t health -i 0 -c 0

    Fix: Look up the error code that this command shows. Then reset the device or contact the vendor.
      npu-smi info -t health -i 0 -c 0
    """
    reported = alarming(chips)
    for chip in npu_smi.chips:
        if chip.device in reported:
            continue
        npu, summary = DeviceScribe(scribe, scribe.host.name, chip.device), f"health is {chip.health}"
        remedy = "read the error code, and look it up in the vendor's fault list"
        query = "" if chip.npu is None else f" -t health -i {chip.npu} -c {chip.chip}"
        commands = (npu.on(f"npu-smi info{query}"),)
        if chip.health in ("Alarm", "Critical"):
            yield npu.bad(summary, expected="OK", found=chip.health, remedy=remedy, commands=commands)
        elif chip.health == "Warning":
            yield npu.warn(summary, expected="OK", found=chip.health, remedy=remedy, commands=commands)
        elif chip.health != "OK":
            yield npu.unknown(summary, remedy=remedy, commands=commands)


@host_check(
    "NPU114", "Device processes", severity=Outcome.WARN, products=NPU, optional=("os",), configures=Area.ADDRESSES
)
def idle(scribe: Here, npu_smi: NpuSmi, os: Os | None) -> Iterator[Finding]:
    """Why: A leftover process of an earlier job holds device memory and HCCL ports, and most products allow one process
    per device. A running job is not a fault, but the probe avoids its devices, and preflight does not change addresses.

    Result: WARN for any process on a device. Processes of this preflight run are ignored.

    Check manually: The second table lists the processes.
      npu-smi info

    Fix: If the process belongs to a running job, wait for the job. If the process is a leftover, end it, with PID from
    the finding.
      kill PID
    """
    if not npu_smi.processes_listed:
        yield scribe.unknown(
            f"{scribe.host.name}: npu-smi cannot list processes here, so it is unknown whether the devices are in use",
            remedy="list the processes that use the devices",
            commands=(scribe.on(scribe.host.name, "fuser -v /dev/davinci*"),),
        )
    for process in npu_smi.processes:
        holder = owner(os, process.pid, process.name)
        if holder is Owner.THIS_RUN:
            continue
        other_run = holder is Owner.OTHER_RUN
        yield scribe.bad(
            f"{scribe.host.name}: device {process.device}: is used by {process.name or 'a process'}"
            + (f" of user {process.user}" if process.user else "")
            + (" in another preflight run" if other_run else ""),
            device=process.device,
            expected="no process",
            found=f"pid {process.pid}" + (f", {process.memory} MB" if process.memory else ""),
            remedy=WAIT if other_run else "wait for the job to end. If the process is a leftover, end it",
            commands=(scribe.on(scribe.host.name, show_run(process.pid) if other_run else f"kill {process.pid}"),),
        )
