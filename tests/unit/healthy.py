"""A healthy 2 × 8 Atlas A1 cluster in facts, and how a case differs from it.

A case is a file `tests/cases/checks/<ID>/<outcome>-<story>.toml`:

    [cluster]                 what the inventory says differently; a host by its name: [cluster.hosts.node01]
    [facts.node02.hccn.devices.3.link]   what the facts say differently; list elements by position
    value = "DOWN"
    [facts.node01]
    hccn_conf = {missing = "no permission"}       a section that could not be collected
    [[pings]]                 changes of a healthy ping: host, device, peer and purpose name it; others are added
    [[tests]]                 probe tests: members = ["node01/3", …], outcome, busbw, ranks."node01/3" = {stage = …}
    [baseline]                what is saved, if not what the tests measure: see `case_baseline`
    [[located]]               kind, members, tests, outcome, direction: whom tests with different partners name
    [[causes]]                check, outcome, summary, host, device …: what facts say of them
    [rehearsal]               what did not come through, see `case_rehearsal`
    [hccl_test]               what HCCL Test said, and its exit code ("stopped": none)
    [[expect]]                the findings of the check, in any order: every key is compared; `says` are fragments of
                              the summary, `change` the fields of the change; no [[expect]]: passes only
"""

import copy
import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from ipaddress import IPv4Interface, IPv4Network, ip_network
from typing import Any, Literal

import msgspec

from preflight.facts.hccl_test_run import HcclTestRun
from preflight.facts.link_counts import LinkCounts
from preflight.facts.parsers.ascend.device_nodes import Accelerator, DeviceNode, DeviceNodes
from preflight.facts.parsers.ascend.hccl_test import hccl_test
from preflight.facts.parsers.ascend.hccn_conf import entries as read_entries
from preflight.facts.parsers.ascend.packages import DriverInstall, Package
from preflight.facts.parsers.linux.sysctl import OWN_FILE
from preflight.facts.parsers.rdma import Gid, PortCounters, RdmaPort
from preflight.facts.reading import Found
from preflight.facts.sections.accelerators import Accelerators
from preflight.facts.sections.chips import Board, Chip, Chips, Health, SuperPod, Topology, Usages
from preflight.facts.sections.environment import Environment
from preflight.facts.sections.firewall import Arrival, Arrivals, Firewall, NftChain
from preflight.facts.sections.job import NPU_FILES, Job, JobRdma, SeenFile, SeenFolder
from preflight.facts.sections.load import Busy, Load
from preflight.facts.sections.naming import FullName, Naming
from preflight.facts.sections.neighbours import Entry, Neighbours, SshVisit
from preflight.facts.sections.nic import (
    Band,
    Bandwidth,
    DeviceRoute,
    LinkChange,
    LinkHistory,
    Neighbour,
    Nic,
    NicDevice,
    Optics,
    UdpPorts,
)
from preflight.facts.sections.rdma import PciFunction, Rdma
from preflight.facts.sections.shells import Shells, ShellView
from preflight.facts.types import (
    Clock,
    ClusterFacts,
    Hccn,
    HccnConf,
    HccnDevice,
    HostFacts,
    Interface,
    Limits,
    Missing,
    Names,
    Network,
    NpuChip,
    NpuSmi,
    Os,
    Reading,
    Route,
    SharedMemory,
    Sockets,
    Sysctl,
    SysctlFile,
    Unreachable,
    Versions,
)  # fmt: skip
from preflight.model.cluster import Cluster, Device, Host, HostSetup, JobInputs, ProbeSettings, Product
from preflight.model.finding import Finding
from preflight.model.measure import (
    End,
    Located,
    Meeting,
    Member,
    Observation,
    RankView,
    Scope,
    Sending,
    TestOutcome,
    TestResult,
)
from preflight.model.ping import Ping
from preflight.model.ports import PortSet
from preflight.rules import setup_files
from preflight.rules.firewall import persistent_rules
from preflight.rules.firewall.dialects import nft
from preflight.rules.sysctl import reserved_ports
from tests.unit.apply_to_devices import with_entries
from tests.unit.case_baseline import baseline
from tests.unit.case_rehearsal import rehearsal
from tests.unit.healthy_gpus import healthy_nvidia

