"""Pods of a Kubernetes job that prove each other, as processes of this machine: no Kubernetes is here."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.gate.gang import BROKEN, GOOD, OTHERS, UNKNOWN, PodVerdict, verdicts
from preflight.model.errors import UsageError
from preflight.model.finding import Finding
from preflight.model.measure import Culprit
from preflight.model.outcome import Outcome
from preflight.transport.engine.pods import Pod

ROOT = Path(__file__).parents[3]
TOKEN = "of-this-gang-and-no-other"
PODS = ("train-0", "train-1", "train-2")
INVENTORY = f"""
[cluster]
name = "train"
product = "cpu"
devices = 1
[probe]
idle = true
python = "{sys.executable}"
[[hosts]]
name = "train-[0-2]"
address = "127.0.0.[1-3]"
"""


class Gang:
    """Three pods, each with a folder and an address of its own: the loopback's first for all that is tested here."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("", 0)) as free:
            self.port = free.getsockname()[1]
        self.folder = folder
        self.running: dict[int, subprocess.Popen[str]] = {}
        (folder / "hosts.toml").write_text(INVENTORY)

    def start(self, index: int, environment: Mapping[str, str] | None = None, *options: str) -> None:
        home = self.folder / f"pod{index}"
        home.mkdir()
        self.log(index).touch()
        words = {
            "PYTHONPATH": str(ROOT), "HOME": str(home), "TMPDIR": str(home), "JOB_COMPLETION_INDEX": f"{index}",
            "PREFLIGHT_POD_IP": "127.0.0.1", "PREFLIGHT_NODE_NAME": f"gpu{index}", "PREFLIGHT_TOKEN": TOKEN,
            "PREFLIGHT_POD_PORT": f"{self.port}", "PREFLIGHT_TERMINATION_LOG": str(self.log(index)),
        }  # fmt: skip
        command = (sys.executable, "-m", "preflight", "probe", "--via", "pods", "-i", str(self.folder / "hosts.toml"))
        self.running[index] = subprocess.Popen(
            [*command, *options],
            env={**os.environ, **words, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def log(self, index: int) -> Path:
        return self.folder / f"log{index}"

    def end(self) -> dict[int, tuple[int, str]]:
        """Index → exit code, termination message."""
        said = {index: pod.communicate()[0] for index, pod in self.running.items()}
        ended = {index: (pod.returncode, self.log(index).read_text()) for index, pod in self.running.items()}
        print(said)  # for who looks why
        return ended


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Gang]:
    made = Gang(tmp_path)
    yield made
    for pod in made.running.values():
        pod.kill()
        pod.wait()


def test_a_healthy_gang_is_good_whoever_comes_first(gang: Gang) -> None:
    options = ("--quick", "--scope", "all", "--sizes", "8")
    for index in (2, 0, 1):
        gang.start(index, None, *options)
    ended = gang.end()
    assert {code for code, _ in ended.values()} == {GOOD}
    assert {message.partition(",")[0] for _, message in ended.values()} == {"preflight: 3 of 3 pods are healthy"}


def test_who_never_comes_is_named_and_nobody_begins(gang: Gang) -> None:
    for index in (0, 2):
        gang.start(index, {"PREFLIGHT_POD_WAIT": "3"})
    ended = gang.end()
    assert {code for code, _ in ended.values()} == {UNKNOWN}
    assert all("train-1 did not connect: " in message for _, message in ended.values())


def test_where_the_first_never_comes_each_finds_out_by_itself(gang: Gang) -> None:
    gang.start(1, {"PREFLIGHT_POD_WAIT": "1"})
    gang.start(2, {"PREFLIGHT_POD_WAIT": "1", "PREFLIGHT_UNKNOWN": "open"})
    ended = gang.end()
    assert [code for code, _ in ended.values()] == [UNKNOWN, GOOD]
    assert f"127.0.0.1:{gang.port} not reachable within 1 s: " in ended[1][1]
    assert ended[2][1].endswith(". The job starts nevertheless (PREFLIGHT_UNKNOWN=open).")


def test_another_token_is_refused(gang: Gang) -> None:
    gang.start(0, {"PREFLIGHT_POD_WAIT": "3"})
    gang.start(1)
    gang.start(2, {"PREFLIGHT_POD_WAIT": "20", "PREFLIGHT_TOKEN": "of-another-gang-altogether"})
    ended = gang.end()
    assert {code for code, _ in ended.values()} == {UNKNOWN}
    assert "train-2 did not connect: " in ended[0][1]
    assert "train-2 did not connect: " in ended[1][1]
    assert "in 20 s: the other side did not prove that it has this run's token" in ended[2][1]


def test_who_is_there_before_the_first_and_has_no_token_is_not_obeyed(gang: Gang) -> None:
    options = ("--quick", "--scope", "all", "--sizes", "8")
    order = {"to": {"p": [[0, 9]]}, "run": ["touch", str(gang.folder / "obeyed")], "text": "t"}
    with socket.create_server(("127.0.0.1", gang.port)) as impostor:
        gang.start(1, None, *options)
        gang.start(2, None, *options)
        asked = 0
        while asked < 3:
            connection, _ = impostor.accept()
            with connection, suppress(OSError):
                if connection.recv(99):  # not one who only looks whether somebody is there
                    asked += 1
                    connection.sendall(json.dumps(order).encode() + b"\n")
    gang.start(0, None, *options)
    assert {code for code, _ in gang.end().values()} == {GOOD}
    assert not (gang.folder / "obeyed").exists()


def test_where_the_first_goes_the_others_do_not_begin(gang: Gang) -> None:
    gang.start(0)
    gang.start(1)
    relays = Path(f"/proc/{gang.running[1].pid}/task/{gang.running[1].pid}/children")
    while not any(obeys(relay) for relay in relays.read_text().split()):
        time.sleep(0.1)
    gang.running[0].terminate()
    ended = gang.end()
    assert ended[0][0] == 130
    assert ended[1][0] == UNKNOWN
    assert "train-0 ended without a verdict" in ended[1][1]


def obeys(relay: str) -> bool:
    """Whether the process has let the first pod's connection take the place of its stdin."""
    with suppress(OSError):
        return f"{Path(f'/proc/{relay}/fd/0').readlink()}".startswith("socket:")
    return False


def finding(outcome: Outcome, **fields: object) -> Finding:
    return Finding("PRB101", outcome, "a rank stopped", **fields)  # type: ignore[arg-type]


def culprit(kind: str, *members: str, test: str = "r1-0") -> Culprit:
    return Culprit(kind, members, (test,), "")


def gone(*pods: str) -> Finding:
    """Pods that gave no agent."""
    return finding(Outcome.FAIL, culprit=culprit("host", *pods, test="r0-0"))


BAD = Outcome.FAIL


@pytest.mark.parametrize(
    ("findings", "codes"),
    [
        ([finding(Outcome.PASS)], (GOOD, GOOD, GOOD)),
        ([finding(Outcome.WARN)], (GOOD, GOOD, GOOD)),
        ([], (UNKNOWN, UNKNOWN, UNKNOWN)),
        ([finding(Outcome.SKIP)], (UNKNOWN, UNKNOWN, UNKNOWN)),
        ([finding(Outcome.PASS), finding(Outcome.UNKNOWN)], (UNKNOWN, UNKNOWN, UNKNOWN)),
        ([finding(BAD, culprit=culprit("host", "train-1")), finding(Outcome.UNKNOWN)], (OTHERS, BROKEN, OTHERS)),
        ([finding(BAD, host="train-1")], (OTHERS, OTHERS, OTHERS)),
        ([finding(BAD, host="train-1", culprit=culprit("device", "train-1/3"))], (OTHERS, BROKEN, OTHERS)),
        ([finding(BAD, culprit=culprit("host", "train-0", "train-2"))], (BROKEN, OTHERS, BROKEN)),
        ([finding(BAD, host="train-0", peer="train-1")], (OTHERS, OTHERS, OTHERS)),
        ([finding(BAD, host="train-0", culprit=culprit("link", "train-0/0", "train-1/0"))], (OTHERS, OTHERS, OTHERS)),
        ([finding(BAD, culprit=culprit("system"))], (OTHERS, OTHERS, OTHERS)),
        ([finding(BAD, culprit=culprit("host", *PODS))], (OTHERS, OTHERS, OTHERS)),
        ([finding(BAD, culprit=culprit("partition", "train-1"))], (OTHERS, OTHERS, OTHERS)),
        ([gone("train-1")], (UNKNOWN, UNKNOWN, UNKNOWN)),
        ([gone("train-1"), finding(BAD, culprit=culprit("host", "train-0"))], (BROKEN, UNKNOWN, OTHERS)),
        ([gone(*PODS)], (OTHERS, OTHERS, OTHERS)),
        ([gone("train-1"), finding(BAD, culprit=culprit("host", "train-0", "train-2"))], (OTHERS, OTHERS, OTHERS)),
        ([gone("train-1", "train-2"), finding(BAD, culprit=culprit("host", "train-0"))], (BROKEN, UNKNOWN, UNKNOWN)),
    ],
)
def test_a_pod_is_broken_where_it_is_named_alone(findings: list[Finding], codes: tuple[int, ...]) -> None:
    assert tuple(one.code for one in verdicts(PODS, findings, {}, {}).values()) == codes


def test_who_was_left_out_leaves_all_unknown() -> None:
    said = verdicts(PODS, [finding(Outcome.PASS)], {"train-1": "device 0 is in use"}, {})
    assert said["train-0"] == PodVerdict(
        UNKNOWN, "preflight: the state of the 3 pods is unknown: train-1 was not tested: device 0 is in use"
    )


def test_the_message_names_the_node_and_the_cause() -> None:
    said = verdicts(
        PODS, [finding(BAD, culprit=culprit("host", "train-1"), cause="link down")], {}, {"train-1": "gpu17"}
    )
    told = "a rank stopped (PRB101), likely cause: link down"
    assert said["train-1"].message == f"preflight: train-1 on node gpu17 is broken: {told}"
    assert said["train-2"].message == f"preflight: train-2 is not at fault. Broken: train-1 on node gpu17 ({told})"


def test_who_is_alone_is_named_all_the_same() -> None:
    assert verdicts(PODS[:1], [finding(BAD, culprit=culprit("host", "train-0"))], {}, {})["train-0"].code == BROKEN


def test_who_is_alone_and_gave_no_agent_is_unknown() -> None:
    assert verdicts(PODS[:1], [gone("train-0")], {}, {})["train-0"].code == UNKNOWN


def test_a_message_is_harmless_and_bounded() -> None:
    (said,) = set(verdicts(PODS, [finding(BAD, cause="\x1b[31m\n" + 9000 * "x")], {}, {}).values())
    assert "\x1b" not in said.message
    assert "\n" not in said.message
    assert len(said.message) == 4096


GOOD_ENVIRONMENT = {"JOB_COMPLETION_INDEX": "2", "PREFLIGHT_TOKEN": TOKEN + "\n"}


def test_the_token_leaves_the_environment() -> None:
    environment = dict(GOOD_ENVIRONMENT)
    pod = Pod.of(environment)
    assert (pod.index, pod.token, pod.wait, pod.opens) == (2, TOKEN, 600, False)
    assert "PREFLIGHT_TOKEN" not in environment
    assert TOKEN not in repr(pod)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"JOB_COMPLETION_INDEX": ""}, "runs only in a pod of an Indexed Job"),
        ({"JOB_COMPLETION_INDEX": "two"}, "the pod's index is 'two', but must be a number"),
        ({"JOB_COMPLETION_INDEX": "-1"}, "the pod's index is '-1', but must be a number"),
        ({"PREFLIGHT_TOKEN": "short"}, "needs PREFLIGHT_TOKEN, a token"),
        ({"PREFLIGHT_TOKEN": ""}, "needs PREFLIGHT_TOKEN, a token"),
        ({"PREFLIGHT_POD_WAIT": "5m"}, "PREFLIGHT_POD_WAIT is '5m', but must be a number from 1 to 86400"),
        ({"PREFLIGHT_POD_WAIT": "0"}, "PREFLIGHT_POD_WAIT is '0', but must be a number"),
        ({"PREFLIGHT_POD_PORT": "80"}, "PREFLIGHT_POD_PORT is '80', but must be a number from 1024"),
        ({"PREFLIGHT_UNKNOWN": "perhaps"}, "PREFLIGHT_UNKNOWN is 'perhaps', but must be open or closed"),
    ],
)
def test_an_environment_that_is_none_of_a_pod_is_refused(words: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Pod.of(GOOD_ENVIRONMENT | words)


@pytest.mark.parametrize(
    ("options", "index", "sentence"),
    [
        (("--limit", "train-0"), "0", "--via pods tests all pods together, with torch. Remove --limit."),
        (("--with", "torch"), "0", "--via pods tests all pods together, with torch. Remove --with."),
        ((), "3", "this is pod 3, but the inventory has 3"),
    ],
)
def test_what_does_not_fit_a_gang_is_refused(
    options: tuple[str, ...], index: str, sentence: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "hosts.toml").write_text(INVENTORY)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
    monkeypatch.setenv("PREFLIGHT_TOKEN", TOKEN)
    assert main(["probe", "--via", "pods", "-i", str(tmp_path / "hosts.toml"), *options]) == 2
    assert sentence in capsys.readouterr().err
