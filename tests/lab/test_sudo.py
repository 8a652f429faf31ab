"""Becoming root on lab hosts: real sshd, real sudo with PAM, real passwords, and every way in which sudo says no.

Each test writes the host's sudoers anew. `ops` logs in with a key and has the password SECRET.
"""

import contextlib
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.inventory import load
from preflight.model.cluster import Cluster, Host, Product
from preflight.transport import (
    Answer,
    ErrorKind,
    FanOutLimits,
    Options,
    Program,
    TransportError,
    fan_out,
    open_transport,
)
from preflight.transport.password import Password
from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

SECRET = "Qv7-mellon-Xk2"
WRONG = "not-the-password"
WHO = "import os, sys; print(os.geteuid(), repr(sys.stdin.read()))"
AS_ROOT = b"0 'payload'\n"

NOPASSWD = "ops ALL=(ALL) NOPASSWD: ALL"
WITH_PASSWORD = "ops ALL=(ALL) ALL"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    handle = make_lab(hosts=3, devices=1, product="atlas-a2", user="ops")
    for name in handle.addresses:
        on(handle, name, f"echo 'ops:{SECRET}' | chpasswd")
    return handle


@pytest.fixture(params=["fabric", "openssh"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def on(lab: LabHandle, host: str, command: str) -> str:
    """What root's command prints on the host."""
    done = lab.ssh(host, command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sudoers(lab: LabHandle, *lines: str, host: str = "") -> None:
    """Replace what sudo allows, on one host or on all; tickets of before are gone, and nobody's password is locked."""
    text = "\n".join(lines)
    for name in [host] if host else lab.addresses:
        on(
            lab,
            name,
            f"rm -rf /run/sudo/ts; cat > /etc/sudoers.d/lab <<'END'\n{text}\nEND\nvisudo -cqf /etc/sudoers.d/lab",
        )


def hosts(lab: LabHandle, transport: str) -> tuple[Host, ...]:
    return tuple(replace(host, ssh=replace(host.ssh, transport=transport)) for host in load(lab.inventory).hosts)


def cluster(*hosts: Host) -> Cluster:
    return Cluster("test", Product.CPU, hosts)


def run(
    lab: LabHandle, transport: str, secret: str | None = None, program: Program | None = None
) -> Answer | TransportError:
    """`program` on node01, with `secret` as the password that was asked for."""
    host = hosts(lab, transport)[0]
    password = Password(secret) if secret else None
    with open_transport(cluster(host), Options(sudo_password=password)) as opened:
        try:
            return opened.run(host, program or Program(WHO, payload=b"payload"), timeout=20)
        except TransportError as error:
            return error


def answered(result: Answer | TransportError) -> Answer:
    assert isinstance(result, Answer), result
    return result


def refused(result: Answer | TransportError) -> TransportError:
    assert isinstance(result, TransportError), result
    assert result.kind is ErrorKind.SUDO
    assert result.summary.startswith("node01: ")
    assert SECRET not in result.summary + result.remedy + " ".join(result.commands)
    assert "\n" not in result.summary + result.remedy
    return result


def attempts(lab: LabHandle) -> int:
    """How many wrong passwords all hosts' sudos have counted since `begin_log`; it is written when sudo ends."""
    for name in lab.addresses:
        wait_until(lambda name=name: on(lab, name, "pgrep -x sudo || true") == "")  # type: ignore[misc]
    return sum(int(on(lab, name, "grep -c 'incorrect password' /var/log/sudo.log || true")) for name in lab.addresses)


def begin_log(lab: LabHandle) -> None:
    for name in lab.addresses:
        on(lab, name, ": > /var/log/sudo.log")


LOGGED = "Defaults logfile=/var/log/sudo.log"


def test_a_password_that_is_right_makes_us_root(lab: LabHandle, transport: str) -> None:
    sudoers(lab, WITH_PASSWORD)
    answer = answered(run(lab, transport, SECRET))
    assert answer.stdout == AS_ROOT
    assert b"preflight-" not in answer.stderr


@pytest.mark.parametrize("secret", [SECRET, WRONG, None])
def test_nopasswd_needs_no_password_and_gets_none(lab: LabHandle, transport: str, secret: str | None) -> None:
    sudoers(lab, NOPASSWD)
    assert answered(run(lab, transport, secret)).stdout == AS_ROOT


def test_a_ticket_that_still_holds_needs_no_password_and_gets_none(lab: LabHandle, transport: str) -> None:
    sudoers(lab, "Defaults timestamp_type=global", WITH_PASSWORD)
    assert answered(run(lab, transport, SECRET)).stdout == AS_ROOT
    assert answered(run(lab, transport, WRONG)).stdout == AS_ROOT
    assert answered(run(lab, transport)).stdout == AS_ROOT
    on(lab, "node01", "rm -r /run/sudo/ts")
    refused(run(lab, transport, WRONG))


def test_a_wrong_password_is_sent_once(lab: LabHandle, transport: str) -> None:
    sudoers(lab, WITH_PASSWORD, LOGGED)
    begin_log(lab)
    error = refused(run(lab, transport, WRONG))
    assert "sudo refused the password" in error.summary
    assert WRONG not in error.summary + error.remedy
    assert attempts(lab) == 1
    assert "1 incorrect password attempt " in on(lab, "node01", "cat /var/log/sudo.log")


def test_sudo_that_asks_only_once_refuses_too(lab: LabHandle, transport: str) -> None:
    sudoers(lab, "Defaults passwd_tries=1", WITH_PASSWORD)
    assert "1 incorrect password attempt" in refused(run(lab, transport, WRONG)).summary


def test_without_the_option_the_remedy_names_it(lab: LabHandle, transport: str) -> None:
    sudoers(lab, WITH_PASSWORD)
    error = refused(run(lab, transport))
    assert "a password is required" in error.summary
    assert "again with -K, which asks for the sudo password" in error.remedy
    assert "ops ALL=(root) NOPASSWD: ALL" in error.commands[0]


@pytest.mark.parametrize("secret", [SECRET, None])
def test_requiretty_is_named_with_its_remedy(lab: LabHandle, transport: str, secret: str | None) -> None:
    sudoers(lab, "Defaults requiretty", WITH_PASSWORD)
    error = refused(run(lab, transport, secret))
    assert "requiretty" in error.summary
    assert "Defaults:ops !requiretty" in error.commands[0]
    sudoers(lab, "Defaults requiretty", WITH_PASSWORD, "Defaults:ops !requiretty")
    assert answered(run(lab, transport, SECRET)).stdout == AS_ROOT


@pytest.mark.parametrize("rule", ["", "ops ALL=(ALL) /bin/true"])
def test_a_user_whom_sudo_does_not_allow_it(lab: LabHandle, transport: str, rule: str) -> None:
    sudoers(lab, rule)
    assert "sudo does not allow ops to become root" in refused(run(lab, transport, SECRET)).summary
    assert "ops ALL=(root) NOPASSWD: ALL" in refused(run(lab, transport)).commands[0]


# What is also in .bashrc, which bash reads for sshd's commands: each shows the command line on stderr.
ECHOES = {
    "set -x": "set -x",
    "echo that reads backslashes": """sh -c 'echo "$1" >&2' sh "$BASH_EXECUTION_STRING" """,
}


@pytest.mark.parametrize("python", ["python3", "/opt/python!/python3"])
@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_a_shell_that_shows_the_command_line_is_taken_for_neither_sudo_nor_python(
    lab: LabHandle, transport: str, echo: str, python: str
) -> None:
    """Sent unasked, the password would be read as the program's source, and the source as the password."""
    on(lab, "node01", "mkdir -p '/opt/python!'; ln -sf \"$(command -v python3)\" '/opt/python!/python3'")
    on(lab, "node01", f"cat > ~ops/.bashrc <<'END'\n{echo}\nEND")
    program = Program(WHO, b"payload", python=python)
    try:
        for rule, secret in ((NOPASSWD, SECRET), (NOPASSWD, WRONG), (WITH_PASSWORD, SECRET)):
            sudoers(lab, rule)
            answer = answered(run(lab, transport, secret, program))
            assert answer.stdout == AS_ROOT
            assert b"exec sh -c" in answer.stderr  # it was shown
        sudoers(lab, WITH_PASSWORD)
        assert "sudo refused the password" in refused(run(lab, transport, WRONG, program)).summary
    finally:
        on(lab, "node01", "rm ~ops/.bashrc")


def test_another_user_is_reached_with_the_same_password(lab: LabHandle, transport: str) -> None:
    sudoers(lab, WITH_PASSWORD)
    assert answered(run(lab, transport, SECRET, Program(WHO, b"payload", user="nobody"))).stdout == b"65534 'payload'\n"
    assert answered(run(lab, transport, SECRET, Program(WHO, b"payload", user="ops"))).stdout == b"1001 'payload'\n"


def test_setup_line_wrapper_and_a_large_payload_go_the_same_way(lab: LabHandle, transport: str) -> None:
    sudoers(lab, WITH_PASSWORD)
    source = "import os, sys; print(os.environ['GREETING'], os.environ['WRAPPED'], len(sys.stdin.buffer.read()))"
    program = Program(
        source, b"x" * (5 << 20), setup="echo noise; export GREETING=hello", wrapper=("env", "WRAPPED=yes"),
        isolated=False,
    )  # fmt: skip
    answer = answered(run(lab, transport, SECRET, program))
    assert answer.stdout == b"hello yes 5242880\n"
    assert b"noise" in answer.stderr


def test_python_that_is_missing_is_not_taken_for_a_refusal(lab: LabHandle, transport: str) -> None:
    sudoers(lab, WITH_PASSWORD)
    result = run(lab, transport, SECRET, Program("pass", python="no-such-python"))
    assert isinstance(result, TransportError)
    assert result.kind is ErrorKind.NO_PYTHON


# --- where the password may be seen ---

REPEAT = "import os, sys\nfor line in sys.stdin:\n    print(os.geteuid(), line, end='', flush=True)\n"
# What root sees of every process on its machine: the arguments and the environment. The word comes as hex on stdin, so
# that the one who looks does not hold it either.
LOOK = """
import glob, sys
word = bytes.fromhex(sys.stdin.readline())
found = []
for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
    try:
        with open(path, "rb") as file:
            found += [path] * (word in file.read())
    except OSError:
        pass
print("seen:", found, repr(sys.stdin.read()))
"""


def look(word: str) -> str:
    """What LOOK finds on this machine."""
    command = [sys.executable, "-c", LOOK]
    return subprocess.run(command, input=word.encode().hex(), capture_output=True, text=True, check=True).stdout


def test_the_look_finds_a_word_that_does_stand_there() -> None:
    shown = subprocess.Popen(["sleep", "60"], env={**os.environ, "WORD": "planted-word"})
    try:
        wait_until(lambda: f"/proc/{shown.pid}/environ" in look("planted-word"))
    finally:
        shown.kill()
        shown.wait()


def test_it_is_in_no_arguments_and_no_environment_and_the_program_does_not_get_it(
    lab: LabHandle, transport: str
) -> None:
    sudoers(lab, WITH_PASSWORD)
    host = hosts(lab, transport)[0]
    with open_transport(cluster(host), Options(sudo_password=Password(SECRET))) as opened:
        agent = opened.start(host, Program(REPEAT, payload=b"payload\n"), timeout=20)
        lines = agent.lines()
        assert next(lines) == b"0 payload"
        assert look(SECRET) == "seen: [] ''\n"
        program = Program(LOOK, payload=SECRET.encode().hex().encode() + b"\nrest")
        assert opened.run(host, program, timeout=20).stdout == b"seen: [] 'rest'\n"
        agent.send(b"more\n")
        assert next(lines) == b"0 more"
        agent.close()
        assert list(lines) == []


# --- agents ---


def test_an_agent_whose_password_is_wrong_is_not_started(lab: LabHandle, transport: str) -> None:
    sudoers(lab, WITH_PASSWORD)
    host = hosts(lab, transport)[0]
    with open_transport(cluster(host), Options(sudo_password=Password(WRONG))) as opened:
        with pytest.raises(TransportError, match="refused the password") as raised:
            opened.start(host, Program(REPEAT), timeout=20)
        assert raised.value.kind is ErrorKind.SUDO


def test_an_agent_whom_sudo_refuses_says_why(lab: LabHandle, transport: str) -> None:
    sudoers(lab, "Defaults requiretty", NOPASSWD)
    host = hosts(lab, transport)[0]
    for password in (None, Password(SECRET)):
        with open_transport(cluster(host), Options(sudo_password=password)) as opened:
            agent = opened.start(host, Program(REPEAT), timeout=20)
            assert list(agent.lines()) == []
            error = agent.error()
        assert error
        assert "requiretty" in error.summary


# --- many hosts ---


def everywhere(lab: LabHandle, transport: str, password: Password, pool: int = 8) -> dict[str, Answer | TransportError]:
    own = hosts(lab, transport)
    with open_transport(cluster(*own), Options(sudo_password=password)) as opened:
        return fan_out(own, lambda host: opened.run(host, Program(WHO), timeout=20), FanOutLimits(pool, 30))


def test_a_right_password_serves_all_hosts(lab: LabHandle, transport: str) -> None:
    sudoers(lab, WITH_PASSWORD)
    assert [answered(result).exit for result in everywhere(lab, transport, Password(SECRET)).values()] == [0, 0, 0]


def test_a_wrong_password_is_sent_to_one_host_of_all(lab: LabHandle, transport: str) -> None:
    sudoers(lab, WITH_PASSWORD, LOGGED)
    begin_log(lab)
    password = Password(WRONG)
    for _ in range(2):  # the second round of a command goes no further
        results = everywhere(lab, transport, password)
        assert all(isinstance(it, TransportError) and it.kind is ErrorKind.SUDO for it in results.values())
    assert attempts(lab) == 1  # where its prompt was left unanswered, sudo counts none


def test_a_host_with_another_password_stops_it_from_spreading(lab: LabHandle, transport: str) -> None:
    sudoers(lab, WITH_PASSWORD)
    on(lab, "node02", "echo 'ops:another' | chpasswd")
    try:
        first, second, third = everywhere(lab, transport, Password(SECRET), pool=1).values()
    finally:
        on(lab, "node02", f"echo 'ops:{SECRET}' | chpasswd")
    assert answered(first).exit == 0
    assert isinstance(second, TransportError)
    assert "refused the password" in second.summary
    assert isinstance(third, TransportError)
    assert "refused on node02" in third.summary
    assert "--limit" in third.remedy


# --- this machine as the host ---

LOCAL = """
import sys
from preflight.model.cluster import Cluster, Host, Product, Ssh
from preflight.transport import Options, Program, TransportError, open_transport
from preflight.transport.password import Password
host = Host("node01", "localhost", Ssh(transport="local", sudo=True))
secret, _, who = sys.stdin.read().partition("|")
options = Options(sudo_password=Password(secret) if secret else None)
with open_transport(Cluster("c", Product.CPU, (host,)), options) as opened:
    try:
        print(opened.run(host, Program(who, payload=b"payload"), timeout=20).stdout.decode(), end="")
        agent = opened.start(host, Program(who, payload=b"agent"), timeout=20)
        agent._process.close_stdin()
        print(*(line.decode() for line in agent.lines()))
    except TransportError as error:
        print(error.kind, error.summary)
"""


def test_this_machine_is_a_host_like_any_other(lab: LabHandle) -> None:
    """Run on a lab host by `ops`, with the system's Python: there sudo asks, since ops is not root."""
    sudoers(lab, WITH_PASSWORD)
    pid = lab.status["hosts"][0]["pid"]
    package = Path(f"/proc/{pid}/root/tmp/source/preflight")
    for part in ("__init__.py", "model", "transport"):
        source, target = ROOT / "preflight" / part, package / part
        package.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    enter = ["nsenter", "-t", str(pid), "-a", "--", "setpriv", "--reuid=1001", "--regid=1001", "--init-groups"]

    def local(secret: str) -> str:
        command = [*enter, "env", "PYTHONPATH=/tmp/source", "/usr/bin/python3", "-c", LOCAL]
        done = subprocess.run(command, input=f"{secret}|{WHO}", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert local(SECRET) == "0 'payload'\n0 'agent'\n"
    assert local(WRONG).startswith("sudo node01: sudo refused the password")
    assert local("").startswith("sudo node01: sudo from the login user to root failed without a password")


# --- the commands ---


def on_a_terminal(*arguments: str | Path, typed: str) -> tuple[int, str]:
    """Run preflight on a terminal of its own and type when it asks; its exit code and all that the terminal showed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PYTHONPATH"] = str(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "preflight", *map(str, arguments)])
    shown, asked = b"", False
    with contextlib.suppress(OSError):  # what reading a terminal ends with
        while select.select([terminal], [], [], 120)[0]:
            shown += os.read(terminal, 4096)
            if b"sudo password on the hosts: " in shown and not asked:
                asked = True
                os.write(terminal, typed.encode() + b"\n")
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode("utf-8", "replace")


def test_a_command_asks_once_and_the_password_is_in_nothing_it_leaves_behind(lab: LabHandle, tmp_path: Path) -> None:
    sudoers(lab, WITH_PASSWORD)
    inventory = ("--inventory", lab.inventory)
    code, shown = on_a_terminal("configure", *inventory, "-K", "-y", typed=SECRET)
    assert shown.count("sudo password on the hosts: ") == 1
    assert code in (0, 3), shown  # 3: this lab's one device per host has no partner to ask
    assert on(lab, "node01", "cat /proc/sys/net/ipv4/ip_local_reserved_ports") == "29500,60000-60031\n"
    assert "journal" in on(lab, "node01", "ls /var/lib/preflight")
    report = tmp_path / "report.json"
    _, again = on_a_terminal("check", *inventory, "-K", "--no-probe", "--save", report, "--all", typed=SECRET)
    assert json.loads(report.read_text())["findings"]
    places = [lab.dir, tmp_path, Path.home() / ".ssh", Path.home() / ".local"]
    for name in lab.status["hosts"]:
        places += [Path(f"/proc/{name['pid']}/root/{folder}") for folder in ("var/lib", "var/log", "run", "tmp", "etc")]

    def files_with(word: str) -> list[str]:
        command = ["grep", "-rlaF", "--devices=skip", word, *map(str, filter(Path.exists, places))]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        return [path for path in found if str(ROOT) not in path]  # hosts see these tests where they stand in /tmp

    assert files_with("ip_local_reserved_ports")
    assert files_with(SECRET) == []
    assert SECRET not in shown + again


def test_a_wrong_password_on_a_terminal(lab: LabHandle) -> None:
    sudoers(lab, WITH_PASSWORD)
    code, shown = on_a_terminal("configure", "--inventory", lab.inventory, "-K", "-y", typed=WRONG)
    assert code in (1, 3)  # 3: the test before has configured these hosts, so nothing is seen to be wanted
    assert "sudo refused the password" in " ".join(shown.split())
    assert WRONG not in shown


def test_without_a_terminal_nothing_is_contacted(lab: LabHandle) -> None:
    for command in ("check", "facts", "configure", "probe"):
        extra = ["-y"] if command == "configure" else []
        done = preflight(
            command, "--inventory", lab.inventory, "--ask-sudo-password", *extra, check=False,
            start_new_session=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 2, command
        assert "-K needs a terminal to ask for the sudo password" in done.stderr
        assert "no host was contacted" in done.stderr


def test_nothing_typed_is_no_password(lab: LabHandle) -> None:
    code, shown = on_a_terminal("facts", "--inventory", lab.inventory, "-K", typed="")
    assert code == 2
    assert "no password was entered" in shown


def test_a_password_that_nobody_wants_is_not_asked_for(lab: LabHandle) -> None:
    plain = lab.dir / "plain.toml"
    plain.write_text(lab.inventory.read_text().replace("sudo = true", "sudo = false"))
    code, shown = on_a_terminal("facts", "--inventory", plain, "-K", typed=SECRET)
    assert code == 2
    assert "none of the selected hosts has it" in shown


# --- without root ---


def outcomes(lab: LabHandle, inventory: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """Host → check → (outcome, summary), of the first finding; without the checks of jobs' Python, which `ops` cannot
    start here."""
    done = preflight("check", "--inventory", inventory, "--no-probe", "--all", "-o", "json", check=False)
    found: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in lab.addresses}
    for finding in json.loads(done.stdout)["findings"]:
        if finding["host"]:
            found[finding["host"]].setdefault(finding["check"], (finding["outcome"], finding["summary"]))
    return found


def test_where_sudo_refuses_the_rest_goes_on(lab: LabHandle) -> None:
    sudoers(lab, NOPASSWD)
    sudoers(lab, "", host="node01")
    found = outcomes(lab, lab.inventory)
    assert found["node01"]["HST101"][0] == "pass"
    assert found["node01"]["HST107"][0] == "fail"
    assert "sudo from ops to root failed" in found["node01"]["HST107"][1]
    for check in ("FWL101", "FWL102", "FWL103", "NPU101", "NPU107"):
        assert found["node01"][check][0] == "unknown"
        assert "root is needed" in found["node01"][check][1]
        assert found["node02"][check][0] != "unknown"
    assert found["node01"]["PRT101"][0] == found["node02"]["PRT101"][0]
    assert found["node02"]["HST107"][0] == "pass"


def test_a_login_without_sudo_is_no_root_and_nobody_claims_it_was(lab: LabHandle) -> None:
    plain = lab.dir / "plain.toml"
    plain.write_text(lab.inventory.read_text().replace("sudo = true", "sudo = false"))
    for checks in outcomes(lab, plain).values():
        assert checks["HST107"][0] == "pass"
        for check in ("FWL101", "NPU101"):
            assert checks[check][0] == "unknown"
            assert "checked as ops" in checks[check][1]


def test_configure_leaves_a_host_alone_where_it_is_not_root(lab: LabHandle) -> None:
    port_list = "cat /proc/sys/net/ipv4/ip_local_reserved_ports"
    for name in ("node01", "node02"):
        on(lab, name, "rm -f /etc/sysctl.d/90-preflight.conf; sysctl -qw net.ipv4.ip_local_reserved_ports=")
    sudoers(lab, NOPASSWD)
    sudoers(lab, "", host="node01")
    done = preflight("configure-ports", "--inventory", lab.inventory, "-y", check=False)
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert said.count("changing it needs root") == 1
    assert "with -K, which asks for the sudo password" in said
    assert on(lab, "node01", port_list) == "\n"
    assert on(lab, "node01", "ls /etc/sysctl.d").find("90-preflight") < 0
    assert on(lab, "node02", port_list) == "29500,60000-60031\n"


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