SETUP = HostSetup(hosts_file=True, memlock="unlimited", nofile=1048576, profile={})
PORTS = PortSet.parse("29500,60000-60031")
NETWORK = IPv4Network("10.1.0.0/24")
_KINDS: tuple[Literal["v1", "v2"], ...] = ("v1", "v2")
_ENDS: tuple[Literal["gpu", "nic"], ...] = ("gpu", "nic")
CHIPS = {Product.ATLAS_A1: "910A", Product.ATLAS_A2: "910B3", Product.ATLAS_A3: "Ascend910"}
BASE_RULES = ("ct state established,related accept", 'iif "lo" accept', "tcp dport 22 accept")
NFTABLES_CONF = (
    "flush ruleset\n\ntable inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n"
    + "".join(f"\t\t{rule}\n" for rule in BASE_RULES)
    + "\t}\n}\n"
)


@cache
def device_address(host: int, device: int) -> IPv4Interface:
    """By the A1 rule: devices 0/4, 1/5, 2/6, 3/7 share a subnet."""
    return IPv4Interface(f"10.20.{device % 4}.{10 * host + device // 4}/24")


def healthy_cluster() -> Cluster:
    def host(number: int) -> Host:
        devices = tuple(Device(index, device_address(number, index)) for index in range(8))
        return Host(f"node{number:02}", f"10.1.0.{number}", nic="eth0", devices=devices)

    return Cluster(
        "case", Product.ATLAS_A1, (host(1), host(2)), cidrs=(NETWORK,), hccl_ports=PortSet.parse("60000-60031"),
        job_ports=PortSet.parse("29500"), port_names={29500: "master"}, setup=SETUP,
        probe=ProbeSettings(expect={"pair": 0.5, "all": 0.5}),
        job=JobInputs(project="/srv/project", imports=("torch",), launcher="mpirun"),
    )  # fmt: skip


def healthy_facts(cluster: Cluster) -> ClusterFacts:
    return ClusterFacts({host.name: host_facts(cluster, host, number) for number, host in enumerate(cluster.hosts, 1)})


