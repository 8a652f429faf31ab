"""What launchers over ssh and the jobs' libraries find on lab hosts: NICs, mpirun, each other, the project's folder.

mpirun is a script that says a version: only where it is found is looked at.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab
HOSTS = ("node01", "node02", "node03")
OURS = "HST117,HST118,HST119,HST120,HST121,HST122,HST123,ENV111,ENV112"
MPIRUN = "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n"
GUARD = "case $- in *i*) ;; *) return ;; esac\n"


HOME = "/home/root"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Three hosts whose jobs' user has a key of its own, knows the others and has mpirun: all that launchers need."""
    lab = make_lab(hosts=3, devices=0, product="nvidia", firewall="none")
    keys = ""
    known = (lab.dir / "known_hosts").read_text(encoding="utf-8")
    for host in HOSTS:
        make = f"ssh-keygen -q -t ed25519 -N '' -C {host} -f {HOME}/.ssh/id_ed25519; cat {HOME}/.ssh/id_ed25519.pub"
        keys += lab.ssh(host, make).stdout
    for host in HOSTS:
        files = {
            f"{HOME}/.ssh/authorized_keys2": keys,
            f"{HOME}/.ssh/known_hosts": known,
            f"{HOME}/mpi/mpirun": MPIRUN,
            f"{HOME}/.bashrc": f"export PATH={HOME}/mpi:$PATH\n{GUARD}",
            f"{HOME}/.bash_profile": ". ~/.bashrc\n",
        }
        for path, text in files.items():
            done = lab.ssh(host, f"mkdir -p $(dirname {path}); printf %s {quoted(text)} > {path}")
            assert done.returncode == 0, done.stderr
        own = f"chmod 755 {HOME}/mpi/mpirun; mkdir -p {HOME}/project"
        assert lab.ssh(host, own).returncode == 0
    return lab


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def found(lab: LabHandle, *, setup: str = "", **job: Any) -> dict[str, dict[str | None, tuple[str, str]]]:
    """Check → host → (outcome, summary) of what is neither pass nor skip. `setup`: a line before the jobs' Python."""
    place = lab.inventory.with_name("told.toml")
    text = lab.inventory.read_text(encoding="utf-8")
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in job.items())
    text = text.replace("[probe]\n", f"[job]\n{lines}\n[probe]\nsetup = {json.dumps(setup)}\n")
    place.write_text(text, encoding="utf-8")
    done = preflight("check", "-i", place, "--no-ping", "--no-probe", "--only", OURS, "-o", "json", check=False)
    told: dict[str, dict[str | None, tuple[str, str]]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        if finding["outcome"] not in ("pass", "skip"):
            told.setdefault(finding["check"], {})[finding["host"]] = (finding["outcome"], finding["summary"])
    return told


def test_hosts_that_are_set_up_for_a_launcher_are_well(lab: LabHandle) -> None:
    assert found(lab, launcher="mpirun", project=f"{HOME}/project", imports=["torch"]) == {}


@pytest.mark.parametrize(
    ("line", "check", "says"),
    [
        ("export NCCL_SOCKET_IFNAME=enp9", "HST117", "Bootstrap : no socket interface found"),
        ("export NCCL_SOCKET_IFNAME=^docker0", "HST117", "NCCL would choose lo 127.0.0.1/8"),
        ("export GLOO_SOCKET_IFNAME=eth", "HST118", "Unable to find address for: eth"),
        ("export OMPI_MCA_btl_tcp_if_include=eth1", "HST119", "Unknown interface name"),
    ],
)
@pytest.mark.failure("G1", "G6", "G10", "G60")
def test_a_value_that_leads_to_no_nic_of_use_is_one_finding_a_host(
    lab: LabHandle, line: str, check: str, says: str
) -> None:
    told = found(lab, setup=line)
    assert {(id_, host) for id_, hosts in told.items() for host in hosts} == {(check, host) for host in HOSTS}
    assert all(outcome == "fail" and says in summary for outcome, summary in told[check].values())


@pytest.mark.failure("G52")
def test_a_key_that_is_missing_one_way_is_told_of_that_way(lab: LabHandle) -> None:
    keys = f"{HOME}/.ssh/authorized_keys2"
    lab.ssh("node02", f"cp -p {keys} {keys}.kept; sed -i /node01/d {keys}")
    try:
        told = found(lab, launcher="mpirun")
    finally:
        lab.ssh("node02", f"mv {keys}.kept {keys}")
    assert {check: list(hosts) for check, hosts in told.items()} == {"HST123": ["node01"]}
    assert told["HST123"]["node01"][1] == "node01: cannot log in to node02 over ssh: permission denied"


def test_a_host_whose_key_nobody_knows_is_named_once_and_no_key_is_learned(lab: LabHandle) -> None:
    known = f"{HOME}/.ssh/known_hosts"
    for host in ("node01", "node02"):
        lab.ssh(host, f"cp -p {known} {known}.kept; sed -i '/^{lab.addresses['node03']} /d' {known}")
    before = lab.ssh("node01", f"cat {known}").stdout
    try:
        told = found(lab, launcher="deepspeed")
        assert lab.ssh("node01", f"cat {known}").stdout == before
    finally:
        for host in ("node01", "node02"):
            lab.ssh(host, f"mv {known}.kept {known}")
    assert told == {"HST123": {"node03": ("fail", "node03: no other host can log in over ssh: unknown host key")}}


@pytest.fixture
def guarded(lab: LabHandle) -> Iterator[None]:
    """On node03 the line that returns for shells that are not interactive comes first."""
    bashrc = f"{HOME}/.bashrc"
    lab.ssh("node03", f"cp -p {bashrc} {bashrc}.kept; printf %s {quoted(GUARD)} | cat - {bashrc}.kept > {bashrc}")
    yield
    lab.ssh("node03", f"mv {bashrc}.kept {bashrc}")


@pytest.mark.failure("G53", "G60")
def test_mpirun_that_only_a_login_finds_is_told(lab: LabHandle, guarded: None) -> None:  # noqa: ARG001
    told = found(lab, launcher="mpirun")
    assert {check: list(hosts) for check, hosts in told.items()} == {"HST122": ["node03"], "ENV112": ["node03"]}
    assert told["HST122"]["node03"][1] == (
        f"node03: mpirun is not on the PATH of commands run over ssh, but a login shell finds {HOME}/mpi/mpirun"
    )


@pytest.mark.failure("G51")
def test_a_project_that_is_not_mounted_or_from_elsewhere_is_told(lab: LabHandle) -> None:
    """A message queue's file system stands in for a shared one: it has a source by any name, too."""
    project = f"{HOME}/project"
    mounted = [("node01", "store:/export"), ("node02", "store:/export")]
    try:
        for host, source in mounted:
            assert lab.ssh(host, f"mount -t mqueue {source} {project}").returncode == 0
        assert lab.ssh("node03", f"mount -t mqueue old:/export {project}").returncode == 0
        told = found(lab, project=project)
        assert {check: list(hosts) for check, hosts in told.items()} == {"HST120": ["node03"]}
        lab.ssh("node03", f"umount {project}")
        told = found(lab, project=project)
        difference = "is on a local file system. On node01, node02, it is on mqueue 'store:/export'"
        assert difference in told["HST120"]["node03"][1]
        lab.ssh("node03", f"rmdir {project}")
        told = found(lab, project=project)
        assert "cannot be used where jobs run: No such file or directory" in told["HST120"]["node03"][1]
    finally:
        lab.ssh("node03", f"mkdir -p {project}")
        for host in HOSTS:
            lab.ssh(host, f"umount {project} 2> /dev/null")


def test_a_package_that_is_nowhere_is_told_of_every_host(lab: LabHandle) -> None:
    told = found(lab, imports=["torch", "perseus"])
    assert {check: sorted(map(str, hosts)) for check, hosts in told.items()} == {"HST121": list(HOSTS)}
