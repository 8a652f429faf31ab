"""Cases are data: tests/cases/inventory/NAME.toml with the lines it is to be refused with in NAME.errors."""

import subprocess
import sys
import tomllib
from datetime import date
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

import pytest

from preflight.inventory import InventoryError, fold, limit, load
from preflight.inventory.hostset import expand
from preflight.inventory.key_lines import KeyLines
from preflight.model.cluster import (
    Bastion,
    Cluster,
    Device,
    Fabric,
    FirewallPolicy,
    Host,
    HostSetup,
    Product,
    Ssh,
    Waiver,
)
from preflight.model.errors import UsageError
from preflight.model.gate import UNKNOWN, Context, DrainLimit, GatePolicy, Unknown

ROOT = Path(__file__).parents[3]
CASES = sorted((ROOT / "tests/cases/inventory").glob("*.toml"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_broken_inventory_is_refused_with_every_error_and_its_line(case: Path) -> None:
    expected = case.with_suffix(".errors").read_text().splitlines()
    with pytest.raises(InventoryError) as refused:
        load(case)
    told = [line.removeprefix(f"{case}:") for line in str(refused.value).splitlines() if line.startswith(str(case))]
    assert told == expected
    assert refused.value.exit_code == 2


def test_every_case_has_its_errors_and_the_reverse() -> None:
    assert {case.stem for case in CASES} == {errors.stem for errors in CASES[0].parent.glob("*.errors")}


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
    assert cluster.probe.step_deadline == 180


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


def test_256_devices_share_one_subnet() -> None:
    cluster = load(ROOT / "examples/a2-32-hosts.toml")
    last = cluster.hosts[-1]
    assert (len(cluster.hosts), last.name, last.address) == (32, "a2-032", "10.20.0.132")
    assert last.devices[7].address == IPv4Interface("10.30.1.255/20")
    assert last.ssh.bastion == Bastion("login.example", "ops", 2222)
    assert cluster.probe.wrapper == ("docker", "exec", "-i", "train")
    assert str(cluster.job_ports) == "29400-29401,29500"


def written(folder: Path, text: str, product: str = "atlas-a2") -> Path:
    file = folder / "hosts.toml"
    file.write_text(f'[cluster]\nname = "c"\nproduct = "{product}"\n{text}')
    return file


def four_subnets(tmp_path: Path) -> Cluster:
    subnets = ", ".join(f'"10.0.{third}.0/24"' for third in range(4))
    text = f'[ssh]\nkey = "keys/id"\n[device_addresses]\nplan = "four-subnets"\nsubnets = [{subnets}]\nfirst = 11\n'
    return load(written(tmp_path, f'{text}[[hosts]]\nname = "n[1-3]"\n', "atlas-a1"))


def test_the_a1_rule_lets_devices_0_and_4_share_a_subnet(tmp_path: Path) -> None:
    hosts = four_subnets(tmp_path).hosts
    assert [str(device.address) for device in hosts[1].devices] == [
        *("10.0.0.13/24", "10.0.1.13/24", "10.0.2.13/24", "10.0.3.13/24"),
        *("10.0.0.14/24", "10.0.1.14/24", "10.0.2.14/24", "10.0.3.14/24"),
    ]


def test_the_hosts_networks_may_be_of_either_family(tmp_path: Path) -> None:
    text = '[firewall]\npolicy = "off"\ndisable_at_boot = true\n[[hosts]]\nname = "n1"\n'
    file = written(tmp_path, text)
    file.write_text(file.read_text().replace("[cluster]\n", '[cluster]\ncidrs = ["10.1.0.0/24", "fd00:1::/64"]\n'))
    cluster = load(file)
    assert [str(network) for network in cluster.cidrs] == ["10.1.0.0/24", "fd00:1::/64"]
    assert (cluster.firewall, cluster.firewall_off_at_boot) == (FirewallPolicy.OFF, True)


def test_relative_paths_start_at_the_inventory(tmp_path: Path) -> None:
    assert four_subnets(tmp_path).hosts[0].ssh.key == str(tmp_path / "keys/id")


def test_paths_at_home_are_those_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/jo")
    file = written(tmp_path, '[ssh]\nkey = "~/.ssh/id"\nknown_hosts = "/etc/known"\n[[hosts]]\nname = "n1"\n')
    ssh = load(file).hosts[0].ssh
    assert (ssh.key, ssh.known_hosts) == ("/home/jo/.ssh/id", "/etc/known")


def test_settings_of_a_host_override_those_of_the_cluster(tmp_path: Path) -> None:
    common = '[ssh]\nuser = "ops"\nport = 22\nsudo = true\nbastion = "jump"\n[network]\nnic = "eth0"\n'
    own = '[[hosts]]\nname = "n2"\nnic = "10.1.0.0/24"\ndevices = 2\n'
    own += '[hosts.ssh]\nport = 2222\nsudo = false\nbastion = "jo@[fe80::1]:2200"\n'
    plain, special = load(written(tmp_path, f'{common}[[hosts]]\nname = "n1"\n{own}')).hosts
    assert plain.ssh == Ssh(user="ops", port=22, bastion=Bastion("jump"), sudo=True)
    assert special.ssh == Ssh(user="ops", port=2222, bastion=Bastion("fe80::1", "jo", 2200))
    assert [(host.nic, len(host.devices)) for host in (plain, special)] == [("eth0", 8), ("10.1.0.0/24", 2)]


def test_missing_keys_have_the_documented_defaults(tmp_path: Path) -> None:
    cluster = load(written(tmp_path, '[[hosts]]\nname = "n1"\n', "nvidia"))
    assert cluster.hosts == (Host("n1", "n1"),)
    assert (cluster.fabric, cluster.firewall) == (Fabric.SWITCHED, FirewallPolicy.ALLOW)
    assert (str(cluster.hccl_ports), str(cluster.job_ports)) == ("60000-60031", "29500")
    assert (cluster.probe.backend, cluster.probe.step_deadline) == ("nccl", 60)
    assert cluster.probe.sizes == (8, 1 << 20, 16 << 20)


def test_the_gates_policy_is_read_and_missing_keys_keep_their_defaults(tmp_path: Path) -> None:
    hosts = '[[hosts]]\nname = "n1"\n'
    assert load(written(tmp_path, hosts)).gate == GatePolicy()
    said = 'max_age = "90m"\noff = ["ports"]\nunknown = { prolog = "closed" }\ndrain_at_most = "2.5%"\n'
    gate = load(written(tmp_path, f"[gate]\n{said}{hosts}")).gate
    closed = {Context.PROLOG: Unknown.CLOSED}
    assert gate == GatePolicy(5400, off=("ports",), unknown=UNKNOWN | closed, drain=DrainLimit(None, 2.5))
    assert load(written(tmp_path, f"[gate]\ndrain_at_most = 0\n{hosts}")).gate.drain == DrainLimit(0, None)


def test_every_named_port_is_in_the_set_with_its_name(tmp_path: Path) -> None:
    keys = "hccl_base = 50000\nhccl_count = 16\nmaster = 30000\nrendezvous = 30000\nmindspore = 8118\nvolcano = 23456\n"
    cluster = load(written(tmp_path, f'[ports]\n{keys}job = ["7000-7001"]\n[[hosts]]\nname = "n1"\n'))
    assert str(cluster.ports) == "7000-7001,8118,23456,30000,50000-50015"
    assert list(cluster.port_names) == [30000, 8118, 23456]
    purposes = [cluster.purpose(port) for port in (50003, 30000, 8118, 23456, 7001)]
    assert purposes == ["HCCL", "master", "mindspore", "volcano", "job"]


def test_a_range_for_hccl_takes_the_place_of_its_base_port(tmp_path: Path) -> None:
    for said, ports, variable in (('["61000-61063", 61070]', "29500,61000-61063,61070", "61000-61063,61070"),
                                  ('"auto"', "29500", "auto")):  # fmt: skip
        cluster = load(written(tmp_path, f'[ports]\nhccl_host_range = {said}\n[[hosts]]\nname = "n1"\n'))
        assert (str(cluster.ports), cluster.hccl_host_range) == (ports, variable)
    assert not load(written(tmp_path, '[[hosts]]\nname = "n1"\n')).hccl_host_range


@pytest.mark.parametrize(
    ("said", "setup"),
    [
        ("", HostSetup()),
        ("limits = false\nprofile = false\n", HostSetup()),
        ("hosts_file = true\nlimits = true\nprofile = true\n", HostSetup(True, "unlimited", 1048576, {})),
        ('limits = { memlock = "64GiB" }\n', HostSetup(memlock="67108864")),
        ("limits = { nofile = 65535 }\n", HostSetup(nofile=65535)),
        ('profile = { HCCL_CONNECT_TIMEOUT = "600" }\n', HostSetup(profile={"HCCL_CONNECT_TIMEOUT": "600"})),
    ],
)
def test_host_setup_is_read(tmp_path: Path, said: str, setup: HostSetup) -> None:
    host = '[[hosts]]\nname = "n1"\naddress = "10.1.0.1"\n'
    assert load(written(tmp_path, f"[host_setup]\n{said}{host}")).setup == setup


def test_a_host_with_written_out_addresses_keeps_its_places_in_the_plan_free(tmp_path: Path) -> None:
    plan = 'devices = 2\n[device_addresses]\nplan = "one-subnet"\nsubnet = "10.8.0.0/24"\ndetect = "next-host"\n'
    own = '[[hosts]]\nname = "n2"\ndevice_addresses = ["10.9.0.1/24", "10.9.0.2/24"]\n'
    own += 'gateways = ["10.9.0.9", "10.9.0.9"]\n'
    text = f'{plan}[[hosts]]\nname = "n1"\n{own}[[hosts]]\nname = "n3"\n'
    devices = [device for host in load(written(tmp_path, text)).hosts for device in host.devices]
    assert [str(device.address) for device in devices] == [
        *("10.8.0.11/24", "10.8.0.12/24", "10.9.0.1/24", "10.9.0.2/24", "10.8.0.15/24", "10.8.0.16/24")
    ]
    following = [devices[(number + 2) % 6].address for number in range(6)]
    assert [device.detect for device in devices] == [address.ip for address in following if address]
    assert [str(device.gateway) for device in devices] == ["None", "None", "10.9.0.9", "10.9.0.9", "None", "None"]


SUBNETS = ", ".join(f'"10.0.{third}.0/24"' for third in range(4))
PLANS_BY_NAME = {
    "one-subnet": 'plan = "one-subnet"\nsubnet = "10.8.0.0/16"\ngateway = "10.8.0.1"\ndetect = "gateway"\n',
    "four-subnets": f'plan = "four-subnets"\nsubnets = [{SUBNETS}]\n',
}
GROWN = {
    "a host at the end": '[[hosts]]\nname = "node[02-04,09]"\n[[hosts]]\nname = "node10"\n',
    "a host in the middle": '[[hosts]]\nname = "node[02-05,09]"\n',
    "a host before all others": '[[hosts]]\nname = "node01"\n[[hosts]]\nname = "node[02-04,09]"\n',
    "a range in another order": '[[hosts]]\nname = "node[09-12]"\n[[hosts]]\nname = "node[02-08]"\n',
    "a host with other devices": '[[hosts]]\nname = "node01"\ndevices = 2\n[[hosts]]\nname = "node[02-04,09]"\n',
    "a host without a number": '[[hosts]]\nname = "spare"\nslot = 20\n[[hosts]]\nname = "node[02-04,09]"\n',
    "a host with written out addresses": '[[hosts]]\nname = "x"\ndevices = 1\ndevice_addresses = ["10.9.0.1/24"]\n'
    '[[hosts]]\nname = "node[02-04,09]"\n',
    "fewer hosts": '[[hosts]]\nname = "node[03,09]"\n',
}  # fmt: skip


def by_name(tmp_path: Path, plan: str, hosts: str) -> dict[str, tuple[Device, ...]]:
    text = f'[device_addresses]\nby = "name"\n{PLANS_BY_NAME[plan]}{hosts}'
    cluster = load(written(tmp_path, text, "atlas-a1" if plan == "four-subnets" else "atlas-a2"))
    return {host.name: host.devices for host in cluster.hosts}


@pytest.mark.parametrize("plan", PLANS_BY_NAME)
@pytest.mark.parametrize("change", GROWN)
def test_a_plan_by_name_keeps_addresses_when_hosts_are_added(tmp_path: Path, plan: str, change: str) -> None:
    before = by_name(tmp_path, plan, '[[hosts]]\nname = "node[02-04,09]"\n')
    after = by_name(tmp_path, plan, GROWN[change])
    kept = before.keys() & after.keys()
    assert len(kept) >= 2
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    given = [device.address for devices in after.values() for device in devices]
    assert len(set(given)) == len(given)


def test_a_plan_by_order_becomes_one_by_name_without_moving(tmp_path: Path) -> None:
    hosts = '[[hosts]]\nname = "node[01-05]"\n'
    plan = '[device_addresses]\nplan = "one-subnet"\nsubnet = "10.8.0.0/16"\n'
    by_order = load(written(tmp_path, plan + hosts)).hosts
    assert load(written(tmp_path, f'{plan}by = "name"\nper_host = 8\n{hosts}')).hosts == by_order


def test_the_hosts_of_a_range_have_the_slots_after_the_first(tmp_path: Path) -> None:
    given = by_name(tmp_path, "one-subnet", '[[hosts]]\nname = "a[7-8],b"\nslot = 3\n')
    assert [str(devices[0].address) for devices in given.values()] == ["10.8.0.59/16", "10.8.0.75/16", "10.8.0.91/16"]


@pytest.mark.parametrize(("plan", "amp"), [('plan = "one-subnet"\nsubnet = "192.168.3.0/24"\n', True), ("", False)])
def test_one_subnet_on_a1_means_amp_mode_where_less_is_refused(tmp_path: Path, plan: str, amp: bool) -> None:
    table = f"[device_addresses]\n{plan}" if plan else ""
    cluster = load(written(tmp_path, f'device_mtu = 4200\n{table}[[hosts]]\nname = "n[1-2]"\n', "atlas-a1"))
    assert cluster.amp is amp
    assert {device.mtu for host in cluster.hosts for device in host.devices} == {4200}


def test_a_waiver_that_has_expired_is_kept_for_the_checks_to_judge(tmp_path: Path) -> None:
    waiver = '[[waivers]]\ncheck = "NPU113"\nhost = "*"\nowner = "jo"\nreason = "fan"\nexpires = 2020-01-01\n'
    cluster = load(written(tmp_path, f'[[hosts]]\nname = "n1"\n{waiver}'))
    assert cluster.waivers == (Waiver("NPU113", "*", "jo", "fan", date(2020, 1, 1)),)


def test_files_from_other_editors_are_read(tmp_path: Path) -> None:
    file = written(tmp_path, '[[hosts]]\nname = "n1"\n[probe]\nexec = ["docker", "exec", "-i", "a b"]\n')
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert load(file).probe.wrapper == ("docker", "exec", "-i", "a b")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a = 1\nb = '\xff'\n", "hosts.toml:2: not UTF-8 text"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = " + b"9" * 10_000, "a number has too many digits"),
        (b"a = 1\na = 2\n", r"hosts.toml:2:\d+: not valid TOML: Cannot overwrite a value"),
        (b"a = [1,\n", r"hosts.toml:1: not valid TOML: .*end of document"),
        (b"# nothing but a comment\n", "the file is empty. To print an example"),
        (b" " * (16 << 20) + b"a", "larger than 16 MiB"),
    ],
    ids=lambda part: part[:20] if isinstance(part, str) else "content",
)
def test_a_file_that_is_not_an_inventory_ends_in_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "hosts.toml"
    file.write_bytes(content)
    with pytest.raises(InventoryError, match=says):
        load(file)


