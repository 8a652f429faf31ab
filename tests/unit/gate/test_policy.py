"""What a host's gate is told."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from datetime import date
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import pytest

from preflight.gate.policy import config_digest, gate_json
from preflight.model.cluster import Cluster, Device, Host, ProbeSettings, Product, Ssh, Waiver
from preflight.model.errors import UsageError
from preflight.model.gate import UNKNOWN, Context, DrainLimit, GatePolicy, Unknown
from preflight.model.ports import PortSet

ROOT = Path(__file__).parents[3]
HOST = Host("node01", "10.1.0.11", nic="eth0", devices=(Device(0, IPv4Interface("10.8.0.11/16")), Device(1)))
CLUSTER = Cluster(
    "train", Product.ATLAS_A2, (HOST, Host("node02", "10.1.0.12")), hccl_ports=PortSet.parse("60000-60031"),
    job_ports=PortSet.parse("29500"), port_names={29500: "master"},
)  # fmt: skip


def said(cluster: Cluster, host: Host = HOST) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gate_json(cluster, host))
    return document


def ruled(**rules: Any) -> Cluster:
    return replace(CLUSTER, gate=GatePolicy(**rules))


def test_the_document_is_the_one_that_is_documented() -> None:
    gate = GatePolicy(3600, unknown=UNKNOWN | {Context.PROLOG: Unknown.CLOSED}, drain=DrainLimit(4, None), requeues=1)
    assert said(replace(CLUSTER, gate=gate)) == {
        "schema": "preflight.gate/1",
        "host": "node01",
        "cluster": "train",
        "config": config_digest(CLUSTER, HOST),
        "max_age": 3600,
        "probe_max_age": 604800,
        "need_probe": False,
        "required": [],
        "optional": [],
        "off": [],
        "unknown": {
            "prolog": "closed", "epilog": "open", "task": "open", "health": "open", "controller": "open",
            "job": "closed", "init": "closed",
        },
        "drain": {"nodes": 4, "percent": None},
        "undrain": False,
        "requeues": 1,
        "expect": {
            "product": "atlas-a2", "reserved": "29500,60000-60031", "free": "29500,60000-60031", "devices": [0, 1],
            "addresses": {"0": "10.8.0.11/16"}, "nic": "eth0",
        },
    }  # fmt: skip


def test_words_become_the_ids_of_checks() -> None:
    lists = said(ruled(required=("ports",), optional=("prb10", "NPU113"), off=("HST101",)))
    assert lists["required"] == ["PRT101", "PRT102", "PRT103", "PRT104"]
    assert {"PRB101", "PRB102", "NPU113"} <= set(lists["optional"])
    assert lists["off"] == ["HST101"]


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"off": ("NPU1O7",)}, "[gate] in the inventory: off: there is no check 'NPU1O7'; did you mean NPU107?"),
        ({"required": ("NPU107",), "off": ("NPU",)}, "NPU107 cannot be required and also optional or off"),
        ({"required": ("ports",), "optional": ("PRT103",)}, "PRT103 cannot be required and also optional or off"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(rules: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        gate_json(ruled(**rules), HOST)
    assert says in str(refused.value)


def test_a_nic_that_is_named_by_its_network_is_left_to_the_checks() -> None:
    assert said(CLUSTER, replace(HOST, nic="10.1.0.0/24"))["expect"]["nic"] == ""
    assert said(CLUSTER, replace(HOST, nic=None))["expect"]["nic"] == ""


@pytest.mark.parametrize(
    "other",
    [
        replace(CLUSTER, name="renamed"),
        replace(CLUSTER, hosts=(*CLUSTER.hosts, Host("node03", "10.1.0.13"))),
        ruled(max_age=60.0, off=("NPU",)),
        replace(CLUSTER, waivers=(Waiver("NPU113", "*", "jo", "known", date(2027, 1, 1)),)),
        replace(CLUSTER, probe=replace(CLUSTER.probe, idle=True, via="slurm")),
    ],
)
def test_what_no_verdict_depends_on_voids_none(other: Cluster) -> None:
    assert config_digest(other, HOST) == config_digest(CLUSTER, HOST)


def test_the_way_to_a_host_voids_no_verdict() -> None:
    assert config_digest(CLUSTER, replace(HOST, ssh=Ssh(port=2222))) == config_digest(CLUSTER, HOST)


def test_everything_else_that_the_inventory_says_does() -> None:
    others = [
        replace(CLUSTER, product=Product.ATLAS_A3),
        replace(CLUSTER, hccl_ports=PortSet.parse("61000-61031")),
        replace(CLUSTER, port_names={29500: "rendezvous"}),
        replace(CLUSTER, probe=ProbeSettings(python="/opt/python")),
        replace(CLUSTER, setup=replace(CLUSTER.setup, profile={"HCCL_BUFFSIZE": "200"})),
        replace(CLUSTER, job=replace(CLUSTER.job, imports=("torch",))),
    ]
    hosts = [
        replace(HOST, name="node09"),
        replace(HOST, address="10.1.0.99"),
        replace(HOST, nic="bond0"),
        replace(HOST, devices=HOST.devices[:1]),
        replace(HOST, devices=(Device(0, IPv4Interface("10.8.0.12/16")), Device(1))),
    ]
    digests = [config_digest(CLUSTER, HOST), *(config_digest(other, HOST) for other in others)]
    digests += [config_digest(CLUSTER, host) for host in hosts]
    assert len(set(digests)) == len(digests)


def test_what_a_cluster_has_of_settings_counts_unless_it_is_named_here() -> None:
    """Also a field that is added to the model."""
    for field in fields(Cluster):
        value: Any = replace(CLUSTER.probe, python="other") if field.name == "probe" else "other"
        same = config_digest(replace(CLUSTER, **{field.name: value}), HOST) == config_digest(CLUSTER, HOST)
        assert same is (field.name in {"name", "hosts", "gate", "waivers"}), field.name


def test_the_gate_on_the_node_takes_it(tmp_path: Path) -> None:
    (tmp_path / "etc/preflight").mkdir(0o755, parents=True)
    (tmp_path / "etc/preflight/gate.json").write_text(gate_json(ruled(off=("NPU113",)), HOST))
    policy, trouble = importlib.import_module("gate.policy").load(str(tmp_path), os.geteuid())
    assert trouble == ""
    assert (policy.host, policy.config, policy.off) == ("node01", config_digest(CLUSTER, HOST), ["NPU113"])
    assert policy.reserved == [(29500, 29500), (60000, 60031)]
    assert [policy.opens(context) for context in ("prolog", "job")] == [True, False]


def test_the_digest_is_the_same_in_every_process() -> None:
    program = (
        "from preflight.gate.policy import config_digest\nfrom tests.unit.gate.test_policy import *\n"
        "print(config_digest(CLUSTER, HOST))"
    )
    command = [sys.executable, "-c", program]
    elsewhere = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert elsewhere == f"{config_digest(CLUSTER, HOST)}\n"
