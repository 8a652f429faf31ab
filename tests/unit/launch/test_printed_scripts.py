"""What `preflight launch` prints, run by bash: every program in it is a stand-in that writes down what it was given."""

import json
import os
import re
import subprocess
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.cli.options import devices
from preflight.inventory import fold, parse
from preflight.launch.document import document
from preflight.launch.environment import checked
from preflight.launch.job import FROM_ONE_HOST, HostLaunch, JobHost, JobLauncher, LaunchedJob
from preflight.launch.launchers import launches
from preflight.launch.lint.check import faults
from preflight.launch.places import place
from preflight.launch.text import blocks, script
from preflight.launch.words import folded
from preflight.model.cluster import Cluster, Product
from preflight.model.errors import UsageError

STAND_IN = """#!/bin/sh
[ "${0##*/}" = docker ] && while [ "$1" != bash ]; do shift; done && exec "$@"
[ "${0##*/}" = sudo ] && while [ "$1" != docker ] && [ "$1" != bash ]; do shift; done && exec "$@"
record=$(mktemp "$RECORDS/XXXXXXXX")
printf '%s\\0' "$0" "$@" > "$record.argv"
env -0 > "$record.env"
"""
PROGRAMS = ("python", "mpirun", "srun", "perseusrun", "msrun", "docker", "sudo")
NOT_OURS = {"_", "PWD", "OLDPWD", "SHLVL", "PATH", "RECORDS", "LC_CTYPE"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bin")
    for name in PROGRAMS:
        (folder / name).write_text(STAND_IN)
        (folder / name).chmod(0o755)
    return folder


def cluster(programs: Path, product: str = "atlas-a2", counts: Sequence[int] = (2, 2), probe: str = "") -> Cluster:
    hosts = "".join(
        f'[[hosts]]\nname = "node{number:02}"\naddress = "10.1.0.{10 + number}"\ndevices = {count}\n'
        for number, count in enumerate(counts, 1)
    )
    text = f"""
[cluster]
name = "test"
product = "{product}"
[network]
nic = "bond0"
[ports]
master = 29500
[probe]
python = "{programs / "python"}"
{probe}
{hosts}"""
    return parse(text, Path("hosts.toml"))


def job(
    cluster_: Cluster, launcher: JobLauncher, program: Sequence[str] = ("train.py",), only: str = "", **more: Any
) -> LaunchedJob:
    chosen = devices(only) if only else None
    places = tuple(place(cluster_, host, chosen, None) for host in cluster_.hosts)
    return LaunchedJob(launcher, cluster_, places, tuple(program), 29500, **more)


def ran(text: str, programs: Path, folder: Path) -> list[tuple[list[str], dict[str, str]]]:
    """(argv, environment) of every process that the text has started, in any order; the text has to end well."""
    folder.mkdir()
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "RECORDS": str(folder)}
    done = subprocess.run(
        ["bash"], input=text.encode(), env=environment, cwd=folder, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    found = []
    for record in sorted(folder.glob("*.argv")):
        lines = record.with_suffix(".env").read_bytes().decode().split("\0")
        variables = {name: value for name, _, value in (line.partition("=") for line in lines if line)}
        argv = record.read_bytes().decode().split("\0")[:-1]
        found.append((argv, {name: value for name, value in variables.items() if name not in NOT_OURS}))
    return found


def parted(text: str, hosts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(host, what is to be pasted there) of the text with all blocks."""
    found = re.split(r"(?m)^# (?:on (\S+?)(?:, first)?|then on each of (\S+)):\n", text)
    of_host = {found[at]: found[at + 2] for at in range(1, len(found), 3) if found[at]}
    common = next((found[at + 2] for at in range(1, len(found), 3) if found[at + 1]), "")
    for host in hosts:
        yield host, of_host[host] + common


def same(launch: HostLaunch, found: list[tuple[list[str], dict[str, str]]], programs: Path) -> None:
    """Whether the processes are those of the JSON, with the variables of the JSON and no others of ours."""
    variables = {it.name: it.value for it in launch.variables}
    wanted = []
    for process in launch.processes:
        head = process.argv[0] if "/" in process.argv[0] else str(programs / process.argv[0])
        wanted.append(([head, *process.argv[1:]], variables | dict(process.variables)))
    order = lambda one: (one[0], sorted(one[1].items()))  # noqa: E731
    assert sorted(found, key=order) == sorted(wanted, key=order)


@pytest.mark.parametrize("launcher", JobLauncher)
@pytest.mark.parametrize("product", ["atlas-a2", "nvidia"])
@pytest.mark.parametrize("only", ["", "1"], ids=["all devices", "one device"])
def test_pasted_blocks_and_scripts_start_what_the_json_says(
    launcher: JobLauncher, product: str, only: str, programs: Path, tmp_path: Path
) -> None:
    wanted = job(cluster(programs, product), launcher, ("train.py", "--name", "it's a $HOME `x`"), only)
    if (launcher, product) in ((JobLauncher.PERSEUSRUN, "atlas-a2"), (JobLauncher.TORCH_NPU_RUN, "nvidia")):
        with pytest.raises(UsageError):
            launches(wanted)
        return
    started = launches(wanted)
    assert [it.host for it in started] == (["node01"] if launcher in FROM_ONE_HOST else ["node01", "node02"])
    text = blocks(started, wanted.cluster.probe, ["a note"], fold)
    pasted = dict(parted(text, [it.host for it in started]))
    for launch in started:
        same(launch, ran(pasted[launch.host], programs, tmp_path / f"{launch.host}-pasted"), programs)
        whole = script(launch, wanted.cluster.probe, ["a note"])
        same(launch, ran(whole, programs, tmp_path / f"{launch.host}-script"), programs)


@pytest.mark.parametrize("launcher", [JobLauncher.TORCHRUN, JobLauncher.SHELL])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
def test_the_program_s_arguments_arrive_as_they_were_given(
    words: list[str], launcher: JobLauncher, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for number, probe in enumerate(("", 'exec = "docker exec -i train"\nuser = "trainer"')):
        wanted = job(cluster(programs, probe=probe, counts=(1,)), launcher, ("train.py", *words))
        (launch,) = launches(wanted)
        folder = tmp_path_factory.mktemp("words") / str(number)
        (process,) = ran(script(launch, wanted.cluster.probe, []), programs, folder)
        assert process[0][-len(words) - 1 :] == ["train.py", *words]


@pytest.mark.parametrize("setup", ["ulimit -l # memory", "sleep 0 &"])
@pytest.mark.parametrize("launcher", [JobLauncher.MPIRUN, JobLauncher.SRUN])
def test_a_setup_may_end_in_a_comment_or_go_on_behind(
    setup: str, launcher: JobLauncher, programs: Path, tmp_path: Path
) -> None:
    (launch,) = launches(job(cluster(programs, probe=f'setup = "{setup}"'), launcher))
    bash = next(at for at, word in enumerate(launch.processes[0].argv) if word == "bash")
    (started,) = ran(folded(launch.processes[0].argv[bash:]) + " | cat", programs, tmp_path / "records")
    assert started[0] == [str(programs / "python"), "train.py"]


@pytest.mark.parametrize("launcher", JobLauncher)
@pytest.mark.parametrize("probe", ["", 'exec = "docker exec -i train"', "setup = 'source /opt/set_env.sh; ulimit -l'"])
def test_nothing_is_wrong_with_what_is_printed(launcher: JobLauncher, probe: str, programs: Path) -> None:
    product = "nvidia" if launcher is JobLauncher.PERSEUSRUN else "atlas-a2"
    several = not ("exec" in probe and launcher in FROM_ONE_HOST)
    all_ = cluster(programs, product, (8, 8) if several else (8,), probe)
    wanted = job(all_, launcher)
    texts = {Path(f"{it.host}.sh"): script(it, all_.probe, ["a note"]) for it in launches(wanted)}
    assert faults(texts, {}, all_, all_.hosts) == []


def test_hosts_that_differ_only_in_variables_have_the_command_in_common(programs: Path) -> None:
    wanted = job(cluster(programs), JobLauncher.TORCHRUN)
    text = blocks(launches(wanted), wanted.cluster.probe, [], fold)
    assert text.count("-m torch.distributed.run") == 1
    assert "# then on each of node[01-02]:" in text
    uneven = job(cluster(programs, counts=(2, 1)), JobLauncher.TORCHRUN)
    assert blocks(launches(uneven), uneven.cluster.probe, [], fold).count("-m torch.distributed.run") == 2


def many(count: int, launcher: JobLauncher, only: str = "", probe: str = "") -> LaunchedJob:
    text = f"""
[cluster]
name = "test"
product = "nvidia"
devices = 8
[probe]
{probe}
[[hosts]]
name = "node[1-{count}]"
address = "node[1-{count}]"
"""
    return job(parse(text, Path("hosts.toml")), launcher, only=only)


def test_no_argument_is_longer_than_linux_lets_through() -> None:
    """`env -i true ARGUMENT` fails from 128 KiB on."""
    (launch,) = launches(many(8000, JobLauncher.DEEPSPEED))
    assert "--include" not in launch.processes[0].argv
    assert launch.files[0].text.startswith("node1 slots=8\n")
    (launch,) = launches(many(2, JobLauncher.DEEPSPEED, "1,3"))
    assert launch.processes[0].argv[5:7] == ("--include", "node1:1,3@node2:1,3")
    for hopeless in (many(9000, JobLauncher.DEEPSPEED, "1-7"), many(13200, JobLauncher.MPIRUN)):
        with pytest.raises(UsageError, match="more than 128 KiB"):
            launches(hopeless)
    as_user = many(3000, JobLauncher.SRUN, probe='user = "trainer"')
    with pytest.raises(UsageError, match=r"sudo .* allows only 128 KiB"):
        blocks(launches(as_user), as_user.cluster.probe, [], fold)


def test_the_start_of_thousands_of_hosts_is_printed_in_seconds() -> None:
    large = many(8000, JobLauncher.SHELL, "0-3")
    began = time.process_time()
    blocks(launches(large), large.cluster.probe, [], fold)
    assert time.process_time() - began < 8


def test_ranks_go_on_from_host_to_host(programs: Path) -> None:
    started = launches(job(cluster(programs, counts=(2, 1, 2)), JobLauncher.SHELL))
    ranks = [[process.variables["RANK"] for process in it.processes] for it in started]
    assert ranks == [["0", "1"], ["2"], ["3", "4"]]
    devices_ = [[process.variables["DEVICE_ID"] for process in it.processes] for it in started]
    assert devices_ == [["0", "1"], ["0"], ["0", "1"]]


def test_msrun_does_not_deal_out_the_ranks_of_a_rank_table(programs: Path) -> None:
    uneven = cluster(programs, counts=(2, 1))
    assert launches(job(uneven, JobLauncher.MSRUN))
    with pytest.raises(UsageError, match="msrun assigns ranks itself"):
        launches(job(uneven, JobLauncher.MSRUN, rank_table="/data/hccl.json"))


def told(job_: LaunchedJob) -> dict[str, str]:
    return {it.name: it.value for it in launches(job_)[-1].variables}


@pytest.mark.parametrize(
    ("count", "seconds"), [(8, "120"), (2999, "120"), (3000, "240"), (4999, "240"), (5000, "600")], ids=str
)
def test_larger_jobs_wait_longer_for_their_ranks(count: int, seconds: str, programs: Path) -> None:
    all_ = cluster(programs, counts=(1,))
    many = LaunchedJob(
        JobLauncher.SHELL, all_, (JobHost("node01", "10.1.0.11", tuple(range(count))),), ("t.py",), 29500
    )
    assert told(many)["HCCL_CONNECT_TIMEOUT"] == seconds


def test_each_backend_has_its_own_variables_and_no_others(programs: Path) -> None:
    npu, gpu = (
        told(job(cluster(programs), JobLauncher.TORCHRUN)),
        told(job(cluster(programs, "nvidia"), JobLauncher.TORCHRUN)),
    )
    assert npu == {
        "NODE_RANK": "1", "HCCL_IF_BASE_PORT": "60000", "HCCL_SOCKET_IFNAME": "=bond0", "HCCL_WHITELIST_DISABLE": "1",
        "HCCL_CONNECT_TIMEOUT": "120", "NPU_ASD_ENABLE": "1", "GLOO_SOCKET_IFNAME": "bond0",
    }  # fmt: skip
    assert gpu == {
        "NODE_RANK": "1", "NCCL_SOCKET_IFNAME": "=bond0", "NCCL_DEBUG": "WARN", "GLOO_SOCKET_IFNAME": "bond0",
    }  # fmt: skip
    subset = told(job(cluster(programs), JobLauncher.SHELL, only="1", rank_table="/data/hccl.json"))
    assert subset["ASCEND_RT_VISIBLE_DEVICES"] == "1"
    assert (subset["RANK_TABLE_FILE"], subset["RANK_SIZE"], subset["WORLD_SIZE"]) == ("/data/hccl.json", "2", "2")
    assert told(job(cluster(programs, "nvidia"), JobLauncher.SHELL, only="1"))["CUDA_VISIBLE_DEVICES"] == "1"
    own = told(job(cluster(programs), JobLauncher.TORCHRUN, own={"NPU_ASD_ENABLE": "0", "MINE": "a b"}))
    assert (own["NPU_ASD_ENABLE"], own["MINE"]) == ("0", "a b")


def test_mpirun_is_root_only_where_jobs_are(programs: Path) -> None:
    for user, wanted in (("root", True), ("trainer", False), ("", False)):
        probe = f'user = "{user}"' if user else ""
        (launch,) = launches(job(cluster(programs, probe=probe), JobLauncher.MPIRUN))
        assert ("--allow-run-as-root" in launch.processes[0].argv) is wanted


@pytest.mark.parametrize(
    ("launcher", "counts", "probe", "program", "says"),
    [
        ("torch.distributed.launch", (2, 1), "", "train.py", "same number of processes on every host"),
        ("spawn", (2, 1), "", "train.py", "same number of devices on every host"),
        ("mpirun", (2, 2), 'exec = "docker exec -i train"', "train.py", "outside of docker exec -i train"),
        ("perseusrun", (2, 2), "", "train.py", "supports only NVIDIA GPUs"),
        ("deepspeed", (2, 2), "", "train.sh", "deepspeed starts only Python files"),
        ("msrun", (2, 2), "", "./train", "msrun starts only Python files"),
    ],
)
def test_a_launcher_that_cannot_start_the_job_says_so(
    launcher: str, counts: tuple[int, ...], probe: str, program: str, says: str, programs: Path
) -> None:
    with pytest.raises(UsageError, match=says):
        launches(job(cluster(programs, counts=counts, probe=probe), JobLauncher(launcher), (program,)))


def test_one_environment_for_all_ranks_has_to_be_right_on_all(programs: Path) -> None:
    all_ = cluster(programs)
    places = [place(all_, host, None, None) for host in all_.hosts]
    other = JobHost("node02", "10.1.0.12", (0, 1), "eth0")
    with pytest.raises(UsageError, match="HCCL_SOCKET_IFNAME is =bond0 on node01 and =eth0 on node02"):
        launches(LaunchedJob(JobLauncher.MPIRUN, all_, (places[0], other), ("t.py",), 29500))
    assert len(launches(LaunchedJob(JobLauncher.TORCHRUN, all_, (places[0], other), ("t.py",), 29500))) == 2


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("NAME", "is not NAME=VALUE"),
        ("A-B=1", "is not NAME=VALUE"),
        ("RANK=3", "the launcher sets this variable"),
        ("HCCL_CONNECT_TIME_OUT=600", "Did you mean HCCL_CONNECT_TIMEOUT"),
        ("HCCL_RDMA_SL=9", "the value must be a number from 0 to 7"),
        ("A=1\n2", "several lines"),
    ],
)
def test_variables_that_would_do_harm_are_refused(pair: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        checked([pair], Product.ATLAS_A2, 1)


@pytest.mark.parametrize("text", ["", "a", "0-", "3-1", "0,,1", "0-100", "-1"])
def test_lists_of_devices_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a list of devices"):
        devices(text)


def test_the_json_is_what_the_documents_say(programs: Path) -> None:
    wanted = job(cluster(programs), JobLauncher.SHELL)
    read = json.loads(document(wanted, launches(wanted), ["note"]))
    assert set(read) == {
        "schema", "launcher", "world_size", "master", "hosts", "setup", "exec", "user", "start", "notes",
    }  # fmt: skip
    assert (read["schema"], read["world_size"], read["master"]) == (
        "preflight.launch/1", 4, {"address": "10.1.0.11", "port": 29500},
    )  # fmt: skip
    assert read["start"][1]["processes"][0]["environment"] == {
        "LOCAL_RANK": "0", "RANK": "2", "RANK_ID": "2", "DEVICE_ID": "0",
    }  # fmt: skip
