"""The three networks of a lab: management (controller to hosts), fabric (between device NICs) and HCCS (inside a host).

The switch of each has its own namespace. The root namespace gets one interface, the controller's, and its settings stay
unchanged. It has no bridge, so no rule of its firewall ever sees a packet between lab hosts.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from preflight.lab import kernel
from preflight.lab.addresses import Management, choose_network, device_subnets, gateway_of
from preflight.lab.spec import LabNames, Spec, fabric_port, leaf_name, uplink

PARALLEL = 8
# The rate at which every device NIC sends at most. Without a limit, a collective would measure how busy the machine's
# cores are. With it, a slow measurement means a slow link. The limit is on the device, so that faults can use the
# switch port.
DEVICE_RATE = "1gbit"
# Without a fixed address a bridge takes the lowest of its ports, and another one when that port leaves. Devices would
# then send to a gateway that no longer exists, until they ask again.
GATEWAY_MAC = "02:00:00:00:00:01"
# The first is for packets that must keep to the port (see standins/vendor/nic.h). The second is for routes to other
# rails on a direct fabric (see standins/python/torch_npu/_fibres.py).
_RULES = ("rule add pref 100 tos 0x10 lookup 100", "rule add pref 200 lookup 101")
Item = TypeVar("Item")

# Bridges flood, and neighbour discovery of hundreds of ports would keep them busy. The lab does not use IPv6.
_NO_IPV6 = {"ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1"}
# The switch routes between the device subnets although all are on one bridge, and must not redirect to a shorter route.
# Leaves and spine share a namespace, in which only the bridge with the gateways may answer.
_ROUTER = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/arp_ignore": "1",
    "ipv4/conf/all/send_redirects": "0",
    "ipv4/conf/default/send_redirects": "0",
}
# A device has two routes to its siblings, and an answer may take the other one. The effect of packet loss must not
# depend on the machine's congestion control (BBR is hardly affected), since RoCE suffers from loss.
_DEVICE = {
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv4/tcp_congestion_control": "reno",
}
# Without a switch, a device forwards what its siblings send along its fibre, and must not redirect to a shorter route.
_RELAY = {"ipv4/ip_forward": "1", "ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0"}


def build(spec: Spec, names: LabNames) -> Management:
    """Put up all namespaces and links. Return the management network, which was free."""
    hosts = spec.host_names
    devices = [(host, device) for host in hosts for device in range(spec.device_nics)]
    switches = [names.management, *([names.fabric, names.hccs] if devices else [])]
    device_namespaces = [names.device(*place) for place in devices]

    kernel.ip_batch(
        f"netns add {name}" for name in [*switches, *(names.host(host) for host in hosts), *device_namespaces]
    )
    for name in (*switches, *device_namespaces):
        kernel.set_sysctls(name, _NO_IPV6)
    for name in device_namespaces:
        kernel.set_sysctls(name, _DEVICE | (_RELAY if spec.fabric == "direct" else {}))

    management = _join_controller(spec, names)
    kernel.ip_batch(
        f"link add {host} netns {names.management} type veth peer name eth0 netns {names.host(host)}" for host in hosts
    )
    kernel.ip_batch(
        f"link add {fabric_port(host, device)} netns {switch} type veth "
        f"peer name {interface.format(device=device)} netns {names.device(host, device)}"
        for host, device in devices
        for switch, interface in ((names.fabric, "eth{device}"), (names.hccs, "hccs0"))
    )
    in_parallel(lambda host: configure_host(names.host(host), management, hosts.index(host)), hosts)
    in_parallel(lambda place: _configure_device(names.device(*place), place[1], _virtual_nic(spec, *place)), devices)
    kernel.ip_batch(_plug("mgmt", hosts), names.management)
    if devices:
        kernel.set_sysctls(names.fabric, _ROUTER)
        kernel.ip_batch(_fabric(spec), names.fabric)
        kernel.ip_batch(_hccs(spec), names.hccs)
    return management


def destroy(names: LabNames) -> None:
    """Remove every namespace and interface of the lab. Missing ones are no error."""
    kernel.remove_interface(names.controller)
    kernel.remove_namespaces(kernel.namespaces(names.prefix))


def set_host_power(spec: Spec, names: LabNames, host: str, on: bool) -> None:
    """Switch on or off all links of a host, as its power supply would."""
    kernel.ip_batch([f"link set {host} {'up' if on else 'down'}"], names.management)
    if spec.device_nics:
        set_light(spec, names, host, range(spec.device_nics), on)


def set_light(spec: Spec, names: LabNames, host: str, devices: Iterable[int], on: bool) -> None:
    """Switch the light of a host's devices on or off. A direct fibre is dark at both ends or at neither."""
    ends = spec.host_names if spec.fabric == "direct" else [host]
    ports = (fabric_port(end, device) for device in devices for end in ends)
    kernel.ip_batch((f"link set {port} {'up' if on else 'down'}" for port in ports), names.fabric)