def test_a_missing_file_and_a_directory_are_reported_with_their_path(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"none\.toml: no such file\. Write one with preflight init"):
        load(tmp_path / "none.toml")
    with pytest.raises(InventoryError, match=f"{tmp_path}: Is a directory"):
        load(tmp_path)


def test_reading_no_inventory_loads_no_library() -> None:
    """`preflight --help` and `gate` may import the package; pydantic alone would cost them a tenth of a second."""
    code = "import sys, preflight.inventory; print({'pydantic', 'ClusterShell'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n3,n[1-2]", ["n1", "n2", "n3"]),
        ("n[3,1]", ["n1", "n3"]),
        ("n[1-3]!n2", ["n1", "n3"]),
        ("n1,n2!n1", ["n2"]),
    ],
)
def test_limit_takes_node_sets_in_inventory_order(tmp_path: Path, text: str, names: list[str]) -> None:
    assert [host.name for host in limit(four_subnets(tmp_path), text)] == names


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("n[3-9]", r"no host n\[4-9\]\. Its hosts: n\[1-3\]"),
        ("other", r"no host other\. Its hosts: n\[1-3\]"),
        ("@all", "no host @all"),
        ("n[1-2", "not a set of hosts"),
        ("n[1-99999999]", "more than 65536 names"),
        ("n[1-40000],m[1-40000]", "more than 65536 names"),
        ("n1!n1", "contains no host"),
        ("", "contains no host"),
    ],
)
def test_a_limit_to_unknown_hosts_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        limit(four_subnets(tmp_path), text)


