"""The collector's view of where jobs run: their Python, environment, rank table, files, and digests of data."""

import json
import os
import runpy
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from preflight.transport.bootstrap import host_argv
from preflight.transport.types import Program
from tests.unit.collector import JOB_VIEW, REMOTE, SOURCE, answer, job


def test_the_jobs_python_that_is_not_installed_is_known_to_be_absent() -> None:
    assert answer("job", job=job("no-such-python"))["job"] == {"value": {"python": None}}


def test_a_wrapper_that_fails_is_an_error_with_its_last_word() -> None:
    wrapped = job("python3", "sh", "-c", "echo starting >&2; echo no such container >&2; exit 125", elsewhere=True)
    found = answer("job", job=wrapped)["job"]["error"]
    assert found == "python3, where the jobs run, exited with 125: no such container"


def test_versions_come_from_where_the_jobs_run_and_from_metadata_alone(tmp_path: Path) -> None:
    for name, kind, file in (
        ("torch-9.8.7", "dist-info", "METADATA"),
        ("torch_npu-9.8.7.post1", "egg-info", "PKG-INFO"),
    ):
        folder = tmp_path / f"{name}.{kind}"
        folder.mkdir()
        (folder / file).write_text(f"Metadata-Version: 2.1\nName: x\nVersion: {name.split('-')[1]}\n", encoding="utf-8")
    (tmp_path / "torch.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    script = f'export PYTHONPATH={tmp_path}; echo "Welcome"; exec "$@"'
    program = Program(JOB_VIEW, wrapper=("sh", "-c", script, "sh"), isolated=False)
    found = answer("job", job=job("python3", *host_argv(program, sudo=False), elsewhere=True))["job"]["value"]
    assert found["packages"]["torch"] == "9.8.7"
    assert found["packages"]["torch_npu"] == "9.8.7.post1"


def test_bytes_of_a_file_that_are_no_text_can_be_told_apart_and_given_back(tmp_path: Path) -> None:
    read = runpy.run_path(str(REMOTE / "collect" / "tools.py"))["read"]
    file = tmp_path / "sysctl.conf"
    file.write_bytes("r\u00e9serv\u00e9 utf-8 and ".encode() + b"\xb1\xa3\xc1\xf4 gbk")
    assert read(str(file)) == "r\u00e9serv\u00e9 utf-8 and \U0010ffb1\U0010ffa3\U0010ffc1\U0010fff4 gbk"


def deep_job(**wanted: Any) -> dict[str, Any]:
    lists = (
        "prefixes",
        "files",
        "named_by",
        "read_by",
        "written_by",
        "requirements",
        "datasets",
        "mpi_parameters",
        "imports",
    )
    nothing: dict[str, Any] = {**{name: [] for name in lists}, "project": ""}
    return {**nothing, **wanted}


def test_the_jobs_environment_is_that_behind_its_setup_and_secrets_stay_there(tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text("{}", encoding="utf-8")
    (tmp_path / "link.json").symlink_to(table)
    script = f'export HCCL_X=1 HCCL_TOKEN=hunter2 OTHER=2 RANK_TABLE_FILE={tmp_path}/link.json; exec "$@"'
    program = Program(JOB_VIEW, wrapper=("sh", "-c", script, "sh"), isolated=False)
    wanted = deep_job(
        prefixes=["HCCL_", "RANK_"], named_by=["RANK_TABLE_FILE"], files=["/no/such", "/dev/null", "/dev"]
    )
    view = job("python3", *host_argv(program, sudo=False), elsewhere=True, deep=wanted)
    found = answer("job", job=view)["job"]["value"]["deep"]
    assert found["variables"] == {
        "HCCL_X": "1", "HCCL_TOKEN": "[redacted]", "RANK_TABLE_FILE": f"{tmp_path}/link.json"
    }  # fmt: skip
    kinds = {file["path"]: (file["kind"], file["text"], file["error"]) for file in found["files"]}
    assert kinds == {
        "/no/such": ("missing", "", ""),
        "/dev/null": ("device", "", ""),
        "/dev": ("folder", "", ""),
        f"{tmp_path}/link.json": ("link", "{}", ""),
    }
    assert (found["uid"], found["groups"][0]) == (os.getuid(), os.getgid())


def rank_table(path: Path, servers: int) -> str:
    """A finished table of so many servers with a device each; the one of 10.1.0.7 is among them."""
    listed = [{"server_id": f"10.1.{at >> 8}.{at & 255}", "device": [{"device_id": "0"}]} for at in range(servers)]
    table = {"version": "1.0", "status": "completed", "server_list": listed, "padding": ["x" * 99] * servers}
    path.write_text(json.dumps(table, indent=4), encoding="utf-8")
    return path.read_text(encoding="utf-8")


def named_file(path: Path) -> dict[str, Any]:
    """What is seen of a file that RANK_TABLE_FILE names, on the host 10.1.0.7."""
    program = Program(JOB_VIEW, wrapper=("env", f"RANK_TABLE_FILE={path}"), isolated=False)
    view = job("python3", *host_argv(program, sudo=False), elsewhere=True, deep=deep_job(named_by=["RANK_TABLE_FILE"]))
    found = answer("job", job=view, called=["node7", "10.1.0.7"])["job"]["value"]["deep"]["files"][0]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("servers", [20, 1000, 8000], ids=["sent whole", "over 64 KiB", "over 1 MiB"])
def test_of_a_large_rank_table_a_host_sends_its_own_part_and_the_digest_of_the_whole(
    tmp_path: Path, servers: int
) -> None:
    text = rank_table(tmp_path / "hccl.json", servers)
    found = named_file(tmp_path / "hccl.json")
    assert (found["error"], found["size"]) == ("", len(text))
    assert found["digest"] == sha256(text.encode()).hexdigest()
    own = {"server_id": "10.1.0.7", "device": [{"device_id": "0"}]}
    short = {"version": "1.0", "status": "completed", "server_list": [own]}
    assert (found["text"] == text) if servers == 20 else (json.loads(found["text"]) == short)


def test_a_large_file_that_is_no_rank_table_is_sent_or_said_to_be_too_large(tmp_path: Path) -> None:
    path = tmp_path / "hccl.json"
    for text, error in (
        ('{"host_ip": [' + '"10.1.0.1", ' * 9000 + '"10.1.0.2"]}', ""),
        (rank_table(path, 8000).replace('"status"', "status"), "larger than 1024 KiB, and no rank table: Expecting"),
        ("[" * (2 << 20), "larger than 1024 KiB, and no rank table"),
    ):
        path.write_text(text, encoding="utf-8")
        found = named_file(path)
        assert found["text"] == ("" if error else text)
        assert found["error"].startswith(error)
        assert bool(found["error"]) == bool(error)


def test_values_that_may_be_secrets_stay_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"HCCL_BUFFSIZE": "300", "HCCL_SOCKET_IFNAME": "=eth0", "HCCL_HOME": "https://example.org/a"}
    kept = dict.fromkeys(("ASCEND_PWD", "ASCEND_APIKEY", "HCCL_AUTH", "ASCEND_hf_token", "ASCEND_LOGIN"), "hunter2")
    kept |= {"ASCEND_STORE": "redis://:hunter2@h/0", "ASCEND_PROXY": "http://u:a/hunter2@proxy:1"}
    for name, value in (told | kept).items():
        monkeypatch.setenv(name, value)
    look = runpy.run_path(str(REMOTE / "job_view.py"))["variables"]
    assert look(("HCCL_", "ASCEND_")) == told | dict.fromkeys(kept, "[redacted]")


def test_what_nccl_reads_from_its_files_counts_unless_the_environment_or_an_earlier_line_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".nccl.conf").write_text("#NCCL_NET=IB\nNCCL_IB_HCA=mlx5\nNCCL_IB_HCA=none\nHCCL_BUFFSIZE=1\nNCCL_\n")
    (tmp_path / "etc.conf").write_text("NCCL_SOCKET_IFNAME==eth0\nNCCL_IB_HCA=mlx4\nNCCL_DEBUG=INFO\n")
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    look = runpy.run_path(str(REMOTE / "job_view.py"))["variables"]
    look.__globals__["NCCL_CONF"] = str(tmp_path / "etc.conf")
    found = {"NCCL_SOCKET_IFNAME": "=eth0", "NCCL_IB_HCA": "mlx5", "NCCL_DEBUG": "WARN"}
    assert look(("NCCL_", "HCCL_BUFF")) == found
    monkeypatch.setenv("NCCL_CONF_FILE", str(tmp_path / "no such file"))
    assert look(("NCCL_",)) == {**found, "NCCL_IB_HCA": "mlx4", "NCCL_CONF_FILE": str(tmp_path / "no such file")}


