"""Which command starts the relays, and who is told that there is no such way."""

import resource
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from preflight.model.cluster import Host
from preflight.model.errors import UsageError
from preflight.transport.engine import callbacks, site
from preflight.transport.engine.open_mpi import open_mpi
from preflight.transport.engine.slurm import slurm

HOSTS = (Host("node01.cluster", "10.0.0.1"), Host("gpu2", "node02"), Host("node03", "10.0.0.3"))


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has an srun with --overlap, and an mpirun of Open MPI 4."""
    put(tmp_path, "srun", "--help", "      --overlap   Force steps to overlap")
    put(tmp_path, "mpirun", "--version", "mpirun (Open MPI) 4.1.8\n\nReport bugs to …")
    return {"PATH": str(tmp_path)}


def put(folder: Path, name: str, option: str, answer: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n[ \"$1\" = {option} ] && echo '{answer}'\n")
    path.chmod(0o755)


def job(environment: Mapping[str, str], nodes: str) -> dict[str, str]:
    return {**environment, "SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": nodes}


def test_srun_gets_one_task_a_node_by_slurm_s_names(programs: dict[str, str]) -> None:
    site = slurm(HOSTS, job(programs, "node[01-04]"))
    assert {"--jobid=17", "--nodes=3", "--ntasks=3", "--nodelist=node01,node02,node03", "--overlap"} <= set(site.argv)
    assert site.called == {"node01": "node01.cluster", "node02": "gpu2", "node03": "node03"}
    assert site.try_out("gpu2") == "srun --jobid=17 --overlap -N1 -n1 -w node02 hostname"


def test_an_srun_without_overlap_is_not_given_it(programs: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path, "srun", "--help", "Usage: srun")
    site = slurm(HOSTS, job(programs, "node[01-04]"))
    assert "--overlap" not in site.argv
    assert "--overlap" not in site.try_out("gpu2")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("srun: error: node02: task 1: Killed", [("gpu2", "srun: task 1: Killed")]),
        (
            "srun: error: node[02-03]: tasks 1-2: Exited with exit code 1",
            [(host, "srun: tasks 1-2: Exited with exit code 1") for host in ("gpu2", "node03")],
        ),
        ("srun: error: Node failure on node03", [("node03", "srun: Node failure")]),
        (
            "srun: error: Task launch for StepId=1.7 failed on node node03: Communication connection failure",
            [("node03", "srun: Task launch for StepId=1.7 failed")],
        ),
        ("srun: error: node[: task 1: Killed", []),
        ("srun: error: nid001234: task 1: Killed", [("cray", "srun: task 1: Killed")]),
        ("srun: error: nid[001230-001240]: tasks 1-2: Killed", [("cray", "srun: tasks 1-2: Killed")]),
        ("srun: error: node[01-9999999999]: tasks 1-2: Killed", []),
        ("srun: error: node[01-40000],node[02-40000]: tasks 1-2: Killed", []),
        ("srun: error: elsewhere: task 1: Killed", []),
        ("srun: error: Unable to create step for job 17: Invalid job id specified", []),
        ("node02: task 1: Killed", []),
    ],
)
def test_messages_of_srun_identify_lost_hosts(
    programs: dict[str, str], words: str, expected: list[tuple[str, str]]
) -> None:
    site = slurm((*HOSTS, Host("cray", "nid001234")), job(programs, "node[01-04],nid001234"))
    assert sorted(site.lost(words)) == expected


def test_the_error_outside_of_a_job_shows_how_to_get_one(programs: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"within a Slurm job. Start it with salloc -N 3"):
        slurm(HOSTS, programs)


def test_hosts_outside_of_the_job_are_reported(programs: dict[str, str]) -> None:
    with pytest.raises(
        UsageError, match=r"job 17 has the nodes node\[01,03\], but not gpu2. Leave these out with --limit"
    ):
        slurm(HOSTS, job(programs, "node[01,03]"))
    with pytest.raises(UsageError, match=r"job 17 has the nodes other\d, but not gpu2,node03,node01.cluster$"):
        slurm(HOSTS, job(programs, "other1"))


def test_two_hosts_that_are_one_node_are_refused(programs: dict[str, str]) -> None:
    twice = (Host("node01.a", "10.0.0.1"), Host("node01.b", "10.0.0.2"))
    with pytest.raises(UsageError, match=r"node01\.b and another host of the inventory are the same Slurm node node01"):
        slurm(twice, job(programs, "node[01-02]"))


def test_a_missing_srun_or_mpirun_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--via slurm needs srun on this machine"):
        slurm(HOSTS, job({"PATH": str(tmp_path)}, "node[01-04]"))
    with pytest.raises(UsageError, match="--via mpi needs Open MPI's mpirun on PATH"):
        open_mpi(HOSTS, {"PATH": str(tmp_path)})


def test_mpirun_goes_to_addresses_and_knows_nodes_by_any_name(programs: dict[str, str]) -> None:
    site = open_mpi(HOSTS, programs)
    assert site.argv[site.argv.index("--host") + 1] == "10.0.0.1:1,node02:1,10.0.0.3:1"
    names = {"node01.cluster": "node01.cluster", "node01": "node01.cluster", "10.0.0.1": "node01.cluster"}
    assert {name: site.called[name] for name in names} == names
    assert (site.called["node02"], site.called["gpu2"], "10" in site.called) == ("gpu2", "gpu2", False)
    assert site.try_out("gpu2").endswith("--host node02:1 -n 1 hostname")


def test_in_a_job_of_a_resource_manager_mpirun_gets_its_names(programs: dict[str, str]) -> None:
    site = open_mpi(HOSTS, job(programs, "node[01-04]"))
    assert site.argv[site.argv.index("--host") + 1] == "node01.cluster:1,gpu2:1,node03:1"


def test_from_open_mpi_5_on_relays_call_back(programs: dict[str, str], tmp_path: Path) -> None:
    assert {"--stdin all", "-x PREFLIGHT_CALL"} & pairs(open_mpi(HOSTS, programs).argv) == {"--stdin all"}
    put(tmp_path, "mpirun", "--version", "mpirun (Open MPI) 5.0.11")
    site = open_mpi(HOSTS, programs)
    assert site.calls
    assert {"--stdin none", "-x PREFLIGHT_CALL"} <= pairs(site.argv)


def pairs(argv: Sequence[str]) -> set[str]:
    return {f"{one} {other}" for one, other in pairwise(argv)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no program", "Exec format error. Check that PATH"),
        ("#!/no/such/shell", "No such file or directory. Check that PATH"),
        ("#!/bin/sh\nprintf '\\377'", "needs Open MPI, but .*/mpirun prints: \ufffd"),
        ("#!/bin/sh\nsleep 60", "gave no answer within 0 s. Run it manually"),
    ],
)
def test_an_engine_that_does_not_print_its_version_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    monkeypatch.setattr(site, "_ANSWER", 0.3 if "sleep" in text else 20.0)
    (tmp_path / "mpirun").write_text(text)
    (tmp_path / "mpirun").chmod(0o755)
    with pytest.raises(UsageError, match=expected):
        open_mpi(HOSTS, {"PATH": f"{tmp_path}:/bin:/usr/bin"})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("mpirun (Open MPI) 3.1.6", "needs Open MPI 4 or newer, but .*/mpirun is 3.1.6"),
        ("HYDRA build details:\nVersion: 4.1", "needs Open MPI, but .*/mpirun prints: HYDRA build details:"),
        ("", "needs Open MPI, but .*/mpirun prints: nothing"),
    ],
)
def test_another_mpirun_is_refused(programs: dict[str, str], tmp_path: Path, answer: str, expected: str) -> None:
    put(tmp_path, "mpirun", "--version", answer)
    with pytest.raises(UsageError, match=expected):
        open_mpi(HOSTS, programs)


def test_as_many_files_may_be_open_as_nodes_call_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """By custom 1,024 are, and nodes beyond that were never heard."""
    raised = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    callbacks.make_room(500)
    assert raised == []
    callbacks.make_room(2000)
    assert raised == [(2256, 4096)]
    with pytest.raises(
        UsageError, match=r"5000 nodes need 5256 open files, but the limit is 4096. Raise it with ulimit -Hn 5256"
    ):
        callbacks.make_room(5000)
