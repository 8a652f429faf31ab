"""The collector in depth: every query of hccn_tool and npu-smi, the PCI bus, what is only kept for `capture`."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.collector import answer, job, section, tool


def test_deep_queries_are_asked_as_far_as_the_tool_lists_them(tmp_path: Path) -> None:
    script = """case $1 in -h) printf 'hccn_tool -i devid -link\n   [-g]\nhccn_tool -i devid -fec\n'; exit;; esac
echo "$3 $4"
"""
    path = tool(tmp_path, "hccn_tool", script)
    found = answer("hccn", path=path, devices=[0], readings=[["mtu", "-g"]], deep_readings=["fec", "pfc", "link_stat"])
    readings = found["hccn"]["value"]["0"]
    assert {name: said["out"] for name, said in readings.items()} == {"mtu": "-mtu -g\n", "fec": "-fec -g\n"}


def test_a_tool_whose_help_lists_nothing_is_asked_everything(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", 'case $1 in -h) echo "usage: see the manual"; exit 1;; esac; echo "$3"\n')
    found = answer("hccn", path=path, devices=[0], readings=[], deep_readings=["fec", "pfc"])["hccn"]["value"]["0"]
    assert {name: said["out"] for name, said in found.items()} == {"fec": "-fec\n", "pfc": "-pfc\n"}


def test_a_deep_query_that_hangs_leaves_the_basic_ones_and_the_other_devices(tmp_path: Path) -> None:
    path = tool(tmp_path, "hccn_tool", '[ "$2$3" = 0-fec ] && sleep 60\necho "$3"\n')
    found = answer("hccn", path=path, devices=[0, 1], readings=[["mtu", "-g"]], deep_readings=["fec", "pfc"],
                   deadline=0.7)["hccn"]["value"]  # fmt: skip
    assert found["0"]["mtu"]["out"] == "-mtu\n"
    assert found["0"]["fec"]["trouble"] == "hccn_tool -i 0 -fec did not finish in time"
    assert {name: said["out"] for name, said in found["1"].items()} == {
        "mtu": "-mtu\n",
        "fec": "-fec\n",
        "pfc": "-pfc\n",
    }


MAPPING = """printf '\tNPU ID   Chip ID   Chip Logic ID   Chip Name\n'
printf '\t1   0   0   Ascend910\n\t1   1   1   Ascend910\n\t1   2   -   Mcu\n\t2   0   2   Ascend910\n'"""


def test_every_chip_and_card_is_asked_by_npu_smi_s_own_numbers(tmp_path: Path) -> None:
    path = tool(tmp_path, "npu-smi", f'[ "$2" = -m ] && {{ {MAPPING}; exit; }}\necho "$@"; exit 3\n')
    found = answer("chips", path=path, chip_queries=["health"])["chips"]["value"]
    chips = ["-i 1 -c 0", "-i 1 -c 1", "-i 2 -c 0"]
    assert {query: (said["out"], said["code"]) for query, said in found["queries"].items()} == {
        query: (f"info -t {query}\n", 3)
        for query in ["topo", "board -i 1", "board -i 2", *(f"health {chip}" for chip in chips)]
    }


def test_chips_of_950_are_asked_by_their_npu_and_chip_and_not_by_their_slot(tmp_path: Path) -> None:
    header = "NPU ID          Slot ID          Chip ID          Chip Phy-ID          Chip Name    "
    row = "3               6                0                7                    Ascend950PR"
    path = tool(tmp_path, "npu-smi", f'[ "$2" = -m ] && {{ echo "{header}"; echo "{row}"; exit; }}\necho "$@"\n')
    found = answer("chips", path=path, chip_queries=["health"])["chips"]["value"]
    assert set(found["queries"]) == {"topo", "board -i 3", "health -i 3 -c 0"}


def test_a_query_of_npu_smi_that_hangs_or_floods_leaves_the_others(tmp_path: Path) -> None:
    script = f"""[ "$2" = -m ] && {{ {MAPPING}; exit; }}