def test_lines_of_nccls_files_are_told_with_the_file_and_those_that_nccl_does_not_read_by_their_names(
    tmp_path: Path,
) -> None:
    conf = tmp_path / "nccl.conf"
    lines = ("# NCCL_NET=IB", "export NCCL_DEBUG=INFO", "NCCL_IB_HCA = mlx5_1", "NCCL_NET=Socket\r", "NCCL_X", " =", "")
    conf.write_bytes("\n".join((*lines, f"NCCL_DEBUG_FILE={tmp_path}/none/%h.%p", "NCCL_IB_TC=106")).encode())
    own = ("NCCL_IB_TC=1", f"NCCL_CONF_FILE={conf}", f"HOME={tmp_path}")
    program = Program(JOB_VIEW, wrapper=("env", *own), isolated=False)
    wanted = deep_job(prefixes=["NCCL_"], read_by=["NCCL_CONF_FILE"], written_by=["NCCL_DEBUG_FILE"])
    view = job("python3", *host_argv(program, sudo=False), elsewhere=True, deep=wanted)
    found = answer("job", job=view)["job"]["value"]["deep"]
    assert found["nccl_files"] == {"NCCL_NET": str(conf), "NCCL_DEBUG_FILE": str(conf)}
    assert found["variables"]["NCCL_NET"] == "Socket\r"
    assert found["variables"]["NCCL_IB_TC"] == "1"
    assert found["nccl_ignored"] == [[str(conf), "export NCCL_DEBUG"], [str(conf), "NCCL_IB_HCA "]]
    assert [(file["path"], file["kind"]) for file in found["files"]] == [
        (str(conf), "file"), (f"{tmp_path}/none", "missing")
    ]  # fmt: skip
    assert set(found["rdma"]) == {"devices", "nodes", "libibverbs"}


