"""A capture: what is taken out of it, what its pseudonyms keep, and what is read from it again."""

import json
import re
import tomllib
from base64 import b64encode
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, ip_network
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.facts.answers.host import HostAnswer
from preflight.facts.documents import capture
from preflight.facts.documents.capture import Capture, clean
from preflight.facts.known_failures import is_known
from preflight.facts.redaction import redact
from preflight.facts.redaction.identities import Known, known
from preflight.facts.redaction.pseudonyms import Pseudonyms
from preflight.facts.redaction.unlisted_names import search
from preflight.facts.round_trip import Seen
from preflight.facts.sections.nic import Nic
from preflight.facts.types import HostFacts, Missing, Unreachable
from preflight.facts.unknown_formats import unknown
from preflight.inventory import dump, explicit_document, load, parse
from preflight.model.cluster import Cluster, Device, Host, Product, Ssh
from preflight.model.errors import PreflightError, UsageError
from preflight.model.ports import PortSet
from tests.unit.facts.test_facts import facts_of, framed, sections

ROOT = Path(__file__).parents[3]
CLUSTER = Cluster("c", Product.ATLAS_A2, (Host("n1", "10.1.0.1"), Host("n2", "10.1.0.2"), Host("n3", "10.1.0.3")))


def raw(document: dict[str, Any]) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(json.dumps(section).encode()) for name, section in document.items()}


def taken(**hosts: Any) -> Capture:
    return Capture("0", "2026-11-21T00:00:00+00:00", False, "", hosts)


def again(text: str, *names: str) -> dict[str, Any]:
    found = capture.read(capture.load(text, "c.json"), CLUSTER, [host for host in CLUSTER.hosts if host.name in names])
    return {name: it.facts if isinstance(it, Seen) else it for name, it in found.items()}


def test_what_was_captured_is_read_like_a_fresh_answer_and_hosts_that_gave_none_say_why() -> None:
    gone = Unreachable("timeout", "n3 did not answer", "look at n3")
    mute = Missing("the program on the host exited with 1 and gave no answer; last output: nothing")
    answered = raw({**sections(), "printed": {"value": "Welcome!"}})
    text = capture.dump(
        taken(n1=HostAnswer(answered, (0,), 1000.0, 1000.4), n2=HostAnswer(mute, (0,), 1.0, 2.0), n3=gone), "salt"
    )
    found = again(text, "n1", "n2", "n3")
    fresh = facts_of(framed(sections()))
    assert replace(found["n1"], arrivals=fresh.arrivals) == fresh
    assert found["n1"].arrivals.tries[0].source == "n2"  # what the others' looks say of it
    assert found["n2"].os == mute
    assert found["n3"] == gone


def test_a_look_without_root_is_one_when_it_is_read_again() -> None:
    document = sections()
    document["os"]["value"].update(root=False, user="ops")
    refused = Unreachable("sudo", "n1: sudo says no", "let it say yes")
    found = again(capture.dump(taken(n1=HostAnswer(raw(document), (0,), 1.0, 2.0, refused)), "salt"), "n1")
    assert found["n1"].os.refused == refused
    assert "root is needed" in found["n1"].firewall.error


def test_serial_numbers_and_secrets_are_not_in_it_and_the_machine_s_id_is_another_the_same_for_the_same() -> None:
    document = sections()
    document["os"]["value"]["machine_id"] = "0123456789abcdef0123456789abcdef"
    document["hccn"]["value"]["0"]["optical"] = {
        "out": "optical info:\nvendor serial number : V8BD6H25033\n", "err": "", "code": 0
    }  # fmt: skip
    document["chips"]["value"]["queries"]["board -i 3"]["out"] += "\tSerial Number : 102415083974\n"
    document["sysctl"]["value"]["files"][0]["text"] += "# admin_password = hunter2\n"
    host = HostAnswer(raw(document), (0,), 1.0, 2.0)
    text = capture.dump(taken(n1=host, n2=host), "salt")
    for secret in ("V8BD6H25033", "102415083974", "hunter2", "0123456789abcdef"):
        assert secret not in text
    ids = [its["sections"]["os"]["value"]["machine_id"] for its in json.loads(text)["hosts"].values()]
    assert ids[0] == ids[1]
    assert json.loads(capture.dump(taken(n1=host), "other"))["hosts"]["n1"]["sections"]["os"]["value"][
        "machine_id"
    ] != ids[0]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("vendor serial number : V8BD6H25033", "vendor serial number : [redacted]"),
        ("\tSerial Number                  : 102415083974", "\tSerial Number                  : [redacted]"),
        ("\tVDie ID : 42C711D4 20B03704", "\tVDie ID : [redacted]"),
        ("vendor part number   : LMQ8611-PC+", "vendor part number   : LMQ8611-PC+"),
        ("Board ID : 0x02", "Board ID : 0x02"),
        ("SN : 2102350ABC", "SN : [redacted]"),
        ("Serial no: 2102350ABC", "Serial no: [redacted]"),
        ('{"serial": "2102350ABC", "port": 1}', '{"serial": "[redacted]", "port": 1}'),
        (f"serial number : {'2102350ABC ' * 40}", "serial number : [redacted]"),
        ("snapshot : 3", "snapshot : 3"),
    ],
)
def test_a_line_with_a_serial_number_keeps_its_key(line: str, left: str) -> None:
    assert clean(f"a : b\n{line}\nc : d") == f"a : b\n{left}\nc : d"


