"""Password-less ssh between hosts: whom each tries, what ssh's words mean, and what is told of many that fail."""

import dataclasses
import os
import pwd
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.sections.neighbours import (
    Entry,
    Neighbours,
    RawNeighbours,
    RawVisit,
    SshVisit,
    neighbours,
    targets,
)
from preflight.facts.types import ClusterFacts, HostFacts, Unreachable
from preflight.model.cluster import Host, Ssh
from preflight.model.outcome import Outcome
from tests.unit.collector import answer, section, tool
from tests.unit.healthy import healthy_cluster, host_facts

HOSTS = tuple(Host(f"n{number}", f"10.1.0.{number}") for number in range(1, 6))


def test_a_host_tries_both_neighbours_of_the_ring_and_the_first_and_never_itself() -> None:
    assert targets(HOSTS, "n3") == [("n4", "10.1.0.4", 0), ("n2", "10.1.0.2", 0), ("n1", "10.1.0.1", 0)]
    assert targets(HOSTS, "n1") == [("n2", "10.1.0.2", 0), ("n5", "10.1.0.5", 0)]
    assert targets(HOSTS[:2], "n2") == [("n1", "10.1.0.1", 0)]
    assert targets(HOSTS[:1], "n1") == []


def test_hosts_whose_sshd_listens_elsewhere_are_tried_there() -> None:
    """As the launchers are told; all of them refused at 22 otherwise."""
    moved = dataclasses.replace(HOSTS[0], ssh=Ssh(user="root", port=2222))
    assert targets((moved, HOSTS[1]), "n2") == [("n1", "10.1.0.1", 2222)]


