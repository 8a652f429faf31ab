"""Logs of real hosts, brought by sshd. What stands in them, and the dmesg that prints the kernel's, are stand-ins."""

import json
import subprocess
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

PLOG = "/home/root/ascend/log/debug/plog/plog-204_20260304100203000.log"
WAITED = (
    "[ERROR] HCCL(204,python3):2026-03-04-10:02:03.000.000 [hccl_socket_manager.cc:586] [204][Wait][LinksEstablish]"
    "wait socket establish timeout, role[0] rank[1] timeout[120 s]\n"
)
LOST = "2026-03-04T10:01:58,000000+00:00 NVRM: Xid (PCI:0000:9b:00): 79, pid=104, GPU has fallen off the bus.\n"
JOB = "[rank1]: 2026-03-04 10:02:05 OSError: [Errno 116] Stale file handle: '/data/x'\n"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """node01 waited, by a plog; node02 lost a device, by its kernel. Beside the logs lies what is none."""
    lab = make_lab(hosts=2, devices=0, product="nvidia", firewall="none")
    for host, said in (("node01", ""), ("node02", LOST)):
        dmesg = f"#!/bin/sh\nprintf %s '{said}'\n"
        put(lab, host, "/usr/local/sbin/dmesg", dmesg)
        lab.ssh(host, "chmod 755 /usr/local/sbin/dmesg")
    put(lab, "node01", PLOG, WAITED)
    put(lab, "node02", "/tmp/job/a.log", "iteration 1\n" * 200_000 + JOB)
    hostile = "cd /tmp/job; ln -s /etc/shadow b.log; mkfifo c.log; printf x > \"$(printf 'd\\033[31m\\n.log')\""
    assert lab.ssh("node02", hostile).returncode == 0
    return lab


def put(lab: LabHandle, host: str, path: str, text: str) -> None:
    command = lab.ssh_command(host, f"mkdir -p $(dirname {path}) && cat > {path}")
    subprocess.run(command, input=text, text=True, check=True)


def diagnosed(lab: LabHandle, *words: str, inventory: str = "") -> dict[str, Any]:
    place = lab.inventory
    if inventory:
        place = lab.inventory.with_name("told.toml")
        place.write_text(inventory, encoding="utf-8")
    kept = lab.dir / "kept"
    kept.mkdir(exist_ok=True)
    options = ("--fetch", "-i", place, "--since", "9999d", "-o", "json")
    done = preflight("diagnose", *options, *words, check=False, env={"TMPDIR": str(kept)})
    assert not done.stderr
    assert not list(kept.iterdir()), "what came is removed"
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["exit"] == done.returncode
    return document


def test_logs_of_two_hosts_are_one_story(lab: LabHandle) -> None:
    found = diagnosed(lab)
    assert found["cause"]["error"] == "Xid 79"
    assert [(seen["host"], seen["file"]) for seen in found["cause"]["seen"]] == [("node02", "node02:the kernel's log")]
    assert [(seen["host"], seen["file"]) for group in found["echoes"] for seen in group["seen"]] == [
        ("node01", f"node01:{PLOG}")
    ]
    assert [(copy["host"], copy["file"]) for copy in found["fetched"]] == [
        ("node01", PLOG), ("node01", "the kernel's log"), ("node02", "the kernel's log")
    ]  # fmt: skip
    assert found["unread"] == []


def test_of_files_that_are_named_the_end_comes_and_what_is_no_file_does_not(lab: LabHandle) -> None:
    found = diagnosed(lab, "/tmp/job/*", "/nowhere/*.log", "--most", "1")
    (job,) = (copy for copy in found["fetched"] if copy["file"] == "/tmp/job/a.log")
    assert (job["bytes"], job["from"]) == (256 << 10, 12 * 200_000 + len(JOB) - (256 << 10))
    (stale,) = (group for group in found["others"] if group["error"] == "file-system")
    assert [(seen["rank"], seen["host"]) for seen in stale["seen"]] == [(1, None)], "a launcher's, of all hosts"
    why = {one["file"]: one["why"] for one in found["unread"]}
    assert why["node02:/tmp/job/b.log"] == "a link"
    assert why["node02:/tmp/job/c.log"] == "not a regular file"
    assert why["/nowhere/*.log"] == "no file matches on any host"
    assert why["node02:/tmp/job/a.log"].startswith("only the last 0.2 MiB were fetched")


def test_a_host_that_does_not_answer_is_named_and_leaves_it_open(lab: LabHandle) -> None:
    closed = lab.inventory.read_text(encoding="utf-8")
    closed += '\n[[hosts]]\nname = "node03"\naddress = "127.0.0.1"\n'  # refused, or a host key that nobody knows
    found = diagnosed(lab, "--limit", "node01,node03", inventory=closed)
    assert (found["exit"], [one["file"] for one in found["unread"]]) == (1, ["node03"])
