"""Pings that are repeated after lost packets, and the loss rate that follows."""

from dataclasses import replace

from preflight.attribution.lost_pings import causes
from preflight.attribution.ping_repeats import MOST, repeats, with_repeats
from preflight.model.ping import Ping

RING = [
    Ping(f"n{host}", 0, f"10.0.0.{host % 4 + 1}", f"n{host % 4 + 1}/0", sent=3, received=3) for host in (1, 2, 3, 4)
]


def lossy(received: int, *hosts: str) -> list[Ping]:
    return [replace(ping, received=received) if ping.host in hosts else ping for ping in RING]


def senders(pings: list[Ping]) -> list[str]:
    return sorted({ping.host for ping in pings})


def test_without_loss_no_ping_is_repeated() -> None:
    assert repeats(RING, 7) == []


def test_both_ends_of_a_lossy_pair_are_pinged_again_with_their_other_partners() -> None:
    repeated = repeats(lossy(2, "n1"), 7)
    assert senders(repeated) == ["n1", "n2", "n4"]  # not n3, which pings n4
    assert len(repeated) == 3 * 7
    assert {(ping.sent, ping.received) for ping in repeated} == {(0, 0)}


def test_a_ping_without_any_answer_is_not_repeated_but_its_ends_are() -> None:
    assert senders(repeats(lossy(0, "n1"), 7)) == ["n2", "n4"]


def test_only_pings_of_the_same_purpose_are_repeated() -> None:
    large = [replace(ping, purpose="mtu", size=4068) for ping in lossy(1, "n1")]
    repeated = repeats([*RING, *large], 7)
    assert {ping.size for ping in repeated} == {4068}


def test_if_very_many_lose_packets_none_is_repeated() -> None:
    many = [replace(ping, device=device, peer=f"n1/{device}") for device in range(MOST) for ping in lossy(2, "n1")]
    assert repeats(many, 7) == []


def test_the_packets_of_repeated_pings_are_added() -> None:
    results = lossy(2, "n1")
    repeated = [
        replace(ping, sent=3, received=2 if "n2" in (ping.host, ping.peer[:2]) else 3) for ping in repeats(results, 7)
    ]
    rates = {ping.host: (ping.sent, ping.received) for ping in with_repeats(results, repeated)}
    assert rates == {"n1": (24, 16), "n2": (24, 17), "n3": (3, 3), "n4": (24, 24)}
    (cause,) = causes(with_repeats(results, repeated), {})
    assert (cause.kind, cause.names) == ("device", ("n2",))


def test_a_repeated_ping_without_a_result_adds_nothing() -> None:
    results = lossy(2, "n1")
    assert list(with_repeats(results, [replace(ping, error="timeout") for ping in repeats(results, 7)])) == results


def test_of_a_device_that_loses_many_pings_one_of_those_is_repeated_and_all_others() -> None:
    peers = [Ping("n1", 0, f"10.0.0.{host}", f"n{host}/0", sent=3, received=3) for host in (2, 3, 4, 5)]
    results = [replace(peers[0], received=1), replace(peers[1], received=2), *peers[2:]]
    assert {ping.peer for ping in repeats(results, 7)} == {"n2/0", "n4/0", "n5/0"}
