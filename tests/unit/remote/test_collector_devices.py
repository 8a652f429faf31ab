"""The collector and the devices: busy ones, those that are just being restored, pings, whose processes there are."""

import os
import pwd
from pathlib import Path
from typing import Any

from tests.unit.collector import answer, tool


def test_a_device_that_is_busy_is_asked_again_until_it_answers(tmp_path: Path) -> None:
    script = f"""cd {tmp_path}
n=$(cat count-$2 2>/dev/null || echo 0); echo $((n + 1)) > count-$2
[ "$n" -ge 2 ] && {{ echo "link status: UP"; exit; }}
echo "hccn_tool is busy, please try again."; exit 11
"""
    path = tool(tmp_path, "hccn_tool", script)
    found = answer("hccn", path=path, devices=[0, 1], readings=[["link", "-g"]])["hccn"]["value"]
    assert {device: readings["link"]["out"] for device, readings in found.items()} == {
        "0": "link status: UP\n",
        "1": "link status: UP\n",
    }


def test_a_device_that_stays_busy_says_so_at_the_deadline(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", 'echo "hccn_tool is busy, please try again."; exit 11\n')
    found = answer("hccn", path=path, devices=[0], readings=[["link", "-g"]], deadline=0.4)["hccn"]["value"]
    assert found["0"]["link"]["out"] == "hccn_tool is busy, please try again.\n"


def test_a_device_that_hangs_leaves_the_readings_of_the_others(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", '[ "$2" = 0 ] && sleep 60\necho "link status: UP"\n')
    found = answer("hccn", path=path, devices=[0, 1], readings=[["link", "-g"]], deadline=0.5)["hccn"]["value"]
    assert found["0"]["link"]["trouble"] == "hccn_tool -i 0 -link did not finish in time"
    assert found["1"]["link"]["out"] == "link status: UP\n"


def counted(directory: Path, first: int, passing: str, then: str) -> str:
    """A tool that answers a device's first calls with `passing`, and what comes after with `then`."""
    script = f"""cd {directory}
n=$(cat count-$2-$3 2>/dev/null || echo 0); echo $((n + 1)) > count-$2-$3
case $3 in -netdetect) echo "netdetect addr: $(cat detect 2>/dev/null || echo 0.0.0.0)"; exit;; esac
[ "$n" -lt {first} ] && echo "{passing}" || echo "{then}"
"""
    return tool(directory, "hccn_tool", script)


PROBING: dict[str, Any] = {"devices": [0], "readings": [["netdetect", "-g"], ["net_health", "-g"]]}


def test_a_device_whose_settings_are_being_restored_is_waited_for(tmp_path: Path) -> None:
    path = counted(tmp_path, 2, "config status:START", "config status:SUCCESS")
    found = answer("hccn", path=path, devices=[0, 1], readings=[["cfg", "status"]])["hccn"]["value"]
    assert {reading["cfg"]["out"] for reading in found.values()} == {"config status:SUCCESS\n"}


def test_a_device_that_is_restored_for_ever_says_so(tmp_path: Path) -> None:
    path = counted(tmp_path, 99, "config status:START", "")
    found = answer("hccn", path=path, devices=[0], readings=[["cfg", "status"]], deadline=1.0)["hccn"]["value"]
    assert found["0"]["cfg"]["out"] == "config status:START\n"


def test_a_probe_that_has_only_begun_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "detect").write_text("10.0.0.1")
    path = counted(tmp_path, 2, "net health status: Init", "net health status: Success")
    found = answer("hccn", path=path, **PROBING)["hccn"]["value"]
    assert found["0"]["net_health"]["out"] == "net health status: Success\n"


def test_a_probe_that_has_nothing_to_ask_is_not_waited_for(tmp_path: Path) -> None:
    path = counted(tmp_path, 1, "net health status: Init", "net health status: Success")
    found = answer("hccn", path=path, **PROBING)["hccn"]["value"]
    assert found["0"]["net_health"]["out"] == "net health status: Init\n"


def test_whose_processes_npu_smi_shows_is_looked_up(tmp_path: Path) -> None:
    mine = os.getpid()
    rows = f"| NPU     Chip              | Process id    |\n| 3       0                 | {mine}         | python |\n"
    path = tool(tmp_path, "npu-smi", f"cat <<'EOF'\n| 910B3 | OK |\n{rows}| 4       0   | 999999999  | gone |\nEOF\n")
    found = answer("npu_smi", path=path)["npu_smi"]["value"]
    assert found["users"] == {str(mine): pwd.getpwuid(os.getuid()).pw_name}


def to(address: str) -> list[str]:
    return ["-ping", "-g", "address", address]


def test_pings_of_a_device_go_one_after_the_other(tmp_path: Path) -> None:
    script = f"""cd {tmp_path}
mkdir lock-$2 || {{ echo overlap >> overlaps; exit 1; }}
echo "device $2 PING $6"; sleep 0.05; rmdir lock-$2
"""
    path = tool(tmp_path, "hccn_tool", script)
    targets = [[0, to("10.0.0.1")], [0, to("10.0.0.2")], [1, to("10.0.0.1")]]
    found = answer("pings", path=path, pings=targets, ping_seconds=5)["pings"]["value"]
    assert not (tmp_path / "overlaps").exists()
    assert [it["out"] for it in found["0"]] == ["device 0 PING 10.0.0.1\n", "device 0 PING 10.0.0.2\n"]
    assert len(found["1"]) == 1


def test_a_device_whose_pings_hang_is_left_after_two_in_a_row(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", 'echo "device $2 PING $6"; [ $2 = 0 ] || [ $6 = 10.0.0.0 ] || exec sleep 60\n')
    targets = [[device, to(f"10.0.0.{n}")] for device in (0, 1) for n in range(5)]
    found = answer("pings", path=path, pings=targets, ping_seconds=0.5)["pings"]["value"]
    assert [it["out"] for it in found["0"]] == [f"device 0 PING 10.0.0.{n}\n" for n in range(5)]
    assert [it.get("trouble", "") for it in found["1"]] == [
        "",
        *["hccn_tool -i 1 -ping did not finish in time"] * 2,
        *["not tried, because the previous pings did not finish"] * 2,
    ]
