"""The lab's hccn_tool: it answers like the real one, and what it sets is real."""

import re
import subprocess

import pytest

from tests.lab.conftest import LabHandle, MakeLab


@pytest.fixture(scope="module")
def fresh(make_lab: MakeLab) -> LabHandle:
    """Two hosts with two devices each, as they come up."""
    return make_lab(hosts=2, devices=2)


@pytest.mark.lab
@pytest.mark.parametrize(
    ("command", "stdout", "stderr", "code"),
    [
        ("-i 1 -ip -g", "", "", 0),
        ("-i 1 -gateway -g", "", "Get gateway failed, because no gateway was preset there!\n", 2),
        ("-i 1 -net_health -g", "net health status: Init\n", "", 0),
        ("-i 1 -link -g", "link status: UP\n", "", 0),
        ("-i 1 -process -g", "device hccp process: not exist\n", "", 0),
        ("-i 1 -cfg status", "config status:NONE\n", "", 0),
        ("-i 1 -ip -s address 192.168.2.9 netmask 255.255.255.0", "", "The ip address configured is conflicted!\n", 7),
        ("-i 1 -ip -s address 192.168.9.0 netmask 255.255.255.0", "", "Inconsistent address and mask!\n", 34),
        ("-i 1 -ip -s address 192.168.9.255 netmask 255.255.255.0", "", "Can not config broadcast address!\n", 37),
        ("-i 1 -ip -s address 192.168.9 netmask 255.255.255.0", "", "The ip address you configured is invalid!\n", 6),
        (
            "-i 1 -mtu -s 1400",
            "hccn_tool -i devid -mtu\n   [-s]        : set size %d\n   [-g]        : get mtu cfg\n",
            "The total count of input parameters is wrong!\n",
            4,
        ),
        (
            "-i 1 -gateway -s gateway 192.168.9.1",
            "",
            "Unable to configure gateway, because ip is not configured!\n",
            26,
        ),
        ("-i 7 -ip -g", "", "The device is not exist!\n", 4),
        ("-i x -ip -g", "", "Get invalid device id.\n", 4),
    ],
)
def test_hccn_tool_answers_like_the_real_one(
    fresh: LabHandle, command: str, stdout: str, stderr: str, code: int
) -> None:
    done = fresh.ssh("node02", f"hccn_tool {command}")
    assert (done.stdout, done.stderr, done.returncode) == (stdout, stderr, code)


@pytest.mark.lab
def test_hccn_tool_turns_a_second_writer_away(fresh: LabHandle) -> None:
    hold = "flock /run/preflight-lab/hccn_tool.lock"
    done = fresh.ssh("node02", f"{hold} hccn_tool -i 1 -netdetect -s address 192.168.9.9")
    assert (done.stdout, done.stderr, done.returncode) == ("hccn_tool is busy, please try again.\n", "", 11)


@pytest.mark.lab
def test_hccn_tool_is_for_root(fresh: LabHandle) -> None:
    done = fresh.ssh("node02", "setpriv --reuid 65534 hccn_tool -i 1 -tls -s enable 0")
    assert (done.stderr, done.returncode) == ("permission denied: pls check this cmd run permission.\n", 12)


@pytest.mark.lab
def test_a_set_address_is_real_and_written_down(two_by_two: LabHandle) -> None:
    said = two_by_two.ssh("node02", "hccn_tool -i 1 -ip -g; hccn_tool -i 1 -gateway -g; grep _1= /etc/hccn.conf").stdout
    assert said.splitlines() == [
        "ipaddr:192.168.101.13",
        "netmask:255.255.255.0",
        "default gateway:192.168.101.1, Iface:eth1",
        "address_1=192.168.101.13",
        "netmask_1=255.255.255.0",
        "gateway_1=192.168.101.1",
        "netdetect_1=192.168.101.1",
    ]
    device = two_by_two.status["hosts"][1]["devices"][1]
    shown = subprocess.run(
        ["ip", "-n", device["netns"], "-br", "-4", "addr"], capture_output=True, text=True, check=True
    )
    assert "192.168.101.13/24" in shown.stdout
    assert device["address"] == "192.168.101.13"


@pytest.mark.lab
def test_pings_cross_rails_by_the_gateway_and_look_like_the_real_ones(two_by_two: LabHandle) -> None:
    done = two_by_two.ssh("node01", "hccn_tool -i 0 -ping -g address 192.168.101.13")
    lines = done.stdout.splitlines()
    assert lines[0] == "device 0 PING 192.168.101.13"
    assert all(re.fullmatch(rf"recv seq={n},time=\d+\.\d{{6}}ms", lines[1 + n]) for n in range(3))
    assert lines[4] == "3 packets transmitted, 3 received, 0.00% packet loss"
    assert two_by_two.ssh("node01", "hccn_tool -i 0 -net_health -g").stdout == "net health status: Success\n"
