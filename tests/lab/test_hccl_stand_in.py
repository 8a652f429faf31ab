"""The lab's hccl: collectives cross the device NICs, and stop by what stops the real one."""

import json
import re
import subprocess
import tomllib

import pytest

from tests.lab.conftest import LabHandle

RANKS = """
import os, sys
from datetime import timedelta
import torch, torch.distributed as dist
host, hosts, address, mebibytes = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
ranks = 2 * hosts
store = dist.TCPStore(address, 29500, None, host == 0, timedelta(seconds=20), wait_for_workers=False)
for device in range(2):
    if os.fork() == 0:
        import torch_npu
        rank = 2 * host + device
        torch.npu.set_device(device)
        store = dist.TCPStore(address, 29500, None, False, timedelta(seconds=20))
        dist.init_process_group("hccl", store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=20))
        try:
            tensor = torch.full((mebibytes << 18,), rank + 1.0).npu(device)
            dist.all_reduce(tensor)
            print(f"rank {rank} right={bool((tensor == ranks * (ranks + 1) / 2).all())}", flush=True)
            dist.barrier()
        except RuntimeError as error:
            print(f"rank {rank} {error}", flush=True)
        os._exit(0)
for device in range(2):
    os.wait()
"""


def _all_reduce(lab: LabHandle, mebibytes: int = 1, hosts: int = 2) -> str:
    """Run an all_reduce over the two devices of each of the first `hosts` hosts; return what the ranks printed."""
    probe = tomllib.loads(lab.inventory.read_text())["probe"]
    runs = []
    for number, name in enumerate(list(lab.addresses)[:hosts]):
        program = f"{probe['setup']}; TORCH_DEVICE_BACKEND_AUTOLOAD=0 OMP_NUM_THREADS=1 timeout 40 {probe['python']} -"
        command = lab.ssh_command(name, f"{program} {number} {hosts} {lab.addresses['node01']} {mebibytes}")
        pipe = subprocess.PIPE
        run = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        runs.append(run)
        assert run.stdin
        run.stdin.write(RANKS)
        run.stdin.close()
    return "".join(run.stdout.read() for run in runs if run.stdout)


def _sent(netns: str, interface: str) -> int:
    """Bytes that left an interface."""
    show = ["ip", "-n", netns, "-s", "-j", "link", "show", "dev", interface]
    links = json.loads(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
    return int(links[0]["stats64"]["tx"]["bytes"])


@pytest.mark.lab
def test_a_collective_crosses_the_device_nics_and_not_the_host_nic(two_by_two: LabHandle) -> None:
    hosts = two_by_two.status["hosts"]
    ways = {f"{host['name']} eth0": (host["netns"], "eth0") for host in hosts}
    ways |= {f"{host['name']}/{d['index']}": (d["netns"], d["interface"]) for host in hosts for d in host["devices"]}
    ways |= {f"{host['name']}/{d['index']} hccs": (d["netns"], "hccs0") for host in hosts for d in host["devices"]}
    before = {name: _sent(*way) for name, way in ways.items()}
    said = _all_reduce(two_by_two, mebibytes=8)
    sent = {name: _sent(*way) - before[name] for name, way in ways.items()}
    assert sorted(said.splitlines()) == [f"rank {rank} right=True" for rank in range(4)]
    assert all(sent[f"{host['name']} eth0"] < 1 << 20 for host in hosts)
    assert sum(sent[f"{host['name']}/{index}"] for host in hosts for index in range(2)) > 8 << 20
    assert sum(sent[f"{host['name']}/{index} hccs"] for host in hosts for index in range(2)) > 8 << 20


@pytest.mark.lab
@pytest.mark.parametrize(
    ("fault", "device", "text"),
    [
        ("tls-off", 1, "EI0016.*All ranks are consistent"),
        ("link-down", 1, "EJ0002.*The network port is down"),
        ("port-taken", None, "EI0019.*port 60000 have already been bound"),
    ],
)
def test_what_stops_hccl_stops_the_stand_in_with_the_same_words(
    two_by_two: LabHandle, fault: str, device: int | None, text: str
) -> None:
    two_by_two.lab("break", fault, "--host", "node02", *(() if device is None else ("--device", str(device))))
    try:
        assert re.search(text, _all_reduce(two_by_two))
    finally:
        two_by_two.lab("fix", fault)


@pytest.mark.lab
def test_a_dead_port_does_not_cut_a_device_from_its_siblings(two_by_two: LabHandle) -> None:
    two_by_two.lab("break", "link-down", "--host", "node01", "--device", "1")
    try:
        assert sorted(_all_reduce(two_by_two, hosts=1).splitlines()) == ["rank 0 right=True", "rank 1 right=True"]
    finally:
        two_by_two.lab("fix")


@pytest.mark.lab
def test_a_device_in_use_shows_and_serves_nobody_else(two_by_two: LabHandle) -> None:
    setup = tomllib.loads(two_by_two.inventory.read_text())["probe"]
    hold = "import torch_npu, torch, time; torch.npu.set_device(1); print(1, flush=True); time.sleep(30)"
    command = f'{setup["setup"]}; exec {setup["python"]} -c "{hold}"'
    holder = subprocess.Popen(two_by_two.ssh_command("node01", command), stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout
        holder.stdout.readline()
        table = two_by_two.ssh("node01", "npu-smi info").stdout
        assert "No running processes found in NPU 0" in table
        assert "No running processes found in NPU 1" not in table
        assert re.search(r"\| 1 +0 +\| \d+ +\| python", table)
    finally:
        holder.terminate()
        holder.wait()
        two_by_two.ssh("node01", "kill $(ls /run/preflight-lab/process/1)")