def host_facts(cluster: Cluster, host: Host, number: int) -> HostFacts:
    """What a host finds; its device addresses and serial numbers follow from `number`."""
    ours = nft.ours((NETWORK,), PORTS)
    chain = NftChain("inet", "filter", "input", "drop", (ours, *BASE_RULES), (ours,))
    addresses, length = {index: device_address(number, index) for index in range(8)}, NETWORK.prefixlen
    entries = {
        key: value
        for index, address in addresses.items()
        for key, value in (
            (f"address_{index}", str(address.ip)),
            (f"netmask_{index}", str(address.netmask)),
            (f"netdetect_{index}", str(addresses[(index + 4) % 8].ip)),
        )
    }
    return HostFacts(
        os=Os("debian", "12", "6.1.0", "aarch64", host.name, "root", root=True, machine_id=f"{number:032x}",
              remove_ipc=False),
        clock=Clock(0.01 * number, 0.02),
        sysctl=Sysctl(
            "29500,60000-60031", (32768, 60999),
            (SysctlFile(OWN_FILE, str(PORTS), reserved_ports.own_file(PORTS)),), 4096,
            open_files=2000, most_files=1 << 40,
        ),
        sockets=Sockets(()),
        network=Network(
            (
                Interface("lo", True, 65536, "00:00:00:00:00:00", ("127.0.0.1/8", "::1/128")),
                Interface("eth0", True, 1500, "02:00:00:00:00:01", (f"{host.address}/{length}", "fe80::1/64")),
                *(_rdma_nics(number) if cluster.product is Product.NVIDIA else ()),
            ),
            (Route("default", "10.1.0.254", "eth0"),),
        ),
        firewall=Firewall(
            nft_present=True,
            nft_chains=(chain,),
            nft_boot_file=NFTABLES_CONF + persistent_rules.NFT_INCLUDE + "\n",
            nft_preflight_file=persistent_rules.own_file({"inet filter input": (ours,)}),
            ufw_installed=False, ufw_enabled=False, ufw_rules=(), ufw_ours=(),
        ),
        names=Names((host.address,), {other.name: (other.address,) for other in cluster.hosts}),
        naming=Naming(
            ("127.0.0.1", "::1"),
            FullName(
                f"{host.name}.dc", {f"{one.name}.dc": (one.address,) for one in cluster.hosts if one is not host}
            ),
            {one.address: 0.001 for one in cluster.hosts if one is not host},
            dict.fromkeys((cluster.hosts[0].name, cluster.hosts[0].address), number == 1),
            6.0,
        ),
        limits=Limits(1048576, 1048576, -1, 64 << 30, 8 << 20, SharedMemory(0o1777, 64 << 30)),
        versions=Versions(
            "3.11.2", "2.1.0", "2.1.0.post10", "1.26.4", "23.0.7", "7.1.0.11.220", "8.0.0", packages=healthy_packages()
        ),
        environment=healthy_environment(dataclasses.replace(cluster, setup=SETUP), "eth0" if host.nic else ""),
        hccn=Hccn(
            tuple(
                HccnDevice(
                    index, Reading(str(address.ip)), Reading(str(address.netmask)), Reading("UP"), Reading("Success"),
                    Reading(str(addresses[(index + 4) % 8].ip)), Reading(), Reading("1"), Reading("SUCCESS"),
                    mtu=Reading("1500"),
                )
                for index, address in addresses.items()
            )
        ),
        rdma=_rdma(number),
        accelerators=_accelerators(cluster.product),
        hccn_conf=HccnConf(True, entries, "".join(f"{key}={value}\n" for key, value in entries.items())),
        arrivals=Arrivals(
            tuple(
                Arrival(other.name, "refused", port, other.address, host.address)
                for other in cluster.hosts if other is not host for port in (29500, 60000, 60031)
            )
        ),
        npu_smi=NpuSmi(
            "23.0.7",
            tuple(
                NpuChip(index, CHIPS.get(cluster.product, ""), "OK", 0, npu=index, bus=f"0000:{index + 1:02X}:00.0",
                        hbm_used=0, hbm_total=32768)
                for index in range(8)
            ),
            (),
        ),
        nic=Nic(tuple(_nic(cluster.product, number, index) for index in addresses)),
        chips=Chips(
            tuple(
                Chip(
                    index, index, 0, Found(Health("OK")),
                    Found(Board("23.0.7", "7.1.0.11.220", "OK", "0x02", f"0000:{index + 1:02X}:00.0", "", 1)),
                    Found(Usages(32768, 0, 0)), _place(cluster.product, number, index), Found(),
                )
                for index in range(8)
            ),
            Found(
                Topology(
                    tuple(range(8)),
                    tuple(tuple("X" if row == column else "HCCS" for column in range(8)) for row in range(8)),
                )
            ),
        ),
        device_nodes=DeviceNodes(
            tuple(
                DeviceNode(f"/dev/{name}", 0o660, "HwHiAiUser", "HwHiAiUser", 1000, 1000)
                for name in (*(f"davinci{index}" for index in range(8)), "davinci_manager", "hisi_hdc", "devmm_svm")
            ),
            Found(tuple(Accelerator(f"0000:{index + 1:02x}:00.0", "d801") for index in range(8))),
            Found(DriverInstall("HwHiAiUser", "HwHiAiUser", "/usr/local/Ascend", False, "complete", "normal")),
        ),
        job=_job(),
        neighbours=Neighbours(
            "root", tuple(SshVisit(other.name, other.address, Entry.IN) for other in cluster.hosts if other is not host)
        ),
        shells=Shells("root", "/bin/bash", _way(), _way()),
        nvidia=healthy_nvidia(number) if cluster.product is Product.NVIDIA else None,
        load=Load(192, None, 2.3, 1, 0.3, (Busy(812, "rsyslogd", 0.25, 0.03, "root"),)),
    )  # fmt: skip