[ "$3$5$7" = health10 ] && sleep 60
[ "$3$5$7" = health11 ] && yes
echo fine
"""
    found = answer("chips", path=tool(tmp_path, "npu-smi", script), chip_queries=["health"], deadline=2.0)
    said = found["chips"]["value"]["queries"]
    assert said["health -i 1 -c 0"]["trouble"] == "npu-smi info -t health did not finish in time"
    assert said["health -i 1 -c 1"]["trouble"] == "npu-smi printed more than 32 KiB"
    assert {said[query]["out"] for query in ("topo", "board -i 1", "board -i 2", "health -i 2 -c 0")} == {"fine\n"}


def test_a_tool_that_prints_blank_lines_stops_nothing(tmp_path: Path) -> None:
    path = tool(tmp_path, "npu-smi", "yes '' | head -c 32000\n")
    found = answer("chips", "npu_smi", "extras", "os", path=path, devices=[], chip_queries=["health"])
    assert "no result within" not in str({name: section.get("error", "") for name, section in found.items()})
    assert found["chips"]["value"]["mapping"]["out"].isspace()
    assert set(found["chips"]["value"]["queries"]) == {"topo"}


def test_a_tool_that_is_a_directory_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "npu-smi").mkdir()
    (tmp_path / "hccn_tool").mkdir()
    found = answer("chips", "hccn", path=str(tmp_path), devices=[0], readings=[], chip_queries=[])
    assert found["chips"] == {"error": "npu-smi is not installed, or not on PATH"}
    assert found["hccn"] == {"error": "hccn_tool is not installed, or not on PATH"}


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[str], str]:
    """An edit that makes the collector look below a directory, with two accelerators on its PCI bus."""
    for bus, vendor, kind in (("0000:3d:00.0", "0x19e5", "0x120000"), ("0000:3e:00.0", "0x8086", "0x120000"),
                              ("0000:3f:00.0", "0x19e5", "0x020000")):  # fmt: skip
        place = tmp_path / "sys/bus/pci/devices" / bus
        place.mkdir(parents=True)
        for name, text in (("vendor", vendor), ("class", kind), ("device", "0xd802")):
            (place / name).write_text(text + "\n", encoding="ascii")
    (tmp_path / "dev").mkdir()
    for name in ("davinci10", "davinci2", "davinci_x", "null0"):
        (tmp_path / "dev" / name).write_text("")
    (tmp_path / "dev/hisi_hdc").symlink_to("/dev/null")
    return lambda text: text.replace('"/sys/', f'"{tmp_path}/sys/').replace('"/dev', f'"{tmp_path}/dev')


def test_device_nodes_and_the_pci_bus_are_seen_without_lspci(machine: Callable[[str], str], tmp_path: Path) -> None:
    look = section("devices", "device_nodes", lambda text: machine(text).replace('find("lspci")', "None"))
    found = look({}, time.monotonic() + 5)
    assert found["pci"] == [["0000:3d:00.0", "d802"]]
    assert [(node["path"].removeprefix(str(tmp_path)), node["device"]) for node in found["nodes"]] == [
        ("/dev/davinci2", False),
        ("/dev/davinci10", False),
        ("/dev/hisi_hdc", True),
    ]
    null = Path("/dev/null").stat()
    assert (found["nodes"][2]["mode"], found["nodes"][2]["user"]) == (null.st_mode & 0o7777, "root")


def test_a_basic_query_that_hangs_costs_its_own_time_and_says_which_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tool(tmp_path, "hccn_tool", '[ "$2$3" = 0-link ] && exec sleep 60\necho "$3"\n')
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    look = section("hccn", "hccn", lambda text: text.replace("QUERY_SECONDS = 10", "QUERY_SECONDS = 0.5"))
    request = {"devices": [0, 1], "readings": [["cfg", "status"], ["link", "-g"], ["mtu", "-g"]]}
    found = look(request, time.monotonic() + 30)
    assert found["0"]["link"]["trouble"] == "hccn_tool -i 0 -link did not finish in time"
    assert (found["0"]["cfg"]["out"], found["0"]["mtu"]["out"]) == ("-cfg\n", "-mtu\n")
    assert {name: said["out"] for name, said in found["1"].items()} == {
        "cfg": "-cfg\n",
        "link": "-link\n",
        "mtu": "-mtu\n",
    }


def test_what_is_asked_where_jobs_run_is_not_shown_when_it_hangs() -> None:
    wrapped = job("python3", "sh", "-c", "export DB_PASS=hunter2; sleep 60", elsewhere=True)
    found = answer("job", job=wrapped, deadline=0.5)["job"]["error"]
    assert found == "python3, where the jobs run, did not finish in time"


def test_a_mapping_that_hangs_leaves_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tool(tmp_path, "npu-smi", '[ "$2" = -m ] && exec sleep 60\necho "$@"\n')
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    look = section("npu_smi", "npu_smi", lambda text: text.replace("QUERY_SECONDS = 10", "QUERY_SECONDS = 0.5"))
    found = look({}, time.monotonic() + 30)
    assert found["info"]["out"] == "info\n"
    assert found["mapping"]["trouble"] == "npu-smi info -m did not finish in time"
    look = section("npu_smi", "chips", lambda text: text.replace("QUERY_SECONDS = 10", "QUERY_SECONDS = 0.5"))
    found = look({"chip_queries": ["health"]}, time.monotonic() + 30)
    assert found["queries"]["topo"]["out"] == "info -t topo\n"


def test_lspci_that_hangs_and_a_directory_for_a_file_leave_the_nodes_and_the_versions(
    machine: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tool(tmp_path, "lspci", "exec sleep 60\n")
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    (tmp_path / "install").mkdir()
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver/version.info").write_text("Version=25.0.rc1\n", encoding="ascii")

    def edit(text: str) -> str:
        text = machine(text).replace("LSPCI_SECONDS = 5", "LSPCI_SECONDS = 0.5")
        return text.replace("/etc/ascend_install.info", f"{tmp_path}/install").replace(
            "/usr/local/Ascend", str(tmp_path)
        )

    found = section("devices", "device_nodes", edit)({}, time.monotonic() + 30)
    assert len(found["nodes"]) == 3
    assert found["pci"] == [["0000:3d:00.0", "d802"]]
    assert found["lspci"]["trouble"] == "lspci -D -nn -d 19e5: did not finish in time"
    assert (found["install"], found["install_trouble"]) == (None, f"{tmp_path}/install cannot be read: Is a directory")
    assert section("devices", "driver", edit)({}, time.monotonic() + 30)["driver"] == "Version=25.0.rc1\n"


def test_what_is_only_kept_is_asked_when_the_devices_are_done_and_again_where_the_tool_is_busy(tmp_path: Path) -> None:
    script = f"""cd {tmp_path}
