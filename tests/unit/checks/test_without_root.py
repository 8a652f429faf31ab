"""A look without root: what it does not show is never judged, the rest is, and nothing is planned for such a host."""

from dataclasses import replace

import pytest

from preflight.checks.engine.registry import ROUNDS, all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.collect import FactsRequest, collect_answers
from preflight.facts.types import ClusterFacts, Hccn, HostFacts, Missing, NpuSmi, Os, Reading, Unreachable
from preflight.facts.unprivileged import without_root
from preflight.model.change import Area, Change, Kind, Plan
from preflight.model.cluster import Host
from preflight.model.outcome import Outcome
from preflight.provision.hold import where_root
from preflight.transport import Answer, ErrorKind, Program, TransportError
from tests.unit.healthy import scene

REFUSED = Unreachable("sudo", "node01: sudo says no", "let it say yes")


def host_facts(*, root: bool, user: str = "ops") -> HostFacts:
    facts = scene({}).facts.hosts["node01"]
    assert isinstance(facts, HostFacts)
    assert isinstance(facts.os, Os)
    return replace(facts, os=replace(facts.os, root=root, user=user))


def test_root_sees_everything() -> None:
    facts = host_facts(root=True, user="root")
    assert without_root(facts, None) == facts


@pytest.mark.parametrize("refused", [None, REFUSED])
def test_the_firewall_is_missing_even_where_it_looks_open(refused: Unreachable | None) -> None:
    facts = without_root(host_facts(root=False), refused)
    assert isinstance(facts.firewall, Missing)
    assert "root is needed" in facts.firewall.error
    assert "ops" in facts.firewall.error
    assert isinstance(facts.os, Os)
    assert facts.os.refused == refused
    assert isinstance(facts.npu_smi, NpuSmi)


def test_hccn_tool_is_believed_where_it_answers_everything_and_only_there() -> None:
    facts = host_facts(root=False)
    assert without_root(facts, None).hccn == facts.hccn
    assert isinstance(facts.hccn, Hccn)
    first, *others = facts.hccn.devices
    torn = replace(facts, hccn=Hccn((replace(first, address=Reading(error="Command execute failed!")), *others)))
    seen = without_root(torn, None).hccn
    assert isinstance(seen, Missing)
    assert "root is needed" in seen.error


def test_what_could_not_be_read_anyway_says_who_looked() -> None:
    facts = without_root(replace(host_facts(root=False), npu_smi=Missing("npu-smi printed no")), REFUSED)
    assert facts.npu_smi == Missing("npu-smi printed no (checked as ops: root may be needed)")


def test_checks_of_what_is_missing_are_unknown_and_the_others_go_on() -> None:
    healthy = scene({})
    facts = replace(
        healthy.facts, hosts={**healthy.facts.hosts, "node01": without_root(host_facts(root=False), REFUSED)}
    )
    product = healthy.cluster.product
    checks = [
        check for check in all_checks().values() if not set(ROUNDS) & set(check.needs) and product in check.products
    ]
    found = run_checks(healthy.cluster, facts, checks=checks, hosts=healthy.cluster.hosts)
    of_node01 = {finding.check: finding.outcome for finding in found if finding.host == "node01"}
    assert of_node01["HST107"] is Outcome.FAIL
    assert {id_: outcome for id_, outcome in of_node01.items() if id_.startswith("FWL")}.keys() == {
        check.id for check in checks if check.id.startswith("FWL")
    }
    for check in checks:
        shown_otherwise = check.id == "FWL104"  # connections came through, whatever the firewall is
        wanted = Outcome.UNKNOWN if "firewall" in check.needs and not shown_otherwise else Outcome.PASS
        if check.id != "HST107":
            assert of_node01[check.id] is wanted, check.id


CHANGE = Change("node01", Area.PORTS, Kind.SYSCTL, "net.ipv4.ip_local_reserved_ports", "", "29500", "PRT101")


def without(refused: Unreachable | None) -> ClusterFacts:
    healthy = scene({}).facts
    return replace(healthy, hosts={**healthy.hosts, "node01": without_root(host_facts(root=False), refused)})


@pytest.mark.parametrize(("refused", "says"), [(None, "sudo = true"), (REFUSED, "node01: sudo says no")])
def test_nothing_is_planned_where_we_are_not_root(refused: Unreachable | None, says: str) -> None:
    other = replace(CHANGE, host="node02")
    kept, notes = where_root(Plan((CHANGE, replace(CHANGE, target="another"), other)), without(refused))
    assert kept.changes == (other,)
    assert len(notes) == 1
    assert says in notes[0]
    assert "root" in notes[0]


def test_that_sudo_refused_is_said_even_where_nothing_is_seen_to_be_changed() -> None:
    assert where_root(Plan(()), without(None)) == (Plan(()), ())
    (note,) = where_root(Plan(()), without(REFUSED))[1]
    assert note == "node01: sudo says no. It is left out, since changing it needs root. Fix: let it say yes"


def test_many_refusals_are_told_by_a_few() -> None:
    powerless = without_root(host_facts(root=False), REFUSED)
    facts = ClusterFacts({f"node{number:03}": powerless for number in range(400)})
    notes = where_root(Plan(()), facts)[1]
    assert len(notes) == 6
    assert notes[-1] == "395 more hosts are left out, since changing them needs root"


class SudoSaysNo:
    """A transport whose hosts refuse sudo, and whose program answers nothing that is understood."""

    def __init__(self) -> None:
        self.asked: list[bool] = []

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 0) -> Answer:  # noqa: ARG002
        self.asked.append(host.ssh.sudo)
        if host.ssh.sudo:
            raise TransportError(ErrorKind.SUDO, "node01: sudo says no", "let it say yes")
        return Answer(b"", b"", 0, 0.1)


def test_where_sudo_refuses_the_host_is_looked_at_without() -> None:
    cluster = scene({}).cluster
    host = cluster.hosts[0]
    transport = SudoSaysNo()
    asking = replace(host, ssh=replace(host.ssh, sudo=True))
    seen = collect_answers(FactsRequest(cluster, [asking]), transport, progress=None)  # type: ignore[arg-type]
    assert transport.asked == [True, False]
    assert not isinstance(seen["node01"], Unreachable)
