"""The worker's memory, the table, and the question whether the probe may start."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from worker.access import ACCESS
from worker.memory import _host_memory, fits, needed

from preflight.facts.parsers.nvidia.nvidia_smi.gpu import GpuProcess
from preflight.facts.reading import Found
from preflight.facts.sections.nvidia import Nvidia
from preflight.facts.types import ClusterFacts, HostFacts, Missing, NpuProcess, NpuSmi, Unreachable
from preflight.model.cluster import Cluster, Host, ProbeSettings, Product
from preflight.probe.permission import may_probe
from tests.unit.healthy import healthy_cluster, healthy_facts
from tests.unit.healthy_gpus import healthy_nvidia

NETWORK = runpy.run_path(str(Path(__file__).parents[3] / "preflight/remote/agent/network.py"))


def test_tensors_that_the_memory_does_not_hold_are_refused_before_anybody_allocates() -> None:
    gloo, third = ACCESS["gloo"], _host_memory() // 3
    test = {"op": "all_reduce", "bytes": third, "root": None}
    alone = {"device": 0, "rank": 0, "size": 8, "tests": [test], "workers": [{}]}
    fits(alone, gloo)
    with pytest.raises(RuntimeError, match="its 8 ranks need"):
        fits({**alone, "workers": [{}] * 8}, gloo)
    with pytest.raises(RuntimeError, match="of free memory, but"):
        fits(alone, gloo._replace(memory=lambda _: (third, third)))


@pytest.mark.parametrize(
    ("op", "tensors"),
    [("all_reduce", 2), ("broadcast", 2), ("all_gather", 2.25), ("reduce_scatter", 1.5), ("all_to_all", 3),
     ("gather", 2.25), ("send_recv", 3)],
)  # fmt: skip
def test_operations_take_memory_for_what_they_give_and_bring(op: str, tensors: float) -> None:
    assert needed({"op": op, "bytes": 1 << 20, "root": 0}, 3, 4) == tensors * (1 << 20)


def permission(npu_smi: NpuSmi | Missing | None, *, idle: bool = True, product: Product = Product.ATLAS_A1,
               asked: bool = False) -> list[tuple[str, str]]:  # fmt: skip
    host = Host("node01", "10.0.0.1")
    cluster = Cluster("t", product, (host,), probe=ProbeSettings(idle=idle))
    facts = healthy_facts(healthy_cluster())
    seen = facts.hosts["node01"]
    assert isinstance(seen, HostFacts)
    facts.hosts["node01"] = replace(seen, npu_smi=npu_smi)
    return may_probe(cluster, facts, (host,), asked_idle=asked)


def test_idle_devices_of_hosts_that_the_operator_declared_idle_may_be_probed() -> None:
    assert permission(NpuSmi("24.1", (), ())) == []
    assert permission(NpuSmi("24.1", (), ()), idle=False, asked=True) == []


def test_nobody_is_probed_unless_somebody_said_so() -> None:
    ((host, why),) = permission(NpuSmi("24.1", (), ()), idle=False)
    assert host == "node01"
    assert "--idle" in why


@pytest.mark.parametrize(
    ("npu_smi", "why"),
    [
        (NpuSmi("24.1", (), (NpuProcess(3, 4711, "python"),)), "device 3 is in use by python (pid 4711)"),
        (NpuSmi("24.1", (), (), processes_listed=False), "cannot tell"),
        (Missing("timeout"), "cannot tell"),
        (None, "cannot tell"),
    ],
)
def test_a_device_in_use_and_one_that_cannot_be_looked_at_both_count_as_busy(
    npu_smi: NpuSmi | Missing | None, why: str
) -> None:
    ((_, found),) = permission(npu_smi, asked=True)
    assert why in found


def of_gpus(nvidia: Nvidia | Missing | None) -> list[tuple[str, str]]:
    host = Host("node01", "10.0.0.1")
    cluster = Cluster("t", Product.NVIDIA, (host,), probe=ProbeSettings(idle=True))
    facts = healthy_facts(replace(healthy_cluster(), product=Product.NVIDIA))
    seen = facts.hosts["node01"]
    assert isinstance(seen, HostFacts)
    facts.hosts["node01"] = replace(seen, nvidia=nvidia)
    return may_probe(cluster, facts, (host,), asked_idle=False)


def with_processes(*processes: GpuProcess) -> Nvidia:
    healthy = healthy_nvidia(1)
    assert healthy.gpus.value
    first, *rest = healthy.gpus.value.gpus
    return replace(healthy, gpus=Found(replace(healthy.gpus.value, gpus=(replace(first, processes=processes), *rest))))


def test_idle_gpus_may_be_probed_also_beside_a_desktop_and_hosts_without_any() -> None:
    assert of_gpus(healthy_nvidia(1)) == []
    assert of_gpus(with_processes(GpuProcess(9, "G", "Xorg", 4))) == []
    assert of_gpus(Nvidia(gpus=Found(error="nvidia-smi is not installed, or not on PATH"))) == []


@pytest.mark.parametrize(
    ("nvidia", "why"),
    [
        (with_processes(GpuProcess(4711, "C", "python", 70000)), "GPU 0 is in use by python (pid 4711)"),
        (replace(healthy_nvidia(1), gpus=Found(error="it hangs")), "cannot tell whether its GPUs are idle: it hangs"),
        (Missing("timeout"), "cannot tell"),
        (None, "nvidia-smi was not run"),
    ],
)
def test_a_gpu_in_use_and_one_that_cannot_be_looked_at_both_count_as_busy(
    nvidia: Nvidia | Missing | None, why: str
) -> None:
    ((_, found),) = of_gpus(nvidia)
    assert why in found


def test_of_hosts_that_were_not_reached_the_operators_word_is_enough() -> None:
    host = Host("node01", "10.0.0.1")
    cluster = Cluster("t", Product.ATLAS_A1, (host,))
    gone = ClusterFacts({"node01": Unreachable("timeout", "nothing after 10 s", "look")})
    assert may_probe(cluster, gone, (host,), asked_idle=True) == []


@pytest.mark.parametrize(
    ("host_range", "base_port", "variables"),
    [
        ("", 60000, {"HCCL_IF_BASE_PORT": "60000"}),
        ("61000-61063,61070", 61000, {"HCCL_HOST_SOCKET_PORT_RANGE": "61000-61063,61070"}),
        ("auto", 0, {"HCCL_HOST_SOCKET_PORT_RANGE": "auto"}),
    ],
)
def test_workers_of_hccl_get_the_ports_of_the_inventory(
    host_range: str, base_port: int, variables: dict[str, str]
) -> None:
    hello = {"backend": "hccl", "nic": "eth0", "base_port": base_port, "host_range": host_range}
    environment = NETWORK["network_environment"](hello, "eth0", "10.1.0.1", {})
    assert {name: value for name, value in environment.items() if "PORT" in name} == variables


@pytest.mark.parametrize(
    ("nic", "transport", "told", "found"),
    [
        (None, "", {}, {"NCCL_SOCKET_IFNAME": "=eth0"}),
        (None, "", {"NCCL_SOCKET_IFNAME": "ib"}, {}),
        ("eth0", "ib", {"NCCL_SOCKET_IFNAME": "ib"}, {"NCCL_SOCKET_IFNAME": "=eth0", "NCCL_NET": "IB"}),
        (None, "ib", {"NCCL_NET": "mine"}, {"NCCL_SOCKET_IFNAME": "=eth0"}),
    ],
)
def test_workers_of_nccl_get_the_interface_and_what_jobs_say_themselves_counts(
    nic: str | None, transport: str, told: dict[str, str], found: dict[str, str]
) -> None:
    hello = {"backend": "nccl", "nic": nic, "transport": transport}
    environment = NETWORK["network_environment"](hello, "eth0", "10.1.0.1", told)
    assert {name: value for name, value in environment.items() if "NCCL" in name} == found


def test_what_a_file_of_nccl_says_counts_as_what_jobs_say_themselves(tmp_path: Path) -> None:
    (tmp_path / "nccl.conf").write_text("# of the image\nNCCL_SOCKET_IFNAME=ib0\nNCCL_NET=IB\nNCCL_NET=Socket\n")
    told = {"NCCL_CONF_FILE": str(tmp_path / "nccl.conf")}
    hello = {"backend": "nccl", "nic": None, "transport": "ib"}
    environment = NETWORK["network_environment"](hello, "eth0", "10.1.0.1", told)
    assert "NCCL_SOCKET_IFNAME" not in environment
    assert "NCCL_NET" not in environment
