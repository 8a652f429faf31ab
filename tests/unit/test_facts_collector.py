"""The collector, run as it runs on a host: its source and the request over stdin, tools found on PATH."""

import ast
import json
import os
import pwd
import runpy
import stat
import subprocess
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from preflight.transport.bootstrap import host_argv
from preflight.transport.programs import source
from preflight.transport.types import Program
from tests.unit.collector import section

REMOTE = Path(__file__).parents[2] / "preflight" / "remote"
SOURCE, JOB_VIEW = source("collect"), source("job_view")
LOADER = "import sys; exec(compile(sys.stdin.buffer.read({}), 'collect', 'exec'))"


def answer(
    *sections: str, path: str = "", deadline: float = 10.0, source: str = SOURCE, **request: Any
) -> dict[str, Any]:
    """What the collector answers. `path`: a directory of tools that goes in front of PATH."""
    deadlines = dict.fromkeys(sections, deadline)
    words = {"marker": "mark-1", "deadlines": deadlines, "ports": [], "names": [], "called": [], **request}
    program = source.encode()
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


def job(python: str, *argv: str, elsewhere: bool = False, deep: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"source": JOB_VIEW, "python": python, "argv": argv, "elsewhere": elsewhere,
            "wanted": {"npu": False, "deep": deep}}  # fmt: skip


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
    assert last == "hccn_tool -i 7 -link was not started: the time for it was over"
    time.sleep(0.2)
    assert not [pid for pid in (tmp_path / "children").read_text(encoding="ascii").split() if alive(int(pid))]


def test_a_tool_that_floods_is_stopped_and_named(tmp_path: Path) -> None:
    found = answer("sockets", path=tool(tmp_path, "ss", "yes\n"), ports=[[1, 1]])
    assert found["sockets"] == {"error": "ss printed more than 256 KiB"}


