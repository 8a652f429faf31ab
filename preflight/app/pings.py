"""Pings between devices, repeated where packets were lost."""

import time
from collections.abc import Sequence

from preflight.app.session import Session
from preflight.attribution.ping_repeats import TIMES, repeats, with_repeats
from preflight.facts.types import ClusterFacts
from preflight.model.ping import Ping


def send_pings(s: Session, facts: ClusterFacts, plan: Sequence[Ping]) -> tuple[Ping, ...]:
    """Return the results of the planned pings, with a loss rate where packets were lost."""
    results = s.ping(facts, plan)
    for times in TIMES:
        if time.monotonic() < s.until and (repeated := repeats(results, times)):
            s.progress.say("pings lost packets: pinging these devices again")
            results = with_repeats(results, s.ping(facts, repeated))
    return results
