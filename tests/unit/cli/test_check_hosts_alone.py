"""`preflight check --hosts`: named hosts, without an inventory."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from preflight.app.hosts_alone import cluster_of, product_shown, with_product, without_changes
from preflight.app.progress_line import ProgressLine
from preflight.app.session import Session
from preflight.cli.hosts import check
from preflight.cli.main import main
from preflight.facts.sections.accelerators import Accelerators
from preflight.facts.types import ClusterFacts, HostFacts
from preflight.model.change import Area, Change, Kind
from preflight.model.cluster import Cluster, FirewallPolicy, Product, Ssh
from preflight.model.errors import UsageError
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.report import HostLine, Report
from preflight.report.build import RunDetails, build
from preflight.report.next_step import next_step_without_inventory
from preflight.transport import Options, open_transport
from tests.unit.healthy import healthy_cluster, healthy_facts

NPUS = Accelerators(npu_nodes=8, npus=("0xd802",) * 8)


def on_this_machine(text: str) -> Cluster:
    cluster = cluster_of(text)
    return replace(cluster, hosts=tuple(replace(host, ssh=Ssh(transport="local")) for host in cluster.hosts))


def test_a_cluster_of_names_has_no_devices_and_no_firewall_policy() -> None:
    cluster = cluster_of("node[01-02]")
    assert [(host.name, host.address, host.devices) for host in cluster.hosts] == [
        ("node01", "node01", ()),
        ("node02", "node02", ()),
    ]
    assert (cluster.product, cluster.firewall, str(cluster.ports)) == (Product.CPU, FirewallPolicy.LEAVE, "")


def test_localhost_is_this_machine_and_needs_no_sshd() -> None:
    cluster = cluster_of("localhost,node01")
    assert [host.ssh.transport for host in cluster.hosts] == ["local", "fabric"]


@pytest.mark.parametrize("text", ["", "node[1-", "a,a", "-oProxyCommand=x"])
def test_wrong_names_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--hosts"):
        cluster_of(text)


@pytest.mark.parametrize(
    ("sections", "product", "why"),
    [
        ([], Product.CPU, "no host reported its accelerators"),
        ([Accelerators()], Product.CPU, "no host shows an NPU or GPU"),
        ([Accelerators(gpu_nodes=8, gpus=8), Accelerators()], Product.NVIDIA, "the product is nvidia"),
        ([replace(NPUS, chips=("910B3",))], Product.ATLAS_A2, "npu-smi reports the chip '910B3'"),
        ([replace(NPUS, chips=("910B3",)), NPUS], Product.ATLAS_A2, "the product is atlas-a2"),
        ([NPUS], Product.CPU, "npu-smi reports no chips"),
        ([replace(NPUS, chips=("910B3", "310P3"))], Product.CPU, "the NPUs were not checked"),
        ([NPUS, Accelerators(gpus=1)], Product.CPU, "Check each kind by itself."),
    ],
)
def test_hosts_show_their_product(sections: list[Accelerators], product: Product, why: str) -> None:
    shown, reason = product_shown(sections)
    assert shown is product
    assert why in reason


def test_a_finding_loses_its_change() -> None:
    change = Change("a", Area.PORTS, Kind.SYSCTL, "x", None, "1", "NPU112")
    assert [finding.change for finding in without_changes([Finding("NPU112", Outcome.FAIL, "x", change=change)])] == [
        None
    ]


def test_this_machine_is_checked_without_an_inventory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(check, "cluster_of", on_this_machine)
    code = main(["check", "--hosts", "alpha", "--basic", "--only", "HST,PRT", "-o", "json"])
    report = json.loads(capsys.readouterr().out)
    assert code in (0, 1, 3)
    assert [host["name"] for host in report["hosts"]] == ["alpha"]
    assert {id_[:3] for id_ in report["checks"]} == {"HST"}
    assert report["notes"][0] == (
        "without an inventory, ports, firewalls, planned addresses and collectives were not checked"
    )
    assert any("no probe" in note for note in report["notes"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--hosts a --inventory x.toml", "argument -i/--inventory: not allowed with argument --hosts"),
        ("--hosts a --limit a", "--hosts cannot be combined with --limit"),
        ("--hosts a --idle", "--hosts cannot be combined with --idle"),
        ("--hosts a --publish", "--hosts cannot be combined with --publish"),
        ("--hosts a --from x.json", "--hosts cannot be combined with --from"),
        ("--hosts a --only ports", "checks of firewall and ports need an inventory"),
    ],
)
def test_options_that_need_an_inventory_are_refused(words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["check", *words.split()])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert says in capsys.readouterr().err


def report_of(*findings: Finding) -> Report:
    return Report("r", "check", "", "", (HostLine("a", Outcome.PASS, {}),), findings)


def test_the_next_command_explains_a_problem_or_writes_an_inventory() -> None:
    failed = Finding("HST101", Outcome.FAIL, "a: x", host="a")
    unknown = Finding("HST103", Outcome.UNKNOWN, "a: x", host="a")
    assert next_step_without_inventory(report_of(unknown, failed), "a", "cpu") == "preflight explain HST101"
    assert next_step_without_inventory(report_of(unknown), "a", "cpu") == "preflight explain HST103"
    step = next_step_without_inventory(report_of(), "node[1-2]", "cpu")
    assert step == "preflight init --hosts 'node[1-2]' --product cpu"


def test_commands_of_findings_name_the_hosts() -> None:
    finding = Finding("X", Outcome.FAIL, "a: x", commands=("preflight check --only X",), retest="preflight probe")
    report = build(
        "check", datetime.now(UTC), ["a"], [finding], RunDetails(inventory=Path("hosts.toml"), hosts="a[1-2]")
    )
    assert report.findings[0].commands == ("preflight check --hosts 'a[1-2]' --only X",)
    assert report.findings[0].retest == "preflight probe"


class Answering(Session):
    """A session whose hosts answer with the facts of a healthy cluster, but with these accelerators."""

    def collect(self, *_: object, **__: object) -> ClusterFacts:
        cluster = healthy_cluster()
        sections = (replace(NPUS, npu_nodes=7, chips=("910B3",)), replace(NPUS, chips=("910B3",)))
        facts = healthy_facts(cluster).hosts.values()
        names = (host.name for host in self.hosts)
        return ClusterFacts(
            {
                name: replace(host, accelerators=section)
                for name, host, section in zip(names, facts, sections, strict=True)
                if isinstance(host, HostFacts)
            }
        )


def test_all_hosts_have_the_devices_of_the_host_with_most() -> None:
    cluster = cluster_of("a,b")
    opened = Answering(cluster, cluster.hosts, open_transport(cluster, Options()), ProgressLine())
    s, why = with_product(opened)
    assert s.cluster.product is Product.ATLAS_A2
    assert [len(host.devices) for host in s.hosts] == [8, 8]
    assert s.cluster.hosts == s.hosts
    assert "910B3" in why