def test_a_section_that_floods_in_many_small_parts_does_not_drown_the_others(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", "head -c 30000 /dev/zero\n")  # in JSON each byte takes six
    queries = [[f"q{number}", "-g"] for number in range(20)]
    found = answer("hccn", "os", path=path, devices=[0], readings=queries)
    assert found["hccn"] == {"error": "what was found is larger than 3 MiB"}
    assert "value" in found["os"]


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
    assert found["0"]["link"]["trouble"] == "hccn_tool -i 0 -link was still running at its deadline"
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


def to(address: str) -> list[str]:
    return ["-ping", "-g", "address", address]


def test_pings_of_a_device_go_one_after_the_other(tmp_path: Path) -> None:
    script = f"""cd {tmp_path}
mkdir lock-$2 || {{ echo overlap >> overlaps; exit 1; }}
echo "device $2 PING $6"; sleep 0.05; rmdir lock-$2
"""
    path = tool(tmp_path, "hccn_tool", script)
    targets = [[0, to("10.0.0.1")], [0, to("10.0.0.2")], [1, to("10.0.0.1")]]
    found = answer("pings", path=path, pings=targets, ping_seconds=5)["pings"]["value"]
    assert not (tmp_path / "overlaps").exists()
    assert [it["out"] for it in found["0"]] == ["device 0 PING 10.0.0.1\n", "device 0 PING 10.0.0.2\n"]
    assert len(found["1"]) == 1


def test_a_device_whose_pings_hang_is_left_after_two_in_a_row(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", 'echo "device $2 PING $6"; [ $2 = 0 ] || [ $6 = 10.0.0.0 ] || exec sleep 60\n')
    targets = [[device, to(f"10.0.0.{n}")] for device in (0, 1) for n in range(5)]
    found = answer("pings", path=path, pings=targets, ping_seconds=0.5)["pings"]["value"]
    assert [it["out"] for it in found["0"]] == [f"device 0 PING 10.0.0.{n}\n" for n in range(5)]
    assert [it.get("trouble", "") for it in found["1"]] == [
        "",
        *["hccn_tool -i 1 -ping was still running at its deadline"] * 2,
        *["not tried, since the pings before it came to no end"] * 2,
    ]


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


# What is looked at in depth.


def test_deep_queries_are_asked_as_far_as_the_tool_lists_them(tmp_path: Path) -> None:
    script = """case $1 in -h) printf 'hccn_tool -i devid -link\n   [-g]\nhccn_tool -i devid -fec\n'; exit;; esac
echo "$3 $4"
"""
    path = tool(tmp_path, "hccn_tool", script)
    found = answer("hccn", path=path, devices=[0], readings=[["mtu", "-g"]], deep_readings=["fec", "pfc", "link_stat"])
    readings = found["hccn"]["value"]["0"]
    assert {name: said["out"] for name, said in readings.items()} == {"mtu": "-mtu -g\n", "fec": "-fec -g\n"}


def test_a_tool_whose_help_lists_nothing_is_asked_everything(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", 'case $1 in -h) echo "usage: see the manual"; exit 1;; esac; echo "$3"\n')
    found = answer("hccn", path=path, devices=[0], readings=[], deep_readings=["fec", "pfc"])["hccn"]["value"]["0"]
    assert {name: said["out"] for name, said in found.items()} == {"fec": "-fec\n", "pfc": "-pfc\n"}


def test_a_deep_query_that_hangs_leaves_the_basic_ones_and_the_other_devices(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", '[ "$2$3" = 0-fec ] && sleep 60\necho "$3"\n')
    found = answer("hccn", path=path, devices=[0, 1], readings=[["mtu", "-g"]], deep_readings=["fec", "pfc"],
                   deadline=0.7)["hccn"]["value"]  # fmt: skip
    assert found["0"]["mtu"]["out"] == "-mtu\n"
    assert found["0"]["fec"]["trouble"] == "hccn_tool -i 0 -fec was still running at its deadline"
    assert {name: said["out"] for name, said in found["1"].items()} == {
        "mtu": "-mtu\n",
        "fec": "-fec\n",
        "pfc": "-pfc\n",
    }


MAPPING = """printf '\tNPU ID   Chip ID   Chip Logic ID   Chip Name\n'
printf '\t1   0   0   Ascend910\n\t1   1   1   Ascend910\n\t1   2   -   Mcu\n\t2   0   2   Ascend910\n'"""


def test_every_chip_and_card_is_asked_by_npu_smi_s_own_numbers(tmp_path: Path) -> None:
    path = tool(tmp_path, "npu-smi", f'[ "$2" = -m ] && {{ {MAPPING}; exit; }}\necho "$@"; exit 3\n')
    found = answer("chips", path=path, chip_queries=["health"])["chips"]["value"]
    chips = ["-i 1 -c 0", "-i 1 -c 1", "-i 2 -c 0"]
    assert {query: (said["out"], said["code"]) for query, said in found["queries"].items()} == {
        query: (f"info -t {query}\n", 3)
        for query in ["topo", "board -i 1", "board -i 2", *(f"health {chip}" for chip in chips)]
    }


def test_a_query_of_npu_smi_that_hangs_or_floods_leaves_the_others(tmp_path: Path) -> None:
    script = f"""[ "$2" = -m ] && {{ {MAPPING}; exit; }}
[ "$3$5$7" = health10 ] && sleep 60
[ "$3$5$7" = health11 ] && yes
echo fine
"""
    found = answer("chips", path=tool(tmp_path, "npu-smi", script), chip_queries=["health"], deadline=2.0)
    said = found["chips"]["value"]["queries"]
    assert said["health -i 1 -c 0"]["trouble"] == "npu-smi info -t health was still running at its deadline"
    assert said["health -i 1 -c 1"]["trouble"] == "npu-smi printed more than 32 KiB"
    assert {said[query]["out"] for query in ("topo", "board -i 1", "board -i 2", "health -i 2 -c 0")} == {"fine\n"}


def test_a_tool_that_prints_blank_lines_stops_nothing(tmp_path: Path) -> None:
    path = tool(tmp_path, "npu-smi", "yes '' | head -c 32000\n")
    found = answer("chips", "npu_smi", "extras", "os", path=path, devices=[], chip_queries=["health"])
    assert "nothing came of it" not in str({name: section.get("error", "") for name, section in found.items()})
    assert found["chips"]["value"]["mapping"]["out"].isspace()
    assert set(found["chips"]["value"]["queries"]) == {"topo"}


def test_a_tool_that_is_a_directory_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "npu-smi").mkdir()
    (tmp_path / "hccn_tool").mkdir()
    found = answer("chips", "hccn", path=str(tmp_path), devices=[0], readings=[], chip_queries=[])
    assert found["chips"] == {"error": "npu-smi is not installed, or not on PATH"}
    assert found["hccn"] == {"error": "hccn_tool is not installed, or not on PATH"}


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[str], str]:
    """An edit that makes the collector look below a directory, with two accelerators on its PCI bus."""
    for bus, vendor, kind in (("0000:3d:00.0", "0x19e5", "0x120000"), ("0000:3e:00.0", "0x8086", "0x120000"),
                              ("0000:3f:00.0", "0x19e5", "0x020000")):  # fmt: skip
        place = tmp_path / "sys/bus/pci/devices" / bus
        place.mkdir(parents=True)
        for name, text in (("vendor", vendor), ("class", kind), ("device", "0xd802")):
            (place / name).write_text(text + "\n", encoding="ascii")
    (tmp_path / "dev").mkdir()
    for name in ("davinci10", "davinci2", "davinci_x", "null0"):
        (tmp_path / "dev" / name).write_text("")
    (tmp_path / "dev/hisi_hdc").symlink_to("/dev/null")
    return lambda text: text.replace('"/sys/', f'"{tmp_path}/sys/').replace('"/dev', f'"{tmp_path}/dev')


def test_device_nodes_and_the_pci_bus_are_seen_without_lspci(machine: Callable[[str], str], tmp_path: Path) -> None:
    look = section("devices", "device_nodes", lambda text: machine(text).replace('find("lspci")', "None"))
    found = look({}, time.monotonic() + 5)
    assert found["pci"] == [["0000:3d:00.0", "d802"]]
    assert [(node["path"].removeprefix(str(tmp_path)), node["device"]) for node in found["nodes"]] == [
        ("/dev/davinci2", False),
        ("/dev/davinci10", False),
        ("/dev/hisi_hdc", True),
    ]
    null = Path("/dev/null").stat()
    assert (found["nodes"][2]["mode"], found["nodes"][2]["user"]) == (null.st_mode & 0o7777, "root")


def test_a_basic_query_that_hangs_costs_its_own_time_and_says_which_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tool(tmp_path, "hccn_tool", '[ "$2$3" = 0-link ] && exec sleep 60\necho "$3"\n')
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    look = section("hccn", "hccn", lambda text: text.replace("QUERY_SECONDS = 10", "QUERY_SECONDS = 0.5"))
    request = {"devices": [0, 1], "readings": [["cfg", "status"], ["link", "-g"], ["mtu", "-g"]]}
    found = look(request, time.monotonic() + 30)
    assert found["0"]["link"]["trouble"] == "hccn_tool -i 0 -link was still running at its deadline"
    assert (found["0"]["cfg"]["out"], found["0"]["mtu"]["out"]) == ("-cfg\n", "-mtu\n")
    assert {name: said["out"] for name, said in found["1"].items()} == {
        "cfg": "-cfg\n",
        "link": "-link\n",
        "mtu": "-mtu\n",
    }


def test_what_is_asked_where_jobs_run_is_not_shown_when_it_hangs() -> None:
    wrapped = job("python3", "sh", "-c", "export DB_PASS=hunter2; sleep 60", elsewhere=True)
    found = answer("job", job=wrapped, deadline=0.5)["job"]["error"]
    assert found == "python3, where the jobs run, was still running at its deadline"


def test_a_mapping_that_hangs_leaves_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tool(tmp_path, "npu-smi", '[ "$2" = -m ] && exec sleep 60\necho "$@"\n')
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    look = section("npu_smi", "npu_smi", lambda text: text.replace("QUERY_SECONDS = 10", "QUERY_SECONDS = 0.5"))
    found = look({}, time.monotonic() + 30)
    assert found["info"]["out"] == "info\n"
    assert found["mapping"]["trouble"] == "npu-smi info -m was still running at its deadline"
    look = section("npu_smi", "chips", lambda text: text.replace("QUERY_SECONDS = 10", "QUERY_SECONDS = 0.5"))
    found = look({"chip_queries": ["health"]}, time.monotonic() + 30)
    assert found["queries"]["topo"]["out"] == "info -t topo\n"


def test_lspci_that_hangs_and_a_directory_for_a_file_leave_the_nodes_and_the_versions(
    machine: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tool(tmp_path, "lspci", "exec sleep 60\n")
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    (tmp_path / "install").mkdir()
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver/version.info").write_text("Version=25.0.rc1\n", encoding="ascii")

    def edit(text: str) -> str:
        text = machine(text).replace("LSPCI_SECONDS = 5", "LSPCI_SECONDS = 0.5")
        return text.replace("/etc/ascend_install.info", f"{tmp_path}/install").replace(
            "/usr/local/Ascend", str(tmp_path)
        )

    found = section("devices", "device_nodes", edit)({}, time.monotonic() + 30)
    assert len(found["nodes"]) == 3
    assert found["pci"] == [["0000:3d:00.0", "d802"]]
    assert found["lspci"]["trouble"] == "lspci -D -nn -d 19e5: was still running at its deadline"
    assert (found["install"], found["install_trouble"]) == (None, f"{tmp_path}/install cannot be read: Is a directory")
    assert section("devices", "driver", edit)({}, time.monotonic() + 30)["driver"] == "Version=25.0.rc1\n"


def test_what_is_only_kept_is_asked_when_the_devices_are_done_and_again_where_the_tool_is_busy(tmp_path: Path) -> None:
    script = f"""cd {tmp_path}
case $1 in -h) printf 'hccn_tool -i devid -link\nhccn_tool -i devid -status\nhccn_tool -i devid -prio_tc\n'; exit;; esac
mkdir user 2>/dev/null || {{ echo two at once >>overlaps; exit 1; }}
sleep 0.1; rmdir user
[ $3 = -status ] && [ ! -e asked ] && {{ touch asked; echo "hccn_tool is busy, please try again."; exit 11; }}
echo "$3"
"""
    path = tool(tmp_path, "hccn_tool", script)
    found = answer("extras", "hccn", path=path, devices=[0], readings=[["link", "-g"], ["mtu", "-g"]])
    assert {name: said["out"] for name, said in found["hccn"]["value"]["0"].items()} == {
        "link": "-link\n",
        "mtu": "-mtu\n",
    }
    kept = {line: said["out"] for line, said in found["extras"]["value"].items() if " -i " in line}
    assert kept == {"hccn_tool -i 0 -status -g": "-status\n", "hccn_tool -i 0 -prio_tc -g": "-prio_tc\n"}
    assert not (tmp_path / "overlaps").exists()


def deep_job(**wanted: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"prefixes": [], "files": [], "named_by": [], "requirements": [], "datasets": []}
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


def test_what_is_only_kept_is_asked_of_the_first_device_and_chip_and_missing_tools_leave_nothing(
    tmp_path: Path,
) -> None:
    help_ = 'case $1 in -h) printf "hccn_tool -i devid -status\\n  [-g]\\n"; exit;; esac; echo "$@"\n'
    tool(tmp_path, "hccn_tool", help_)
    found = answer("extras", path=str(tmp_path), devices=[4, 5])["extras"]["value"]
    assert found["hccn_tool -i 4 -status -g"]["out"] == "-i 4 -status -g\n"
    assert {line for line in found if line.startswith("hccn_tool")} == {"hccn_tool -h", "hccn_tool -i 4 -status -g"}
    tool(tmp_path, "npu-smi", f'[ "$2" = -m ] && {{ {MAPPING}; exit; }}\necho "$@"\n')
    found = answer("extras", path=str(tmp_path), devices=[4, 5])["extras"]["value"]
    assert found["npu-smi info -t ecc -i 1 -c 0"]["out"] == "info -t ecc -i 1 -c 0\n"
    assert "npu-smi info -h" in found
