"""From an answer to facts, from facts to a document and back, and which pings follow from them."""

import json
import random
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any

import pytest

from preflight.facts.answers import host as answer
from preflight.facts.collect import FactsRequest, collect
from preflight.facts.documents.facts_document import dump, load
from preflight.facts.parsers.ascend.device_nodes import Accelerator, DeviceNode, DeviceNodes
from preflight.facts.reading import Found
from preflight.facts.redaction.redact import redact
from preflight.facts.sections.accelerators import Accelerators
from preflight.facts.sections.chips import Chips, Health
from preflight.facts.sections.job import Job, SeenFile
from preflight.facts.sections.load import Busy, Load
from preflight.facts.sections.naming import FullName, Naming
from preflight.facts.sections.nic import Nic
from preflight.facts.sections.shells import Shells, ShellView
from preflight.facts.types import (
    DEEP,
    ON_REQUEST,
    SECTIONS,
    Clock,
    ClusterFacts,
    Hccn,
    HostFacts,
    Missing,
    Os,
    Reading,
    Sysctl,
    Unreachable,
)
from preflight.facts.unknown_formats import unknown
from preflight.model.cluster import Cluster, Device, Fabric, Host, Product
from preflight.model.errors import UsageError
from preflight.transport.types import Answer, Channel, ErrorKind, Program, TransportError

RESERVED = "net.ipv4.ip_local_reserved_ports"


def said(out: str, err: str = "", code: int = 0) -> dict[str, object]:
    return {"out": out, "err": err, "code": code}


def device_said(address: str) -> dict[str, object]:
    return {
        "ip": said(f"ipaddr:{address}\nnetmask:255.255.255.0\n"),
        "link": said("link status: UP\n"),
        "net_health": said("net health status: Success\n"),
        "netdetect": said("netdetect addr: 10.0.0.1\n"),
        "gateway": said("", "Get gateway failed, because no gateway was preset there!\n", 2),
        "tls": said("dev_id:0, tls switch[0](0:disable, 1:enable), tls alarm time threshold[60]days\n"),
        "cfg": said("config status:SUCCESS\n"),
        "lldp": said("System Name TLV\n\tleaf01\n"),
        "speed": said("Speed: 200000 Mb/s\n"),
        "fec": said("fec mode: rs FEC mode\n"),
        "vnic": said("The command is not supported on this product.\n", "", 13),
        "stat": said("weather: fine\n"),
        "optical": {**said("", "", -1), "trouble": "hccn_tool -i 0 did not finish in time"},
    }


