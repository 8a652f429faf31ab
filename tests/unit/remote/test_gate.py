"""The node's gate over files: what it believes, what it looks at, and what that makes of a job."""

import importlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.gate_node import HOUR, NOW, REMOTE, Node, Spoil, says, sealed

jobs = importlib.import_module("gate.jobs")
answers = importlib.import_module("gate.answer")
files = importlib.import_module("gate.files")

FOUND = " (found 60 min ago. Once fixed, run preflight gate clear --limit node01)"
OUR_LINKS = """
case "$*" in
*-link*) echo "link status: UP" ;;
"-i 0 -ip -g") printf 'ipaddr:192.168.100.11\\nnetmask:255.255.255.0\\n' ;;
"-i 1 -ip -g") printf 'ipaddr:192.168.101.11\\nnetmask:255.255.255.0\\n' ;;
esac"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("context", ["prolog", "epilog", "task", "job", "init"])
def test_a_good_host_with_a_fresh_verdict_is_open_without_any_vendor_tool(
    node: Node, context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = node.hccn_tool("exit 1", monkeypatch)
    answer = node.ask(context)
    assert (answer.outcome, answer.open, answer.reasons, answer.code()) == ("pass", True, [], 0)
    looked = (None, "node01 is healthy") if context == "task" else (HOUR, "node01 is healthy, checked 60 min ago")
    assert (answer.age, answer.sentence) == looked
    assert not calls.exists()


def replaced(name: str, old: str, new: str) -> Spoil:
    return lambda node: node.write(name, node.file(name).read_text().replace(old, new), 0o600)


VERDICT, POLICY = "var/lib/preflight/verdict.json", "etc/preflight/gate.json"


def linked(node: Node) -> None:
    node.file(VERDICT).rename(node.path / "elsewhere")
    node.file(VERDICT).symlink_to(node.path / "elsewhere")


def folder(name: str) -> Spoil:
    def spoil(node: Node) -> None:
        node.file(name).unlink()
        node.file(name).mkdir()

    return spoil


def pipe(name: str) -> Spoil:
    def spoil(node: Node) -> None:
        node.file(name).unlink()
        os.mkfifo(node.file(name), 0o600)

    return spoil


UNBELIEVED: dict[str, tuple[Spoil, str]] = {
    "none": (
        lambda node: node.file(VERDICT).unlink(),
        "no result is published on this host. Run preflight check --publish",
    ),
    "empty": (lambda node: node.write(VERDICT, ""), "is damaged: not valid JSON"),
    "truncated": (lambda node: node.write(VERDICT, node.file(VERDICT).read_bytes()[:-9]), "is damaged"),
    "no UTF-8": (lambda node: node.write(VERDICT, b"\xff\xfe\x00"), "is damaged"),
    "deep": (lambda node: node.write(VERDICT, "[" * 200_000), "is damaged"),
    "a list": (lambda node: node.write(VERDICT, "[]"), "not a JSON object"),
    "edited": (replaced(VERDICT, '"pass"', '"fail"'), "wrong checksum"),
    "no checksum": (lambda node: node.write(VERDICT, '{"schema": "preflight.verdict/1"}'), "wrong checksum"),
    "huge": (lambda node: node.write(VERDICT, b" " * (3 << 20)), "is larger than 1024 KiB"),
    "a link": (linked, "cannot be read: Too many levels of symbolic links"),
    "a folder": (folder(VERDICT), "is not a file"),
    "a pipe": (pipe(VERDICT), "is not a file"),
    "writable": (lambda node: node.file(VERDICT).chmod(0o620), "users other than root can write"),
    "folder writable": (lambda node: node.file(VERDICT).parent.chmod(0o777), "users other than root can write"),
    "another host": (lambda node: node.verdict(host="node02"), "belongs to another host, 'node02'"),
    "another machine": (lambda node: node.verdict(machine="f" * 32), "belongs to another machine"),
    "another inventory": (lambda node: node.verdict(config="0ld"), "preflight gate install, then preflight check"),
    "another version": (lambda node: node.verdict(schema="preflight.verdict/9"), "has an unsupported version"),
    "no looks": (lambda node: node.verdict(looks=None), "has an unknown format"),
    "odd look": (lambda node: node.verdict(node.look(state={"boot": 1})), "unknown format"),
    "odd problem": (lambda node: node.verdict(node.look(problems=[{"check": "PRT101"}])), "unknown format"),
    "not a time": (lambda node: node.verdict(node.look(time=float("nan"))), "unknown format"),
    "no check": (lambda node: node.verdict(looks={}), "no check of this host is published"),
    "future": (lambda node: node.verdict(node.look(time=NOW + 7200)), "is 2 h ahead"),
    "old": (
        lambda node: node.verdict(node.look(time=NOW - 30 * HOUR)),
        "the last check was 30 h ago and is valid for 24 h",
    ),
    "expired": (
        lambda node: node.verdict(node.look(expires=NOW - 1)),
        "the last check was 60 min ago and is valid for 59",
    ),
    "kernel": (lambda node: node.write("proc/sys/kernel/osrelease", "6.1.0\n"), "the kernel has changed"),
    "driver": (
        lambda node: node.write("usr/local/Ascend/driver/version.info", "Version=24\n"),
        "the driver has changed",
    ),
    "no policy": (lambda node: node.file(POLICY).unlink(), "preflight gate install"),
    "policy truncated": (lambda node: node.write(POLICY, node.file(POLICY).read_bytes()[:-9]), "is damaged"),
    "policy of later": (replaced(POLICY, "gate/1", "gate/2"), "an unsupported version, 'preflight.gate/2'"),
    "policy without ages": (replaced(POLICY, "max_age", "age_max"), "max_age is missing or has the wrong type"),
    "policy of text": (lambda node: node.policy({"devices": ["0"]}), "devices is missing or has the wrong type"),
    "policy's ports": (lambda node: node.policy({"free": "1-99999"}), "'1-99999' is not a port range"),
    "policy's folder": (lambda node: node.file(POLICY).parent.chmod(0o777), "users other than root can write"),
}


@pytest.mark.parametrize("case", UNBELIEVED)
def test_what_is_not_to_be_believed_is_unknown_and_says_why(
    node: Node, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.hccn_tool(OUR_LINKS, monkeypatch)
    spoil, words = UNBELIEVED[case]
    spoil(node)
    prolog, job, init = node.ask("prolog"), node.ask("job"), node.ask("init")
    assert {one["check"] for one in prolog.reasons} <= {"verdict", "gate"}
    assert words in prolog.sentence
    assert (prolog.outcome, prolog.open, prolog.code()) == ("unknown", True, 0)
    assert (job.outcome, job.open, job.code()) == ("unknown", False, 3)
    assert (init.open, init.code()) == (False, 43)
    assert prolog.sentence.endswith(". Jobs run anyway")
    assert job.sentence.endswith(". No job runs until the state is known")


def test_a_clock_that_is_a_little_ahead_is_no_future(node: Node) -> None:
    node.verdict(node.look(time=NOW + 200))
    assert (node.ask().outcome, node.ask().age) == ("pass", 0)


@settings(deadline=None)
@given(st.data())
def test_no_damage_to_a_verdict_is_taken_for_a_good_host_or_a_broken_one(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    node = Node(tmp_path_factory.mktemp("node"))
    node.policy({"product": "cpu"})  # nothing is started
    whole = node.file(VERDICT).read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.binary(max_size=3))
    spoilt = whole[:at] + other + whole[at + data.draw(st.integers(1, 40)) :]
    node.write(VERDICT, spoilt)
    try:
        same = json.loads(spoilt) == json.loads(whole)
    except ValueError:
        same = False
    assert node.ask().outcome == ("pass" if same else "unknown")


@settings(deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=4) | st.integers(), st.lists))
def test_a_verdict_of_any_form_with_its_checksum_is_unknown(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    node = Node(tmp_path_factory.mktemp("node"))
    node.policy({"product": "cpu"})
    for changes in ({"looks": value}, {"looks": {"check": value}}):
        node.verdict(**changes)
        assert node.ask().outcome == "unknown"
    for key in ("time", "expires", "problems", "state", "checks", "outcome"):
        node.verdict(node.look(**{key: value}))
        assert node.ask().outcome in ("unknown", "pass")  # an empty list is no problem


def listening(node: Node, *ports: int) -> None:
    """As the kernel lists sockets: those that listen first."""
    lines = node.file("proc/net/tcp").read_text()
    for number, port in enumerate(ports):
        lines += f"   {number}: 00000000:{port:04X} 00000000:0000 0A 0:0 00:0 0 0 0 {7000 + number} 1 0 100 0 0 10 0\n"
    lines += "   9: 0100007F:EA60 0100007F:1F90 01 0:0 00:0 0 0 0 9999 1 0 20 4 30 10 -1\n"  # a connection from 60000
    node.write("proc/net/tcp", lines)


def process(node: Node, pid: int, name: str, parent: int, *links: str) -> None:
    node.write(f"proc/{pid}/stat", f"{pid} ({name}) S {parent} {pid} {pid} 0 -1 4194560\n")
    node.write(f"proc/{pid}/comm", name + "\n")
    (node.path / f"proc/{pid}/fd").mkdir(exist_ok=True)
    for number, link in enumerate(links):
        (node.path / f"proc/{pid}/fd/{number}").symlink_to(link)


def in_use(parent: str) -> Spoil:
    """A process that holds device 1 and listens on a job port."""

    def spoil(node: Node) -> None:
        listening(node, 29500)
        process(node, 700, parent, 1)
        process(node, 701, "python3", 700, "/dev/null", "/dev/davinci1", "socket:[7000]")

    return spoil


def in_cgroup(line: str) -> Spoil:
    def spoil(node: Node) -> None:
        in_use("systemd")(node)
        node.write("proc/701/cgroup", line + "\n")

    return spoil


def beside(daemon: str) -> Spoil:
    def spoil(node: Node) -> None:
        in_use("systemd")(node)
        process(node, 800, daemon, 1)

    return spoil


LIVE: dict[str, tuple[Spoil, set[tuple[str, str, int | None]], str]] = {
    "not reserved": (
        lambda node: node.write("proc/sys/net/ipv4/ip_local_reserved_ports", "60000-60029\n"),
        {("PRT101", "fail", None)},
        "PRT101: job ports 60030, 60031, 29500 are not reserved",
    ),
    "reserved by nobody": (
        lambda node: node.write("proc/sys/net/ipv4/ip_local_reserved_ports", "\n"),
        {("PRT101", "fail", None)},
        "60000, 60001, 60002 and 30 more are not reserved",
    ),
    "reserved, not readable": (
        lambda node: node.file("proc/sys/net/ipv4/ip_local_reserved_ports").unlink(),
        {("PRT101", "unknown", None)},
        "cannot be read",
    ),
    "port taken, by nobody that is seen": (
        lambda node: listening(node, 22, 60007),
        {("PRT103", "fail", None)},
        "job port 60007 is in use by an unknown process",
    ),
    "left over": (
        in_use("systemd"),
        {("PRT103", "fail", None), ("NPU114", "warn", 1)},
        "PRT103: job port 29500 is in use by python3 (process 701)",
    ),
    "of a job that runs": (in_use("slurmstepd"), {("PRT103", "warn", None)}, "node01 may run jobs: PRT103"),
    "of preflight": (in_use("preflight-agent"), {("PRT103", "warn", None)}, "node01 may run jobs: PRT103"),
    "of a job, its parent gone": (
        in_cgroup("0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0"),
        {("PRT103", "warn", None)},
        "node01 may run jobs: PRT103",
    ),
    "while a job runs that may have left it": (
        beside("slurmstepd"),
        {("PRT103", "warn", None), ("NPU114", "warn", 1)},
        "node01 may run jobs: PRT103",
    ),
    "a service holds the device": (
        lambda node: process(node, 9, "npu-exporter", 1, "/dev/davinci0"),
        set(),
        "node01 is healthy",
    ),
    "no device node": (
        lambda node: node.file("dev/davinci1").unlink(),
        {("NPU109", "fail", 1)},
        "device 1: /dev/davinci1 does not exist",
    ),
    "no NIC": (
        lambda node: node.policy({"nic": "eth7"}),
        {("HST103", "fail", None)},
        "host NIC eth7 does not exist",
    ),
    "NIC off": (
        lambda node: node.write("sys/class/net/eth0/flags", "0x1002\n"),
        {("HST103", "fail", None)},
        "eth0 is down",
    ),
    "no carrier": (
        lambda node: node.write("sys/class/net/eth0/carrier", "0\n"),
        {("HST103", "fail", None)},
        "eth0 has no carrier",
    ),
    "carrier came and went": (
        lambda node: node.write("sys/class/net/eth0/carrier_changes", "8\n"),
        {("HST103", "warn", None)},
        "eth0: the carrier changed 6 times since the last check",
    ),
}


@pytest.mark.parametrize("case", LIVE)
def test_what_is_wrong_now_counts_whatever_the_verdict_says(node: Node, case: str) -> None:
    spoil, reasons, words = LIVE[case]
    spoil(node)
    answer = node.ask()
    assert says(answer) == reasons
    assert words in answer.sentence
    assert answer.code() == int(answer.outcome == "fail")
    assert answer.open is (answer.outcome != "fail")


def test_a_gpus_node_may_not_be_made_yet(node: Node) -> None:
    node.policy({"product": "nvidia"})
    assert says(node.ask()) == {("NPU109", "fail", 0), ("NPU109", "fail", 1)}
    for bus in ("0000:17:00.0", "0000:31:00.0"):
        node.write(f"proc/driver/nvidia/gpus/{bus}/information", "Model: H100\n")
    assert node.ask().outcome == "pass"


@pytest.mark.parametrize("cut_short", [True, False])
def test_a_port_s_owner_that_is_not_found_in_time_is_unknown(
    node: Node, cut_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("gate.live"), "SECONDS", -1 if cut_short else 60)
    in_use("systemd")(node)
    assert ("PRT103", "unknown" if cut_short else "fail", None) in says(node.ask())


def test_a_container_does_not_see_who_has_a_port(node: Node) -> None:
    listening(node, 29500)
    assert says(node.ask("prolog")) == {("PRT103", "fail", None)}
    assert says(node.ask("init")) == {("PRT103", "unknown", None)}


def test_a_port_that_is_free_again_is_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    live = importlib.import_module("gate.live")
    answers = iter([{"7000": 29500}, {}])
    monkeypatch.setattr(live, "listening", lambda _: next(answers))
    assert node.ask().outcome == "pass"


def test_a_container_with_a_network_of_its_own_does_not_judge_the_host_by_it(node: Node) -> None:
    node.write("proc/sys/net/ipv4/ip_local_reserved_ports", "")
    assert node.ask("init").outcome == "fail"
    listening(node, 29500)
    node.file("sys/class/net/eth0/device/vendor").unlink()
    node.file("sys/class/net/eth0/device").rmdir()
    answer = node.ask("init")
    assert says(answer) == {("gate", "warn", None)}
    assert (answer.open, answer.code()) == (True, 0)
    assert "this container has its own network" in answer.sentence


def test_what_a_prolog_may_have_let_be_fails_no_task(node: Node) -> None:
    in_use("bash")(node)
    node.write("proc/sys/net/ipv4/ip_local_reserved_ports", "")
    node.verdict(node.look(("NPU117", "fail", 0)))
    assert node.ask("prolog").outcome == "fail"
    assert node.ask("task").outcome == "pass"


def test_a_task_s_user_has_to_be_let_to_its_devices(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root may open everything, the refusal is made here."""
    monkeypatch.setattr(importlib.import_module("gate.live").os, "access", lambda path, _: not path.endswith("1"))
    answer = node.ask("task", SLURM_JOB_GPUS="0-1")
    assert says(answer) == {("HST109", "fail", 1)}
    words = f"HST109: device 1: user {os.getuid()} has no permission to open /dev/davinci1"
    assert answer.sentence == f"this task cannot run on node01: {words}"
    assert node.ask("task", SLURM_JOB_GPUS="0").outcome == "pass"
    assert node.ask("task").outcome == "pass", "it may want no device at all"
    assert node.ask("prolog").outcome == "pass"


