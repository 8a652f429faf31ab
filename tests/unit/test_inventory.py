"""Cases are data: tests/cases/inventory/NAME.toml with the lines it is to be refused with in NAME.errors."""

import json
import subprocess
import sys
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

import pytest

from preflight.inventory import InventoryError, fold, limit, load
from preflight.inventory.hostset import expand
from preflight.inventory.locate import Lines
from preflight.model.cluster import Cluster, Fabric, Product
from preflight.model.errors import UsageError

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests/cases/inventory").glob("*.toml"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_broken_inventory_is_refused_with_every_error_and_its_line(case: Path) -> None:
    expected = case.with_suffix(".errors").read_text().splitlines()
    with pytest.raises(InventoryError) as refused:
        load(case)
    told = str(refused.value).replace(f"{case}:", "").splitlines()
    assert told[1:] == expected or told == expected
    assert refused.value.exit_code == 2


def test_there_are_cases() -> None:
    assert len(CASES) >= 12


def test_the_example_is_a_good_inventory() -> None:
    cluster = load(ROOT / "inventory.example.toml")
    assert len(cluster.hosts) == 17
    assert cluster.product is Product.ATLAS_A2
    first, last = cluster.hosts[0], cluster.hosts[-1]
    assert first.devices[0].address == IPv4Interface("10.8.0.11/16")
    assert last.devices[7].address == IPv4Interface("10.8.0.146/16")
    assert first.devices[3].detect == first.devices[3].gateway == IPv4Address("10.8.0.1")
    assert (last.nic, last.ssh.port, last.ssh.user) == ("bond0", 2222, "ops")
    assert str(cluster.ports) == "29400,29500,60000-60031"
    assert cluster.probe.step_deadline == 160


def test_two_servers_wired_by_fibre_detect_each_other() -> None:
    cluster = load(ROOT / "examples/two-servers-direct.toml")
    assert cluster.fabric is Fabric.DIRECT
    assert cluster.hosts[0].devices[4].address == IPv4Interface("192.168.100.100/24")
    assert cluster.hosts[0].devices[4].detect == IPv4Address("192.168.100.110")
    assert cluster.hosts[1].devices[4].detect == IPv4Address("192.168.100.100")
    assert all(device.gateway is None for host in cluster.hosts for device in host.devices)


def test_a_single_server_needs_no_addresses() -> None:
    cluster = load(ROOT / "examples/single-server.toml")
    (host,) = cluster.hosts
    assert (host.address, host.ssh.transport, len(host.devices)) == ("localhost", "local", 8)
    assert host.devices[0].address is None


def four_subnets(tmp_path: Path) -> Cluster:
    file = tmp_path / "hosts.toml"
    subnets = ", ".join(f'"10.0.{third}.0/24"' for third in range(4))
    file.write_text(
        '[cluster]\nname = "c"\nproduct = "atlas-a1"\n[ssh]\nkey = "keys/id"\n'
        f'[device_addresses]\nplan = "four-subnets"\nsubnets = [{subnets}]\nfirst = 11\n'
        '[[hosts]]\nname = "n[1-3]"\n'
    )
    return load(file)


def test_the_a1_rule_lets_devices_0_and_4_share_a_subnet(tmp_path: Path) -> None:
    hosts = four_subnets(tmp_path).hosts
    assert [str(device.address) for device in hosts[1].devices] == [
        *("10.0.0.13/24", "10.0.1.13/24", "10.0.2.13/24", "10.0.3.13/24"),
        *("10.0.0.14/24", "10.0.1.14/24", "10.0.2.14/24", "10.0.3.14/24"),
    ]


def test_relative_paths_start_at_the_inventory(tmp_path: Path) -> None:
    assert four_subnets(tmp_path).hosts[0].ssh.key == str(tmp_path / "keys/id")


def test_limit_takes_node_sets_in_inventory_order(tmp_path: Path) -> None:
    cluster = four_subnets(tmp_path)
    assert [host.name for host in limit(cluster, "n3,n[1-2]")] == ["n1", "n2", "n3"]
    with pytest.raises(UsageError, match=r"no host n4; it has n\[1-3\]"):
        limit(cluster, "n[3-4]")


def test_names_fold_into_ranges() -> None:
    assert fold(["node02", "node01", "node03"]) == "node[01-03]"
    assert fold(["localhost"]) == "localhost"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("node[3-1]", "goes down"),
        ("node[01-100]", "padded differently"),
        ("node[1-", "brackets"),
        ("node[1-99999999]", "more than"),
        ("a b", "no host name"),
        ("@group", "no host"),
        ("$(reboot)", "no host name"),
        ("-oProxyCommand=x", "no host name"),
        ("", "names no host"),
    ],
)
def test_what_is_no_host_set_is_refused_with_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        expand(text)


def test_keys_are_found_in_every_spelling_of_toml() -> None:
    text = 'a.b = 1\n[t]\n"x y" = """\nnot = 5\n"""\nlist = [\n  1,\n]\nafter = 2\n'
    text += "[[h]]\nn = 1\n[h.s]\np = 1\n[[h]]\nn = 2\ni = {q = 1}\n"
    lines = Lines(text)
    assert lines.of(("a", "b")) == 1
    assert lines.of(("t", "x y")) == 3
    assert lines.of(("t", "list", 0)) == 6
    assert lines.of(("t", "after")) == 9
    assert lines.of(("h", 0, "s", "p")) == 13
    assert lines.of(("h", 1, "n")) == 15
    assert lines.of(("h", 1, "i", "q")) == 16
    assert lines.of(("h", 1, "missing")) == 14
    assert lines.of(("t", "not")) == 2, "a line inside a string is no key"


def test_the_published_schema_is_that_of_the_code() -> None:
    """Regenerate with: python -m preflight.inventory > docs/inventory.schema.json"""
    fresh = subprocess.run([sys.executable, "-m", "preflight.inventory"], capture_output=True, text=True, check=True)
    assert json.loads((ROOT / "docs/inventory.schema.json").read_text()) == json.loads(fresh.stdout)
