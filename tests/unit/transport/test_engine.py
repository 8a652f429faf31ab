"""Programs on hosts over an engine: real relays, started by a stand-in for srun that mixes what they say."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from preflight.model.cluster import Host
from preflight.transport.engine import callbacks, frames, nodes, order_queue
from preflight.transport.engine import engine as engines
from preflight.transport.engine.channel import EngineChannel
from preflight.transport.engine.engine import Engine
from preflight.transport.engine.site import EngineSite
from preflight.transport.errors import Target
from preflight.transport.programs import source
from preflight.transport.types import ErrorKind, Program, TransportError

STAND_IN = Path(__file__).with_name("stand_in_engine.py")
PATIENCE = 20.0
ECHO = "import sys\nfor line in sys.stdin: print('heard', line.strip(), flush=True)"
MARK = "PREFLIGHT_TEST_MARK"


def lost(words: str) -> Sequence[tuple[str, str]]:
    found = re.match(r"engine: node(\d): exit code (-\d+)", words)
    return [(f"host{found[1]}", f"engine: exit code {found[2]}")] if found else []


def hosts(count: int) -> tuple[Host, ...]:
    return tuple(Host(f"host{number}", f"127.0.0.{number + 1}") for number in range(count))


MakeEngine = Callable[..., Engine]


@pytest.fixture
def engine() -> Iterator[MakeEngine]:
    """Makes engines, and closes them. Of what they started nothing may be left."""
    mark = f"preflight-test-{os.getpid()}-{time.monotonic_ns()}"
    made: list[Engine] = []

    def make(nodes: int = 3, fault: str = "none", strangers: int = 0, argv: Sequence[str] = ()) -> Engine:
        called = {f"node{number}": f"host{number}" for number in range(nodes - strangers)}
        command = tuple(argv) or (sys.executable, str(STAND_IN), str(nodes), fault)
        site = EngineSite(
            "engine", command, "RANK", called, lambda host: f"engine {host} true", lost, {MARK: mark}, ["WITHOUT_THIS"],
            calls=fault == "deaf",
        )  # fmt: skip
        made.append(Engine(site, hosts(nodes)))
        return made[-1]

    yield make
    for one in made:
        one.close()
    until = time.monotonic() + 5
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.05)
    left = marked(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def marked(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}\0".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def relay_of(engine: Engine, host: Host) -> int:
    """The pid of the relay on the host."""
    said = engine.run(host, Program("import os; print(os.getppid())"), timeout=PATIENCE)
    return int(said.stdout)


def error_of(call: Callable[[], object]) -> TransportError:
    with pytest.raises(TransportError) as raised:
        call()
    return raised.value


@pytest.mark.parametrize("fault", ["noise", "deaf"])
def test_input_and_output_of_programs_on_many_hosts_are_not_mixed_up(engine: MakeEngine, fault: str) -> None:
    over = engine(8, fault)
    program = Program(
        "import sys, random, zlib\n"
        "data = sys.stdin.buffer.read()\n"
        "sys.stdout.buffer.write(bytes([data[0]]) + random.Random(data[0]).randbytes(200_000))\n"
        "sys.stderr.write('of %d: %d' % (data[0], len(data)))\n"
        "sys.exit(data[0])"
    )
    answers = {}

    def ask(number: int, host: Host) -> None:
        mine = Program(program.source, bytes([number]) * 100_001)
        answers[number] = over.run(host, mine, timeout=PATIENCE)

    threads = [threading.Thread(target=ask, args=one) for one in enumerate(hosts(8))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        answer = answers[number]
        assert (answer.exit, answer.stderr) == (number, f"of {number}: 100001".encode())
        assert answer.stdout == bytes([number]) + random.Random(number).randbytes(200_000)


@pytest.mark.parametrize("fault", ["none", "deaf"])
def test_a_channel_exchanges_lines_until_it_is_closed(engine: MakeEngine, fault: str) -> None:
    over = engine(3, fault)
    channels = [over.start(host, Program(ECHO), timeout=PATIENCE) for host in hosts(3)]
    lines = [channel.lines() for channel in channels]
    for turn in range(3):
        for number, channel in enumerate(channels):
            channel.send(b"%d of %d\n" % (turn, number))
        assert [next(one) for one in lines] == [b"heard %d of %d" % (turn, number) for number in range(3)]
    for channel, left in zip(channels, lines, strict=True):
        channel.close()
        assert (list(left), channel.error()) == ([], None)


def test_similar_and_different_long_messages_arrive(engine: MakeEngine) -> None:
    over = engine(3)
    program = Program("import sys, zlib\nfor line in sys.stdin.buffer: print(len(line), zlib.crc32(line), flush=True)")
    channels = [over.start(host, program, timeout=PATIENCE) for host in hosts(3)]
    lines = [channel.lines() for channel in channels]
    for turn in range(4):
        common = random.Random(turn).randbytes(20_000).hex()
        for number, (channel, answers) in enumerate(zip(channels, lines, strict=True)):
            message = f"{number}{common}{turn if number else 'another end'}\n".encode()
            channel.send(message)
            assert next(answers) == b"%d %d" % (len(message), zlib.crc32(message))


def test_a_program_that_ignores_the_end_of_its_input_is_killed(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("preflight.transport.engine.channel.GRACE", 0.2)
    over = engine(1)
    channel = over.start(
        hosts(1)[0], Program("import time, os; print(os.getpid(), flush=True); time.sleep(60)"), timeout=9
    )
    pid = int(next(channel.lines()))
    channel.close()
    until = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_a_program_with_too_much_unread_output_is_ended_and_does_not_block_others(engine: MakeEngine) -> None:
    over = engine(2)
    first, second = hosts(2)
    channel = over.start(first, Program("while True: print('x' * 10000)"), timeout=PATIENCE)
    until = time.monotonic() + PATIENCE
    while not (error := channel.error()) and time.monotonic() < until:
        time.sleep(0.05)
    assert error is not None
    assert "host0" in error.summary
    assert "its output is not read fast enough" in error.summary
    assert over.run(second, Program("print('here')"), timeout=PATIENCE).stdout == b"here\n"


@pytest.mark.parametrize("more", [zlib.compress(b"again"), b"x" * 200], ids=["another stream", "no stream"])
def test_data_after_the_end_of_a_stream_is_not_kept(more: bytes) -> None:
    told: list[str] = []
    channel = EngineChannel(Target("host0", "engine"), told.append, lambda _: [], lambda *_: None)
    channel.take(zlib.compress(b"hello"), is_stderr=False)
    assert next(channel.chunks()) == (False, b"hello")
    assert channel.error() is None
    channel.take(more, is_stderr=False)
    assert "its output is damaged" in str(channel.error())
    assert told


def test_a_program_that_does_not_read_blocks_no_other_on_its_host(engine: MakeEngine) -> None:
    over = engine(1)
    (host,) = hosts(1)
    deaf = over.start(host, Program("import time; time.sleep(60)"), timeout=PATIENCE)
    deaf.send(b"x" * 1_000_000)
    assert over.run(host, Program("print('here')"), timeout=PATIENCE).stdout == b"here\n"


def test_programs_have_the_environment_of_this_one_and_nothing_of_the_relay_s(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_JOB", "1")
    monkeypatch.setenv("WITHOUT_THIS", "1")
    program = Program("import os; print(*os.environ)", isolated=False)
    names = engine(1).run(hosts(1)[0], program, timeout=PATIENCE).stdout.decode().split()
    assert "OF_THE_JOB" in names
    assert not [name for name in names if name in ("WITHOUT_THIS", "PREFLIGHT_NONCE", "PREFLIGHT_RANK_IN")]


def test_an_answer_has_a_limit(engine: MakeEngine) -> None:
    answer = engine(1).run(hosts(1)[0], Program("print('x' * 100_000)"), timeout=PATIENCE, limit=1000)
    assert (answer.stdout, answer.truncated) == (b"x" * 1000, True)


def test_a_program_that_takes_too_long_is_a_time_out(engine: MakeEngine) -> None:
    error = error_of(lambda: engine(1).run(hosts(1)[0], Program("import time; time.sleep(60)"), timeout=5.0))
    assert (error.kind, "waiting for the program" in error.summary) == (ErrorKind.TIMEOUT, True)


def test_a_missing_python_is_reported_as_over_ssh(engine: MakeEngine) -> None:
    error = error_of(lambda: engine(1).run(hosts(1)[0], Program("", python="no-such-python"), timeout=PATIENCE))
    assert (error.kind, "host0: no-such-python could not be started" in error.summary) == (ErrorKind.NO_PYTHON, True)


def test_a_node_that_the_engine_reports_as_lost_is_lost_alone(engine: MakeEngine) -> None:
    over = engine(2)
    first, second = hosts(2)
    channel = over.start(second, Program(ECHO), timeout=PATIENCE)
    os.kill(relay_of(over, second), signal.SIGKILL)
    assert list(channel.lines()) == []
    error = channel.error()
    assert error is not None
    assert (error.kind, error.summary) == (ErrorKind.CLOSED, "host1: engine: exit code -9")
    assert error_of(lambda: over.start(second, Program(ECHO), timeout=PATIENCE)).summary == error.summary
    assert over.run(first, Program("print('here')"), timeout=PATIENCE).stdout == b"here\n"


def test_a_node_that_falls_silent_is_lost_alone(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    over = engine(2)
    first, second = hosts(2)
    channel = over.start(second, Program(ECHO), timeout=PATIENCE)
    relay = relay_of(over, second)
    monkeypatch.setattr(order_queue, "BEAT", 0.2)
    monkeypatch.setattr(nodes, "SILENCE", 6.0)
    os.kill(relay, signal.SIGSTOP)
    try:
        assert list(channel.lines()) == []
        assert "host1: no message for 6 s" in str(channel.error())
        assert over.run(first, Program("print('here')"), timeout=PATIENCE).stdout == b"here\n"
    finally:
        os.kill(relay, signal.SIGCONT)


def test_a_node_of_which_the_engine_loses_a_part_is_lost_and_not_misread(engine: MakeEngine) -> None:
    over = engine(2, "lose")
    first, second = hosts(2)
    program = Program("import random; print(random.Random(1).randbytes(5000).hex())")
    error = error_of(lambda: over.run(second, program, timeout=PATIENCE))
    assert error.summary == "host1: part of the output of engine was lost"
    assert over.run(first, program, timeout=PATIENCE).exit == 0


def test_the_timeout_of_a_host_names_unknown_nodes(engine: MakeEngine) -> None:
    over = engine(2, strangers=1)
    over.run(hosts(2)[0], Program(""), timeout=PATIENCE)
    until = time.monotonic() + PATIENCE
    while "" not in over._nodes._nodes.get(1, nodes._Node(1, 0.0)).names and time.monotonic() < until:
        time.sleep(0.05)
    error = error_of(lambda: over.start(hosts(2)[1], Program(ECHO), timeout=0.1))
    assert error.kind == ErrorKind.TIMEOUT
    assert "host1: engine timed out after 0 s" in error.summary
    assert "Nodes that are not in the inventory: node1" in error.summary


def test_the_error_has_the_message_of_an_engine_that_is_missing_or_ends(engine: MakeEngine) -> None:
    absent = engine(1, argv=("/no/such/engine",))
    assert "engine could not be started: No such file" in str(
        error_of(lambda: absent.start(hosts(1)[0], Program(ECHO), timeout=PATIENCE))
    )
    gives_up = engine(1, argv=("sh", "-c", "echo hello >&2; echo 'error: no such job' >&2; echo 'bye' >&2"))
    error = error_of(lambda: gives_up.start(hosts(1)[0], Program(ECHO), timeout=PATIENCE))
    assert error.summary == "host0: engine has ended: error: no such job"
    assert gives_up.ended == "engine has ended: error: no such job"


def test_an_engine_that_starts_nothing_is_a_time_out(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    late = engine(1, argv=("sh", "-c", "echo 'engine: job 7 queued and waiting' >&2; sleep 30"))
    error = error_of(lambda: late.start(hosts(1)[0], Program(ECHO), timeout=1.0))
    assert error.kind == ErrorKind.TIMEOUT
    assert "(waiting for its relay to start; engine: job 7 queued and waiting)" in error.summary
    monkeypatch.setattr(engines, "FAREWELL", 0.1)
    late.close()


def test_the_engine_is_at_fault_if_all_nodes_are_lost() -> None:
    """As when a job is cancelled, or its time is over: srun tells of its tasks before it ends."""
    called = {"node0": "host0", "node1": "host1"}
    there = nodes.Nodes(EngineSite("engine", (), "RANK", called, str, lost), 2, "0" * 32)
    for node in (0, 1):
        words = {"nonce": "0" * 32, "node": node, "seq": 0, "here": f"node{node}"}
        there.read(json.dumps(words).encode().ljust(frames.FRAME - 1))
    there.read(b"engine: node0: exit code -15")
    assert there.all_lost() == ""
    there.read(b"engine: node1: exit code -15")
    assert there.all_lost() == "engine lost all nodes: engine: exit code -15"
    there.read(b"engine: error: *** STEP 17.0 CANCELLED ***")
    assert there.all_lost() == "engine lost all nodes: engine: error: *** STEP 17.0 CANCELLED ***"


def test_hosts_may_take_longer_to_come_than_a_program_to_start(engine: MakeEngine) -> None:
    late = f'sleep 1; exec {sys.executable} {STAND_IN} 2 none "$@"'
    over = engine(2, argv=("sh", "-c", late, "engine"))
    over.begin(hosts(2))
    assert over.ended == ""
    assert over.run(hosts(2)[1], Program("print('here')"), timeout=PATIENCE).stdout == b"here\n"


def test_the_wait_for_a_node_that_does_not_start_ends(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "LATE", 0.5)
    over = engine(2, strangers=1)
    over.begin(hosts(2))
    assert over.ended == ""
    assert over.run(hosts(2)[0], Program("print('here')"), timeout=PATIENCE).stdout == b"here\n"


def test_relays_and_programs_end_when_the_engine_is_killed(engine: MakeEngine) -> None:
    over = engine(2)
    channel = over.start(hosts(2)[0], Program(ECHO), timeout=PATIENCE)
    process = over._process
    assert process is not None
    process.kill()  # the fixture looks that nothing is left
    assert list(channel.lines()) == []
    assert "engine has ended" in str(channel.error())


def test_a_caller_without_the_token_gets_no_data_and_is_dropped(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "SHOW", 0.5)
    over = engine(1, "deaf")
    (host,) = hosts(1)
    channel = over.start(host, Program(ECHO), timeout=PATIENCE)
    assert over._callbacks is not None
    port = int(over._callbacks.addresses(["127.0.0.1"]).rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        said = (b"", b"0" * 32 + b"\n", b"x" * 10_000, over._nonce.encode()[:-1] + b"\n{}\n")
        strangers = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 5)) for _ in said]
        for stranger, words in zip(strangers, said, strict=True):
            stranger.sendall(words)
        channel.send(b"secret\n")
        for stranger in strangers:
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1000) == b""
    assert next(channel.lines()) == b"heard secret"


def test_calls_of_a_node_that_ends_do_not_disturb_the_others(engine: MakeEngine) -> None:
    over = engine(2, "deaf")
    first, second = hosts(2)
    os.kill(relay_of(over, second), signal.SIGKILL)
    assert over.run(first, Program("print('here')"), timeout=PATIENCE).stdout == b"here\n"
    error = error_of(lambda: over.run(second, Program("print('here')"), timeout=PATIENCE))
    assert error.summary == "host1: engine: exit code -9"


def test_a_node_that_cannot_call_says_so(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks.Callbacks, "addresses", lambda *_: "127.0.0.1:1")
    error = error_of(lambda: engine(1, "deaf").run(hosts(1)[0], Program(""), timeout=PATIENCE))
    assert "cannot reach the controller at 127.0.0.1:1: [Errno 111] Connection refused" in error.summary


def test_a_node_says_its_addresses_before_a_host_name_that_clones_share() -> None:
    environment = {"PATH": os.environ["PATH"], "PREFLIGHT_NONCE": "0" * 32, "PREFLIGHT_RANK_IN": "RANK", "RANK": "0"}
    command = [sys.executable, "-I", "-c", source("relay")]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    said = [frames.read(line, "0" * 32) for line in done.stderr.splitlines()]
    names = [one.here for one in said if one and one.here is not None]
    assert names[-2:] == [socket.gethostname(), ""]
    assert [name for name in names[:-2] if not re.fullmatch(r"[\d.]+", name or "")] == []


def test_blocked_nodes_delay_the_others_once_and_not_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    heard: list[bytes] = []

    class Connection:
        """Takes nothing, as one whose buffer is full."""

        patience = 0.0

        def settimeout(self, seconds: float) -> None:
            self.patience = seconds

        def sendall(self, _: bytes) -> None:
            now[0] += self.patience
            raise TimeoutError

        def shutdown(self, _: int) -> None: ...

    class Good(Connection):
        def sendall(self, _: bytes) -> None:
            heard.append(b"told")

    monkeypatch.setattr(callbacks, "time", SimpleNamespace(monotonic=lambda: now[0]))
    over = callbacks.Callbacks("token")
    over._send([callbacks._Caller(one(), 0.0, b"", proven=True) for one in (*[Connection] * 40, Good)], b"{}\n")  # type: ignore[arg-type]
    over.close()
    assert heard == [b"told"]
    assert now[0] < 10  # relays end themselves after 20