def test_a_limit_to_a_misspelt_host_suggests_the_right_one(tmp_path: Path) -> None:
    cluster = load(written(tmp_path, '[[hosts]]\nname = "trainer[01-16]"\n'))
    with pytest.raises(UsageError, match=r"no host trianer07\. Did you mean trainer07\?"):
        limit(cluster, "trianer07")


def test_names_fold_into_ranges() -> None:
    assert fold(["node02", "node01", "node03"]) == "node[01-03]"
    assert fold(["localhost"]) == "localhost"
    assert fold(["a[b", "c"]) == "a[b,c"
    assert fold([]) == ""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[08-10]", ["node08", "node09", "node10"]),
        ("b,a[9-10]", ["b", "a9", "a10"]),
        ("rack[1-2]n[1-2]", ["rack1n1", "rack1n2", "rack2n1", "rack2n2"]),
        ("2001:db8::[1-2]", ["2001:db8::1", "2001:db8::2"]),
    ],
)
def test_host_sets_expand_in_the_order_written(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("node[3-1]", "is descending"),
        ("node[1-3,2]", "ascending order"),
        ("10.1.0.[254-256]", "neither a host name nor an address"),
        ("n[1-300]x[1-300]", "more than"),
        ("node[01-100]", "have different numbers of digits"),
        ("node[1-", "brackets"),
        ("node[1-99999999]", "more than"),
        ("a b", "not a host name"),
        ("@group", "not a host name"),
        ("$(reboot)", "not a host name"),
        ("-oProxyCommand=x", "not a host name"),
        ("-l", "neither a host name"),
        ("", "contains no host"),
    ],
)
def test_invalid_host_sets_are_refused_with_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        expand(text)