PIECES = (
    "PASSWD", "pass", "Pwd", "db_SECRET", "Token", "credential", "PSK", "api-key", "ssh_key", "AUTH KEY", "ſession key",
    "authorization", "Bearer ", "BASIC ", "sshpass -p", "--", "ghp_", "github_pat_", "glpat-", "hf_", "AKIA", "eyJ",
    "AIza", "nvapi-", "sk-", "xoxb-", "-u ", "--user=", "mysql", "mariadb x -p", "[", "]", "redis-cli -a ",
    "identified by ", '"auth": "x"', "Cookie: ", "hooks.slack.com/services/", "$6$", " -p ",
    "login a ", "password ", "?sig=", "&X-Amz-Signature=", "WANDB_KEY", "<chassis_serial_number>",
    "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "Serial No.", "serial", "S/N", "sn", "VDie ID",
    "UUID", "Barcode", "E-label", "elabel", ":", "=", " ", "\n", '"', "'", "x" * 17, "://", "@", "7", "ı", "ſ",
)  # fmt: skip
SECRETS = (
    "AWS_SECRET_ACCESS_KEY=hunter2", "export DB_PASS=hunter2; run", "DB_PASS='one two hunter2'x", "http://u:a/hunter2@proxy:1",
    "http://u:a@hunter2@proxy", "https://hunter2@github.com/x", "redis://:hunter2@h/0", "Authorization: hunter2",
    "curl -H 'Authorization: Digest user hunter2'", '"Authorization": "Bearer hunter2"', "authorization=Basic hunter2",
    "--password hunter2", "--auth-token=hunter2", "sshpass -p hunter2 ssh x", "sshpass -phunter2", "x-api-key: hunter2",
    "private_key = hunter2", 'password = "two hunter2"', "password = two hunter2", r'{\"passwd\": \"two hunter2\"}',
    "db_pwd: hunter2", "PSK=hunter2", "token hf_hunter2hunter2hunter2", "bearer hunter2hunter2",
    "a github_pat_hunter2hunter2hunter2", f"pass={'x' * 5000}hunter2", f'pass="{"x" * 5000} hunter2',
    "curl -u me:hunter2 https://x", "curl --user 'me:two hunter2' x", "wget --proxy-user=me:hunter2 x",
    "mysql -h db -phunter2 x", "docker login -u me -p hunter2 registry", "redis-cli -h db -a hunter2 ping",
    "CREATE USER me IDENTIFIED BY 'hunter2'", '{"auths": {"registry": {"auth": "hunter2"}}}',
    "Set-Cookie: a=hunter2; b=c",
    "curl https://hooks.slack.com/services/T0/B0/hunter2", "me:$6$salt$hunter2hunter2:19000:0",
    "$2b$12$hunter2hunter2hunter2",
    "machine x login me password hunter2", "machine x\n  login me\n  password hunter2", 'tokens=["a", "hunter2"]',
    '"api_tokens": [\n  "a",\n  "hunter2"\n]', "passwords = [hunter2, hunter2", "secrets: ['hunter2', 'hunter2']",
)  # fmt: skip


@pytest.mark.parametrize("text", SECRETS)
def test_what_looks_like_a_secret_is_taken_out(text: str) -> None:
    assert "hunter2" not in clean(f"before\n{text}\nafter")
    assert clean(f"before\n{text}\nafter").startswith("before\n")
    assert clean(f"before\n{text}\nafter").endswith("\nafter")


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_what_is_taken_out_does_not_depend_on_the_quick_look_before(text: str) -> None:
    with patch.object(redact, "may_match", return_value=True), patch.object(capture, "_SERIAL_HINTS", ("",)):
        whole = clean(text)
    assert clean(text) == whole


@pytest.mark.parametrize(
    "text",
    [
        "docker run -u 1000:1000 -p 80:80 x", "$HOME/a $1 $$", "login node -n 2",
        "date -u", "ps -u root", "mysqldump --all", "python -u train.py",
        "PWD=/root", "Virtualization Mode : Pass-Through", "HCCL_IF_BASE_PORT=60000 HCCL_BUFFSIZE=300",
        '{"ifname":"eth0","master":"bond0"}', "https://example.org/a?b=c", "root@node01:~# hccn_tool",
        "2 ranks failed to pass the barrier", "tls switch[1](0:disable, 1:enable)", "zzz: unknown key", "--keep 3",
        "tokenizers 0.15",
    ],
)  # fmt: skip
def test_harmless_words_stay(text: str) -> None:
    assert clean(text) == text