def _accelerators(product: Product) -> Accelerators:
    if product is Product.NVIDIA:
        return Accelerators(gpu_nodes=8, gpus=8)
    return Accelerators(npu_nodes=8, npus=("d801",) * 8) if product.is_npu else Accelerators()


def healthy_packages() -> dict[str, Package]:
    """As the version files of driver 23.0.7, its firmware and CANN 8.0.0 say it."""
    known = tuple((f"V100R001C{number}",) for number in (13, 15, 17, 18, 19, 20))
    return {
        "driver": Package(
            "23.0.7", "23.0.7", "V100R001C15SPC012B220", known[:2], takes_firmware=(("7.0.0", "7.1.99"),)
        ),
        "firmware": Package("7.1.0.11.220", "23.0.7", takes_driver=(("23.0.rc3", "23.0.rc3."), ("23.0.0", "23.0.0."))),
        "cann": Package("8.0.0", inner="V100R001C20SPC001B251", takes=known[1:]),
    }


def _job() -> Job:
    """Jobs of root, on the host itself, with CANN's set_env.sh sourced."""
    toolkit = "/usr/local/Ascend/ascend-toolkit/latest"
    variables = {
        "ASCEND_HOME_PATH": toolkit, "ASCEND_OPP_PATH": f"{toolkit}/opp", "LD_LIBRARY_PATH": f"{toolkit}/lib64",
    }  # fmt: skip
    packages = {
        "torch": "2.1.0", "torch_npu": "2.1.0.post10", "numpy": "1.26.4", "scipy": "1.11.4", "decorator": "5.1.1",
        "attrs": "23.2.0", "mindspore": "2.4.10", "nvidia_nccl_cu12": "2.21.5", "nvidia_cuda_runtime_cu12": "12.4.127",
    }  # fmt: skip
    there = {path: SeenFile(path, "file" if "." in path else "folder") for path in NPU_FILES}
    return Job(
        "root", 0, (0,), (1 << 41) - 1, contained=False, variables=variables, files=there, packages=packages,
        devices=tuple(range(8)), project=SeenFolder("/srv/project", "nfs4", "store:/export/project"),
        environment=SeenFolder("/opt/venv", "nfs4", "store:/export/venv"),
        imports={"torch": "/opt/venv/torch/__init__.py"}, rdma=JobRdma(),
    )  # fmt: skip


def _rdma_nics(number: int) -> tuple[Interface, ...]:
    """The interfaces of the RoCE ports."""
    return tuple(
        Interface(f"rdma{rail}", True, 9000, f"02:30:00:00:0{rail}:{number:02x}", (f"10.30.{rail}.{number}/24",))
        for rail in range(2)
    )