def test_keys_are_found_in_every_spelling_of_toml() -> None:
    text = 'a.b = 1\n[t]\n"x y" = """\nnot = 5\n"""\nlist = [\n  1,\n]\nafter = 2\n'
    text += "[[h]]\nn = 1\n[h.s]\np = 1\n[[h]]\nn = 2\ni = {q = 1}\n"
    lines = KeyLines(text)
    assert lines.of(("a", "b")) == 1
    assert lines.of(("t", "x y")) == 3
    assert lines.of(("t", "list", 0)) == 6
    assert lines.of(("t", "after")) == 9
    assert lines.of(("h", 0, "s", "p")) == 13
    assert lines.of(("h", 1, "n")) == 15
    assert lines.of(("h", 1, "i", "q")) == 16
    assert lines.of(("h", 1, "missing")) == 14
    assert lines.of(("t", "not")) == 2, "a line inside a string is no key"


KEYS_IN_VALUES = r"""
a = '[x]' # [c]
b = "\"[y]\n "
c = '''
z = '1'
''''
d = [ # [e]
  { q = '# 1' },
]
"e=f" = 1
[ g . "h]" ]
i = 1
[[k]]
"""


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_text_like_a_key_inside_a_value_is_not_a_key(line_break: str) -> None:
    text = KEYS_IN_VALUES.replace("\n", line_break)
    assert set(tomllib.loads(text)) == {"a", "b", "c", "d", "e=f", "g", "k"}
    lines = KeyLines(text)
    assert [lines.of((key,)) for key in ("a", "b", "c", "d", "e=f", "g", "k")] == [2, 3, 4, 7, 10, 11, 13]
    assert lines.of(("g", "h]", "i")) == 12
    assert lines.of(("z",)) == lines.of(("q",)) == lines.of(("x",)) == 1, "no such keys"