def test_a_setting_a_variable_and_an_option_that_are_called_like_a_secret_lose_their_value() -> None:
    document = {
        "host_setup": {"profile": {"ASCEND_PWD": "hunter2", "HCCL_AUTH": "hunter2", "HCCL_BUFFSIZE": "300"}},
        "probe": {"exec": ["docker", "exec", "--password", "hunter2", "name"], "step_deadline": 30},
        "api_tokens": ["hunter2", "", {"at": "x"}],
        "keys": ["a", "b"],
    }
    assert clean(document) == {
        "host_setup": {"profile": {"ASCEND_PWD": "[redacted]", "HCCL_AUTH": "[redacted]", "HCCL_BUFFSIZE": "300"}},
        "probe": {"exec": ["docker", "exec", "--password", "[redacted]", "name"], "step_deadline": 30},
        "api_tokens": ["[redacted]", "", {"at": "x"}],
        "keys": ["a", "b"],
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not a capture"),
        ('{"schema": "preflight.capture/1"}', "not a capture"),
        (
            '{"schema": "preflight.capture/9", "preflight": "1", "taken": "", "anonymous": false, "inventory": "",'
            ' "hosts": {}}',
            "the schema is 'preflight.capture/9'",
        ),
        ("[" * 100_000, "not a capture"),
    ],
)  # fmt: skip
def test_a_wrong_capture_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=r"c\.json: ") as refused:
        capture.load(text, "c.json")
    assert sentence in str(refused.value)


# Formats that nobody understood.


def test_answers_that_were_not_understood_are_told_by_command_and_what_is_merely_wrong_is_not() -> None:
    document = sections()
    document["hccn"]["value"]["0"]["fec"] = {"out": "fec: perhaps\n", "err": "", "code": 0}
    document["hccn"]["value"]["1"] = dict(document["hccn"]["value"]["0"])
    document["hccn"]["value"]["1"]["stat"] = {"out": "", "err": "Command execute failed!\n", "code": 1}
    document["npu_smi"] = {"value": {"info": {"out": "good morning\n", "err": "", "code": 0},
                                     "mapping": {"out": "", "err": "", "code": 0}}}  # fmt: skip
    facts = facts_of(framed(document), devices=(0, 1))
    found = {it.command: (it.hosts, it.answers) for it in unknown({"n1": facts, "n2": facts})}
    assert found == {
        "hccn_tool -fec": (("n1", "n2"), 4),
        "hccn_tool -stat": (("n1", "n2"), 2),
        "section npu_smi": (("n1", "n2"), 2),
    }
    (fec,) = [it for it in unknown({"n1": facts}) if it.command == "hccn_tool -fec"]
    assert "'fec: perhaps'" in fec.error


def test_a_healthy_host_has_no_unknown_format() -> None:
    document = sections()
    del document["hccn"]["value"]["0"]["stat"]
    assert unknown({"n1": facts_of(framed(document))}) == ()


OPTICAL = "optical info:\npresent : present\n"
STRANGE = {  # in whatever words a parser says so
    "hccn_tool -optical": (
        OPTICAL + "Tx Power0 : -1.20 dBm\n", OPTICAL + "Tx Los Flag : 15\n", "optical info:\npresent : yes\n",
        OPTICAL + "Tx Power0 : 1.0 mW\nTx Power1 : NA\n",
    ),
    "hccn_tool -lldp": ("Chassis ID TLV\n\tMAC: aa:bb:cc:dd:ee:ff\nSystem Name: leaf1\n",),
    "hccn_tool -gateway": ("default gateway:1.1.1.x, Iface:eth0\n",),
    "hccn_tool -ip": ("ipaddr:fe80::1\nnetmask:255.255.255.0\n",),
    "hccn_tool -fec": ("fec mode: rs FEC mode\nfec mode: rs FEC mode\n", ""),
}  # fmt: skip


@pytest.mark.parametrize(("command", "text"), [(command, text) for command, texts in STRANGE.items() for text in texts])
def test_an_answer_of_hccn_tool_that_is_not_understood_is_told(command: str, text: str) -> None:
    document = sections()
    document["hccn"]["value"]["0"][command.partition("-")[2]] = {"out": text, "err": "", "code": 0}
    assert command in {it.command for it in unknown({"n1": facts_of(framed(document))})}


MAPPED = "\tNPU ID   Chip ID   Chip Logic ID   Chip Name\n"


@pytest.mark.parametrize(
    ("section", "part", "text", "command"),
    [
        ("hccn_conf", "text", "[port0]\naddress_0=10.0.0.1\n", "section hccn_conf"),
        ("device_nodes", "install", "foo\n", "/etc/ascend_install.info"),
        ("device_nodes", "lspci", "0000:3d:00.0 Processing accelerators [1200]: Huawei (rev 20)\n", "lspci"),
        ("chips", "mapping", MAPPED + "\t1   0   0   Ascend910\n\t1   0   1   Ascend910\n", "section chips"),
        ("chips", "usages -i 3 -c 0", "Aicore Usage Rate(%) : 1\nAicore Usage Rate(%) : 2\n", "npu-smi info -t usages"),
        ("chips", "spod-info -i 3 -c 0", "SDID : 1\n", "npu-smi info -t spod-info"),
        ("driver", "driver", "Version=25.0.rc1\ncompatible_version=V100 to V200\n", "driver/version.info"),
    ],
)  # fmt: skip
def test_any_other_answer_that_is_not_understood_is_told(section: str, part: str, text: str, command: str) -> None:
    document = sections()
    value = document[section]["value"]
    if part in ("text", "install", "driver"):
        value[part] = text
    else:
        parts = value["queries"] if " -i " in part else value
        parts[part] = {"out": text, "err": "", "code": 0}
    assert command in {it.command for it in unknown({"n1": facts_of(framed(document))})}