def test_a_real_listener_is_found_with_its_process() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        program = (
            f"import sys; sys.path.insert(0, {REMOTE!r})\n"
            "from gate.live import CheckedHost, free_ports\n"
            f"class Policy: free = [({port}, {port})]\n"
            "print(free_ports(CheckedHost(Policy, [])))"
        )
        done = subprocess.run([sys.executable, "-IS", "-c", program], capture_output=True, text=True, check=True)
    assert f"job port {port} is in use by" in done.stdout
    assert f"(process {os.getpid()})" in done.stdout


JOBS: dict[str, tuple[dict[str, str], str]] = {
    "nobody says": ({}, "fail"),
    "the other device": ({"SLURM_JOB_GPUS": "0"}, "pass"),
    "its device": ({"SLURM_JOB_GPUS": "0,1"}, "fail"),
    "a range": ({"SLURM_JOB_GPUS": "0-1"}, "fail"),
    "its step": ({"SLURM_JOB_GPUS": "0-1", "SLURM_STEP_GPUS": "0"}, "pass"),
    "GRES": ({"SLURM_JOB_GRES": "gres:npu:1(IDX:0)"}, "pass"),
    "GRES of two kinds": ({"SLURM_JOB_GRES": "nic:1(IDX:0),npu:1(IDX:1)"}, "fail"),
    "GRES without indices": ({"SLURM_JOB_GRES": "npu:1"}, "fail"),
    "a container's": ({"ASCEND_VISIBLE_DEVICES": "Ascend910-0"}, "pass"),
    "the runtime's": ({"ASCEND_RT_VISIBLE_DEVICES": "0"}, "pass"),
    "empty": ({"SLURM_JOB_GPUS": ""}, "fail"),
    "malformed": ({"SLURM_JOB_GPUS": "0;reboot"}, "fail"),
    "malformed range": ({"SLURM_JOB_GPUS": "3-1"}, "fail"),
    "endless": ({"SLURM_JOB_GPUS": "0-999999999999"}, "fail"),
    "huge": ({"SLURM_JOB_GPUS": "9" * 100_000}, "fail"),
    "a superscript": ({"SLURM_JOB_GPUS": "²"}, "fail"),
}