def sections() -> dict[str, Any]:
    """What a healthy collector sends."""
    eth0 = {"ifname": "eth0", "flags": ["UP", "LOWER_UP"], "mtu": 1500, "address": "02:00", "addr_info": []}
    values: dict[str, Any] = {
        "os": {
            "release": 'ID="openEuler"\nVERSION_ID="22.03"\n',
            "kernel": "5.10",
            "arch": "aarch64",
            "hostname": "n1",
            "user": "root",
            "root": True,
        },
        "clock": {"start": 1000.2, "end": 1000.3},
        "sysctl": {
            "values": {
                RESERVED: "60000-60031\n",
                "net.ipv4.ip_local_port_range": "32768\t60999\n",
                "net.core.somaxconn": "4096\n",
                "net.ipv4.tcp_max_syn_backlog": "1024\n",
            },
            "files": [
                {"path": "/etc/sysctl.d/90-x.conf", "text": f"{RESERVED} = 60000-60031\n"},
                {"path": "/usr/lib/sysctl.d/99-y.conf", "text": f"# {RESERVED} = 1\n"},
            ],
            "read_only": False,
            "tuned": None,
        },
        "sockets": said("LISTEN 0 5 0.0.0.0:60001 0.0.0.0:*\n"),
        "network": {"addresses": json.dumps([eth0]), "routes": "[]"},
        "firewall": {
            "nft": said(""),
            "nft_boot_file": None,
            "nft_preflight_file": None,
            "ufw_installed": False,
            "ufw_conf": None,
            "ufw_rules": ["", ""],
            "ufw_default": None,
            "iptables": {},
            "nat": {},
            "iptables_saved": {},
            "firewalld": None,
            "ssh_connection": None,
        },
        "connects": [],
        "accelerators": {
            "pci": [["0x19e5", "0xd801"], ["0x10de", "0x2330"]],
            "npu_nodes": 1,
            "gpu_nodes": 0,
            "npu_smi": None,
        },
        "environment": {
            "hosts": None,
            "limits": {"/etc/security/limits.d/90-preflight.conf": "* soft nofile 1\n"},
            "profile": None,
            "nr_open": "1048576\n",
        },
        "naming": {
            "localhost": ["127.0.0.1"],
            "full_name": {"name": "n1.dc", "peers": [["n2.dc", ["10.1.0.2"]]]},
            "reverse": [["10.1.0.2", 0.01], ["10.1.0.3", None]],
            "endpoints": [["n1", True]],
            "seconds": 6.0,
        },
        "names": {"hostname": ["10.1.0.1", "10.1.0.1"], "cluster": {"n1": ["10.1.0.1"], "n2": []}},
        "job": {
            "python": "3.11.2",
            "packages": {"torch": "2.13.0"},
            "cann_files": [["/x/version.cfg", "runtime_running_version=[7:8.0.0]\n"]],
            "nofile": [1024, 4096],
            "memlock": [-1, -1],
            "shm_bytes": 1 << 30,
            "deep": {
                "user": "trainer",
                "uid": 1000,
                "groups": [1000, 1001],
                "capabilities": 0,
                "contained": True,
                "variables": {"HCCL_BUFFSIZE": "200", "ASCEND_PROXY": "http://me:hunter2@proxy"},
                "files": [{"path": "/etc/hccn.conf", "kind": "file", "size": 9}],
                "devices": [0],
                "hccl_test": "",
            },
        },
        "load": {
            "processors": 192,
            "limit": None,
            "wanted": 1.3,
            "others": 1,
            "seconds": 0.31,
            "busiest": [{"pid": 4711, "name": "python3", "user": "trainer", "wanted": 1.0, "used": 0.97}],
        },
        "driver": {"driver": "Version=24.1\n", "firmware": None},
        "hccn": {"0": device_said("10.0.0.11")},
        "hccn_conf": {"text": "address_0=10.0.0.11\n"},
        "npu_smi": {"info": said("There is no NPU card on this server.\n"), "mapping": said("")},
        "chips": {
            "mapping": said("NPU ID  Chip ID  Chip Logic ID  Chip Name\n3  0  0  Ascend 910B3\n3  1  -  Mcu\n"),
            "queries": {
                "topo": said("", "This device does not support querying topo.\n", 1),
                "board -i 3": said("\tSoftware Version : 24.1.rc3\n\tFirmware Version : 7.5\n"),
                "health -i 3 -c 0": said("\tHealth Status : OK\n\tError Code : NA\n\tError Information : NA\n"),
                "usages -i 3 -c 0": {
                    **said("", "", -1),
                    "trouble": "npu-smi info -t usages did not finish in time",
                },
            },
        },
        "device_nodes": {
            "nodes": [
                {
                    "path": "/dev/davinci0",
                    "device": True,
                    "mode": 0o660,
                    "uid": 1000,
                    "gid": 1000,
                    "user": "HwHiAiUser",
                    "group": "HwHiAiUser",
                }
            ],
            "lspci": None,
            "pci": [["0000:3d:00.0", "d802"]],
        },
    }
    return {name: {"value": value} for name, value in values.items()}


def framed(document: object, marker: str = "mark") -> Answer:
    text = json.dumps(document)
    return Answer(f"Welcome!\n\n{marker} {len(text)}\n{text}\nlogout\n".encode(), b"", 0, 1.0)


def facts_of(reply: Answer, product: Product = Product.ATLAS_A2, devices: tuple[int, ...] = (0,)) -> HostFacts:
    return answer.host_facts(answer.HostAnswer(answer.sections(reply, "mark"), devices, 1000.0, 1000.4), product)