@pytest.mark.parametrize(
    "error",
    [
        "hccn_tool -i 0 -optical did not finish in time", "npu-smi printed more than 32 KiB",
        "hccn_tool is busy, please try again.", "permission denied: pls check this cmd run permission.",
        "hccn_tool -vnic: The command is not supported on this product.", "hccn_tool did not answer in time",
        "no result within 10 s (checked as ops: root may be needed)", "Command execute failed!",
        "/etc/hccn.conf cannot be read: Is a directory",
        "docker, where the jobs run, exited with 125: no such container",
        "which chip is which device is not known: npu-smi info -m was not started because the time was up",
        "nvidia-smi nvlink -e was not run, because journalctl took its place (at most four processes)",
        "nvidia-smi nvlink -e printed 'ERROR: Option -e is not recognized. Please run 'nvidia-smi -h'.'",
    ],
)  # fmt: skip
def test_what_has_a_cause_of_its_own_is_no_new_format(error: str) -> None:
    assert is_known(error)


def test_a_failure_text_that_is_only_quoted_hides_no_new_format() -> None:
    assert not is_known("hccn_tool printed 'FEC: execute timeout 3', which is not recognized")
    assert not is_known("hccn_tool's PFC table ends with 'permission denied', which is not recognized")


# Pseudonyms.

KNOWN = Known(
    {"node01": "host1", "node01.dc.example.org": "host1", "node02": "host2", "master": "host3"},
    others=frozenset({"nas7", "nas7.dc.example.org"}),
    domains=frozenset({"dc.example.org", "example.org"}),
    addresses=frozenset({"10.20.30.40", "2001:db8::5"}),
    macs=frozenset({"001b213c9df8"}),
)
SECRET = Pseudonyms(b"a key of this test", KNOWN)


def mapped(address: str) -> IPv4Address:
    return IPv4Address(SECRET.text(address))


def shared(one: IPv4Address, other: IPv4Address) -> int:
    """How many leading bits two addresses share."""
    return 32 - (int(one) ^ int(other)).bit_length()


ADDRESSES = [
    f"{first}.{second}.{third}.{last}"
    for first, second in ((10, 0), (10, 20), (10, 21), (172, 16), (172, 31), (192, 168), (198, 18), (8, 8))
    for third in (0, 8, 100, 101, 255)
    for last in (1, 11)
]


def test_addresses_share_as_many_leading_bits_as_they_did_and_no_two_become_one() -> None:
    for one, other in combinations([a for a in ADDRESSES if not a.startswith("192.168.0.")], 2):
        assert shared(mapped(one), mapped(other)) == shared(IPv4Address(one), IPv4Address(other)), (one, other)


def test_most_addresses_are_others_and_of_the_same_kind() -> None:
    changed = [address for address in ADDRESSES if mapped(address) != IPv4Address(address)]
    assert len(changed) > 0.8 * len(ADDRESSES)
    private = [IPv4Network(network) for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
    for address in ADDRESSES:
        assert [mapped(address) in it for it in private] == [IPv4Address(address) in it for it in private]


@pytest.mark.parametrize(
    "text",
    [
        "255.255.252.0", "0.0.0.0", "127.0.0.1", "224.0.0.1", "192.168.1.199", "192.168.2.199", "192.9.3.198",
        "Software Version : 25.2.0.1", "7.1.0.11.220", "5.10.0-60.18.0.50.oe2203", "0000:3d:00.0", "10:13:51",
        "::", "::1", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "node01x", "xnode01", "999.1.1.1",
    ],
)  # fmt: skip
def test_what_names_nobody_stays(text: str) -> None:
    assert SECRET.text(text) == text


@pytest.mark.parametrize("network", ["10.20.0.0/14", "10.20.4.0/22", "172.16.0.0/12", "10.0.0.0/8", "fd00:1::/64"])
def test_a_network_stays_one_and_its_addresses_are_in_it(network: str) -> None:
    found = ip_network(SECRET.text(network))
    inside = str(next(ip_network(network).hosts()))
    assert ip_network(SECRET.text(inside)).subnet_of(found)  # type: ignore[arg-type]


def test_a_network_with_its_mask_in_the_same_line_stays_one() -> None:
    address, mask = SECRET.text("10.20.4.0 255.255.252.0").split()
    assert IPv4Network(f"{address}/{mask}").prefixlen == 22


def test_names_are_told_apart_from_words_and_keep_their_surroundings() -> None:
    assert SECRET.text("root@node01.dc.example.org:~ (node02)") == "root@host1:~ (host2)"
    assert SECRET.shown(SECRET.name("node01")) == "host1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("NODE01.other.example.org node01-ib", "host1 host1-ib"),
        ("Node01_bmc bmc-node01 node01:8118", "host1_bmc bmc-host1 host1:8118"),
        ('{"node01": {"master": "bond0", "to": "master"}}', '{"host1": {"master": "bond0", "to": "host3"}}'),
        ("root@master:~ master-ib master = 1 webmaster", "root@host3:~ host3-ib master = 1 webmaster"),
        ("lacp-master master_addr", "lacp-master master_addr"),
        ("node012 anode01", "node012 anode01"),
    ],
)  # fmt: skip
def test_a_name_is_one_in_whatever_case_and_with_whatever_is_hung_on(text: str, shown: str) -> None:
    assert SECRET.text(text) == shown


