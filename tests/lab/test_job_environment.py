"""What jobs find where they run, on lab hosts: variables, the host NIC that HCCL would choose, device files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab
SET_ENV = "source /usr/local/Ascend/ascend-toolkit/set_env.sh"
OURS = "ENV104,ENV105,ENV106,ENV107,ENV108,ENV109,ENV110,HST109,HST110,HST111,HST112,HST113,VER108,VER109,VER111"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    return make_lab(hosts=2, devices=8, product="atlas-a2")


def speaking(inventory: Path) -> dict[str, dict[str, str]]:
    """Check → host → outcome, of those that are neither pass nor skip."""
    done = preflight("check", "-i", inventory, "--no-ping", "--no-probe", "--only", OURS, "-o", "json", check=False)
    found: dict[str, dict[str, str]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        if finding["outcome"] not in ("pass", "skip"):
            found.setdefault(finding["check"], {})[finding["host"]] = finding["outcome"]
    return found


def told(lab: LabHandle, line: str) -> Path:
    """An inventory in which the jobs' way in has one more line."""
    place = lab.inventory.with_name("told.toml")
    text = lab.inventory.read_text(encoding="utf-8")
    assert SET_ENV in text
    place.write_text(text.replace(SET_ENV, f"{SET_ENV}; {line}"), encoding="utf-8")
    return place


def test_jobs_of_a_fresh_lab_find_what_they_need(lab: LabHandle) -> None:
    assert speaking(lab.inventory) == {}


@pytest.mark.failure(14, 25, 29, 54)
@pytest.mark.parametrize(
    ("line", "check", "outcome"),
    [
        ("export HCCL_RDMA_SL=9", "ENV104", "fail"),
        ("export HCCL_CONNECT_TIME_OUT=600", "ENV104", "warn"),
        ("export HCCL_INTRA_PCIE_ENABLE=1 HCCL_INTRA_ROCE_ENABLE=1", "ENV105", "fail"),
        ("export ASCEND_RT_VISIBLE_DEVICES=8,9", "ENV107", "fail"),
        ("export RANK_TABLE_FILE=/nowhere/hccl.json", "ENV108", "fail"),
        ("export HCCL_SOCKET_IFNAME==enp9s0", "HST110", "fail"),
        ("unset ASCEND_HOME_PATH ASCEND_TOOLKIT_HOME ASCEND_OPP_PATH", "ENV110", "fail"),
    ],
)
def test_one_line_in_the_jobs_way_in_is_one_finding_a_host(lab: LabHandle, line: str, check: str, outcome: str) -> None:
    assert speaking(told(lab, line)) == {check: {"node01": outcome, "node02": outcome}}


@pytest.fixture
def storage_nics(lab: LabHandle) -> Iterator[None]:
    """A NIC on each host whose name comes before that of the host NIC, in a network that only that host has."""
    for number, host in enumerate(("node01", "node02"), 1):
        pair = "ip link add aux0 type veth peer name zzz0 && ip link set aux0 up && ip link set zzz0 up"
        made = lab.ssh(host, f"{pair} && ip addr add 10.77.{number}.5/24 dev aux0")
        assert made.returncode == 0, made.stderr
    yield
    for host in ("node01", "node02"):
        lab.ssh(host, "ip link del aux0")


@pytest.mark.failure(24)
def test_a_storage_nic_that_comes_first_is_told_and_named_away(lab: LabHandle, storage_nics: None) -> None:  # noqa: ARG001
    assert speaking(lab.inventory) == {"HST110": {"node01": "fail", "node02": "fail"}}
    assert speaking(told(lab, "export HCCL_SOCKET_IFNAME==eth0")) == {}


@pytest.mark.failure(29)
def test_a_rank_table_that_leads_through_a_link_is_warned_of(lab: LabHandle) -> None:
    lab.ssh("node01", 'echo \'{"status": "completed"}\' > /tmp/table.json; ln -sf table.json /tmp/hccl.json')
    lab.ssh("node02", 'echo \'{"status": "completed"}\' > /tmp/hccl.json')
    assert speaking(told(lab, "export RANK_TABLE_FILE=/tmp/hccl.json")) == {"ENV108": {"node01": "warn"}}