def test_a_healthy_answer_becomes_facts_between_a_banner_and_noise() -> None:
    facts = facts_of(framed(sections()))
    missing = {name for name in SECTIONS if isinstance(facts.section(name), Missing)}
    assert missing == {"npu_smi"}
    assert isinstance(facts.npu_smi, Missing)
    assert facts.npu_smi.error.startswith("npu-smi printed 'There is no NPU card on this server.'")
    assert facts.os.id == "openEuler"  # type: ignore[union-attr]
    assert isinstance(facts.sysctl, Sysctl)
    assert [file.path for file in facts.sysctl.reserved_files] == ["/etc/sysctl.d/90-x.conf"]
    assert (facts.sysctl.somaxconn, facts.sysctl.syn_backlog) == (4096, 1024)
    assert facts.names.hostname == ("10.1.0.1",)  # type: ignore[union-attr]
    assert facts.naming == Naming(
        ("127.0.0.1",), FullName("n1.dc", {"n2.dc": ("10.1.0.2",)}), {"10.1.0.2": 0.01, "10.1.0.3": None}, {"n1": True},
        6.0,
    )  # fmt: skip
    versions = facts.versions
    assert not isinstance(versions, Missing)
    assert (versions.torch, versions.driver, versions.cann, versions.torch_npu) == ("2.13.0", "24.1", "8.0.0", None)
    assert isinstance(facts.hccn, Hccn)
    device = facts.hccn.devices[0]
    assert device.address == Reading("10.0.0.11")
    assert device.gateway == Reading(None)
    assert device.leaf == Reading("leaf01")
    assert facts.accelerators == Accelerators(npu_nodes=1, npus=("d801",), gpus=1)


def test_what_is_asked_in_depth_is_a_value_or_an_error() -> None:
    facts = facts_of(framed(sections()), devices=(0, 1))
    assert isinstance(facts.nic, Nic)
    zero, late = facts.nic.devices
    assert (zero.speed, zero.fec) == (Found(200000), Found("rs"))
    assert zero.neighbour.value
    assert zero.vnic == Found(error="hccn_tool -vnic: The command is not supported on this product.")
    assert zero.mac == Found(error="hccn_tool -mac: its help (-h) does not list this query")
    assert "is not recognized" in zero.packets.error
    assert zero.optics == Found(error="hccn_tool -i 0 did not finish in time")
    assert late.speed == Found(error="hccn_tool did not answer in time")
    assert isinstance(facts.chips, Chips)
    (chip,) = facts.chips.chips
    assert (chip.device, chip.npu) == (0, 3)
    assert chip.health == Found(Health("OK"))
    assert chip.board.value
    assert chip.board.value.driver == "24.1.rc3"
    assert chip.usages == Found(error="npu-smi info -t usages did not finish in time")
    assert chip.superpod == Found(error="npu-smi was not queried, or not in time")
    node = DeviceNode("/dev/davinci0", 0o660, "HwHiAiUser", "HwHiAiUser", 1000, 1000)
    assert facts.device_nodes == DeviceNodes((node,), Found((Accelerator("0000:3d:00.0", "d802"),)))
    assert isinstance(facts.job, Job)
    assert facts.job.variables == {"ASCEND_PROXY": "http://[redacted]@proxy", "HCCL_BUFFSIZE": "200"}
    assert facts.job.files == {"/etc/hccn.conf": SeenFile("/etc/hccn.conf", "file", size=9)}
    assert facts.job.hccl_test == Found()


def test_a_basic_look_leaves_the_deep_sections_out_and_its_document_says_so() -> None:
    reply = answer.HostAnswer(answer.sections(framed(sections()), "mark"), (0,), 1000.0, 1000.4)
    facts = answer.host_facts(reply, Product.ATLAS_A2, deep=False)
    assert [facts.section(name) for name in DEEP] == [None] * len(DEEP)
    document = dump(ClusterFacts({"n1": facts}))
    assert json.loads(document)["hosts"]["n1"]["nic"] == {"skipped": "--basic"}
    assert load(document).hosts["n1"] == facts


def test_a_document_of_before_there_was_depth_lacks_it_and_does_not_say_that_it_was_left_out() -> None:
    document = json.loads(dump(ClusterFacts({"n1": facts_of(framed(sections()))})))
    for name in DEEP:
        del document["hosts"]["n1"][name]
    facts = load(json.dumps(document), "old.json").hosts["n1"]
    assert isinstance(facts, HostFacts)
    assert {facts.section(name) for name in DEEP} == {Missing("not in old.json")}


def test_a_product_without_npus_has_no_npu_sections() -> None:
    facts = facts_of(framed(sections()), Product.CPU)
    assert (facts.hccn, facts.hccn_conf, facts.npu_smi) == (None, None, None)
    assert (facts.nic, facts.chips, facts.device_nodes) == (None, None, None)


def test_an_offset_is_bounded_by_the_round_trip_and_by_nothing_else() -> None:
    """Sent at 1000.0, received at 1000.4, the host's clock read 1000.2 and 1000.3: between -0.1 and 0.2 ahead."""
    clock = facts_of(framed(sections())).clock
    assert isinstance(clock, Clock)
    assert clock.offset == pytest.approx(0.05)
    assert clock.uncertainty == pytest.approx(0.15)