def test_other_machines_and_domains_have_pseudonyms_too() -> None:
    first, again, other, domain = SECRET.text("nas7 nas7.dc.example.org x.example.org dc.example.org").split()
    assert first == again
    assert len({first, other, domain}) == 3
    assert not re.search("nas7|example", first + other + domain)


@pytest.mark.parametrize(
    "text",
    [
        "srv10.20.30.40x", "ip-10-20-30-40", "10_20_30_40.log", "version 10.20.30.40", "version 1 at 10.20.30.40",
        "00-1B-21-3C-9D-F8", "001b.213c.9df8", "enx001b213c9df8", "001b213c9df8",
        "a0:00:02:20:fe:80:00:00:00:00:00:00:00:1b:21:ff:fe:3c:9d:f8", "2001:db8::5",
    ],
)  # fmt: skip
def test_what_is_known_is_found_in_every_shape(text: str) -> None:
    found = SECRET.text(text)
    assert not re.search("20.30|3c.?9d|::5", found, re.IGNORECASE)
    assert re.sub("[0-9a-f]", "", found.lower())[:3] == re.sub("[0-9a-f]", "", text.lower())[:3]


def test_a_rank_table_in_one_line_keeps_its_version_and_no_address() -> None:
    table = {"version": "1.0", "server_list": [{"server_id": "10.20.30.40", "device": [{"device_ip": "10.20.8.1"}]}]}
    shown = json.loads(SECRET.text(json.dumps(table)))
    assert shown["version"] == "1.0"
    assert shown["server_list"][0]["server_id"] == SECRET.text("10.20.30.40") != "10.20.30.40"
    assert shown["server_list"][0]["device"][0]["device_ip"] == SECRET.text("10.20.8.1") != "10.20.8.1"


def test_keys_of_a_document_stay_where_a_host_is_called_like_one() -> None:
    own = Known(dict.fromkeys(("hosts", "job", "hccl", "name", "cluster", "worker"), "host1"))
    pseudonyms = Pseudonyms(b"key", own)
    document = {
        "hosts": [{"name": "worker", "devices": 2}], "job": {"datasets": ["/data/job"]}, "worker": "worker",
        "names": {"cluster": {"worker": ["10.20.30.40"]}, "cluster_size": 1}, "cluster": {"name": "x"},
        "files": {"/home/worker/x": "worker = 1"},
    }  # fmt: skip
    shown = json.loads(pseudonyms.shown(json.dumps(pseudonyms.value(document), ensure_ascii=False)))
    address = pseudonyms.text("10.20.30.40")
    assert shown == {
        "hosts": [{"name": "host1", "devices": 2}], "job": {"datasets": ["/data/host1"]}, "worker": "host1",
        "names": {"cluster": {"host1": [address]}, "cluster_size": 1}, "cluster": {"name": "x"},
        "files": {"/home/host1/x": "worker = 1"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("at NODE01-ib", "the name of a machine or a domain"),
        ("x.example.org", "the name of a machine or a domain"),
        ("master", "the name of a machine or a domain"),
        ("v10.20.30.40", "an IPv4 address"),
        ("2001:DB8::5", "an IPv6 address"),
        ("enx001b213c9df8", "a MAC address"),
    ],
)
def test_a_capture_that_would_hold_something_known_is_refused_with_its_kind_and_place_alone(
    text: str, kind: str
) -> None:
    whole = replace(taken(node01=HostAnswer(raw(sections()), (0,), 1.0, 2.0)), inventory=text)
    with pytest.raises(PreflightError) as refused:
        capture.dump(whole, "salt", SECRET)
    assert f"the capture would still contain {kind} in inventory" in str(refused.value)
    assert text not in str(refused.value)
    assert capture.dump(replace(whole, inventory=""), "salt", SECRET)


def test_words_of_an_inventory_are_no_names_that_are_left() -> None:
    own = Pseudonyms(b"key", Known(dict.fromkeys(("hosts", "job", "hccl"), "host1")))
    inventory = dump(own.value({"job": {"datasets": []}, "probe": {"backend": "hccl"}, "hosts": [{"name": "hccl"}]}))
    text = capture.dump(replace(taken(), inventory=inventory), "salt", own)
    assert tomllib.loads(capture.load(text, "c.json").inventory) == {
        "job": {"datasets": []}, "probe": {"backend": "hccl"}, "hosts": [{"name": "host1"}]
    }  # fmt: skip


