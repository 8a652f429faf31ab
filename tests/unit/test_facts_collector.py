"""The collector, run as it runs on a host: its source and the request over stdin, tools found on PATH."""

import ast
import json
import os
import pwd
import runpy
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

from preflight.transport.bootstrap import host_argv
from preflight.transport.programs import source
from preflight.transport.types import Program

REMOTE = Path(__file__).parents[2] / "preflight" / "remote"
SOURCE, JOB_VIEW = source("collect"), source("job_view")
LOADER = "import sys; exec(compile(sys.stdin.buffer.read({}), 'collect', 'exec'))"


def answer(*sections: str, path: str = "", deadline: float = 10.0, **request: Any) -> dict[str, Any]:
    """What the collector answers. `path`: a directory of tools that goes in front of PATH."""
    deadlines = dict.fromkeys(sections, deadline)
    words = {"marker": "mark-1", "deadlines": deadlines, "ports": [], "names": [], **request}
    program = SOURCE.encode()
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-c", LOADER.format(len(program))],
        input=program + json.dumps(words).encode(),
        capture_output=True,
        timeout=30,
        env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]},
        check=True,
    )
    head, size, document = done.stdout.decode("ascii").lstrip("\n").split(maxsplit=2)
    assert head == "mark-1"
    assert len(document.rstrip("\n")) == int(size)
    found: dict[str, Any] = json.loads(document)
    return found


