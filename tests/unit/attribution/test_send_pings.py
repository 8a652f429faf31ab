"""Pings that lost packets are sent again in two rounds, and their packets are added."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from preflight.app.pings import send_pings
from preflight.facts.types import ClusterFacts
from preflight.model.ping import Ping

PLAN = [Ping(f"n{host}", 0, f"10.0.0.{host % 3 + 1}", f"n{host % 3 + 1}/0") for host in (1, 2, 3)]


class Session:
    """A stand-in for a session: the host `lossy` loses one packet of each ping that it sends."""

    def __init__(self, lossy: str) -> None:
        self.lossy, self.progress = lossy, self
        self.rounds: list[int] = []
        self.until = math.inf

    def say(self, text: str) -> None: ...

    def ping(self, _: ClusterFacts, plan: Sequence[Ping]) -> tuple[Ping, ...]:
        self.rounds.append(len(plan))
        return tuple(replace(ping, sent=3, received=3 - (ping.host == self.lossy)) for ping in plan)


def sent(lossy: str, until: float = math.inf) -> tuple[Session, dict[str, tuple[int, int]]]:
    session: Any = Session(lossy)
    session.until = until
    results = send_pings(session, ClusterFacts({}), PLAN)
    return session, {ping.host: (ping.sent, ping.received) for ping in results}


def test_a_lossy_ping_and_those_of_its_ends_are_repeated_twice_and_then_five_times() -> None:
    session, packets = sent("n1")
    assert session.rounds == [3, 6, 15]
    assert packets == {"n1": (24, 16), "n2": (24, 24), "n3": (24, 24)}


def test_without_a_loss_there_is_one_round() -> None:
    session, packets = sent("")
    assert session.rounds == [3]
    assert set(packets.values()) == {(3, 3)}


def test_after_the_end_of_the_run_nothing_is_repeated() -> None:
    session, packets = sent("n1", until=0.0)
    assert session.rounds == [3]
    assert packets["n1"] == (3, 2)