def test_digests_of_an_anonymous_capture_are_others_the_same_for_the_same() -> None:
    document = sections()
    file = {"path": "/etc/hccl.json", "kind": "file", "text": "", "digest": "ab" * 32, "size": 1, "error": ""}
    document["job"]["value"]["deep"]["files"] = [file, {**file, "digest": ""}]
    host = HostAnswer(raw(document), (0,), 1.0, 2.0)
    text = capture.dump(taken(node01=host, node02=host), "salt", SECRET)
    assert "ab" * 32 in capture.dump(taken(n1=host), "salt")
    digests = [[it["digest"] for it in its["sections"]["job"]["value"]["deep"]["files"]]
               for its in json.loads(text)["hosts"].values()]  # fmt: skip
    assert digests[0] == digests[1]
    assert digests[0][0] not in ("", "ab" * 32)
    assert digests[0][1] == ""


def test_pseudonyms_that_look_like_another_host_s_address_are_none_of_what_is_left() -> None:
    every = Known(addresses=frozenset(f"192.168.{third}.1" for third in range(8, 256)))
    document = taken(n1=HostAnswer(Missing(" ".join(sorted(every.addresses))), (), 1.0, 2.0))
    shown = re.findall(r"192\.168\.\d+\.1", capture.dump(document, "salt", Pseudonyms(b"key", every)))
    assert len(set(shown) & every.addresses) > 200


def test_names_and_addresses_are_known_from_the_inventory_and_what_hosts_say() -> None:
    device = Device(0, IPv4Interface("10.20.0.1/22"), IPv4Address("10.20.3.254"))
    cluster = Cluster(
        "c", Product.ATLAS_A2, (Host("n1", "n1.dc.example.org"), Host("n2", "10.1.0.2", devices=(device,)))
    )
    document = sections()
    document["os"]["value"]["hostname"] = "own.local"
    document["environment"]["value"]["hosts"] = (
        "127.0.0.1 localhost n1\n::1 ip6-localhost\n10.9.9.9 nas.dc.example.org nas # x y\n10.9.9.10 N1\nbad line\n"
    )
    document["network"]["value"]["addresses"] = json.dumps(
        [{"ifname": "eth0", "flags": ["UP"], "mtu": 1500, "address": "00:1b:21:3c:9d:f8",
          "addr_info": [{"local": "10.1.0.1", "prefixlen": 24}]}]
    )  # fmt: skip
    found = known(cluster, {"n1": facts_of(framed(document))})
    assert found.names == {
        "n1": "host1", "n1.dc.example.org": "host1", "own": "host1", "own.local": "host1", "n2": "host2"
    }  # fmt: skip
    assert found.others == {"nas", "nas.dc.example.org", "n1.dc", "leaf01"}
    assert found.domains == {"dc.example.org", "example.org"}
    assert {"10.1.0.1", "10.1.0.2", "10.9.9.9", "10.20.0.1", "10.20.3.254"} <= found.addresses
    assert found.macs == {"001b213c9df8"}


def test_a_mac_address_keeps_its_vendor_and_an_ipv6_address_its_kind() -> None:
    mac = SECRET.text("00:1b:21:3c:9d:f8")
    assert mac != "00:1b:21:3c:9d:f8"
    assert mac.startswith("00:1b:21:")
    local = IPv6Address(SECRET.text("fe80::21b:21ff:fe3c:9df8"))
    assert local.is_link_local
    assert local != IPv6Address("fe80::21b:21ff:fe3c:9df8")


def test_a_gid_stays_that_of_its_address() -> None:
    gid = SECRET.text("mlx5_0/ports/1/gids/3: 0000:0000:0000:0000:0000:ffff:0a1e:000b").partition(": ")[2]
    assert str(IPv6Address(gid).ipv4_mapped) == SECRET.text("10.30.0.11") != "10.30.0.11"


def test_another_key_gives_other_pseudonyms() -> None:
    other = Pseudonyms(b"another", Known())
    assert [other.text(address) for address in ADDRESSES] != [SECRET.text(address) for address in ADDRESSES]


# The inventory of a capture.


@pytest.mark.parametrize("example", ["inventory.example.toml", *(str(p) for p in (ROOT / "examples").glob("*.toml"))])
def test_a_cluster_written_out_host_by_host_is_read_back_as_it_was(example: str) -> None:
    cluster = load(ROOT / example)
    back = parse(dump(explicit_document(cluster)), Path("x.toml"))
    hosts = tuple(replace(host, ssh=other.ssh) for host, other in zip(cluster.hosts, back.hosts, strict=True))
    assert back == replace(cluster, hosts=hosts, waivers=(), amp=back.amp)


