"""`configure-environment` on real hosts: what is asked for is there and works, and goes again without a trace."""

import json
import re
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

FILES = "/etc/hosts /etc/security/limits.d/90-preflight.conf /etc/profile.d/preflight-hccl.sh"
ASKED = '[host_setup]\nhosts_file = true\nlimits = { memlock = "4MiB", nofile = 5000 }\n'
ASKED += 'profile = { HCCL_CONNECT_TIMEOUT = "600" }\n\n'
HOSTS = ("node01", "node02")


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Hosts that do not know each other's names, and an /etc/hosts that ends without a newline."""
    made = make_lab(hosts=2, devices=1, product="atlas-a2")
    for host in HOSTS:
        made.ssh(host, r"printf '127.0.0.1 localhost\n# r\351serv\351' > /etc/hosts; chmod 640 /etc/hosts")
    return made


def asking(lab: LabHandle, table: str) -> None:
    """Make `table` what the inventory asks for."""
    text = lab.inventory.read_text().replace(ASKED, "")
    lab.inventory.write_text(table + text if not table else text.replace("[firewall]\n", table + "[firewall]\n"))


def configure(lab: LabHandle, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = preflight("configure-environment", "--inventory", lab.inventory, "-y", "-o", "json", *arguments, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    body: dict[str, Any] = json.loads(done.stdout)
    return body


def state(lab: LabHandle) -> dict[str, str]:
    """Bytes, owner and mode of the files."""
    script = f"for file in {FILES}; do stat -c '%n %U:%G %a' $file && od -c $file; done 2>&1"
    return {host: lab.ssh(host, script).stdout for host in HOSTS}


def test_nothing_is_done_unasked(lab: LabHandle) -> None:
    before = state(lab)
    body = configure(lab)
    assert body["changes"] == []
    assert [host["checks"]["skip"] for host in body["hosts"]] == [3, 3]
    assert state(lab) == before


def test_what_is_asked_for_works(lab: LabHandle) -> None:
    asking(lab, ASKED)
    body = configure(lab)
    assert [change["state"] for change in body["changes"]] == ["done"] * 6
    for host, other in (HOSTS, HOSTS[::-1]):
        assert lab.ssh(host, f"getent hosts {other}").stdout.split() == [lab.addresses[other], other]
        shown = lab.ssh(host, "bash -lc env | grep ^HCCL_ | sort").stdout
        nic = re.search(r"HCCL_SOCKET_IFNAME==(\S+)", shown)
        assert nic, shown
        assert lab.ssh(host, f"ip -br address show {nic[1]}").stdout.split()[2].startswith(lab.addresses[host])
        assert "HCCL_CONNECT_TIMEOUT=600\nHCCL_IF_BASE_PORT=60000\n" in shown
        # A session of PAM with pam_limits. The limits are low ones: a container may not raise its own.
        limits = "ulimit -Sn; ulimit -Hn; ulimit -Sl; ulimit -Hl"
        assert lab.ssh(host, f"runuser -s /bin/bash daemon -c '{limits}'").stdout.split() == [
            "5000",
            "5000",
            "4096",
            "4096",
        ]


def test_a_second_time_there_is_nothing_to_do(lab: LabHandle) -> None:
    before = state(lab)
    assert configure(lab)["changes"] == []
    assert state(lab) == before


def test_a_limit_that_would_lock_everybody_out_is_not_written(lab: LabHandle) -> None:
    asking(lab, ASKED.replace("5000", "2000000000"))
    try:
        before = state(lab)
        body = configure(lab, code=1)
        (reason,) = {finding["summary"][8:] for finding in body["findings"] if finding["outcome"] == "fail"}
        assert re.match(r"nofile = 2000000000 in the inventory exceeds fs\.nr_open \(\d+\), so preflight ", reason)
        assert state(lab) == before
    finally:
        text = lab.inventory.read_text()
        lab.inventory.write_text(text.replace(ASKED.replace("5000", "2000000000"), ASKED))


def test_what_is_asked_for_no_more_is_a_warning_and_is_taken_away(lab: LabHandle) -> None:
    asking(lab, "")
    check = preflight("check", "--inventory", lab.inventory, "--only", "environment", "-o", "json", check=False)
    warned = {(finding["check"], finding["outcome"]) for finding in json.loads(check.stdout)["findings"]}
    assert {pair for pair in warned if pair[1] == "warn"} == {(f"ENV10{n}", "warn") for n in (1, 2, 3)}
    assert {change["state"] for change in configure(lab)["changes"]} == {"done"}
    for host in HOSTS:
        assert lab.ssh(host, f"ls {FILES}").stdout == "/etc/hosts\n"
        assert lab.ssh(host, "od -c /etc/hosts").stdout == lab.ssh(
            host, r"printf '127.0.0.1 localhost\n# r\351serv\351\n' | od -c"
        ).stdout  # fmt: skip


def test_a_rollback_brings_the_original_bytes_back(lab: LabHandle) -> None:
    asking(lab, "")
    before = state(lab)
    asking(lab, ASKED)
    run = configure(lab)["run"]
    assert state(lab) != before
    done = preflight("rollback", run, "-y", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert state(lab) == before
