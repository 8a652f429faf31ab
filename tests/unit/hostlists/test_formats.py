"""Host lists: what is written is read back wherever the format can hold it, and recognised for what it is."""

import subprocess
from dataclasses import fields, replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.hostlists.formats import FORMATS, read
from preflight.hostlists.host_list import HostList, ListedHost, ListSource
from preflight.hostlists.inventory_export import host_list_of, left_out
from preflight.hostlists.inventory_import import ImportOptions, document_of
from preflight.inventory import dump, parse
from preflight.inventory.errors import InventoryError
from preflight.inventory.hostset import expand
from preflight.inventory.name_ranges import fold

LABELS = st.from_regex(r"[a-z]([a-z0-9_-]{0,5}[a-z0-9])?", fullmatch=True)
NUMBERED = st.builds("{}{:03d}".format, st.sampled_from(["node", "gpu-", "rack1n"]), st.integers(0, 40))
FULL = st.builds("{}.cluster.example".format, LABELS | NUMBERED)
ADDRESSES = st.integers(0x0A000001, 0x0A000200).map(lambda number: str(IPv4Address(number)))
NAMES = LABELS | NUMBERED | FULL | ADDRESSES
USERS = st.sampled_from(["root", "ops", "a.b-c"])
HOSTS = st.builds(
    ListedHost,
    name=NAMES,
    address=st.none() | ADDRESSES,
    slots=st.none() | st.integers(1, 64),
    user=st.none() | USERS,
    port=st.none() | st.integers(1, 65535),
    key=st.none() | st.sampled_from(["/keys/id", "/a key/with%signs", "/k/ü"]),
    bastion=st.none() | st.sampled_from(["jump", "me@jump.example:2222", "[fd00::1]:22"]),
    sudo=st.none() | st.just(True),
)
LISTS = st.lists(HOSTS, min_size=1, max_size=12, unique_by=(lambda host: host.name, lambda host: host.address or host))
EMPTY = ListedHost("")


def held(listed: HostList, holds: frozenset[str]) -> HostList:
    """Only what a format holds."""
    left = {
        field.name: getattr(EMPTY, field.name) for field in fields(ListedHost) if field.name not in holds | {"name"}
    }
    return HostList(tuple(replace(host, **left) for host in listed.hosts))


def sound(hosts: list[ListedHost]) -> HostList:
    """No host's address is its own or another one's name."""
    names = {host.name for host in hosts}
    return HostList(tuple(replace(host, address=None) if host.address in names else host for host in hosts))


def with_devices(listed: HostList) -> HostList:
    """As many devices as slots, each with an address of its own."""
    used = iter(range(0x0B000001, 0x0B010000))
    slots = [host.slots or 8 for host in listed.hosts]
    return HostList(
        tuple(
            replace(host, slots=count, device_ips=tuple(IPv4Address(next(used)) for _ in range(count)))
            for host, count in zip(listed.hosts, slots, strict=True)
        )
    )


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=60, deadline=None)
@given(hosts=LISTS)
def test_a_list_is_read_back_from_every_format_that_can_hold_it(name: str, hosts: list[ListedHost]) -> None:
    form = FORMATS[name]
    listed = sound(hosts)
    if name == "rank-table":
        listed = with_devices(listed)
    if name == "deepspeed":
        listed = HostList(tuple(replace(host, slots=host.slots or 1) for host in listed.hosts))
    if name == "horovod" and not all(host.slots for host in listed.hosts):  # all slots or none
        listed = HostList(tuple(replace(host, slots=None) for host in listed.hosts))
    if name == "slurm-env":  # all tasks or none; one a node says nothing of devices
        listed = HostList(tuple(replace(host, slots=(host.slots or 1) + 1) for host in listed.hosts))
    listed = held(listed, form.holds)
    text = form.write(listed)
    assert form.read(ListSource("a list", text)).hosts == listed.hosts
    _, recognised = read(ListSource("a list", text)) if text.strip() else (name, listed)
    assert {host.name for host in recognised.hosts} == {host.name for host in listed.hosts}


