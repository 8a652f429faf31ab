"""The collector, run as it runs on a host: what it sees of any machine, and tools that hang, flood or are missing."""

import ast
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

from collect.own import parent_of
from collect.system import names_to_resolve

from preflight.transport.bootstrap import RUN, python_argv
from preflight.transport.types import Program
from tests.unit.collector import COLLECT, LOADER, REMOTE, SOURCE, answer, tool


def test_what_every_look_pays_for_is_light() -> None:
    heavy = {"asyncio", "urllib", "concurrent", "shutil", "platform", "typing", "tempfile"}
    for path in (*(REMOTE / "collect").glob("*.py"), REMOTE / "job_view.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not imported & heavy, path


def test_the_kernel_files_and_users_of_this_machine_are_seen() -> None:
    found = answer("os", "sysctl", "names", names={"localhost": "127.0.0.1", "no..such": "10.1.0.2"})
    assert found["os"]["value"]["kernel"] == os.uname().release
    assert found["os"]["value"]["root"] is (os.geteuid() == 0)
    reserved = Path("/proc/sys/net/ipv4/ip_local_reserved_ports").read_text(encoding="ascii")
    assert found["sysctl"]["value"]["values"]["net.ipv4.ip_local_reserved_ports"] == reserved
    assert "127.0.0.1" in found["names"]["value"]["cluster"]["localhost"]
    assert found["names"]["value"]["cluster"]["no..such"] == []
    assert found["clock"]["value"]["start"] <= found["clock"]["value"]["end"] <= time.time()


def test_only_names_that_resolve_to_other_addresses_are_returned_and_the_first() -> None:
    planned = {"127.0.0.1": "127.0.0.1", "127.0.0.2": "127.0.0.2", "127.0.0.3": "10.1.0.3"}
    found = answer("names", names=planned)["names"]["value"]
    assert found["cluster"] == {"127.0.0.1": ["127.0.0.1"], "127.0.0.3": ["127.0.0.3"]}


def test_in_a_large_cluster_a_host_resolves_the_next_names_and_what_its_hosts_file_has_otherwise() -> None:
    planned = {f"node{number:04}": f"10.1.{number // 250}.{number % 250 + 1}" for number in range(2000)}
    assert names_to_resolve(dict(list(planned.items())[:512]), "node0001", "") == set(list(planned)[:512])
    lines = f"# 10.9.9.9 node0007\n10.9.9.9 node0008 alias # node0009\n{planned['node0011']} node0011\n"
    chosen = names_to_resolve(planned, "node1998", lines)
    assert chosen == {"node1998", "node1999", *list(planned)[:510]}
    assert names_to_resolve(planned, "node1000", lines) == {*list(planned)[1000:1512], "node0008"}


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
    assert found["sockets"] == {"error": "ss -Htan ( sport >= :1 and sport <= :1 ) did not finish in time"}
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
    assert collector.wait(timeout=30) == 0
    until = time.monotonic() + 20  # by itself it would end after 60
    while alive(hanging) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(hanging)


def test_a_tool_that_waits_for_its_child_is_ended_with_it_whatever_else_was_to_be_asked(tmp_path: Path) -> None:
    """Past the deadline no reading is begun."""
    path = tool(tmp_path, "hccn_tool", f"sleep 60 & echo $! >>{tmp_path}/children; wait")
    found = answer("hccn", path=path, deadline=0.5, devices=list(range(8)), readings=[["ip", "-g"], ["link", "-g"]])
    last = found["hccn"]["value"]["7"]["link"]["trouble"]
    assert last == "hccn_tool -i 7 -link was not started because the time was up"
    time.sleep(0.2)
    assert not [pid for pid in (tmp_path / "children").read_text(encoding="ascii").split() if alive(int(pid))]


def test_a_tool_that_floods_is_stopped_and_named(tmp_path: Path) -> None:
    found = answer("sockets", path=tool(tmp_path, "ss", "yes\n"), ports=[[1, 1]])
    assert found["sockets"] == {"error": "ss printed more than 256 KiB"}


def test_a_section_that_floods_in_many_small_parts_does_not_drown_the_others(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", "head -c 30000 /dev/zero\n")  # in JSON each byte takes six
    queries = [[f"q{number}", "-g"] for number in range(20)]
    found = answer("hccn", "os", path=path, devices=[0], readings=queries)
    assert found["hccn"] == {"error": "the result is larger than 3 MiB"}
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


def test_processes_of_preflight_are_told_from_others_and_those_of_this_run_from_another_run() -> None:
    def started(run: str) -> subprocess.Popen[bytes]:
        program = 'import subprocess;source=\'subprocess.run(["sleep", "60"])\';'
        loader = f'{program}exec(compile(source,"preflight{run}","exec"))'
        return subprocess.Popen([sys.executable, "-I", "-c", loader], start_new_session=True)

    runs = {" 0123abcd": True, " ffff0000": False, "": False}
    begun = {started(run): this for run, this in runs.items()}
    pids = {process.pid for process in begun}
    job = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        program = SOURCE.encode()
        loader = LOADER.format(len(program)).replace("'collect', 'exec'", '"", "exec"')
        words = {"marker": "m", "deadlines": {"os": 10.0}}
        deadline = time.monotonic() + 10
        while True:
            done = subprocess.run(
                [sys.executable, "-I", "-c", f'{loader} # compile(source,"preflight 0123abcd","exec")'],
                input=program + json.dumps(words).encode(), capture_output=True, check=True,
            )  # fmt: skip
            seen = json.loads(done.stdout.decode().splitlines()[2])["os"]["value"]["preflight"]
            found = {process["pid"]: process for process in seen}
            # Other tests, which run at the same time, have processes of preflight, too.
            sleeps = [process for process in seen if process["name"] == "sleep"]
            descended = [process for process in sleeps if parent_of(process["pid"]) in pids]
            if len(descended) >= len(runs) or time.monotonic() > deadline:
                break
        assert {one.pid: found[one.pid]["this_run"] for one in begun} == {one.pid: is_ for one, is_ in begun.items()}
        assert sorted(process["this_run"] for process in descended) == [False, False, True]
        assert not {job.pid, os.getpid()} & set(found)
    finally:
        for one in (*begun, job):
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def test_every_program_on_a_host_names_its_run_in_its_command_line() -> None:
    loader = runpy.run_path(str(COLLECT / "own.py"))["LOADER"]
    match = loader.search("\0".join(python_argv(Program("pass", b""))).encode())
    assert match
    assert match.group(1).decode() == RUN


def test_accelerators_of_both_vendors_are_collected_from_the_pci_bus(tmp_path: Path) -> None:
    devices = {
        "0000:01:00.0": ("0x19e5", "0x120000", "0xd802"),
        "0000:02:00.0": ("0x19e5", "0x030000", "0x1711"),  # the board's own display
        "0000:03:00.0": ("0x10de", "0x030200", "0x2330"),
        "0000:04:00.0": ("0x10de", "0x068000", "0x22a3"),  # a switch
        "0000:05:00.0": ("0x8086", "0x020000", "0x1521"),
    }
    for bus, words in devices.items():
        (tmp_path / bus).mkdir()
        for name, word in zip(("vendor", "class", "device"), words, strict=True):
            (tmp_path / bus / name).write_text(f"{word}\n")
    edited = SOURCE.replace("/sys/bus/pci/devices", str(tmp_path))
    found = answer("accelerators", source=edited)["accelerators"]["value"]
    assert found["pci"] == [["0x19e5", "0xd802"], ["0x10de", "0x2330"]]
