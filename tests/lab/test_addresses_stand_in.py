"""The stand-in hccn_tool where configuring depends on what the real one does: its file, its order, its modes.

What the real one does is known from the driver's source (910B generation: cfg.c, tool_ops.c), not from a machine.
"""

import pytest

from tests.lab.conftest import LabHandle, MakeLab

pytestmark = pytest.mark.lab

CONF = "/etc/hccn.conf"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    return make_lab(hosts=2, devices=2, firewall="none")


def said(lab: LabHandle, command: str, host: str = "node01") -> str:
    done = lab.ssh(host, command)
    return (done.stdout + done.stderr).strip()


def conf(lab: LabHandle) -> list[str]:
    return said(lab, f"cat {CONF}").splitlines()


def set_conf(lab: LabHandle, text: str) -> None:
    assert said(lab, f"printf '{text}' >{CONF}") == ""


ADDRESS = "hccn_tool -i 0 -ip -s address 10.0.0.{} netmask 255.255.255.0"
DONE = "Cmd executed successfully!"


def test_a_setting_goes_to_the_end_of_the_file_and_replaces_all_lines_of_its_key(lab: LabHandle) -> None:
    set_conf(lab, "# kept\\naddress_0=10.0.0.9\\ntls_enable_0=1\\naddress_0=10.0.0.8\\naddress_1=10.0.1.7\\n")
    assert said(lab, ADDRESS.format(5)) == DONE
    assert conf(lab) == ["# kept", "tls_enable_0=1", "address_1=10.0.1.7", "address_0=10.0.0.5",
                         "netmask_0=255.255.255.0"]  # fmt: skip


def test_a_last_line_without_its_newline_is_spoilt(lab: LabHandle) -> None:
    set_conf(lab, "tls_enable_1=0")
    assert said(lab, "hccn_tool -i 0 -netdetect -s address 10.0.0.1") == DONE
    assert conf(lab) == ["tls_enable_1=0netdetect_0=10.0.0.1"]


def test_without_the_file_nothing_is_set(lab: LabHandle) -> None:
    before = said(lab, "hccn_tool -i 0 -ip -g")
    said(lab, f"mv {CONF} {CONF}.away")
    try:
        assert "The hccn.conf can't access" in said(lab, ADDRESS.format(6))
        assert "The hccn.conf can't access" in said(lab, "hccn_tool -i 0 -cfg recovery")
        assert said(lab, "hccn_tool -i 0 -ip -g") == before
        assert said(lab, f"ls {CONF}").endswith("No such file or directory")
    finally:
        said(lab, f"mv {CONF}.away {CONF}")


def test_with_its_address_a_device_loses_its_gateway_unless_the_file_has_one_that_fits(lab: LabHandle) -> None:
    set_conf(lab, "")
    said(lab, f"{ADDRESS.format(5)}; hccn_tool -i 0 -gateway -s gateway 10.0.0.1")
    assert said(lab, ADDRESS.format(6)) == DONE
    assert "10.0.0.1" in said(lab, "hccn_tool -i 0 -gateway -g")
    said(lab, "hccn_tool -i 0 -ip -s address 10.0.9.6 netmask 255.255.255.0")
    assert "no gateway was preset" in said(lab, "hccn_tool -i 0 -gateway -g")
    assert not [line for line in conf(lab) if line.startswith("gateway")]
    assert "segment" in said(lab, "hccn_tool -i 0 -gateway -s gateway 10.0.0.1")


def test_recovery_restores_every_key_and_brings_the_port_up(lab: LabHandle) -> None:
    set_conf(lab, "tls_enable_0=0\\nmtu_0=1400\\naddress_0=10.0.0.5\\nnetmask_0=255.255.255.0\\n"
                  "netdetect_0=10.0.0.9\\ngateway_0=10.0.0.1\\n")  # fmt: skip
    said(lab, "nsenter --net=/run/preflight-lab/device/0 sh -c 'ip addr flush dev eth0; ip link set eth0 down'")
    assert "DOWN" in said(lab, "hccn_tool -i 0 -link -g")
    assert said(lab, "hccn_tool -i 0 -cfg recovery") == DONE
    asked = ("-ip -g", "-gateway -g", "-netdetect -g", "-mtu -g", "-tls -g", "-cfg status")
    found = said(lab, ";".join(f"hccn_tool -i 0 {words}" for words in asked))
    for wanted in ("10.0.0.5", "10.0.0.1,", "10.0.0.9", "mtu:1400", "switch[0]", "SUCCESS"):
        assert wanted in found
    up = "timeout 20 sh -c 'until hccn_tool -i 0 -link -g | grep UP; do sleep 0.1; done'"
    assert "UP" in said(lab, up), "a port takes its moment"


def test_a_recovery_that_fails_names_the_log_and_says_so_in_the_status(lab: LabHandle) -> None:
    set_conf(lab, "address_0=192.168.1.9\\nnetmask_0=255.255.255.0\\nnetdetect_0=10.0.0.7\\n")
    assert "Check '/var/log/hccn_tool/hccn_config.log'" in said(lab, "hccn_tool -i 0 -cfg recovery")
    assert said(lab, "hccn_tool -i 0 -cfg status") == "config status:FAIL"
    assert "10.0.0.7" in said(lab, "hccn_tool -i 0 -netdetect -g"), "what comes after the failure is restored"


@pytest.mark.parametrize(
    ("words", "answer"),
    [("size 1400", DONE), ("1400", "The total count of input parameters is wrong!"),
     ("size 9703", "The value of mtu you input is out of the valid range!")],
)  # fmt: skip
def test_the_mtu_is_set_by_its_size(lab: LabHandle, words: str, answer: str) -> None:
    assert said(lab, f"hccn_tool -i 1 -mtu -s {words}").endswith(answer)


def test_a_mode_of_the_npus_changes_what_is_refused(lab: LabHandle) -> None:
    words = "hccn_tool -i 1 -ip -s address 192.168.{}.77 netmask 255.255.255.0"
    assert "conflicted" in said(lab, words.format(3), "node02")
    said(lab, "echo amp >/run/preflight-lab/mode", "node02")
    assert said(lab, words.format(3), "node02") == DONE
    assert "conflicted" in said(lab, words.format(2), "node02")