case $1 in -h) printf 'hccn_tool -i devid -link\nhccn_tool -i devid -status\nhccn_tool -i devid -prio_tc\n'; exit;; esac
mkdir user 2>/dev/null || {{ echo two at once >>overlaps; exit 1; }}
sleep 0.1; rmdir user
[ $3 = -status ] && [ ! -e asked ] && {{ touch asked; echo "hccn_tool is busy, please try again."; exit 11; }}
echo "$3"
"""
    path = tool(tmp_path, "hccn_tool", script)
    found = answer("extras", "hccn", path=path, devices=[0], readings=[["link", "-g"], ["mtu", "-g"]])
    assert {name: said["out"] for name, said in found["hccn"]["value"]["0"].items()} == {
        "link": "-link\n",
        "mtu": "-mtu\n",
    }
    kept = {line: said["out"] for line, said in found["extras"]["value"].items() if " -i " in line}
    assert kept == {"hccn_tool -i 0 -status -g": "-status\n", "hccn_tool -i 0 -prio_tc -g": "-prio_tc\n"}
    assert not (tmp_path / "overlaps").exists()


def test_what_is_only_kept_is_asked_of_the_first_device_and_chip_and_missing_tools_leave_nothing(
    tmp_path: Path,
) -> None:
    help_ = 'case $1 in -h) printf "hccn_tool -i devid -status\\n  [-g]\\n"; exit;; esac; echo "$@"\n'
    tool(tmp_path, "hccn_tool", help_)
    found = answer("extras", path=str(tmp_path), devices=[4, 5])["extras"]["value"]
    assert found["hccn_tool -i 4 -status -g"]["out"] == "-i 4 -status -g\n"
    assert {line for line in found if line.startswith("hccn_tool")} == {"hccn_tool -h", "hccn_tool -i 4 -status -g"}
    tool(tmp_path, "npu-smi", f'[ "$2" = -m ] && {{ {MAPPING}; exit; }}\necho "$@"\n')
    found = answer("extras", path=str(tmp_path), devices=[4, 5])["extras"]["value"]
    assert found["npu-smi info -t ecc -i 1 -c 0"]["out"] == "info -t ecc -i 1 -c 0\n"
    assert "npu-smi info -h" in found