def test_a_cluster_with_everything_said_is_written_out() -> None:
    cluster = parse(
        """
[cluster]
name = "x"
product = "atlas-a3"
[ports]
hccl_host_range = ["61000-61063", 62000]
mindspore = 8118
job = [7000, "7002-7004"]
[host_setup]
limits = { memlock = "64GiB" }
profile = { HCCL_BUFFSIZE = "300" }
[job]
datasets = ["/data"]
[gate]
max_age = "90m"
need_probe = true
required = ["NPU"]
optional = ["PRB101"]
unknown = { prolog = "closed", init = "open" }
drain_at_most = 4
requeues = 0
[[hosts]]
name = "n1"
""",
        Path("x.toml"),
    )
    assert parse(dump(explicit_document(cluster)), Path("x.toml")) == cluster
    assert cluster.hccl_ports == PortSet.parse("61000-61063,62000")


def test_devices_and_names_of_an_anonymous_capture_are_those_of_its_inventory() -> None:
    device = IPv4Interface("10.20.1.5/22")
    document = sections()
    document["hccn"]["value"]["0"]["ip"]["out"] = f"ipaddr:{device.ip}\nnetmask:255.255.252.0\n"
    inventory = dump(SECRET.value({"hosts": [{"name": "node01", "device_addresses": [str(device)]}]}))
    found = capture.load(
        capture.dump(
            replace(taken(node01=HostAnswer(raw(document), (0,), 1.0, 2.0)), inventory=inventory), "s", SECRET
        ),
        "c.json",
    )
    cluster = Cluster("c", Product.ATLAS_A2, (Host("host1", "x"),))
    it = capture.read(found, cluster, cluster.hosts)["host1"]
    assert isinstance(it, Seen)
    assert isinstance(it.facts, HostFacts)
    assert isinstance(it.facts.nic, Nic)
    assert it.facts.hccn
    assert 'name = "host1"' in found.inventory
    assert f'"{it.facts.hccn.devices[0].address.value}/22"' in found.inventory  # type: ignore[union-attr]


# Names that nothing lists.

UNLISTED = search([
    {"text": "# by zhangsan@acme-robots.cn\nsee https://wiki.hz.acme-robots.com.cn/x and https://docs.nvidia.com/y\n"},
    {"MASTER_ADDR": "gpu-login3", "NCCL_SOCKET_IFNAME": "eth0", "MASTER_PORT": "29500", "GLOO_HOST": "localhost"},
    {"source": "stor9:/export/data", "path": "/home/lisi/x", "user": "HwHiAiUser"},
    {"text": "root@bastion2:~# 2: veth1@if4: <UP> getty@tty1.service rc.local x.org.py java.io S_HOST=a7,b8:22"},
    {"text": "x%2F%2Fcode.acme-ai.net%2Fy"},
])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "machines", "users"),
    [
        ("A=sched.acme-prod.svc.cluster.local:80", {"sched", "acme-prod"}, set()),
        ("10-7-6-9.head.acme-prod.pod.cluster.local", {"10-7-6-9", "acme-prod"}, set()),
        ("http://mirror.acmens.svc/simple", {"acmens", "mirror.acmens.svc"}, set()),
        ("kube-dns.kube-system.svc.cluster.local and a.svc.py", set(), set()),
        ("# ask wujiu@mailhost, or me", {"mailhost"}, {"wujiu"}),
        ("getty@tty1 sshd@host postgres@14", set(), set()),
        ("proxy=acmeproxy1:3128", {"acmeproxy1"}, set()),
        ("  registry: 'harbor-acme:5000'", {"harbor-acme"}, set()),
        ("host: Running\nserver = eth0\naddress: 0x1f\nmirror=auto:up\nmac addr:e4:11:22:33:44:05", set(), set()),
        ("acmenas:/vol /mnt nfs4 rw", {"acmenas"}, set()),
        ("rsync -a zhao@acmestore:/data /data", {"acmestore"}, {"zhao"}),
        ("error:/usr/bin/x mount", set(), set()),
        ("/var/log/remote/rackx-07/messages /data/logs/hpc12.log", {"rackx-07", "hpc12"}, set()),
        ("/var/log/npu/device-0/x /var/log/syslog.1 /root/ascend/log/debug/plog/plog-12_3.log", set(), set()),
    ],
)
def test_services_and_mails_without_a_domain_are_found(text: str, machines: set[str], users: set[str]) -> None:
    names = search([{"text": text}])
    assert (set(names.machines), set(names.users)) == (machines, users)


@pytest.mark.parametrize(
    "text",
    [
        "acme.io", "pull acme.ai/model", "(acme-hpc.de)", "acme.local:8080", "acme.cloud.", "xn--fiqs8s.xn--55qx5d",
        "例子.中国", "http://例子.公司/x", "server2.例子.cn", "münchen-hpc.de",
    ],
)  # fmt: skip
def test_a_domain_is_found_wherever_it_stands(text: str) -> None:
    domain = re.search(r"[\w-]+(?:\.[\w-]+)+", text)
    assert domain
    assert domain[0] in search([{"text": text}]).full_names
    identities = known(Cluster("c", Product.ATLAS_A2, ()), {}, [{"text": text}])
    shown = Pseudonyms(b"key", identities).text(text)
    labels = domain[0].split(".")
    assert not any(label in shown for label in labels[-2:-1]), shown