def test_a_device_that_was_asked_for_and_did_not_answer_is_there_with_an_error() -> None:
    hccn = facts_of(framed(sections()), devices=(0, 1)).hccn
    assert isinstance(hccn, Hccn)
    assert [device.index for device in hccn.devices] == [0, 1]
    assert hccn.devices[1].link == Reading(error="hccn_tool did not answer in time")


def test_a_silent_tool_with_a_bad_exit_is_not_an_unset_address() -> None:
    document = sections()
    document["hccn"]["value"]["0"]["ip"] = said("", "", 1)
    hccn = facts_of(framed(document)).hccn
    assert isinstance(hccn, Hccn)
    assert hccn.devices[0].address == Reading(error="hccn_tool printed nothing and exited with 1")


def test_two_answers_to_one_query_are_none() -> None:
    document = sections()
    document["hccn"]["value"]["0"]["link"] = said("link status: UP\nlink status: DOWN\n")
    hccn = facts_of(framed(document)).hccn
    assert isinstance(hccn, Hccn)
    assert hccn.devices[0].link == Reading(error="hccn_tool answered 2 times where one answer was expected")


def test_numbers_that_no_kernel_prints_and_addresses_that_are_none_are_not_taken_for_facts() -> None:
    document = sections()
    document["sysctl"]["value"]["values"]["net.ipv4.ip_local_reserved_ports"] = "60000-\x1b[2J\n"
    document["names"]["value"]["hostname"] = ["10.1.0.999"]
    facts = facts_of(framed(document))
    assert isinstance(facts.sysctl, Missing)
    assert facts.sysctl.error.isprintable()
    assert facts.names == Missing("the host's own name resolves to '10.1.0.999', which is not an address")


@pytest.mark.parametrize(
    "said", [{"processors": 0}, {"wanted": -0.1}, {"wanted": 1e300}, {"others": -1}, {"limit": 0.0}, {"limit": -1}]
)
def test_a_load_that_no_host_has_is_missing(said: dict[str, float]) -> None:
    document = sections()
    document["load"]["value"].update(said)
    load = facts_of(framed(document)).load
    assert load == Missing("the number of processors or the load is not valid")


def test_of_busy_processes_the_first_few_are_kept_and_what_they_are_called_is_bounded() -> None:
    document = sections()
    one = {"pid": 1, "name": "x" * 1000, "user": "y" * 1000, "wanted": 1.0, "used": 0.5}
    document["load"]["value"]["busiest"] = [one] * 1000
    load = facts_of(framed(document)).load
    assert isinstance(load, Load)
    assert load.busiest == (Busy(1, "x" * 60, 1.0, 0.5, "y" * 60),) * 5


def test_a_collector_that_did_not_count_processes_leaves_the_load_missing() -> None:
    document = sections()
    del document["load"]
    assert facts_of(framed(document)).load == Missing("the collector's response has no section load")


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (Answer(b"", b"Traceback\nOops\x1b[2J\n", 1, 1.0),
         "exited with 1 and gave no answer; last output: 'Oops\\x1b[2J'"),
        (Answer(b"a\nquack\n", b"", 0, 1.0), "exited with 0 and gave no answer; last output: 'quack'"),
        (Answer(b"x" * 99, b"", 0, 1.0, truncated=True), "more than 99 bytes, but no answer"),
        (Answer(b"\nmark 100\n{", b"", 0, 1.0), "is cut off: 1 of 100 bytes arrived"),
        (Answer(b"\nmark 1", b"", 0, 1.0), "cut off in its first line"),
        (Answer(b"\nmark 2\n[]\n", b"", 0, 1.0), "collector's response is corrupted"),
        (Answer(b"\nmark 9\n\xff\xfe\x00binary", b"", 0, 1.0), "collector's response is corrupted"),
    ],
)  # fmt: skip
def test_a_broken_answer_leaves_every_section_missing_with_the_same_sentence(reply: Answer, sentence: str) -> None:
    facts = facts_of(reply)
    for name in (name for name in SECTIONS if name not in (*ON_REQUEST, "nvidia", "rdma")):  # these are hosts with NPUs
        section = facts.section(name)
        assert isinstance(section, Missing)
        assert sentence in section.error