def test_a_conf_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("NCCL_CONF_FILE", str(tmp_path / "pipe"))
    look = runpy.run_path(str(REMOTE / "job_view.py"))["nccl_files"]
    look.__globals__["NCCL_CONF"] = str(tmp_path / "none")
    assert look() == ({}, [])


def test_packages_of_nccl_are_known_by_their_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia_nccl_cu12-2.21.5", "nvidia_cuda_runtime_cu12-12.4.127", "nvidia_cublas_cu12-1"):
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info/METADATA").write_text(f"Version: {name.split('-')[1]}\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    scope = runpy.run_path(str(REMOTE / "job_view.py"))
    scope["packages"].__globals__["module_path"] = lambda: [str(tmp_path)]
    found = scope["packages"]()
    assert found == {"nvidia_nccl_cu12": "2.21.5", "nvidia_cuda_runtime_cu12": "12.4.127"}


def test_the_drivers_files_are_looked_for_where_it_is_installed(tmp_path: Path) -> None:
    (tmp_path / "info").write_text(f"UserName=HwHiAiUser\nDriver_Install_Path_Param={tmp_path}\n", encoding="utf-8")
    (tmp_path / "driver").mkdir()
    paths = ["/usr/local/Ascend/driver", "/usr/local/Ascender", "/etc/hccn.conf"]
    source = SOURCE.replace("/etc/ascend_install.info", f"{tmp_path}/info")
    view = job("python3", deep=deep_job(files=paths))
    found = answer("job", source=source, job=view)["job"]["value"]["deep"]["files"]
    kinds = [(file["path"], file["kind"]) for file in found][:2]
    assert kinds == [(f"{tmp_path}/driver", "folder"), ("/usr/local/Ascender", "missing")]


def test_digests_tell_files_by_their_bytes_and_folders_by_names_and_sizes(tmp_path: Path) -> None:
    def digests() -> tuple[str, str]:
        view = job("python3", deep=deep_job(requirements=[f"{tmp_path}/r.txt"], datasets=[f"{tmp_path}/data"]))
        files = answer("job", job=view)["job"]["value"]["deep"]["files"]
        assert not any(file["error"] for file in files)
        return files[0]["digest"], files[1]["digest"]

    (tmp_path / "data/a").mkdir(parents=True)
    (tmp_path / "r.txt").write_text("torch==2.1\n")
    (tmp_path / "data/a/1").write_text("one")
    first = digests()
    assert all(len(digest) == 64 for digest in first)
    assert digests() == first
    (tmp_path / "r.txt").write_text("torch==2.2\n")
    (tmp_path / "data/a/1").write_text("two")  # another content of the same size
    assert (digests()[0] == first[0], digests()[1] == first[1]) == (False, True)
    (tmp_path / "data/a/2").write_text("")
    assert digests()[1] != first[1]


def test_the_time_of_a_digest_runs_out_inside_a_folder_too_and_its_files_are_counted(tmp_path: Path) -> None:
    for number in range(2500):
        (tmp_path / str(number)).touch()
    scope = runpy.run_path(str(REMOTE / "job_view.py"))["digest_of_folder"].__globals__
    late = [0.0, 0.0, 9.0]  # the clock, look by look: at the folder, and inside it
    scope["time"] = type("Clock", (), {"monotonic": staticmethod(lambda: late.pop(0) if late else 0.0)})
    assert scope["with_digest"](str(tmp_path), 5.0)["error"] == "not read within 15 s"
    assert len(scope["with_digest"](str(tmp_path), 5.0)["digest"]) == 64
    scope["MOST_FILES"] = 2499
    assert scope["with_digest"](str(tmp_path), 5.0)["error"] == "more than 2499 files"


