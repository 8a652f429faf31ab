"""The collector's section `rdma`, over folders that look like sysfs, and what facts are read from it."""

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.facts.answers.rdma import RawRdma, rdma
from preflight.facts.link_counts import LinkCounts, PortCount, between
from preflight.facts.parsers.rdma import Gid
from preflight.facts.sections.rdma import PciFunction, Rdma
from preflight.facts.types import ClusterFacts, HostFacts, Missing
from tests.unit.collector import section, tool
from tests.unit.healthy import scene

ACS_AT, NEXT_AT = 0x160, 0x100


def config(control: int) -> bytes:
    """A bridge's configuration space: first an extended capability that is another one, then ACS."""
    data = bytearray(4096)
    data[NEXT_AT : NEXT_AT + 4] = (0x0001 | 1 << 16 | ACS_AT << 20).to_bytes(4, "little")
    data[ACS_AT : ACS_AT + 4] = (0x000D | 1 << 16).to_bytes(4, "little")
    data[ACS_AT + 6 : ACS_AT + 8] = control.to_bytes(2, "little")
    return bytes(data)


@dataclass
class Tree:
    root: Path

    def write(self, path: str, text: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def pci(self, path: str, **files: str | bytes) -> str:
        """A function below the bridges of `path`, and its place in the list of all."""
        place = f"sys/devices/pci0000:16/{path}"
        for name, text in files.items():
            self.write(f"{place}/{name}", text)
        (self.root / place).mkdir(parents=True, exist_ok=True)
        listed = self.root / "sys/bus/pci/devices" / Path(path).name
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.symlink_to(os.path.relpath(self.root / place, listed.parent))
        return place

    def device(self, name: str, place: str, **ports: dict[str, str]) -> None:
        for number, files in ports.items():
            for path, text in files.items():
                self.write(f"{place}/infiniband/{name}/ports/{number.strip('p')}/{path}", text + "\n")
        self.write(f"{place}/infiniband/{name}/fw_ver", "28.41.1000\n")
        (self.root / place / "infiniband" / name / "device").symlink_to("../..")
        listed = self.root / "sys/class/infiniband" / name
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.symlink_to(os.path.relpath(self.root / place / "infiniband" / name, listed.parent))

    def look(self, *edits: tuple[str, str]) -> dict[str, Any]:
        def edit(text: str) -> str:
            for place in ("/sys/", "/proc/", "/dev/"):
                text = text.replace(f'"{place}', f'"{self.root}{place}')
            for old, new in edits:
                text = text.replace(old, new)
            return text

        found: dict[str, Any] = section("rdma", "rdma", edit)({}, time.monotonic() + 10)
        return found

    def facts(self, *edits: tuple[str, str]) -> Rdma:
        found = rdma(msgspec.convert(self.look(*edits), RawRdma))
        assert isinstance(found, Rdma)
        return found


SWITCH = "0000:16:01.0/0000:17:00.0"
PORT = {
    "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "Ethernet",
    "gids/0": "fe80:0000:0000:0000:966d:aeff:fecd:0001", "gid_attrs/types/0": "RoCE v2", "gid_attrs/ndevs/0": "rdma0",
    "gids/1": "0000:0000:0000:0000:0000:ffff:0a1e:000b", "gid_attrs/types/1": "RoCE v2", "gid_attrs/ndevs/1": "rdma0",
    "gids/2": "0000:0000:0000:0000:0000:0000:0000:0000",
    "counters/link_downed": "3", "hw_counters/out_of_sequence": "7", "hw_counters/lifespan": "10",
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A GPU and a NIC below one switch, of which the GPU's side redirects."""
    made = Tree(tmp_path)
    made.pci("0000:16:01.0", config=config(0), **{"class": "0x060400"})
    made.pci(SWITCH, config=config(0))
    made.pci(f"{SWITCH}/0000:18:00.0", config=config(0x1D))
    made.pci(f"{SWITCH}/0000:18:01.0", config=config(0))
    made.pci(f"{SWITCH}/0000:18:00.0/0000:19:00.0", vendor="0x10de\n", numa_node="0\n", **{"class": "0x030200\n"})
    nic = made.pci(f"{SWITCH}/0000:18:01.0/0000:1a:00.0", vendor="0x15b3\n", numa_node="-1\n")
    made.write(f"{nic}/iommu_group/type", "DMA-FQ\n")
    made.device("mlx5_0", nic, p1=PORT)
    made.write("dev/infiniband/uverbs0", "")
    made.write("dev/infiniband/rdma_cm", "")
    made.write("sys/module/nvidia_peermem/refcnt", "0")
    made.write("sys/class/iommu/dmar0/version", "1")
    made.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz password=hush intel_iommu=on iommu=pt\n")
    made.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54\nGCC\n")
    made.write("sys/class/dmi/id/sys_vendor", "Maker\n")
    return made


def test_ports_gids_and_counters_are_read_and_empty_slots_are_not(tree: Tree) -> None:
    found = tree.facts()
    (port,) = found.ports
    assert (port.device, port.state, port.physical_state, port.rate) == ("mlx5_0", "ACTIVE", "LinkUp", 400.0)
    assert port.firmware == "28.41.1000"
    assert [gid.index for gid in found.gids] == [0, 1]
    assert found.gids[1] == Gid(
        "mlx5_0", 1, 1, "0000:0000:0000:0000:0000:ffff:0a1e:000b", "10.30.0.11", "v2", "rdma0"
    )  # fmt: skip
    assert found.counters[0].values == found.later[0].values == {"link_downed": 3, "out_of_sequence": 7}
    assert found.seconds is not None
    assert found.seconds >= 0.5
    assert found.unread == ()


DEVINFO = """\
hca_id:\tmlx5_0
\tfw_ver:\t\t\t28.41.1000
\tnode_guid:\t\t\t966d:ae00:00cd:0001
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t2048 (4)
\t\t\tlink_layer:\t\tInfiniBand
"""


@pytest.mark.parametrize(
    ("layer", "script", "mtu", "why"),
    [("InfiniBand", f"cat <<'END'\n{DEVINFO}END\n", 2048, ""), ("InfiniBand", "echo no >&2; exit 1\n", None, "no"),
     ("InfiniBand", "sleep 60 & wait\n", None, "did not finish in time"),
     ("Ethernet", f"cat <<'END'\n{DEVINFO}END\n", None, "")],
    ids=["told", "fails", "hangs", "of Ethernet it is not asked"],
)  # fmt: skip
def test_the_mtu_of_a_port_of_infiniband_is_asked_of_ibv_devinfo(
    tree: Tree, layer: str, script: str, mtu: int | None, why: str
) -> None:
    (tree.root / "sys/class/infiniband/mlx5_0/ports/1/link_layer").write_text(f"{layer}\n", encoding="ascii")
    said = tool(tree.root, "ibv_devinfo", f"touch {tree.root}/asked\n{script}")
    found = tree.facts(('find("ibv_devinfo")', repr(f"{said}/ibv_devinfo")), ("VERBS_SECONDS = 3", "VERBS_SECONDS = 1"))
    assert [port.mtu for port in found.ports] == [mtu]
    assert (tree.root / "asked").exists() is (layer == "InfiniBand")
    assert not found.unread
    assert bool(found.mtu_unread) is bool(why) and why in found.mtu_unread
    assert "966d:ae00" not in str(tree.look(('find("ibv_devinfo")', repr(f"{said}/ibv_devinfo"))))


def test_what_lies_between_gpu_and_nic_is_read(tree: Tree) -> None:
    found = tree.facts()
    above = ("0000:16:01.0", "0000:17:00.0")
    assert found.functions == (
        PciFunction("0000:19:00.0", "gpu", (*above, "0000:18:00.0", "0000:19:00.0"), 0),
        PciFunction("mlx5_0", "nic", (*above, "0000:18:01.0", "0000:1a:00.0"), None, "DMA-FQ"),
    )
    assert found.acs == {"0000:16:01.0": 0, "0000:17:00.0": 0, "0000:18:00.0": 0x1D, "0000:18:01.0": 0}
    assert (found.uverbs, found.peermem, found.open_driver, found.virtual) == (1, True, True, False)
    assert (found.iommus, found.iommu_arguments) == (("dmar0",), ("intel_iommu=on", "iommu=pt"))


@pytest.mark.parametrize(("data", "control"), [
    (b"\0" * 64, None),  # what the kernel shows everybody
    (b"\xff" * 4096, 0),  # a function that has fallen off the bus
    (b"\0" * 256, 0),
    ((0x0001 | 0x100 << 20).to_bytes(4, "little").rjust(0x104, b"\0").ljust(4096, b"\0"), 0),  # a ring
    (config(0x0C), 0x0C),
    (config(0xFFFF)[: ACS_AT + 4], 0),
])  # fmt: skip
def test_configuration_space_of_any_kind_is_read_to_an_end(tree: Tree, data: bytes, control: int | None) -> None:
    tree.write(f"sys/devices/pci0000:16/{SWITCH}/config", data)
    assert tree.facts().acs["0000:17:00.0"] == control


def test_a_virtual_machine_is_known_by_its_processors_or_its_maker(tree: Tree) -> None:
    tree.write("proc/cpuinfo", "processor : 0\nflags\t\t: fpu vme hypervisor avx\n")
    assert tree.facts().virtual
    tree.write("proc/cpuinfo", "processor : 0\nFeatures : fp\n")
    assert not tree.facts().virtual
    tree.write("sys/class/dmi/id/product_name", "QEMU Virtual Machine\n")
    assert tree.facts().virtual


@pytest.mark.parametrize(("text", "is_open"), [
    ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12\n", False), ("", None), ("x\x1b[2J", None),
])  # fmt: skip
def test_the_kind_of_the_driver_is_read(tree: Tree, text: str, is_open: bool | None) -> None:
    tree.write("proc/driver/nvidia/version", text)
    assert tree.facts().open_driver is is_open


def test_a_host_without_rdma_has_no_ports(tmp_path: Path) -> None:
    found = Tree(tmp_path).facts()
    assert (found.ports, found.functions, found.uverbs, found.unread) == ((), (), 0, ())


def test_what_is_too_much_is_left_out_and_told(tree: Tree) -> None:
    for number in range(1, 4):
        place = tree.pci(f"{SWITCH}/0000:18:01.0/0000:1a:00.{number}")
        tree.device(f"mlx5_{number}", place, p1=PORT)
    found = tree.facts(("MOST_DEVICES = 64", "MOST_DEVICES = 2"))
    assert [port.device for port in found.ports] == ["mlx5_0", "mlx5_1"]
    assert found.unread == (Missing("2 more RDMA devices were not checked"),)


def test_a_device_that_hangs_costs_itself_alone(tree: Tree) -> None:
    tree.device("mlx5_1", tree.pci(f"{SWITCH}/0000:18:01.0/0000:1b:00.0"), p1=PORT)
    state = tree.root / f"sys/devices/pci0000:16/{SWITCH}/0000:18:01.0/0000:1b:00.0/infiniband/mlx5_1/ports/1/rate"
    state.unlink()
    os.mkfifo(state)  # nobody writes: who opens it waits, as for a command that firmware does not answer
    found = tree.facts(("deadline - 1)", "deadline - 9)"))
    assert [port.device for port in found.ports] == ["mlx5_0"]
    assert found.unread == (Missing("mlx5_1 did not answer in time (its firmware may hang)"),)


@pytest.mark.parametrize("change", [{"acs": {"../../etc": 0}}, {"functions": [
    {"name": "\x1b[2J", "kind": "nic", "path": [], "numa_node": "", "iommu": ""}]}])  # fmt: skip
def test_names_that_are_none_are_no_facts(tree: Tree, change: dict[str, Any]) -> None:
    assert isinstance(rdma(msgspec.convert({**tree.look(), **change}, RawRdma)), Missing)


def test_what_a_port_counts_between_two_looks_is_known(tree: Tree) -> None:
    host = scene({}).facts.hosts["node01"]
    assert isinstance(host, HostFacts)
    counters = f"sys/devices/pci0000:16/{SWITCH}/0000:18:01.0/0000:1a:00.0/infiniband/mlx5_0/ports/1"
    tree.write(f"{counters}/counters/port_rcv_packets", "1000\n")
    before = ClusterFacts({"node01": replace(host, rdma=tree.facts())})
    for name, count in (("counters/port_rcv_packets", 51000), ("counters/link_downed", 4), ("hw_counters/x", 9)):
        tree.write(f"{counters}/{name}", f"{count}\n")
    after = ClusterFacts({"node01": replace(host, rdma=tree.facts())})
    counted = PortCount("node01", "mlx5_0 port 1", None, 50000, {"link_downed": 1})
    assert between(before, after, ["node01"], "rdma") == LinkCounts((counted,))