@pytest.mark.parametrize("case", JOBS)
def test_only_this_jobs_devices_count_and_all_where_that_is_not_to_be_understood(node: Node, case: str) -> None:
    environment, outcome = JOBS[case]
    node.verdict(node.look(("NPU117", "fail", 1)))
    answer = node.ask(**environment)
    assert (answer.outcome, answer.code()) == (outcome, int(outcome == "fail"))
    assert node.ask("health", **environment).outcome == "fail"  # health is the host's


@given(st.text())
def test_whatever_the_scheduler_says_of_devices_is_read_or_left(text: str) -> None:
    found = jobs.indices(text)
    assert found is None or all(0 <= index < jobs.MOST for index in found)


def test_a_container_is_asked_about_the_devices_it_was_given(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.hccn_tool(OUR_LINKS, monkeypatch)
    node.file("dev/davinci1").unlink()
    assert node.ask("init").outcome == "pass"


def test_after_a_boot_links_and_addresses_are_read_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = node.hccn_tool(OUR_LINKS, monkeypatch)
    node.write("proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n")
    assert node.ask().outcome == "pass"
    wanted = ["-i 0 -ip -g", "-i 0 -link -g", "-i 1 -ip -g", "-i 1 -link -g"]
    assert sorted(calls.read_text().splitlines()) == wanted
    calls.unlink()
    node.ask(SLURM_JOB_GPUS="1")
    assert sorted(calls.read_text().splitlines()) == wanted[2:], "others' devices are left alone"
    down = OUR_LINKS.replace(
        'echo "link status: UP"', 'case "$2" in 1) echo "link status: DOWN";; *) echo "link status: UP";; esac'
    )
    node.hccn_tool(down.replace("100.11", "100.99"), monkeypatch)
    answer = node.ask()
    assert says(answer) == {("NPU107", "fail", 1), ("NPU101", "fail", 0)}
    assert "device 0: address 192.168.100.99, expected 192.168.100.11" in [one["summary"] for one in answer.reasons]


TOOLS: dict[str, tuple[str, str]] = {
    "hung": ("sleep 60", "hccn_tool did not finish in time"),
    "floods": ("yes | head -c 100000", "hccn_tool printed more than 4 KiB"),
    "refuses": ("echo 'permission denied: pls check this cmd run permission.' >&2; exit 1", "permission denied"),
    "busy": ("echo 'hccn_tool is busy, please try again.'; exit 1", "hccn_tool is busy"),
    "garbage": ("printf '\\377\\033[2J'", "hccn_tool printed"),
    "silent": ("exit 0", "hccn_tool printed ''"),
    "another word": ("echo 'link status: SIDEWAYS'", "link status: SIDEWAYS"),
}


@pytest.mark.parametrize("case", TOOLS)
def test_a_tool_that_does_not_answer_leaves_it_unknown(node: Node, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script, words = TOOLS[case]
    monkeypatch.setattr("gate.decide.VENDOR_SECONDS", 1.0)
    node.hccn_tool(script, monkeypatch)
    answer = node.ask("health")
    assert says(answer) == {(check, "unknown", device) for check in ("NPU107", "NPU101") for device in (0, 1)}
    assert any(words in one["summary"] for one in answer.reasons)
    assert answer.sentence.isprintable()


def test_a_busy_tool_is_asked_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    first = 'test -e "$0$2$3" || { touch "$0$2$3"; echo "hccn_tool is busy, please try again."; exit 1; }'
    node.hccn_tool(first + OUR_LINKS, monkeypatch)
    monkeypatch.setattr("gate.decide.VENDOR_SECONDS", 60.0)
    assert node.ask("health").outcome == "pass"


def test_no_tool_and_a_verdict_of_before_the_boot_is_unknown(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gate.vendor.PLACES", (str(node.path / "none"),))
    node.write("proc/sys/kernel/random/boot_id", "99999999\n")
    assert "hccn_tool is not installed" in node.ask().sentence


def test_a_link_that_was_down_is_read_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that has been mended since is not drained."""
    node.verdict(node.look(("NPU107", "fail", 1), ("PRT101", "fail", None), ("PRT103", "fail", None)))
    node.hccn_tool(OUR_LINKS, monkeypatch)
    assert node.ask().outcome == "pass"
    node.hccn_tool("exit 1", monkeypatch)
    assert ("NPU107", "fail", 1) in says(node.ask()), "what cannot be read again stands"


def test_what_a_look_found_and_is_not_looked_at_here_stands(node: Node) -> None:
    found = [("NPU117", "fail", 0), ("FWL101", "warn", None), ("HST103", "fail", None)]
    node.verdict(node.look(*found), node.look(("PRB103", "unknown", 1)))
    answer = node.ask()
    assert [one["outcome"] for one in answer.reasons] == ["fail", "fail", "unknown", "warn"]
    assert says(answer) == {*found, ("PRB103", "unknown", 1)}
    assert answer.sentence == (f"node01 is broken: NPU117: NPU117 has fail{FOUND} (and 1 more)")
    assert len(answer.text().splitlines()) == 5


def test_a_look_that_failed_without_a_word_is_no_pass(node: Node) -> None:
    for outcome in ("fail", "unknown"):
        node.verdict(node.look(outcome=outcome))
        assert (node.ask().outcome, says(node.ask())) == (outcome, {("verdict", outcome, None)})


RULES: dict[str, tuple[dict[str, Any], str, str]] = {
    "none": ({}, "", "fail"),
    "another is required": ({"required": ["PRT102"]}, "", "warn"),
    "it is required": ({"required": ["PRT102", "NPU117"]}, "", "fail"),
    "its area is required": ({"required": ["NPU"]}, "", "fail"),
    "it is optional": ({"optional": ["NPU117"]}, "", "warn"),
    "another is optional": ({"optional": ["NPU11X"]}, "", "fail"),
    "it is off": ({"off": ["NPU117"]}, "", "pass"),
    "off on this host": ({}, "# until the new board is here\nnpu117  # alarm\n\n", "pass"),
    "another is off": ({}, "NPU118\n#NPU117\n", "fail"),
}


@pytest.mark.parametrize("case", RULES)
def test_the_operators_rules(node: Node, case: str) -> None:
    changes, off, outcome = RULES[case]
    node.verdict(node.look(("NPU117", "fail", 0)))
    node.policy(**changes)
    if off:
        node.write("etc/preflight/gate.off", off)
    answer = node.ask("job")
    assert answer.outcome == outcome
    assert answer.open is (outcome in ("pass", "warn"))
    if outcome == "warn":
        assert f"NPU117 has fail{FOUND} (fail, but not required)" in answer.sentence


def test_a_check_that_is_off_is_not_looked_at(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = node.hccn_tool("echo 'link status: DOWN'", monkeypatch)
    node.write("proc/sys/net/ipv4/ip_local_reserved_ports", "\n")
    node.write("sys/class/net/eth0/carrier_changes", "8\n")
    node.write("etc/preflight/gate.off", "PRT\nNPU1\nHST103\n")
    assert node.ask("health").outcome == "pass"
    assert not calls.exists()


def test_switches_that_others_can_write_switch_nothing_off(node: Node) -> None:
    node.verdict(node.look(("NPU117", "fail", 0)))
    node.write("etc/preflight/gate.off", "NPU117\n", 0o666)
    assert says(node.ask()) == {("NPU117", "fail", 0), ("gate", "warn", None)}


def test_a_probe_is_needed_only_where_the_operator_says_so(node: Node) -> None:
    old = node.look(time=NOW - 400 * HOUR)
    node.verdict(None, old)
    assert node.ask().outcome == "pass"
    node.policy(need_probe=True)
    assert "the last probe was 16 d ago and is valid for 7 d. Run preflight probe --publish" in node.ask().sentence
    node.verdict()
    assert "no probe of this host is published. Run preflight probe --publish" in node.ask().sentence
    node.verdict(None, node.look())
    assert node.ask().outcome == "pass"


@pytest.mark.parametrize(
    ("changes", "age"),
    [
        ({"time": NOW - 30 * HOUR}, "30 h"),
        ({"expires": NOW - 1}, "60 min"),
        ({"time": NOW + 7200}, "0 s"),
        ({"state": {"boot": "", "kernel": "another", "driver": "", "nics": {}}}, "60 min"),
    ],
)
def test_a_failure_holds_until_a_newer_run_takes_its_place(node: Node, changes: dict[str, Any], age: str) -> None:
    """A run that passed does not: its other problems go with it."""
    node.policy({"product": "cpu"})
    node.verdict(node.look(("NPU117", "fail", 0), ("HST106", "warn", None), **changes))
    answer = node.ask()
    assert (answer.outcome, answer.open) == ("fail", False)
    failures = [one for one in answer.reasons if one["check"] != "verdict"]
    words = f"NPU117 has fail (found {age} ago. Once fixed, run preflight gate clear --limit node01)"
    assert [(one["check"], one["summary"]) for one in failures] == [("NPU117", words)]
    assert words in answer.sentence
    assert node.ask(SLURM_JOB_GPUS="1").outcome == "unknown", "it is another device than this job's"
    node.verdict()
    assert node.ask().outcome == "pass"


def test_a_failure_holds_also_where_the_inventory_has_changed(node: Node) -> None:
    """A pass does not, of the same verdict."""
    node.policy({"product": "cpu"})
    node.verdict(node.look(("NPU117", "fail", 0)), node.look(), config="0ld")
    assert says(node.ask()) == {("NPU117", "fail", 0), ("verdict", "unknown", None)}
    assert not node.ask().open


def test_an_old_failure_of_the_probe_holds_beside_a_new_check(node: Node) -> None:
    node.verdict(None, node.look(("PRB101", "fail", 0), time=NOW - 400 * HOUR))
    assert says(node.ask()) == {("PRB101", "fail", 0)}
    assert node.ask().age == 400 * HOUR


def test_an_old_failure_that_the_live_checks_do_not_see_any_more_is_gone(node: Node) -> None:
    node.policy({"product": "cpu"})
    node.verdict(node.look(("PRT101", "fail", None), time=NOW - 30 * HOUR))
    assert says(node.ask()) == {("verdict", "unknown", None)}


def test_a_long_failure_keeps_its_age_and_what_clears_it(node: Node) -> None:
    look = node.look(("NPU117", "fail", 0))
    look["problems"][0]["summary"] = "x" * 300
    node.verdict(look)
    (reason,) = node.ask().reasons
    assert reason["summary"].endswith("x" + FOUND)
    assert len(reason["summary"]) == 300


def test_unknown_is_what_the_policy_says_of_each_context(node: Node) -> None:
    node.file(VERDICT).unlink()
    node.policy({"product": "cpu"}, unknown={"prolog": "closed", "job": "open", "init": "nonsense"})
    opened = {context: node.ask(context).open for context in ("prolog", "epilog", "task", "health", "job", "init")}
    assert opened == {"prolog": False, "epilog": True, "task": True, "health": True, "job": True, "init": False}
    assert node.ask("prolog").code() == 3


def test_an_answer_is_bounded_and_harmless_to_a_terminal(node: Node) -> None:
    look = node.look(*((f"NPU1{number}", "warn", number) for number in range(400)))
    for problem in look["problems"]:
        problem["summary"] = "\x1b[2J\n" + "x" * 2000
    node.verdict(look)
    answer = node.ask()
    assert len(answer.reasons) == 50
    assert len(answer.sentence) <= answers.SENTENCE
    assert answer.sentence.isprintable()
    assert all(line.isprintable() for line in answer.text().splitlines())
    assert len(json.dumps(answer.fields())) < 64 * 1024


def test_an_ordinary_user_is_told_that_only_root_can_read_a_verdict(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root reads everything, the kernel's refusal is made here."""
    real = os.open

    def refusing(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).endswith("verdict.json"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *rest, **more)

    monkeypatch.setattr(files.os, "open", refusing)
    answer = node.ask("job")
    assert answer.outcome == "unknown"
    assert "only root can read" in answer.sentence
    assert not answer.open


def test_the_checksum_is_the_one_of_the_docs(node: Node) -> None:
    found = json.loads(node.file(VERDICT).read_text())
    digest = found.pop("sha256")
    assert importlib.import_module("gate.verdict").digest(found) == digest
    assert json.loads(sealed(found))["sha256"] == digest