@settings(max_examples=150, deadline=None)
@given(hosts=LISTS, product=st.sampled_from(["atlas-a2", "nvidia", "cpu"]))
def test_a_list_is_read_back_from_an_inventory(hosts: list[ListedHost], product: str) -> None:
    listed = with_devices(sound(hosts)) if product == "atlas-a2" else sound(hosts)
    document, _ = document_of(listed, ImportOptions(product=product, prefix=16))
    back = host_list_of(parse(dump(document), Path("hosts.toml")).hosts)
    usual = 8 if product == "nvidia" else None  # where the list said nothing of devices
    assert back.hosts == tuple(replace(host, slots=host.slots or usual) for host in listed.hosts)


@settings(max_examples=200, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=30, unique=True))
def test_names_are_folded_in_their_order(names: list[str]) -> None:
    assert list(expand(fold(names))) == names


def test_a_large_list_stays_readable() -> None:
    hosts = tuple(ListedHost(f"node{n:04d}", f"10.1.{n // 256}.{n % 256}", 8) for n in range(1, 4097))
    document, _ = document_of(HostList(hosts), ImportOptions(product="nvidia"))
    text = dump(document)
    assert len(text.splitlines()) < 40
    assert [(host.name, host.address) for host in parse(text, Path("h")).hosts] == [(h.name, h.address) for h in hosts]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a slots=8\nb\n", "openmpi"),
        ("a slots=8\n", "openmpi"),  # DeepSpeed's as well, and means the same
        ("a:8\nb:8 user=x\n", "hydra"),
        ("a:8,b:8\n", "horovod"),
        ("-H a:8\n", "horovod"),
        ("--hosts=a:8,b:8\n", "horovod"),
        ("fd00::1\n::2\n", "names"),
        ("a\nb\n", "names"),
        ("a[1-3],b\n", "names"),
        ("a[1-3] b\n", "slurm"),
        ("export SLURM_NODELIST='a[1-2]'\nPATH=/bin\n", "slurm-env"),
        ("# groups\nx: a\nall: @x,b\n", "clustershell"),
        ("s:\n  x: a\n", "clustershell-yaml"),
        ('{"all": {"hosts": ["a"]}}', "ansible"),
        ("Host a\n", "ssh-config"),
        ("Match all\nHost=a\n", "ssh-config"),
    ],
)
def test_a_format_is_recognised(text: str, name: str) -> None:
    assert read(ListSource("a list", text))[0] == name


def test_an_ambiguous_text_is_refused() -> None:
    table = '"version": "1.0", "status": "completed", "server_list": [{"server_id": "a", "device": []}]'
    with pytest.raises(InventoryError, match=r"may be ansible or rank-table\. Set it with --from"):
        read(ListSource("a list", f'{{{table}, "all": {{"hosts": ["b"]}}}}'))


def test_fields_without_a_place_in_a_format_are_reported() -> None:
    listed = HostList((ListedHost("a", "10.0.0.1", 8, user="u"),))
    assert left_out(listed, FORMATS["names"]) == ["the hosts' addresses", "the number of devices", "the ssh users"]
    assert left_out(listed, FORMATS["ansible"]) == []


def test_ssh_reads_the_written_ssh_config(tmp_path: Path) -> None:
    listed = HostList((ListedHost("a", "10.0.0.1", None, "u", 2222, "/k e/y%", "me@jump:22"), ListedHost("b")))
    config = tmp_path / "config"
    config.write_text(FORMATS["ssh-config"].write(listed))
    told = subprocess.run(["ssh", "-G", "-F", config, "a"], check=True, text=True, capture_output=True).stdout
    said = dict(line.split(" ", 1) for line in told.splitlines())
    assert {key: said[key] for key in ("hostname", "user", "port", "identityfile", "proxyjump")} == {
        "hostname": "10.0.0.1", "user": "u", "port": "2222", "identityfile": "/k e/y%%", "proxyjump": "me@jump:22",
    }  # fmt: skip


SSH = """\
Host node01 node02
    HostName %h.cluster.example
Host node02
    Port 2200
    User late
Host node* !node02
    User star
Host *
    User nobody
    ProxyJump ops@jump:2222
"""


def test_an_ssh_config_is_read_as_ssh_reads_it(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(SSH)
    for host in FORMATS["ssh-config"].read(ListSource("config", SSH)).hosts:
        command = ["ssh", "-G", "-F", str(config), host.name]
        told = subprocess.run(command, check=True, text=True, capture_output=True).stdout
        said = dict(line.split(" ", 1) for line in told.splitlines())
        assert (host.address, host.user, str(host.port or 22), host.bastion) == (
            said["hostname"], said["user"], said["port"], said["proxyjump"],
        )  # fmt: skip