@pytest.mark.parametrize(
    "text",
    ["java.io.File", "java.net", "self.local", "rc.local", "ASP.NET", "10.2.0.1.io", "libc.so.6", "torch.de.x", "a.py"],
)
def test_modules_attributes_and_files_are_no_domains(text: str) -> None:
    assert search([{"text": text}]).full_names == frozenset()


def test_names_that_nothing_lists_are_found_by_their_place() -> None:
    assert UNLISTED.full_names == {"acme-robots.cn", "wiki.hz.acme-robots.com.cn", "code.acme-ai.net"}
    assert UNLISTED.machines == {"gpu-login3", "stor9", "bastion2", "a7", "b8"}
    assert UNLISTED.users == {"zhangsan", "lisi"}


def test_the_domain_of_a_full_name_is_known_and_a_public_one_is_not() -> None:
    document = sections()
    document["naming"]["value"]["search"] = ["dc.acme.internal", "svc.cluster.local", "lan"]
    cluster = Cluster("c", Product.ATLAS_A2, (Host("n1", "10.1.0.1", ssh=Ssh(user="wangwu")),))
    found = known(cluster, {"n1": facts_of(framed(document))}, [{"a": "x.acme.com.cn y.github.com b.acme.cn acme.lan"}])
    assert {"dc.acme.internal", "acme.internal", "acme.com.cn", "acme.cn", "acme.lan"} <= found.domains
    assert not found.domains & {"com.cn", "github.com", "y.github.com", "svc.cluster.local", "lan"}
    assert found.users == {"wangwu"}


ALIAS = Pseudonyms(b"key", replace(KNOWN, users=frozenset({"zhangsan", "train"})))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\\nnode01 \x1b[31mnode02\x1b[0m", "a\\nhost1 \x1b[31mhost2\x1b[0m"),
        ("comment=" + b"to node01".hex(), "comment=" + b"to host1".hex()),
        ("x%3A%2F%2Fnode01%2Fy", "x%3A%2F%2Fhost1%2Fy"),
        (b64encode(b"login node01 now").decode(), b64encode(b"login host1 now").decode()),
    ],
)
def test_a_name_is_found_in_what_tools_encode(text: str, shown: str) -> None:
    assert SECRET.text(text) == shown


@pytest.mark.parametrize(
    "text", ["hccl_10.77.6.7.json", "/a/rank_10.77.6.7.log", "10.77.6.7-0.pt", "\\n10.77.6.7\\n", "10.77.6.7_0.txt"]
)
def test_an_address_in_a_file_name_is_the_same_other_one(text: str) -> None:
    other = SECRET.text("10.77.6.7")
    assert other != "10.77.6.7"
    assert SECRET.text(text) == text.replace("10.77.6.7", other)


@pytest.mark.parametrize("sign", "_-")
def test_an_address_with_other_signs_is_the_same_other_one(sign: str) -> None:
    written, other = ("10.77.6.7".replace(".", sign), SECRET.text("10.77.6.7").replace(".", sign))
    for text in (f"/logs/rank_{written}.log", f"hccl_{written}.json", f"{written}"):
        assert SECRET.text(text) == text.replace(written, other)


def test_an_address_backwards_is_the_same_other_one_backwards() -> None:
    other = SECRET.text("10.77.6.7").split(".")
    assert SECRET.text("7.6.77.10.in-addr.arpa") == ".".join(reversed(other)) + ".in-addr.arpa"
    assert SECRET.text("6.77.10.in-addr.arpa") == ".".join(reversed(other[:3])) + ".in-addr.arpa"
    backwards = ".".join(reversed(IPv6Address("2001:db8::5").exploded.replace(":", ""))) + ".ip6.arpa"
    assert SECRET.text(backwards) != backwards


@pytest.mark.parametrize(
    "text",
    [
        "libcublas-10.2.2.89-1.x86_64", "driver_10.1.0.3_linux-aarch64.run", "python train.py --data train.txt",
        "https://docs.nvidia.com/x", "# eth0 and mlx5_0 of x86_64, SHA256", "### tuple ### allow any 22 in_eth0",
        "see github.com/x/y", "#1 SMP PREEMPT_DYNAMIC", "/etc/rc.local", "Ascend-cann-toolkit", "100%ab",
    ],
)  # fmt: skip
def test_well_known_words_stay(text: str) -> None:
    assert ALIAS.text(text) == text


def test_what_looks_like_a_machine_in_a_comment_and_an_account_have_pseudonyms() -> None:
    shown = ALIAS.text("# bmc-rack12 of zhangsan, /home/train, train@x\nbmc-rack12\nnode[01-02]")
    assert not re.search("rack12 of|zhangsan|home/train|train@", shown)
    assert re.search(r"user-\w{6}, /home/user-\w{6}, user-\w{6}@x\n", shown)
    assert ALIAS.value({"user": "train", "launcher": "train"})["launcher"] == "train"
    assert ALIAS.shown(ALIAS.value({"user": "train"})["user"]).startswith("user-")
