"""`preflight probe --via`: what is refused before anything is started, and an engine that starts nothing."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from preflight.app.probing.engine import session_by_engine
from preflight.app.run_options import ProbeOptions
from preflight.app.session import Session
from preflight.cli.main import main
from preflight.inventory import load
from preflight.inventory.explicit import explicit_document
from preflight.transport.engine import engine
from preflight.transport.password import Password

pytestmark = pytest.mark.usefixtures("srun")

INVENTORY = """
[cluster]
name = "c"
product = "atlas-a2"
devices = 1
[ssh]
sudo = true
[network]
nic = "eth0"
[probe]
backend = "gloo"
{probe}
[[hosts]]
name = "node[01-02]"
address = "10.0.0.[1-2]"
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.toml"
    path.write_text(INVENTORY.format(probe=""))
    return path


@pytest.fixture
def srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An srun that gives up, in a job that has both hosts."""
    path = tmp_path / "srun"
    path.write_text(
        "#!/bin/sh\necho 'srun: error: Unable to create step for job 17: Job/step already completing' >&2\n"
    )
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, value in {"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "node[01-02]"}.items():
        monkeypatch.setenv(name, value)


def refused(capsys: pytest.CaptureFixture[str], inventory: Path, *options: str) -> str:
    assert main(["probe", "-i", str(inventory), *options]) == 2
    return capsys.readouterr().err


def test_slurm_outside_of_a_job_is_refused(
    inventory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID")
    assert "--via slurm runs only within a Slurm job" in refused(capsys, inventory, "--via", "slurm", "--idle")


def test_the_inventory_s_way_is_taken_unless_another_one_is_asked_for(
    inventory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID")
    inventory.write_text(INVENTORY.format(probe='via = "slurm"'))
    assert "only within a Slurm job" in refused(capsys, inventory)
    assert "If no other job uses these hosts, add --idle" in refused(capsys, inventory, "--via", "ssh")


def test_over_an_inventory_s_engine_ssh_is_ssh_in_everything_that_is_judged_by_it(inventory: Path) -> None:
    """HCCL Test did not take the place of torch then, and `to see it again` named the engine."""
    inventory.write_text(INVENTORY.format(probe='via = "slurm"'))
    by_ssh = Session(load(inventory), (), Mock(), Mock())
    with session_by_engine(ProbeOptions(via="ssh"), by_ssh) as s:
        assert s.cluster.probe.via == "ssh"


def test_the_way_is_in_an_inventory_that_is_written(inventory: Path) -> None:
    assert "via" not in explicit_document(load(inventory))["probe"]
    inventory.write_text(INVENTORY.format(probe='via = "mpi"'))
    assert explicit_document(load(inventory))["probe"]["via"] == "mpi"


def test_no_password_goes_over_an_engine(
    inventory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("preflight.app.session._sudo_password", lambda *_: Password("secret"))
    assert "all hosts would receive the password" in refused(capsys, inventory, "--via", "slurm", "--idle", "-K")


def test_hccl_test_does_not_go_over_an_engine(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, inventory, "--via", "slurm", "--idle", "--with", "hccl-test")
    assert "it starts its ranks with mpirun and ssh" in said


def test_a_step_that_waits_in_the_queue_is_said_and_no_host_is_blamed(
    inventory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "START", 1.0)
    monkeypatch.setattr(engine, "FAREWELL", 0.1)
    (inventory.parent / "srun").write_text(
        "#!/bin/sh\n[ $1 = --help ] || { echo 'srun: job 17 queued and waiting for resources' >&2; exec sleep 60; }\n"
    )
    assert main(["probe", "-i", str(inventory), "--via", "slurm", "--idle"]) == 3
    said = capsys.readouterr()
    assert "srun started no program within 1 s: srun: job 17 queued and waiting for resources." in said.err
    assert said.out == ""


def test_an_engine_that_starts_nothing_is_said_and_no_host_is_blamed(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", "-i", str(inventory), "--via", "slurm", "--idle"]) == 3
    said = capsys.readouterr()
    assert "srun has ended: srun: error: Unable to create step for job 17: Job/step already completing" in said.err
    assert said.out == ""