@pytest.mark.parametrize(
    ("before", "printed"), [("", ""), ("\nmotd\nHi \x1b[1m\n", "Hi \x1b[1m"), ("x" * 999, "x" * 200)]
)
def test_what_a_host_prints_before_the_answer_is_kept(before: str, printed: str) -> None:
    text = json.dumps(sections())
    facts = facts_of(Answer(f"{before}\nmark {len(text)}\n{text}\n".encode(), b"", 0, 1.0))
    assert isinstance(facts.os, Os)
    assert facts.os.printed == printed


def test_a_section_of_another_shape_is_missing_and_the_others_are_not() -> None:
    document = sections()
    document["network"] = {"value": {"addresses": 5}}
    facts = facts_of(framed(document))
    assert isinstance(facts.network, Missing)
    assert "section network" in facts.network.error
    assert not isinstance(facts.os, Missing)


def test_whatever_a_host_answers_no_exception_comes_of_it() -> None:
    chance = random.Random(7)
    whole = framed(sections()).stdout
    values: list[Callable[[], object]] = [
        lambda: None, list, dict, lambda: -1, lambda: 1e308, lambda: "\x1b[2J" * 9, lambda: [[[]]] * 3,
        lambda: {"value": chance.choice([None, 5, "x", {}])}, lambda: {"error": chance.choice([None, 5, ["x"]])},
    ]  # fmt: skip

    def spoil(node: Any) -> Any:
        if chance.random() < 0.03:
            return chance.choice(values)()
        if isinstance(node, dict):
            return {key: spoil(item) for key, item in node.items()}
        return [spoil(item) for item in node] if isinstance(node, list) else node

    for _ in range(300):
        dump(ClusterFacts({"n1": facts_of(framed(spoil(sections())))}))
        cut = bytearray(whole[: chance.randrange(len(whole))])
        for _ in range(chance.randrange(4)):
            cut[chance.randrange(len(cut) or 1) : 1] = bytes([chance.randrange(256)])
        facts_of(Answer(bytes(cut), b"", 0, 1.0))


# The document.


def test_a_mapping_and_a_file_that_could_not_be_had_say_why_and_the_rest_stands() -> None:
    document = sections()
    hung = "npu-smi info -m did not finish in time"
    document["chips"]["value"]["mapping"] = {**said("", "", -1), "trouble": hung}
    document["device_nodes"]["value"].update(
        install=None, install_trouble="/etc/ascend_install.info cannot be read: Is a directory"
    )
    facts = facts_of(framed(document))
    assert facts.chips == Missing(hung)
    assert isinstance(facts.device_nodes, DeviceNodes)
    assert facts.device_nodes.nodes
    assert facts.device_nodes.install == Found(error="/etc/ascend_install.info cannot be read: Is a directory")
    assert {it.command for it in unknown({"n1": facts})} == {"hccn_tool -stat"}  # which is strange in this answer


def test_facts_come_back_from_their_document_as_they_were() -> None:
    facts = ClusterFacts(
        {"n1": facts_of(framed(sections())), "n2": Unreachable("timeout", "n2 did not answer", "look at n2"),
         "n3": facts_of(framed(sections()), Product.CPU), "n4": facts_of(Answer(b"", b"", 1, 0.0))}
    )  # fmt: skip
    assert load(dump(facts)) == facts


def test_the_document_has_the_shape_of_the_contract() -> None:
    document = json.loads(dump(ClusterFacts({"n1": facts_of(framed(sections()))})))
    assert document["schema"] == "preflight.facts/1"
    assert document["hosts"]["n1"]["sysctl"]["value"]["reserved_ports"] == "60000-60031"
    assert set(document["hosts"]["n1"]["npu_smi"]) == {"error"}