def test_a_link_that_leads_nowhere_and_a_pipe_are_told_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("/no/such")
    os.mkfifo(tmp_path / "pipe")
    paths = [f"{tmp_path}/gone", f"{tmp_path}/pipe", f"{tmp_path}/none"]
    view = job("python3", deep=deep_job(requirements=paths))
    files = answer("job", job=view)["job"]["value"]["deep"]["files"]
    assert [(file["kind"], file["digest"], file["error"]) for file in files] == [
        ("link", "", "the link leads nowhere"), ("device", "", ""), ("missing", "", "")
    ]  # fmt: skip


def test_open_mpis_interfaces_are_read_from_environment_user_and_installation_in_this_order(tmp_path: Path) -> None:
    for place, text in (
        (
            "home/.openmpi/mca-params.conf",
            "# btl_tcp_if_include = no\nbtl_tcp_if_include = eth1\nother_token = hunter2\n",
        ),
        ("mpi/etc/openmpi-mca-params.conf", "btl_tcp_if_include=eth2\nbtl_tcp_if_exclude=lo\n"),
        ("mpi/bin/mpirun", "#!/bin/sh\n"),
    ):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "mpi/bin/mpirun").chmod(0o755)
    names = ["btl_tcp_if_include", "btl_tcp_if_exclude"]

    def found(*more: str) -> Any:
        variables = (f"HOME={tmp_path}/home", f"PATH={tmp_path}/mpi/bin:{os.environ['PATH']}", *more)
        program = Program(JOB_VIEW, wrapper=("env", *variables), isolated=False)
        view = job("python3", *host_argv(program, sudo=False), elsewhere=True, deep=deep_job(mpi_parameters=names))
        return answer("job", job=view)["job"]["value"]["deep"]["mpi"]

    user, installed = f"{tmp_path}/home/.openmpi/mca-params.conf", f"{tmp_path}/mpi/etc/openmpi-mca-params.conf"
    files = [[names[0], "eth1", user], [names[0], "eth2", installed], [names[1], "lo", installed]]
    assert found() == {"mpirun": f"{tmp_path}/mpi/bin/mpirun", "parameters": files}
    told = found("OMPI_MCA_btl_tcp_if_include=10.1.0.0/24")["parameters"]
    assert told == [[names[0], "10.1.0.0/24", "OMPI_MCA_btl_tcp_if_include"], *files]


def test_packages_are_found_as_an_import_would_and_none_is_imported(tmp_path: Path) -> None:
    for name in (
        "project/train_lib/__init__.py",
        "site/perseus.py",
        "site/horovod/__init__.py",
        "project/horovod/setup.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("raise SystemExit('imported')", encoding="utf-8")
    wanted = deep_job(project=f"{tmp_path}/project", imports=["train_lib", "perseus", "horovod", "sys", "torch_none"])
    for isolated in (True, False):
        program = Program(JOB_VIEW, wrapper=("env", f"PYTHONPATH={tmp_path}/site"), isolated=isolated)
        view = job("python3", *host_argv(program, sudo=False), elsewhere=True, deep=wanted)
        assert answer("job", job=view)["job"]["value"]["deep"]["imports"] == {
            "train_lib": f"{tmp_path}/project/train_lib/__init__.py",
            "perseus": f"{tmp_path}/site/perseus.py",
            "horovod": f"{tmp_path}/site/horovod/__init__.py",  # a folder without __init__.py does not hide it
            "sys": "built-in",
            "torch_none": "",
        }


def test_a_folder_is_told_with_its_file_system_through_links_or_why_it_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc/sys")
    (tmp_path / "file").touch()

    def project(path: str) -> dict[str, str]:
        view = job("python3", deep=deep_job(project=path))
        found = answer("job", job=view)["job"]["value"]["deep"]["project"]
        assert isinstance(found, dict)
        return found

    found = project(f"{tmp_path}/link")
    assert (found["filesystem"], found["source"], found["error"]) == ("proc", "proc/sys", "")
    assert project(f"{tmp_path}/file")["error"] == "it is no folder"
    assert project(f"{tmp_path}/none")["error"] == "No such file or directory"
    assert project(f"{tmp_path}/none")["filesystem"] == project(str(tmp_path))["filesystem"] != ""
