"""How `preflight/remote/apply` sets devices, with an hccn_tool that keeps its state in files."""

import os
import time
from pathlib import Path

import pytest

from tests.lab.local_host import LocalHost, change, script, states

pytestmark = pytest.mark.lab

HCCN_TOOL = r"""
cd {state}
echo "$*" >>calls
busy=$(cat busy)
if [ $busy -gt 0 ]; then echo $((busy - 1)) >busy; echo "hccn_tool is busy, please try again."; exit 11; fi
case "$3 $4" in
"-ip -g") [ -s ip ] && cat ip || {{ echo "Get ipconf failed, because no ip was preset there!" >&2; exit 13; }};;
"-ip -s") if [ -e conflict ]; then echo "The ip address configured is conflicted!" >&2; exit 7; fi
          [ -e deaf ] || printf 'ipaddr:%s\nnetmask:%s\n' "$6" "$8" >ip; echo "Cmd executed successfully!";;
"-gateway -g") [ -s gateway ] && echo "default gateway:$(cat gateway), Iface:eth0" ||
          {{ echo "Get gateway failed, because no gateway was preset there!" >&2; exit 2; }};;
"-gateway -s") echo "$6" >gateway; echo "Cmd executed successfully!";;
"-netdetect -g") echo "netdetect addr: $(cat detect 2>/dev/null || echo 0.0.0.0)";;
"-netdetect -s") echo "$6" >detect; echo "Cmd executed successfully!";;
*) echo "Get invalid major cmd." >&2; exit 3;;
esac
"""


@pytest.fixture
def devices(host: LocalHost, tmp_path: Path) -> Path:
    """The directory of the stand-in's state; the stand-in is on the host's PATH."""
    state = tmp_path / "device"
    state.mkdir()
    (state / "busy").write_text("0")
    tools = tmp_path / "bin"
    tools.mkdir()
    script(tools / "hccn_tool", HCCN_TOOL.format(state=state))
    host.path = f"{tools}:{host.path}"
    return state


def test_address_gateway_and_detect_address_are_set_and_read_back(host: LocalHost, devices: Path) -> None:
    answer = host.apply(
        change("device-address", 0, None, "10.0.0.1/23"),
        change("device-gateway", 0, None, "10.0.0.254"),
        change("device-detect", 0, None, "10.0.0.254"),
    )
    assert states(answer) == ["done", "done", "done"]
    assert "-i 0 -ip -s address 10.0.0.1 netmask 255.255.254.0\n" in (devices / "calls").read_text()


def test_a_busy_tool_is_asked_again(host: LocalHost, devices: Path) -> None:
    (devices / "busy").write_text("3")
    assert states(host.apply(change("device-address", 0, None, "10.0.0.1/24"))) == ["done"]


def test_a_refused_address_fails_in_the_tools_words_and_stops_the_host(host: LocalHost, devices: Path) -> None:
    (devices / "conflict").touch()
    answer = host.apply(
        change("device-address", 0, None, "10.0.0.1/24"), change("device-gateway", 0, None, "10.0.0.254")
    )
    assert states(answer) == ["failed", "not-run"]
    assert "The ip address configured is conflicted!" in answer["results"][0]["message"]


def test_an_address_that_does_not_stick_is_called_so(host: LocalHost, devices: Path) -> None:
    (devices / "deaf").touch()
    answer = host.apply(change("device-address", 0, None, "10.0.0.1/24"))
    assert states(answer) == ["did-not-stick"]
    assert answer["results"][0]["found"] is None


def test_a_device_with_another_address_than_expected_is_left_alone(host: LocalHost, devices: Path) -> None:
    (devices / "ip").write_text("ipaddr:10.9.9.9\nnetmask:255.255.0.0\n")
    answer = host.apply(change("device-address", 0, None, "10.0.0.1/24"))
    assert states(answer) == ["moved"]
    assert answer["results"][0]["found"] == "10.9.9.9/16"


def test_no_change_is_begun_when_nobody_waits_for_it_any_more(host: LocalHost, devices: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "hangs"
    os.mkfifo(fifo)
    real = (tmp_path / "bin/hccn_tool").rename(tmp_path / "bin/real")
    waits = f'case "$*" in *address*) touch {tmp_path}/waiting; cat {fifo};; esac'
    script(tmp_path / "bin/hccn_tool", f'{waits}; exec {real} "$@"')
    changes = [change("device-address", 0, None, "10.0.0.1/24"), change("device-gateway", 0, None, "10.0.0.254")]
    process = host.start({"action": "apply", "run": "r1", "seconds": 1, "plain": changes})
    while not (tmp_path / "waiting").exists():
        time.sleep(0.05)
    assert process.stdout
    process.stdout.close()
    fifo.write_text("")
    process.wait(timeout=10)
    assert [event["event"] for event in host.events()] == ["start", "begin", "end", "abandoned", "finish"]
    assert host.events()[2]["state"] == "done"
    assert not (devices / "gateway").exists()


def test_unsetting_an_address_says_that_no_command_does_it(host: LocalHost, devices: Path) -> None:
    (devices / "ip").write_text("ipaddr:10.0.0.1\nnetmask:255.255.255.0\n")
    answer = host.apply(change("device-address", 0, "10.0.0.1/24", None))
    assert states(answer) == ["failed"]
    assert "hccn_tool cannot remove the ip. Device 0 keeps this setting" in answer["results"][0]["message"]
