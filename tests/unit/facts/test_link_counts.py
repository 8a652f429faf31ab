"""What ports count during the probe's tests: from two looks to one sentence, and when nobody looks."""

from dataclasses import replace

import pytest

from preflight.app.probing import link_counts as looking
from preflight.app.probing.probed_devices import ProbedDevices
from preflight.app.session import Session
from preflight.checks.engine.run import NotRun
from preflight.facts.link_counts import LinkCounts, PortCount, between, sentence
from preflight.facts.parsers.rdma import PortCounters
from preflight.facts.reading import Found
from preflight.facts.sections.nic import Nic
from preflight.facts.sections.rdma import Rdma
from preflight.facts.types import ClusterFacts, HostFacts, Missing, Unreachable
from preflight.model.rehearsal import Rehearsal
from preflight.probe.run import ProbeResult
from tests.unit.healthy import Scene, observations, scene

NVIDIA: Scene = scene({"cluster": {"product": "nvidia"}})
NPU: Scene = scene({})


def of(facts: ClusterFacts, host: str = "node01") -> HostFacts:
    found = facts.hosts[host]
    assert isinstance(found, HostFacts)
    return found


def risen(facts: ClusterFacts, **by: int) -> ClusterFacts:
    """node01 alone, whose first RDMA port, or device, has counted so much more."""
    host = of(facts)
    if isinstance(host.rdma, Rdma):
        first, *rest = host.rdma.counters
        more = {**first.values, **{name: first.values.get(name, 0) + n for name, n in by.items()}}
        ports = (PortCounters(first.device, first.port, more), *rest)
        host = replace(host, rdma=replace(host.rdma, counters=ports, later=ports))
    if isinstance(host.nic, Nic):
        device, *others = host.nic.devices
        counts = device.packets.value or {}
        more = {**counts, **{name: counts.get(name, 0) + n for name, n in by.items()}}
        host = replace(host, nic=Nic((replace(device, packets=Found(more)), *others)))
    return ClusterFacts({"node01": host})


@pytest.mark.parametrize(
    ("before", "by", "packets", "errors"),
    [
        (NVIDIA.facts, {"port_rcv_packets": 500}, 500, {}),
        (NVIDIA.facts, {"port_rcv_packets": 500, "link_downed": 1, "symbol_error": 3}, 500,
         {"link_downed": 1, "symbol_error": 3}),
        (NVIDIA.facts, {"link_downed": -1}, 0, {}),  # set back meanwhile
        (NPU.facts, {"roce_rx_err_pkt_num": 12}, None, {"roce_rx_err_pkt_num": 12}),
    ],
)  # fmt: skip
def test_what_was_counted_between_two_looks(
    before: ClusterFacts, by: dict[str, int], packets: int | None, errors: dict[str, int]
) -> None:
    counts = between(before, risen(before, **by), ["node01"], "rdma" if before is NVIDIA.facts else "nic")
    first = counts.ports[0]
    assert (first.host, first.packets, first.errors) == ("node01", packets, errors)
    assert not any(port.errors for port in counts.ports[1:])
    assert not counts.unknown


def test_a_host_that_was_not_read_twice_is_not_known() -> None:
    gone = ClusterFacts({"node01": Unreachable("deadline", "node01: no answer", "")})
    assert between(NVIDIA.facts, gone, ["node01"], "rdma").unknown == {"node01": "after the tests: node01: no answer"}
    late = ClusterFacts({"node01": replace(of(NVIDIA.facts), rdma=Missing("no answer within 8 s"))})
    assert between(late, NVIDIA.facts, ["node01"], "rdma").unknown == {
        "node01": "before the tests: no answer within 8 s"
    }
    assert between(ClusterFacts({}), NVIDIA.facts, ["node01"], "rdma").unknown == {
        "node01": "before the tests: not checked"
    }


def test_a_port_that_vanishes_during_the_tests_is_named() -> None:
    host = of(NVIDIA.facts)
    assert isinstance(host.rdma, Rdma)
    fewer = replace(host.rdma, counters=host.rdma.counters[1:], later=host.rdma.later[1:])
    counts = between(NVIDIA.facts, ClusterFacts({"node01": replace(host, rdma=fewer)}), ["node01"], "rdma")
    assert counts.unknown == {"node01": "mlx5_0 port 1 reported no counters after the tests"}


def test_hosts_whose_ports_tell_nothing_are_no_trouble() -> None:
    host = of(NVIDIA.facts)
    assert isinstance(host.rdma, Rdma)
    bare = ClusterFacts({"node01": replace(host, rdma=replace(host.rdma, counters=(), later=()))})
    assert between(bare, bare, ["node01"], "rdma") == LinkCounts((), {}, ("node01",))


def test_the_sentence_is_there_whether_something_was_wrong_or_not() -> None:
    well = PortCount("node01", "mlx5_0 port 1", None, 1000, {})
    told = "RDMA during the tests: 1 port on 1 host, 1000 packets, no errors"
    assert sentence(LinkCounts((well,))) == told
    bad = replace(well, host="node02", errors={"link_downed": 1})
    assert sentence(LinkCounts((well, bad))).endswith("errors on node02 mlx5_0 port 1: link_downed rose "
                                                      "by 1")  # fmt: skip
    assert "packets not counted" in sentence(LinkCounts((replace(bad, packets=None),)))
    assert sentence(LinkCounts((replace(well, packets=None), replace(well, packets=0)))) == ""
    assert sentence(LinkCounts(())) == ""


def test_sockets_and_gloo_send_nothing_over_rdma(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> ClusterFacts:
        raise AssertionError("nobody is to be asked")

    monkeypatch.setattr(Session, "collect", asked)
    socket = {"id": "r1-0", "op": "init", "members": ["node01/0", "node02/0"],
              "meeting": {"backend": "nccl", "place": "x", "nics": {}},
              "ranks": {place: {"way": {"network": "Socket"}} for place in ("node01/0", "node02/0")}}  # fmt: skip
    seen = observations({"tests": [socket], "only_these_tests": True})
    session: object = None
    for backend, before in (("gloo", NVIDIA.facts), ("nccl", NVIDIA.facts), ("nccl", ClusterFacts({}))):
        tests = ProbedDevices(
            NVIDIA.cluster.hosts, backend, before, ProbeResult(tuple(seen)), Rehearsal(backend, (), ())
        )
        found = looking.after_tests(session, tests)  # type: ignore[arg-type]
        assert isinstance(found, NotRun)
    assert looking.before_tests(session, "gloo") == ClusterFacts({})  # type: ignore[arg-type]
