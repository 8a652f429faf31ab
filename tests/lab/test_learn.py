"""`preflight learn` against configured lab hosts: what it writes is an inventory under which nothing is to do."""

import json
import subprocess
from pathlib import Path

import pytest

from preflight.inventory import load
from preflight.model.cluster import Product
from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab


def learn(*arguments: str | Path, **more: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return preflight("learn", *arguments, check=False, stdin=subprocess.DEVNULL, **more)


def to_do(inventory: Path) -> list[str]:
    done = preflight("configure-device-ips", "--inventory", inventory, "--dry-run", "-o", "json", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [f"{change['host']} {change['kind']} {change['target']}" for change in json.loads(done.stdout)["changes"]]


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=3, devices=8, firewall="none")
    assert preflight("configure", "--inventory", lab.inventory, "-y").returncode == 0
    return lab


def test_a_plan_is_recognised_and_everything_else_is_kept(lab: LabHandle, tmp_path: Path) -> None:
    learned = tmp_path / "learned.toml"
    done = learn("--inventory", lab.inventory, "-o", learned)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{learned}: addresses as plan four-subnets, by order, of 3 hosts",
        f"next: preflight configure --inventory {learned} --dry-run",
    ]
    assert load(learned) == load(lab.inventory), "also the keys, whose paths start elsewhere now"
    assert to_do(learned) == []


def from_names(lab: LabHandle, home: Path, count: int) -> tuple[list[str], dict[str, str]]:
    """The arguments that name the first `count` hosts of a lab, and an environment with the login in ~/.ssh."""
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/config").write_text(
        f"Host *\n  IdentityFile {lab.dir}/id_ed25519\n  UserKnownHostsFile {lab.dir}/known_hosts\n"
    )
    where = ",".join(lab.addresses[f"node{number:02}"] for number in range(1, count + 1))
    return ["--hosts", f"node[01-{count:02}]", "--address", where, "--user", "root"], {"HOME": str(home)}


def test_names_and_a_login_are_enough(lab: LabHandle, tmp_path: Path) -> None:
    arguments, env = from_names(lab, tmp_path / "home", 3)
    learned = lab.dir / "from-names.toml"
    done = learn(*arguments, "-o", learned, env=env)
    assert done.returncode == 0, done.stderr
    cluster, given = load(learned), load(lab.inventory)
    assert cluster.product is Product.ATLAS_A1, "the chips say so"
    assert [host.devices for host in cluster.hosts] == [host.devices for host in given.hosts]
    assert ([host.nic for host in cluster.hosts], cluster.cidrs) == ([host.nic for host in given.hosts], given.cidrs)
    assert cluster.ports == given.ports
    assert "next: " in done.stdout


def test_only_devices_that_are_there_are_asked_and_written_down(make_lab: MakeLab, tmp_path: Path) -> None:
    few = make_lab(hosts=2, devices=2, product="atlas-a2", firewall="none")
    assert preflight("configure", "--inventory", few.inventory, "-y").returncode == 0
    arguments, env = from_names(few, tmp_path / "home", 2)
    learned = tmp_path / "learned.toml"
    done = learn(*arguments, "-o", learned, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert [len(host.devices) for host in load(learned).hosts] == [2, 2]
    assert "! " not in learned.read_text()


def test_where_no_host_is_reached_nothing_is_written(lab: LabHandle, tmp_path: Path) -> None:
    nowhere = lab.dir / "all-away.toml"
    nowhere.write_text(
        '[cluster]\nname = "c"\nproduct = "atlas-a2"\n[ssh]\nport = 1\n[[hosts]]\nname = "a"\naddress = "127.0.0.1"\n'
    )
    done = learn("--inventory", nowhere, "-o", tmp_path / "learned.toml")
    assert done.returncode == 3
    assert "no host was reached, so nothing was learned" in done.stderr
    assert not (tmp_path / "learned.toml").exists()


def test_a_file_that_is_there_is_written_over_only_if_that_is_said(lab: LabHandle, tmp_path: Path) -> None:
    kept = tmp_path / "mine.toml"
    kept.write_text("mine")
    refused = learn("--inventory", lab.inventory, "-o", kept)
    assert (refused.returncode, kept.read_text()) == (2, "mine")
    assert "already exists. Choose another file, or overwrite it with --force." in refused.stderr
    assert learn("--inventory", lab.inventory, "-o", kept, "--force").returncode == 0
    assert load(kept).name == "lab"


def test_a_file_that_cannot_be_written_is_told(lab: LabHandle, tmp_path: Path) -> None:
    done = learn("--inventory", lab.inventory, "-o", tmp_path / "nowhere/learned.toml")
    assert done.returncode == 2
    assert f"cannot write in {tmp_path}/nowhere: No such file or directory" in done.stderr
    assert "no host was contacted" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(("--hosts", "n1", "--inventory", "x.toml"), "--hosts and --inventory cannot be combined"),
     (("--user", "root"), "need --hosts"),
     (("--hosts", "n[1-"), "the brackets do not match")],
)  # fmt: skip
def test_wrong_usage_contacts_nobody(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = learn(*arguments, "-o", tmp_path / "x")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "no host was contacted" in done.stderr


def test_a_host_that_is_away_is_named_and_the_others_are_learned(lab: LabHandle, tmp_path: Path) -> None:
    text = lab.inventory.read_text()
    broken = lab.dir / "one-away.toml"
    broken.write_text(text + '\n[[hosts]]\nname = "node04"\naddress = "127.0.0.1"\nssh = { port = 1 }\n')
    learned = tmp_path / "learned.toml"
    done = learn("--inventory", broken, "-o", learned)
    assert done.returncode == 3
    assert "by order, of 3 hosts. The comments at its top list 1 open point" in done.stdout
    assert "! node04: " in done.stderr
    assert [host.name for host in load(learned).hosts] == ["node01", "node02", "node03", "node04"]


def test_what_contradicts_itself_stands_there_as_a_comment(lab: LabHandle, tmp_path: Path) -> None:
    """Walks away from the plan, so it comes last."""
    words = "netmask 255.255.255.0"
    lab.ssh("node02", f"hccn_tool -i 3 -ip -s address 192.168.103.99 {words}")
    plain = tmp_path / "written-out.toml"
    assert learn("--inventory", lab.inventory, "-o", plain).returncode == 0
    assert "addresses, one by one," in learn("--inventory", lab.inventory, "-o", plain, "--force").stdout
    assert to_do(plain) == []
    assert str(load(plain).hosts[1].devices[3].address) == "192.168.103.99/24"

    lab.ssh("node02", f"hccn_tool -i 2 -ip -s address 192.168.102.15 {words}")  # node03's
    lab.ssh("node01", "nsenter --net=/run/preflight-lab/device/5 ip addr flush dev eth5; rm /run/preflight-lab/state/7")
    open_ = tmp_path / "open.toml"
    done = learn("--inventory", lab.inventory, "-o", open_)
    assert done.returncode == 1
    text = open_.read_text()
    for sentence in ("node02: device 2: address 192.168.102.15 is also used by node03/2",
                     "node01: device 5: no address",
                     "Not learned: device 5 has no address",
                     "Not learned: device 2 has the same address 192.168.102.15 as node03 device 2",
                     '# device_addresses = ["192.168.100.11/24", '):  # fmt: skip
        assert sentence in text
    assert "! node01: device 5: no address" in done.stderr
    cluster = load(open_)
    assert [device.address for host in cluster.hosts for device in host.devices] == [None] * 24
    assert to_do(open_) == []