def _rdma(number: int) -> Rdma:
    """Two ports of RoCE and one of InfiniBand, each RoCE NIC below a switch that it shares with a GPU."""
    ports = tuple(RdmaPort(f"mlx5_{rail}", 1, "ACTIVE", "LinkUp", 400.0, "Ethernet", 0, 0) for rail in range(2))
    gids = tuple(
        Gid(
            f"mlx5_{rail}", 1, 2 * mapped + (kind == "v2"),
            f"::ffff:10.30.{rail}.{number}" if mapped else f"fe80::{rail}:{number}",
            f"10.30.{rail}.{number}" if mapped else None, kind, f"rdma{rail}",
        )
        for rail in range(2) for mapped in (False, True) for kind in _KINDS
    )  # fmt: skip
    infiniband = RdmaPort("mlx5_2", 1, "ACTIVE", "LinkUp", 400.0, "InfiniBand", 10 + number, 1, mtu=4096)
    counters = tuple(
        PortCounters(f"mlx5_{nic}", 1, {"port_rcv_packets": 10**9, "link_downed": 1, "symbol_error": 0})
        for nic in range(3)
    )
    switches = {rail: (f"0000:{rail}0:01.0", f"0000:{rail}1:00.0") for rail in range(2)}  # root port, upstream port
    functions = (
        PciFunction(f"0000:{rail}{5 + at}:00.0" if kind == "gpu" else f"mlx5_{rail}", kind,
                    (*above, f"0000:{rail}2:0{at}.0", f"0000:{rail}{5 + at}:00.0"), rail, "identity")
        for rail, above in switches.items() for at, kind in enumerate(_ENDS)
    )  # fmt: skip
    found = tuple(functions)
    acs: dict[str, int | None] = {bridge: 0 for function in found for bridge in function.path[:-1]}
    return Rdma(
        (*ports, infiniband), gids, counters, counters, 0.5, found, acs, uverbs=3, peermem=True, open_driver=True
    )


def _way() -> ShellView:
    """mpirun in one place, and CANN, also where no person logs in."""
    variables = {"LD_LIBRARY_PATH": "/opt/ompi/lib", "ASCEND_HOME_PATH": "/usr/local/Ascend/cann"}
    return ShellView(
        variables, {"mpirun": "/opt/ompi/bin/mpirun", "python3": "/usr/bin/python3"}, "mpirun (Open MPI) 4.1.4"
    )


def _place(product: Product, number: int, index: int) -> Found[SuperPod]:
    if product is not Product.ATLAS_A3:
        return Found(error="not asked: not an Atlas A3")
    return Found(SuperPod((number << 22) + index, 0, number, 384))