def configure_host(netns: str, management: Management, number: int) -> None:
    """Give the network namespace of host `number` its loopback and its address in the management network."""
    kernel.ip_batch(
        [
            "link set lo up",
            "link set eth0 addrgenmode none",
            f"addr add {management.host(number)}/{management.network.prefixlen} dev eth0",
            "link set eth0 up",
        ],
        netns,
    )


def _join_controller(spec: Spec, names: LabNames) -> Management:
    """Choose a free network and take the controller's address in it before another lab can choose it."""
    with kernel.machine_wide("network"):
        management = Management(choose_network(spec.hosts, kernel.networks_in_use()))
        kernel.ip_batch(
            [
                f"link add {names.controller} type veth peer name controller netns {names.management}",
                f"link set {names.controller} addrgenmode none",
                f"addr add {management.controller} dev {names.controller}",
                f"link set {names.controller} up",
            ]
        )
    kernel.ip_batch(_bridge("mgmt"), names.management)
    kernel.ip_batch(_plug("mgmt", ["controller"]), names.management)
    return management


def _configure_device(netns: str, device: int, virtual_nic: Iterable[str]) -> None:
    up = ("link set lo up", f"link set eth{device} up", "link set hccs0 up")
    kernel.ip_batch([*up, *_RULES, *virtual_nic], netns)
    hold_to_rate(netns, device)


def hold_to_rate(netns: str, device: int) -> None:
    """Limit the rate at which a device NIC sends."""
    shaper = ("tbf", "rate", DEVICE_RATE, "burst", "256kb", "latency", "100ms")
    kernel.run("tc", "-n", netns, "qdisc", "replace", "dev", f"eth{device}", "root", *shaper)


def _virtual_nic(spec: Spec, host: str, device: int) -> Iterable[str]:
    """Yield the address of an atlas-a3 die on HCCS (see standins/vendor/hccn_jobs.c)."""
    if spec.product == "atlas-a3":
        server = spec.host_names.index(host) + 1
        yield f"addr add 192.{server}.{2 + device % 2}.{199 - device}/16 dev hccs0"


def _fabric(spec: Spec) -> Iterable[str]:
    if spec.fabric == "direct":
        for device in range(spec.device_nics):
            yield from _bridge(f"rail{device}")
            yield from _plug(f"rail{device}", [fabric_port(host, device) for host in spec.host_names])
        return
    yield from _bridge("fabric")
    yield f"link set fabric address {GATEWAY_MAC}"
    for subnet in device_subnets(spec):
        yield f"addr add {gateway_of(subnet)}/{subnet.partition('/')[2]} dev fabric"
    if spec.leaves > 1:
        yield from _leaves(spec)
    for number, host in enumerate(spec.host_names):
        bridge = leaf_name(spec.leaf_of(number)) if spec.leaves > 1 else "fabric"
        yield from _plug(bridge, [fabric_port(host, device) for device in range(spec.device_nics)])


def _leaves(spec: Spec) -> Iterable[str]:
    """Yield one bridge for each leaf, with one cable to the bridge `fabric`, which is the spine."""
    for leaf in range(spec.leaves):
        at_leaf, at_spine = uplink(leaf)
        yield from _bridge(leaf_name(leaf))
        yield f"link add {at_leaf} type veth peer name {at_spine}"
        yield from _plug(leaf_name(leaf), [at_leaf])
        yield from _plug("fabric", [at_spine])


def _hccs(spec: Spec) -> Iterable[str]:
    for host in spec.host_names:
        yield from _bridge(host)
        yield from _plug(host, [fabric_port(host, device) for device in range(spec.device_nics)])


def _bridge(name: str) -> Iterable[str]:
    return (f"link add {name} type bridge mcast_snooping 0", f"link set {name} up")


def _plug(bridge: str, ports: Iterable[str]) -> Iterable[str]:
    return (f"link set {port} master {bridge} up" for port in ports)


def in_parallel(work: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Do the work for all items, a few at a time. Raise the first failure."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(work, items))