def tool(directory: Path, name: str, script: str) -> str:
    """A shell script named `name` on a PATH of its own."""
    file = directory / name
    file.write_text("#!/bin/sh\n" + script, encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(directory)


def job(python: str, *argv: str, elsewhere: bool = False) -> dict[str, Any]:
    return {"source": JOB_VIEW, "npu": False, "python": python, "argv": argv, "elsewhere": elsewhere}


def test_what_every_look_pays_for_is_light() -> None:
    heavy = {"asyncio", "urllib", "concurrent", "shutil", "platform", "typing", "tempfile"}
    for path in (*(REMOTE / "collect").glob("*.py"), REMOTE / "job_view.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not imported & heavy, path


def test_the_kernel_files_and_users_of_this_machine_are_seen() -> None:
    found = answer("os", "sysctl", "names", names=["localhost", "no..such"])
    assert found["os"]["value"]["kernel"] == os.uname().release
    assert found["os"]["value"]["root"] is (os.geteuid() == 0)
    reserved = Path("/proc/sys/net/ipv4/ip_local_reserved_ports").read_text(encoding="ascii")
    assert found["sysctl"]["value"]["values"]["net.ipv4.ip_local_reserved_ports"] == reserved
    assert "127.0.0.1" in found["names"]["value"]["cluster"]["localhost"]
    assert found["names"]["value"]["cluster"]["no..such"] == []
    assert found["clock"]["value"]["start"] <= found["clock"]["value"]["end"] <= time.time()


def test_a_socket_on_a_job_port_is_seen_with_its_process_whatever_its_state() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        port = server.getsockname()[1]
        client.connect(server.getsockname())
        mine = client.getsockname()[1]
        found = answer("sockets", ports=[[port, port], [mine, mine]])["sockets"]["value"]
    lines = found["out"].splitlines()
    assert {line.split()[0] for line in lines} == {"LISTEN", "ESTAB"}
    assert any(f":{mine} " in line and line.startswith("ESTAB") for line in lines)
    assert f"pid={os.getpid()}," in found["out"]


def test_ports_that_nobody_uses_give_no_socket() -> None:
    assert answer("sockets", ports=[[1, 1]])["sockets"]["value"]["out"] == ""


def test_a_tool_that_hangs_costs_its_own_section_and_no_other(tmp_path: Path) -> None:
    path = tool(tmp_path, "ss", "sleep 60 & wait\n")
    started = time.monotonic()
    found = answer("sockets", "os", path=path, deadline=0.5, ports=[[1, 1]])
    assert time.monotonic() - started < 5
    assert found["sockets"] == {"error": "ss -Htan ( sport >= :1 and sport <= :1 ) was still running at its deadline"}
    assert "value" in found["os"]


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[2] != "Z"
    except OSError:
        return False


def test_a_collector_that_nobody_waits_for_ends_and_its_tools_with_it(tmp_path: Path) -> None:
    path = tool(tmp_path, "ss", f"echo $$ >{tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 60")
    words = {"marker": "mark-1", "deadlines": {"sockets": 20}, "ports": [[60000, 60001]]}
    collector = subprocess.Popen(
        ["/usr/bin/env", "python3", "-I", "-c", LOADER.format(len(SOURCE.encode()))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
    )
    assert collector.stdin and collector.stdout
    collector.stdin.write(SOURCE.encode() + json.dumps(words).encode())
    collector.stdin.close()
    while not (tmp_path / "pid").exists():
        time.sleep(0.05)
    hanging = int((tmp_path / "pid").read_text(encoding="ascii"))
    assert alive(hanging)
    collector.stdout.close()  # what sshd does when the connection is gone
    assert collector.wait(timeout=5) == 0
    time.sleep(0.2)
    assert not alive(hanging)


def test_a_tool_that_left_a_child_behind_is_ended_with_it_whatever_else_was_to_be_asked(tmp_path: Path) -> None:
    """Its output stays open, so that it is waited for; past the deadline no reading is begun."""
    path = tool(tmp_path, "hccn_tool", f"sleep 60 & echo $! >>{tmp_path}/children")
    found = answer("hccn", path=path, deadline=0.5, devices=list(range(8)), readings=[["ip", "-g"], ["link", "-g"]])
    last = found["hccn"]["value"]["7"]["link"]["trouble"]
    assert last == "hccn_tool -i 7 was not started: the time for it was over"
    time.sleep(0.2)
    assert not [pid for pid in (tmp_path / "children").read_text(encoding="ascii").split() if alive(int(pid))]


def test_a_tool_that_floods_is_stopped_and_named(tmp_path: Path) -> None:
    found = answer("sockets", path=tool(tmp_path, "ss", "yes\n"), ports=[[1, 1]])
    assert found["sockets"] == {"error": "ss printed more than 256 KiB"}


def test_a_tool_that_prints_binary_leaves_an_answer_that_is_plain_ascii(tmp_path: Path) -> None:
    found = answer("sockets", path=tool(tmp_path, "ss", r"printf '\377\033[2J\000x'" + "\n"), ports=[[1, 1]])
    assert found["sockets"]["value"]["out"] == "\ufffd\x1b[2J\x00x"


def test_a_missing_tool_is_named() -> None:
    found = answer("hccn", "npu_smi", devices=[0], readings=[["ip", "-g"]])
    assert found["hccn"] == {"error": "hccn_tool is not installed, or not on PATH"}
    assert found["npu_smi"] == {"error": "npu-smi is not installed, or not on PATH"}


def test_a_broken_request_of_one_section_leaves_the_others() -> None:
    found = answer("sockets", "os", ports=5)
    assert found["sockets"]["error"].startswith("TypeError: ")
    assert "value" in found["os"]


def test_a_device_that_is_busy_is_asked_again_until_it_answers(tmp_path: Path) -> None:
    script = f"""cd {tmp_path}
n=$(cat count-$2 2>/dev/null || echo 0); echo $((n + 1)) > count-$2
[ "$n" -ge 2 ] && {{ echo "link status: UP"; exit; }}
echo "hccn_tool is busy, please try again."; exit 11
"""
    path = tool(tmp_path, "hccn_tool", script)
    found = answer("hccn", path=path, devices=[0, 1], readings=[["link", "-g"]])["hccn"]["value"]
    assert {device: readings["link"]["out"] for device, readings in found.items()} == {
        "0": "link status: UP\n",
        "1": "link status: UP\n",
    }


def test_a_device_that_stays_busy_says_so_at_the_deadline(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", 'echo "hccn_tool is busy, please try again."; exit 11\n')
    found = answer("hccn", path=path, devices=[0], readings=[["link", "-g"]], deadline=0.4)["hccn"]["value"]
    assert found["0"]["link"]["out"] == "hccn_tool is busy, please try again.\n"


def test_a_device_that_hangs_leaves_the_readings_of_the_others(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", '[ "$2" = 0 ] && sleep 60\necho "link status: UP"\n')
    found = answer("hccn", path=path, devices=[0, 1], readings=[["link", "-g"]], deadline=0.5)["hccn"]["value"]
    assert found["0"]["link"]["trouble"] == "hccn_tool -i 0 was still running at its deadline"
    assert found["1"]["link"]["out"] == "link status: UP\n"


def counted(directory: Path, first: int, passing: str, then: str) -> str:
    """A tool that answers a device's first calls with `passing`, and what comes after with `then`."""
    script = f"""cd {directory}
n=$(cat count-$2-$3 2>/dev/null || echo 0); echo $((n + 1)) > count-$2-$3
case $3 in -netdetect) echo "netdetect addr: $(cat detect 2>/dev/null || echo 0.0.0.0)"; exit;; esac
[ "$n" -lt {first} ] && echo "{passing}" || echo "{then}"
"""
    return tool(directory, "hccn_tool", script)


PROBING: dict[str, Any] = {"devices": [0], "readings": [["netdetect", "-g"], ["net_health", "-g"]]}


def test_a_device_whose_settings_are_being_restored_is_waited_for(tmp_path: Path) -> None:
    path = counted(tmp_path, 2, "config status:START", "config status:SUCCESS")
    found = answer("hccn", path=path, devices=[0, 1], readings=[["cfg", "status"]])["hccn"]["value"]
    assert {reading["cfg"]["out"] for reading in found.values()} == {"config status:SUCCESS\n"}


def test_a_device_that_is_restored_for_ever_says_so(tmp_path: Path) -> None:
    path = counted(tmp_path, 99, "config status:START", "")
    found = answer("hccn", path=path, devices=[0], readings=[["cfg", "status"]], deadline=1.0)["hccn"]["value"]
    assert found["0"]["cfg"]["out"] == "config status:START\n"


def test_a_probe_that_has_only_begun_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "detect").write_text("10.0.0.1")
    path = counted(tmp_path, 2, "net health status: Init", "net health status: Success")
    found = answer("hccn", path=path, **PROBING)["hccn"]["value"]
    assert found["0"]["net_health"]["out"] == "net health status: Success\n"


def test_a_probe_that_has_nothing_to_ask_is_not_waited_for(tmp_path: Path) -> None:
    path = counted(tmp_path, 1, "net health status: Init", "net health status: Success")
    found = answer("hccn", path=path, **PROBING)["hccn"]["value"]
    assert found["0"]["net_health"]["out"] == "net health status: Init\n"


def test_whose_processes_npu_smi_shows_is_looked_up(tmp_path: Path) -> None:
    mine = os.getpid()
    rows = f"| NPU     Chip              | Process id    |\n| 3       0                 | {mine}         | python |\n"
    path = tool(tmp_path, "npu-smi", f"cat <<'EOF'\n| 910B3 | OK |\n{rows}| 4       0   | 999999999  | gone |\nEOF\n")
    found = answer("npu_smi", path=path)["npu_smi"]["value"]
    assert found["users"] == {str(mine): pwd.getpwuid(os.getuid()).pw_name}


def test_pings_of_a_device_go_one_after_the_other(tmp_path: Path) -> None:
    script = f"""cd {tmp_path}
mkdir lock-$2 || {{ echo overlap >> overlaps; exit 1; }}
echo "device $2 PING $6"; sleep 0.05; rmdir lock-$2
"""
    path = tool(tmp_path, "hccn_tool", script)
    targets = [[0, "10.0.0.1"], [0, "10.0.0.2"], [1, "10.0.0.1"]]
    found = answer("pings", path=path, pings=targets)["pings"]["value"]
    assert not (tmp_path / "overlaps").exists()
    assert found["0"]["10.0.0.2"]["out"] == "device 0 PING 10.0.0.2\n"
    assert set(found["1"]) == {"10.0.0.1"}


def test_the_jobs_python_that_is_not_installed_is_known_to_be_absent() -> None:
    assert answer("job", job=job("no-such-python"))["job"] == {"value": {"python": None}}


def test_a_wrapper_that_fails_is_an_error_with_its_last_word() -> None:
    wrapped = job("python3", "sh", "-c", "echo starting >&2; echo no such container >&2; exit 125", elsewhere=True)
    found = answer("job", job=wrapped)["job"]["error"]
    assert found == "python3, where the jobs run, ends with 125: no such container"


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