def _nic(product: Product, number: int, index: int) -> NicDevice:
    """A device NIC of host `number`: its link up for a month, its optics well within their limits. On Atlas A1 it sees
    the networks of all four devices of its module."""
    seen = range(index // 4 * 4, index // 4 * 4 + 4) if product is Product.ATLAS_A1 else (index,)
    networks = {one % 4: str(device_address(number, one).network.network_address) for one in seen}
    now = 1790000000.0
    return NicDevice(
        index,
        history=Found(LinkHistory(now, 1, 0, (LinkChange(True, now - 30 * 86400),))),
        optics=Found(
            Optics(True, "Maker", "QSFP28-SR4", f"S{number}{index}", 41.0, (1.1, 1.2, 1.1, 1.2), (0.9, 1.0, 0.9, 1.0),
                   Band(0.0, 70.0), Band(0.28, 3.55), Band(0.14, 3.55), 0, 0, 0, 0)
        ),
        speed=Found(100000 if product is Product.ATLAS_A1 else 200000), duplex=Found("Full"), fec=Found("rs"),
        mac=Found(f"02:20:00:00:{number:02x}:{index:02x}"),
        neighbour=Found(Neighbour(f"leaf{index % 4}", f"100GE1/0/{number}")),
        packets=Found({"roce_rx_err_pkt_num": 0, "roce_tx_err_pkt_num": 0, "mac_rx_bad_pkt_num": 0}),
        resources=Found({"qp_active": 0, "pd_active": 0, "mr_active": 0, "cq_active": 0}),
        arp=Found(()),
        routes=Found(
            tuple(DeviceRoute(network, None, "255.255.255.0", f"eth{port}") for port, network in networks.items())
        ),
        hccp=Found("not exist"),
        pfc=Found(tuple(priority == 4 for priority in range(8))),
        dscp_to_tc=Found({dscp: 1 if dscp == 33 else 0 for dscp in range(64)}),
        vnic=Found(error="The command is not supported on this product."),
        udp=Found(UdpPorts("auto")),
        bandwidth=Found(Bandwidth(0.0, 0.0)),
    )  # fmt: skip


def healthy_environment(cluster: Cluster, interface: str) -> Environment:
    """Everything that can be asked for is there, also where a case does not ask for it (any more)."""
    lines = [f"{host.address} {host.name}" for host in cluster.hosts]
    return Environment(
        hosts=setup_files.with_block("127.0.0.1 localhost\n", lines),
        limits_files={setup_files.LIMITS_FILE: setup_files.limits_file(cluster.setup) or ""},
        profile=setup_files.profile_file(cluster, interface),
        nr_open=1048576,
    )


def healthy_pings() -> list[dict[str, Any]]:
    """Along every rail, small and as large as the MTU; on Atlas A3 over HCCS, too."""
    hccs = [
        {"host": f"node{host:02}", "device": index, "peer": f"node{host:02}/{index ^ 1}", "sent": 3, "received": 3,
         "address": f"192.{host}.{2 + index % 2}.{199 - index}", "milliseconds": 0.01, "purpose": "hccs"}
        for host in (1, 2) for index in range(8)
    ]  # fmt: skip
    return hccs + [
        {"host": f"node{host:02}", "device": index, "peer": f"node{3 - host:02}/{index}", "sent": 3, "received": 3,
         "address": str(device_address(3 - host, index).ip), "milliseconds": 0.1, "size": size, "purpose": purpose}
        for purpose, size in (("reach", 0), ("mtu", 1472)) for host in (1, 2) for index in range(8)
    ]  # fmt: skip


def healthy_tests() -> list[dict[str, Any]]:
    """An all_reduce over all devices, the eight same-rail pairs, and one of them with as much as a port can carry."""
    everybody = [f"node{host:02}/{index}" for host in (1, 2) for index in range(8)]
    pairs = [
        {"id": f"r2-{index}", "members": [f"node01/{index}", f"node02/{index}"], "busbw": 10.0 + 0.01 * index}
        for index in range(8)
    ]
    large = {"id": "r3-7", "members": pairs[7]["members"], "busbw": 11.5, "bytes": 1 << 28, "line_rate": 0.92}
    step = {
        "id": "r2-99",
        "op": "training_step",
        "members": everybody,
        "ranks": {p: {"seconds": 0.1} for p in everybody},
    }
    init = {
        "id": "r1-0",
        "op": "init",
        "members": everybody,
        "meeting": {"backend": "nccl", "place": "10.1.0.1:29500", "nics": {}},
        "ranks": {p: {"way": {"network": "IB", "ways": ["NET/IB", "P2P"]}} for p in everybody},
    }
    return [init, {"id": "r1-1", "members": everybody, "busbw": 8.0}, step, *pairs, large, *alone(everybody)]


def alone(places: Sequence[str]) -> list[dict[str, Any]]:
    """What each device did by itself, twice, with the ids "node01/0 matmul 0" …, the second time slower."""
    figures = {
        "matmul": ("tflops", 80.0),
        "memory": ("algbw", 700.0),
        "copy_in": ("algbw", 25.0),
        "copy_out": ("algbw", 24.0),
        "processor": ("tflops", 5.0),  # far more than one thread has: each figure is 0.1 under the one before
    }
    return [
        {"id": f"{place} {op} {time}", "op": op, "members": [place], "scope": "device", unit: figure - 0.1 * time}
        for place in places for op, (unit, figure) in figures.items() for time in (0, 1)
    ]  # fmt: skip


HCCL_TEST_PASSED = """\
data_size(Bytes): |   avg_time(us): | alg_bandwidth(GB/s): | check_result:
8192              |     700.00    |       0.01170        | success
16777216          |    2000.00    |       8.38861        | success
"""


# From a case's tables to typed objects.


def _convert(value: Any, hint: Any) -> Any:
    return msgspec.convert(value, hint, dec_hook=lambda type_, raw: type_(raw))


def _plain_hint(hint: Any) -> Any:
    """The hint without Missing and None, which a case writes in its own way."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        rest = [option for option in typing.get_args(hint) if option not in (Missing, type(None))]
        return rest[0] if len(rest) == 1 else hint
    return hint


def differing(base: Any, changes: Any, hint: Any) -> Any:
    """`base` with a case's changes; both stay what their types say."""
    hint = _plain_hint(hint)
    if isinstance(changes, dict) and set(changes) == {"missing"}:
        return Missing(changes["missing"])
    if isinstance(changes, dict) and set(changes) == {"absent"}:
        return None
    if isinstance(base, PortSet):
        return PortSet.parse(changes)
    if base and isinstance(base, tuple) and isinstance(base[0], IPv4Network):
        return tuple(map(ip_network, changes))
    if isinstance(base, Found):
        if isinstance(changes.get("value"), dict) and base.value is not None:
            return Found(differing(base.value, changes["value"], typing.get_args(hint)[0]))
        return _convert(changes, hint)  # a whole one: {} is "not set"
    if isinstance(base, HccnConf):
        return _hccn_conf(base, changes)
    if isinstance(changes, dict) and dataclasses.is_dataclass(base) and not isinstance(base, type):
        hints = typing.get_type_hints(type(base))
        new = {key: differing(getattr(base, key), value, hints[key]) for key, value in changes.items()}
        return dataclasses.replace(base, **new)
    if isinstance(changes, dict) and isinstance(base, tuple):
        elements = list(base)
        names = [getattr(element, "name", str(position)) for position, element in enumerate(elements)]
        for key, value in changes.items():
            position = names.index(key) if key in names else int(key)
            elements[position] = differing(elements[position], value, typing.get_args(hint)[0])
        return tuple(elements)
    if isinstance(changes, dict) and isinstance(base, dict) and typing.get_origin(hint) is dict:
        new = {key: value for key, value in changes.items() if value != {"absent": True}}
        kept = {key: value for key, value in base.items() if key not in changes}
        return {**kept, **{key: _convert(value, typing.get_args(hint)[1]) for key, value in new.items()}}
    return _convert(changes, hint)


def _hccn_conf(base: HccnConf, changes: dict[str, Any]) -> HccnConf:
    """`text`: the whole file; `entries`: lines that differ; `present = false`: no file."""
    if not changes.get("present", True):
        return HccnConf(False, {})
    text = changes.get("text", with_entries(base.text, changes.get("entries", {})))
    entries = read_entries(text)
    assert isinstance(entries, dict)
    return HccnConf(True, entries, text)


@dataclasses.dataclass(frozen=True)
class Scene:
    """Everything a case gives to the runner."""

    cluster: Cluster
    facts: ClusterFacts
    rounds: dict[str, object]


def scene(case: Mapping[str, Any]) -> Scene:
    cluster = differing(healthy_cluster(), dict(case.get("cluster", {})), Cluster)
    cluster = dataclasses.replace(cluster, hosts=cluster.hosts[: case.get("hosts", 2)])
    facts = healthy_facts(cluster)
    hosts: dict[str, HostFacts | Unreachable] = dict(facts.hosts)
    for name, changes in case.get("facts", {}).items():
        gone = changes.get("unreachable")
        hosts[name] = Unreachable(**gone) if gone else differing(hosts[name], changes, HostFacts)
    of_tests = observations(case)
    rounds: dict[str, object] = {
        "pings": pings(case), "observations": of_tests, "hccl_test": hccl_test_run(case),
        "rehearsal": rehearsal(case, cluster), "baseline": baseline(case, of_tests),
        "located": msgspec.convert(case.get("located", []), tuple[Located, ...]),
        "causes": msgspec.convert(case.get("causes", []), tuple[Finding, ...]),
        "link_counts": link_counts(case, cluster),
    }  # fmt: skip
    return Scene(cluster, ClusterFacts(hosts), rounds)


def hccl_test_run(case: Mapping[str, Any]) -> HcclTestRun:
    """`hccl_test`: {said = what it printed, or {missing = why it did not run}, exit, seconds, command}."""
    given = {"said": HCCL_TEST_PASSED, **case.get("hccl_test", {})}
    said = given.pop("said")
    members = tuple(Member(host.name, device.index, 0) for host in healthy_cluster().hosts for device in host.devices)
    ranked = tuple(dataclasses.replace(member, rank=rank) for rank, member in enumerate(members))
    if given.get("exit") == "stopped":
        given["exit"] = None
    return HcclTestRun(ranked, Missing(said["missing"]) if isinstance(said, dict) else hccl_test(said), **given)


def link_counts(case: Mapping[str, Any], cluster: Cluster) -> LinkCounts:
    """`link_counts`: {ports = [what differs from a port that counted packets alone], unknown, without}."""
    given = {"unknown": {}, "without": [], **case.get("link_counts", {})}
    mine = {(port["host"], port["port"]): port for port in given.pop("ports", [])}
    silent = {*given["unknown"], *given["without"]}
    healthy = [(host.name, "mlx5_0 port 1") for host in cluster.hosts if host.name not in silent]
    ports = [{"host": host, "port": port, "device": None, "packets": 10**8, "errors": {}, **mine.get((host, port), {})}
             for host, port in dict.fromkeys([*healthy, *mine])]  # fmt: skip
    return msgspec.convert({**given, "ports": ports}, LinkCounts)


def pings(case: Mapping[str, Any]) -> tuple[Ping, ...]:
    all_ = healthy_pings()
    for change in case.get("pings", ()):
        which = ("host", "device", "peer", "purpose")
        change = {"purpose": "reach", **change}
        found = [ping for ping in all_ if all(ping[key] == change[key] for key in which)]
        if found:
            found[0].update(change)
        else:
            all_.append({"sent": 3, "received": 3, "address": "10.20.0.254", **change})
    return tuple(Ping(**ping) for ping in all_)


def observations(case: Mapping[str, Any]) -> tuple[Observation, ...]:
    """The case's tests instead of the healthy ones of the same id; `only_these_tests` leaves the healthy ones out."""
    mine = {test["id"]: test for test in copy.deepcopy(list(case.get("tests", ())))}
    healthy = {} if case.get("only_these_tests") else healthy_observations()
    others = [observation for id_, observation in healthy.items() if id_ not in mine]
    return (*others, *(_observation(test) for test in mine.values()))


@cache
def healthy_observations() -> dict[str, Observation]:
    """Return the observations of the healthy tests by their ids; they are frozen, so that cases can share them."""
    return {test["id"]: _observation(test) for test in healthy_tests()}


def _observation(test: dict[str, Any]) -> Observation:
    members = []
    for rank, place in enumerate(test["members"]):
        host, _, device = place.partition("/")
        members.append(Member(host, int(device), rank))
    outcome = TestOutcome(test.get("outcome", "pass"))
    stage = test.get("stage", "closed")
    result = TestResult(
        test["id"], test.get("op", "all_reduce"), test.get("dtype", "float32"), test.get("bytes", 1 << 24), None,
        tuple(members), outcome, stage, busbw_GBps=test.get("busbw"), seconds=0.01 if "busbw" in test else None,
        scope=Scope(test.get("scope", "pair" if len(members) == 2 else "all")), line_rate=test.get("line_rate"),
        algbw_GBps=test.get("algbw"), tflops=test.get("tflops"),
        wrong_values=sum(said.get("wrong_values", 0) for said in test.get("ranks", {}).values()),
    )  # fmt: skip
    views = []
    for member in members:
        said = dict(test.get("ranks", {}).get(f"{member.host}/{member.device}", {}))
        if "end" in said:
            said["end"] = End(said["end"])
        if "way" in said:
            said["way"] = Sending(**said["way"])
        views.append(RankView(member, **{"stage": stage, **said}))
    meeting = Meeting(**test["meeting"]) if "meeting" in test else None
    return Observation(result, tuple(views), meeting)