def test_raw_output_is_kept_beside_the_values_without_what_looks_like_a_secret() -> None:
    found = sections()
    found["sysctl"]["value"]["files"][0]["text"] += "# admin_password = hunter2\n"
    raw = {name: json.dumps(section).encode() for name, section in found.items()}
    text = dump(ClusterFacts({"n1": facts_of(framed(found))}), {"n1": raw})
    kept = json.loads(text)["hosts"]["n1"]
    assert "hunter2" not in json.dumps(kept["sysctl"]["raw"])
    assert kept["sockets"]["raw"]["sockets"]["out"].startswith("LISTEN")
    assert set(kept["versions"]["raw"]) == {"job", "driver"}
    assert load(text).hosts["n1"] == facts_of(framed(found))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password: hunter2 end", "password: [redacted]"),
        ('"api_key": "abc"', '"api_key": "[redacted]"'),
        ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
        ("http://me:hunter2@proxy:8080/", "http://[redacted]@proxy:8080/"),
        ("a\n-----BEGIN OPENSSH PRIVATE KEY-----\nxyz\n-----END OPENSSH PRIVATE KEY-----\nb", "a\n[redacted]\nb"),
        ("-----BEGIN PRIVATE KEY-----\nxyz cut", "[redacted]"),
        ("net.ipv4.ip_local_reserved_ports = 60000-60031", "net.ipv4.ip_local_reserved_ports = 60000-60031"),
        ("address_0=10.0.0.11", "address_0=10.0.0.11"),
    ],
)
def test_what_looks_like_a_secret_is_redacted_and_the_rest_is_not(text: str, left: str) -> None:
    assert redact(text) == left


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not a facts document"),
        ("{", "not a facts document"),
        ('{"schema": "preflight.facts/2", "hosts": {}}', "the schema is 'preflight.facts/2'"),
        (
            '{"schema": "preflight.facts/1", "hosts": {"n1": {"os": {"value": {"id": 5}}}}}',
            "hosts.n1.os is not valid: id should be text in quotes, but is a whole number",
        ),
        (
            '{"schema": "preflight.facts/1", "hosts": {"n1": {"os": {}}}}',
            "hosts.n1.os is not valid: it has neither",
        ),
        ('{"schema": "preflight.facts/1", "hosts": {"n1": {"unreachable": {}}}}', "hosts.n1.unreachable is not valid"),
        ("[" * 100_000, "not a facts document"),
    ],
)
def test_a_wrong_document_is_refused_with_the_place(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=r"facts\.json: ") as refused:
        load(text, "facts.json")
    assert sentence in str(refused.value)


def test_a_section_that_the_document_lacks_is_missing_and_one_that_nobody_knows_is_passed_over() -> None:
    facts = load('{"schema": "preflight.facts/1", "hosts": {"n1": {"weather": {"value": 1}}}}', "f.json").hosts["n1"]
    assert isinstance(facts, HostFacts)
    assert facts.os == Missing("not in f.json")
    assert facts.hccn is None


def cluster(*names: str, fabric: Fabric = Fabric.SWITCHED, gateway: str | None = None) -> Cluster:
    devices = tuple(Device(index, None, IPv4Address(gateway) if gateway else None) for index in (0, 1))
    hosts = tuple(Host(name, name, devices=devices) for name in names)
    return Cluster("c", Product.ATLAS_A3, hosts, fabric=fabric)


class Wire:
    """A transport that answers with what `reply` makes of the request; hosts named `gone` are unreachable."""

    def __init__(self, reply: Callable[[dict[str, Any]], object]) -> None:
        self.reply = reply

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:  # noqa: ARG002
        if host.name == "gone":
            raise TransportError(ErrorKind.TIMEOUT, "gone: no answer in 10 s", "is it switched on?")
        request = json.loads(program.payload)
        return framed(self.reply(request), request["marker"])

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        raise NotImplementedError

    def close(self) -> None: ...


def test_a_host_that_cannot_be_reached_is_among_the_facts_with_the_reason() -> None:
    two = cluster("a", "gone")
    facts = collect(FactsRequest(two, two.hosts), Wire(lambda _: sections()), progress=None)
    assert list(facts.hosts) == ["a", "gone"]
    assert isinstance(facts.hosts["a"], HostFacts)
    assert facts.hosts["gone"] == Unreachable("timeout", "gone: no answer in 10 s", "is it switched on?")


def test_what_only_some_inventories_ask_for_is_absent_elsewhere_and_read_where_it_was_asked() -> None:
    way = {"variables": {"NCCL_DEBUG": "INFO"}, "programs": {"mpirun": ""}, "mpi": ""}
    asked = {"value": {"user": "ops", "shell": "/bin/bash", "over_ssh": way, "login": None, "error": "no"}}
    for shells, expected in (
        (None, None),
        (asked, Shells("ops", "/bin/bash", ShellView({"NCCL_DEBUG": "INFO"}, {"mpirun": ""}), None, "no")),
        ({"error": "late"}, Missing("late")),
    ):
        facts = facts_of(framed({**sections(), **({"shells": shells} if shells else {})}))
        assert facts.shells == expected
        assert load(dump(ClusterFacts({"n1": facts}))).hosts["n1"] == facts