@pytest.mark.parametrize(
    ("code", "said", "entry"),
    [
        (0, "a banner\n", Entry.IN),
        (
            255,
            "No ED25519 host key is known for 10.1.0.2 and you have requested strict checking.\n"
            "Host key verification failed.\n",
            Entry.UNKNOWN_KEY,
        ),
        (255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", Entry.CHANGED_KEY),
        (255, "root@10.1.0.2: Permission denied (publickey,password).\r\n", Entry.DENIED),
        (255, "ssh: connect to host 10.1.0.2 port 22: Connection refused\r\n", Entry.REFUSED),
        (255, "ssh: connect to host 10.1.0.2 port 22: Connection timed out\r\n", Entry.NO_ANSWER),
        (255, "ssh: connect to host 10.1.0.2 port 22: No route to host\r\n", Entry.NO_WAY),
        (255, "ssh: Could not resolve hostname n2: Name or service not known\r\n", Entry.NO_NAME),
        (255, "kex_exchange_identification: Connection closed by remote host\r\n", Entry.DROPPED),
        (1, "This account is currently not available.", Entry.NO_SHELL),
        (255, "\x1b[2J" + "x" * 5000, Entry.OTHER),
        (255, "", Entry.OTHER),
    ],
)
def test_the_cause_is_told_by_what_ssh_says(code: int, said: str, entry: Entry) -> None:
    (visit,) = neighbours(RawNeighbours("ops", [RawVisit("n2", "10.1.0.2", code, said)])).visits
    assert visit.entry is entry
    assert visit.said.isprintable()
    assert len(visit.said) < 120


def found(lost: Mapping[tuple[str, str], Entry], hosts: int = 5) -> list[tuple[str | None, str | None, str]]:
    """(host, peer, summary) of the findings where these tries, by (source, target), did not get in."""
    cluster = dataclasses.replace(healthy_cluster(), hosts=HOSTS[:hosts])
    facts: dict[str, HostFacts | Unreachable] = {}
    for number, host in enumerate(cluster.hosts, 1):
        tried = targets(cluster.hosts, host.name)
        visits = tuple(SshVisit(name, place, lost.get((host.name, name), Entry.IN), "why") for name, place, _ in tried)
        facts[host.name] = dataclasses.replace(
            host_facts(cluster, host, number), neighbours=Neighbours("ops", visits)
        )  # fmt: skip
    findings = run_checks(cluster, ClusterFacts(facts), checks=[all_checks()["HST123"]], hosts=cluster.hosts)
    return [(f.host, f.peer, f.summary) for f in findings if f.outcome is Outcome.FAIL]


PAIRS = [(host.name, name) for host in HOSTS for name, *_ in targets(HOSTS, host.name)]


def test_what_fails_everywhere_is_one_finding() -> None:
    assert found(dict.fromkeys(PAIRS, Entry.DENIED)) == [
        (None, None, "no host can log in to another over ssh: permission denied")
    ]


def test_one_host_that_nobody_gets_into_is_named_once() -> None:
    into = {pair: Entry.REFUSED for pair in PAIRS if pair[1] == "n3"}
    assert found(into) == [("n3", None, "n3: no other host can log in over ssh: connection refused")]
    into = {pair: Entry.UNKNOWN_KEY for pair in PAIRS if pair[1] == "n1"}
    assert found(into) == [("n1", None, "n1: no other host can log in over ssh: unknown host key")]


def test_one_host_that_gets_into_nobody_is_named_once_beside_a_single_pair() -> None:
    lost = {pair: Entry.DENIED for pair in PAIRS if pair[0] == "n4"} | {("n2", "n3"): Entry.CHANGED_KEY}
    assert found(lost) == [
        ("n4", None, "n4: cannot log in to any other host over ssh: permission denied"),
        ("n2", "n3", "n2: cannot log in to n3 over ssh: changed host key"),
    ]


def test_between_two_hosts_each_way_is_told() -> None:
    assert found({("n2", "n1"): Entry.DENIED}, 2) == [
        ("n2", "n1", "n2: cannot log in to n1 over ssh: permission denied")
    ]
    both = {("n2", "n1"): Entry.DENIED, ("n1", "n2"): Entry.NO_ANSWER}
    assert [host for host, _, _ in found(both, 2)] == ["n1", "n2"]


def test_another_port_stands_in_the_commands_that_are_to_be_copied() -> None:
    cluster = dataclasses.replace(healthy_cluster(), hosts=HOSTS[:2])
    facts: dict[str, HostFacts | Unreachable] = {}
    for host, other, entry in zip(HOSTS[:2], HOSTS[1::-1], (Entry.CHANGED_KEY, Entry.UNKNOWN_KEY), strict=True):
        visits = (SshVisit(other.name, other.address, entry, "why", 2222),)
        facts[host.name] = dataclasses.replace(host_facts(cluster, host, 1), neighbours=Neighbours("ops", visits))
    found = run_checks(cluster, ClusterFacts(facts), checks=[all_checks()["HST123"]], hosts=cluster.hosts)
    changed, unknown = (finding for finding in found if finding.outcome is Outcome.FAIL)
    assert changed.commands == (
        "ssh-keygen -R '[10.1.0.2]:2222'",
        "ssh-keyscan -p 2222 10.1.0.2 >> ~/.ssh/known_hosts",
    )
    assert unknown.commands == ("ssh-keyscan -p 2222 10.1.0.1 >> ~/.ssh/known_hosts",)
    assert unknown.evidence == ("n2: ssh -p 2222 10.1.0.1 true: why",)


# The trying itself, with an ssh of the test's own.

SSH = """
case "$*" in *"-- n2 "*) exit 0 ;; *"-- n3 "*) echo 'x@n3: Permission denied (publickey).' >&2; exit 255 ;; esac
case "$*" in *"-- n4 "*) sleep 60 ;; esac
[ -e {folder}/again ] && exit 0
touch {folder}/again; echo 'kex_exchange_identification: Connection closed by remote host' >&2; exit 255
"""


def asked(path: str, **edits: str) -> dict[str, Any]:
    def edit(text: str) -> str:
        for old, new in edits.items():
            text = text.replace(f"{old} = 6.0", f"{old} = {new}").replace('os.environ.get("PATH", "")', f'"{path}"')
        return text

    look = section("neighbours", "neighbours", edit)
    request = {
        "neighbours": {"user": "", "targets": [["n2", "n2", 0], ["n3", "n3", 0], ["n4", "n4", 0], ["n5", "n5", 2222]]}
    }
    raw: dict[str, Any] = look(request, time.monotonic() + 6)
    return raw


def test_each_way_in_is_tried_with_a_deadline_and_again_where_sshd_was_busy(tmp_path: Path) -> None:
    path = tool(tmp_path, "ssh", f'echo "$*" >> {tmp_path}/asked\n' + SSH.replace("{folder}", str(tmp_path)))
    raw = asked(path, SECONDS="1.5")
    assert raw["user"] == pwd.getpwuid(os.geteuid()).pw_name
    assert [(visit["host"], visit["code"]) for visit in raw["visits"]] == [
        ("n2", 0),
        ("n3", 255),
        ("n4", -1),
        ("n5", 0),
    ]
    assert "did not finish in time" in raw["visits"][2]["trouble"]
    lines = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5
    assert [line.rpartition(" -p 2222 -- ")[2] for line in lines if " -p " in line] == ["n5 true"] * 2
    for line in lines:
        assert "BatchMode=yes" in line
        assert "StrictHostKeyChecking=yes" in line
        assert line.endswith(" true")


def test_a_user_of_the_jobs_that_is_not_there_is_told() -> None:
    wanted = {"user": "no-such-user", "targets": [["n2", "n2", 0]]}
    error = answer("neighbours", neighbours=wanted)["neighbours"]["error"]
    assert error.startswith("jobs run as no-such-user, but")
