"""The stand-in tools against what is known of the real ones: the shape of their output, what the parsers make of it.

`tests/cases/stand_ins.json` has the shapes of real captures (tests/lab/shapes.py says what a shape is), and for each
the command and the product whose stand-in has to print all of it. `part`: the capture has more than the stand-in, such
as what a switch's vendor says of itself.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from preflight.facts.refusal import refused
from tests.lab.conftest import LabHandle, MakeLab, preflight
from tests.lab.shapes import shape

SHAPES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "cases" / "stand_ins.json").read_text())
PRODUCTS = ("atlas-a1", "atlas-a2", "atlas-a3")
LabOf = Callable[[str], LabHandle]


@pytest.fixture(scope="module")
def lab_of(make_lab: MakeLab) -> LabOf:
    """A configured host of a product with four devices."""
    labs: dict[str, LabHandle] = {}

    def get(product: str) -> LabHandle:
        if product not in labs:
            lab = labs[product] = make_lab(hosts=1, devices=4, product=product, firewall="none")
            assert preflight("configure", "--inventory", lab.inventory, "-y").returncode == 0
        return labs[product]

    return get


def on(lab: LabHandle, command: str) -> "subprocess.CompletedProcess[str]":
    return lab.ssh("node01", command)


def said(lab: LabHandle, command: str) -> str:
    return on(lab, command).stdout


# ---- shapes

# Device 1 has lost its link and come back, and has talked; device 2 has neither address nor gateway.
STORY = "hccn_tool -i 1 -ping -g address {gateway}; nsenter --net=/run/preflight-lab/device/2 ip addr flush dev eth2"


@pytest.fixture(scope="module")
def told(lab_of: LabOf) -> LabOf:
    """The same hosts, after a link flapped, devices talked, and one lost its address."""
    done = set()

    def get(product: str) -> LabHandle:
        lab = lab_of(product)
        if product not in done:
            done.add(product)
            lab.lab("break", "link-flap", "--device", "1")
            gateway = "192.168.101.1" if product == "atlas-a1" else "192.168.100.1"
            on(lab, STORY.format(gateway=gateway))
        return lab

    return get


@pytest.mark.lab
@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry["capture"]) for entry in SHAPES])
def test_a_stand_in_prints_all_that_the_real_tool_has_printed(told: LabOf, entry: dict[str, Any]) -> None:
    done = on(told(entry["product"]), entry["command"])
    printed = shape(done.stdout + done.stderr)
    assert [line for line in entry["shape"] if line not in printed] == []
    assert printed or not entry["shape"]


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry["capture"]) for entry in SHAPES])
def test_the_shapes_are_those_of_the_captures(request: pytest.FixtureRequest, entry: dict[str, Any]) -> None:
    directory: Path | None = request.config.getoption("--captures")
    if directory is None:
        pytest.skip("not run: captures of real tools are not in this repository; give them with --captures DIR")
    text = (directory / entry["capture"]).read_text()
    real = shape("".join(f"{line}\n" for line in text.split("\n") if not line.startswith("#")))
    assert [line for line in real if line in entry["shape"]] == entry["shape"]
    assert entry.get("part") or real == entry["shape"]


# ---- through the parsers


def facts(lab: LabHandle) -> dict[str, Any]:
    document = json.loads(preflight("facts", "--inventory", lab.inventory, "-o", "json").stdout)
    host: dict[str, Any] = document["hosts"]["node01"]
    return host


def errors(node: Any, path: str = "") -> Iterator[str]:
    """Every reading that ended in an error; what a product does not have is none."""
    if isinstance(node, dict):
        if node.get("error") and not refused(node["error"]):
            yield f"{path}: {node['error']}"
        for key, value in node.items():
            yield from errors(value, f"{path}/{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from errors(value, f"{path}/{index}")


@pytest.mark.lab
@pytest.mark.parametrize(
    ("product", "wanted"),
    [
        ("atlas-a1", {"speed": 100000, "downs": None, "vnic": False, "superpod": None, "hccs": False, "pci": "d801"}),
        ("atlas-a2", {"speed": 200000, "downs": 0, "vnic": False, "superpod": None, "hccs": True, "pci": "d802"}),
        ("atlas-a3", {"speed": 200000, "downs": 0, "vnic": True, "superpod": 1, "hccs": True, "pci": "d803"}),
    ],
)
def test_the_parsers_read_all_of_it(lab_of: LabOf, product: str, wanted: dict[str, Any]) -> None:
    lab = lab_of(product)
    on(lab, "hccn_tool -i 3 -link_stat -c")
    host = facts(lab)
    told = {name: host[name] for name in ("hccn", "nic", "chips", "npu_smi", "device_nodes")}
    assert [error for error in errors(told) if "/superpod: npu-smi was not queried" not in error] == []
    device, chip = told["nic"]["value"]["devices"][3], told["chips"]["value"]["chips"][3]
    found = {
        "speed": device["speed"]["value"],
        "downs": device["history"]["value"]["downs"],
        "vnic": device["vnic"]["value"] is not None,
        "superpod": chip["superpod"]["value"] and chip["superpod"]["value"]["server"],
        "hccs": chip["hccs"]["value"] is not None,
        "pci": told["device_nodes"]["value"]["accelerators"]["value"][3]["device"],
    }
    assert found == wanted


# ---- what moves


@pytest.mark.lab
def test_a_link_that_flaps_by_hand_is_remembered_though_nobody_asks(lab_of: LabOf) -> None:
    lab = lab_of("atlas-a2")
    on(lab, "hccn_tool -i 3 -link_stat -c")
    assert said(lab, "hccn_tool -i 3 -link_stat -g").splitlines()[1:] == [
        "[devid 3]link up count       : 0", "[devid 3]link down count     : 0", "[devid 3]link change records : NA",
    ]  # fmt: skip
    device = lab.status["hosts"][0]["devices"][3]
    for state in ("down", "up"):
        change = ["ip", "-n", device["fabric_netns"], "link", "set", device["fabric_interface"], state]
        subprocess.run(change, check=True)
        # It is written down though nobody asks.
        noted = f"until grep -q ' {state.upper()}$' /run/preflight-lab/link/3; do sleep 0.1; done"
        assert on(lab, f'timeout 20 sh -c "{noted}"').returncode == 0
    after = said(lab, "hccn_tool -i 3 -link_stat -g").splitlines()
    assert after[1:4] == [
        "[devid 3]link up count       : 1", "[devid 3]link down count     : 1", "[devid 3]link change records :",
    ]  # fmt: skip
    assert [line.split()[-1] for line in after[4:]] == ["UP", "DOWN"]


@pytest.mark.lab
def test_changes_that_are_quicker_than_the_kernel_tells_are_counted(lab_of: LabOf) -> None:
    lab = lab_of("atlas-a2")
    device = lab.status["hosts"][0]["devices"][3]
    on(lab, "hccn_tool -i 3 -link_stat -c")
    lines = f"link set {device['fabric_interface']} down\nlink set {device['fabric_interface']} up\n" * 5
    subprocess.run(["ip", "-n", device["fabric_netns"], "-batch", "-"], input=lines, text=True, check=True)
    assert "link down count     : 5" in said(lab, "hccn_tool -i 3 -link_stat -g")


@pytest.mark.lab
def test_a_call_takes_as_long_as_was_set(lab_of: LabOf) -> None:
    lab = lab_of("atlas-a2")
    tools = ("hccn_tool -i 0 -link -g", "npu-smi info -l", "lspci")
    clock = "; ".join(f"s=$(date +%s%N); {tool} >/dev/null; echo $(($(date +%s%N) - s))" for tool in tools)
    lab.lab("set", "call-ms", "300")
    try:
        assert all(int(taken) >= 300_000_000 for taken in said(lab, clock).split())
    finally:
        lab.lab("set", "call-ms", "0")


@pytest.mark.lab
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("call-ms", "60001", "call-ms must be a number from 0 to 60000, not '60001'."),
        ("linger-s", "soon", "linger-s must be a number from 0 to 600, not 'soon'."),
        ("mood", "1", "there is no setting 'mood'. The settings are call-ms, linger-s."),
    ],
)
def test_a_setting_that_cannot_be_is_refused(lab_of: LabOf, name: str, value: str, said: str) -> None:
    done = lab_of("atlas-a2").lab("set", name, value, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, f"preflight: {said}")


@pytest.mark.lab
def test_the_ids_of_cards_need_not_be_those_of_devices(lab_of: LabOf) -> None:
    """10, 12, 14 and 16 on some Atlas 800I A2."""
    lab = lab_of("atlas-a2")
    states = "; ".join(f"echo npu={10 + 2 * n} >>/run/preflight-lab/state/{n}" for n in range(4))
    on(lab, states)
    try:
        assert "| 16    910B3" in said(lab, "npu-smi info")
        chips = facts(lab)["chips"]["value"]["chips"]
        assert [(chip["device"], chip["npu"]) for chip in chips] == [(0, 10), (1, 12), (2, 14), (3, 16)]
    finally:
        on(lab, "sed -i /^npu=/d /run/preflight-lab/state/?")


# ---- what a product refuses


@pytest.mark.lab
@pytest.mark.parametrize(
    ("product", "command", "stdout", "stderr", "code"),
    [
        ("atlas-a1", "-vnic -g", "The command is not supported on this product.\n", "", 13),
        ("atlas-a2", "-hccs_ping -g address 192.1.2.199", "The command is not supported on this product.\n", "", 13),
        ("atlas-a2", "-fec -s encoding no", "The command is not supported on this product.\n", "", 13),
        ("atlas-a1", "-fec -s encoding no", "Cmd executed successfully!\n", "", 0),
        ("atlas-a1", "-fec -g", "fec mode: no FEC mode\n", "", 0),
        ("atlas-a1", "-fec -s encoding rs", "Cmd executed successfully!\n", "", 0),
        (
            "atlas-a2",
            "-pfc -s bitmap 1,1,1,1,1,0,0,0",
            "The number of pfc priority queues exceeds the maximum value(4).\n",
            "",
            25,
        ),
        ("atlas-a2", "-dscp_to_tc -s dscp 64 tc 1", "", "The value of dscp you input is out of the valid range!\n", 9),
    ],
)
def test_what_a_product_does_not_have_is_refused_in_its_words(
    lab_of: LabOf, product: str, command: str, stdout: str, stderr: str, code: int
) -> None:
    done = on(lab_of(product), f"hccn_tool -i 3 {command}")
    assert (done.stdout, done.stderr, done.returncode) == (stdout, stderr, code)


@pytest.mark.lab
def test_a_server_of_a_superpod_tells_no_optics(lab_of: LabOf) -> None:
    lab = lab_of("atlas-a3")
    on(lab, "echo superpod >/run/preflight-lab/mode")
    done = on(lab, "hccn_tool -i 0 -optical -g; rm /run/preflight-lab/mode")
    assert done.stdout == "The command is not supported on this product.\n"


@pytest.mark.lab
def test_the_dies_of_a_chip_reach_each_other_over_hccs_only(lab_of: LabOf) -> None:
    lab = lab_of("atlas-a3")
    address = said(lab, "hccn_tool -i 1 -ip -g").split()[0].removeprefix("ipaddr:")
    assert "0 received, 100.00% packet loss" in said(lab, f"hccn_tool -i 0 -ping -g address {address}")
    assert "3 received, 0.00% packet loss" in said(lab, f"hccn_tool -i 3 -ping -g address {address}")
    vnic = said(lab, "hccn_tool -i 1 -vnic -g").split("ipaddr: ")[1].split()[0]
    over_hccs = f"hccn_tool -i 0 -hccs_ping -g address {vnic} cnt 2"
    assert "2 received, 0.00% packets loss" in said(lab, over_hccs)
    on(lab, "nsenter --net=/run/preflight-lab/device/1 ip link set hccs0 down")
    lost = on(lab, over_hccs)
    on(lab, "nsenter --net=/run/preflight-lab/device/1 ip link set hccs0 up")
    assert (lost.returncode, lost.stdout.count("This pkt check recv msg fail!")) == (0, 2)
    assert "0 received, 100.00% packets loss" in lost.stdout


@pytest.mark.lab
def test_without_a_link_no_light_arrives(lab_of: LabOf) -> None:
    lab = lab_of("atlas-a2")
    lab.lab("break", "link-down", "--device", "2")
    dark = said(lab, "hccn_tool -i 2 -optical -g")
    lab.lab("fix", "link-down")
    assert "Rx Power0            : 0.0000 mW" in dark
    assert "Rx Los Flag          : 0xf" in dark
    assert "Tx Power0            : 1.3968 mW" in dark
    assert "Rx Los Flag          : 0x0" in said(lab, "hccn_tool -i 2 -optical -g")


@pytest.mark.lab
def test_a_ping_of_more_than_the_mtu_is_not_cut(lab_of: LabOf) -> None:
    lab = lab_of("atlas-a2")
    done = on(lab, "hccn_tool -i 3 -ping -g address 192.168.100.1 pkt 1473")
    assert done.stdout.splitlines()[1] == "Message too long"
    assert done.returncode == 1
    assert "3 received" in said(lab, "hccn_tool -i 3 -ping -g address 192.168.100.1 pkt 1472")
