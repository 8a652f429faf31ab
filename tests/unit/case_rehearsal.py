"""The port rehearsal of a case.

[rehearsal]
backend = "nccl"
visits = [{source, target, blocked = [{ports, how, by, error}]}]
nobody = true             it brought nothing
[rehearsal.hosts.node02]
taken = [{port, listening, process, pid}]
error = "why it took no part"
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from preflight.model.cluster import Cluster
from preflight.model.rehearsal import Attendance, Rehearsal, Visit


def rehearsal(case: Mapping[str, Any], cluster: Cluster) -> Rehearsal:
    """All hosts reach each other, but for what the case says."""
    given = case.get("rehearsal", {})
    if given.get("nobody"):
        return Rehearsal("gloo", (), ())
    ports = (29500, 60000, 60031)
    ephemeral = (32768, 60999)
    hosts = [
        msgspec.convert(
            {"host": host.name, "address": host.address, "ports": ports, "ephemeral": ephemeral}
            | given.get("hosts", {}).get(host.name, {}),
            Attendance,
        )
        for host in cluster.hosts
    ]
    visits = {
        (one.host, other.host): Visit(one.host, other.host, (*ports, *ephemeral))
        for one in hosts for other in hosts if one is not other and not one.error and not other.error
    }  # fmt: skip
    for change in given.get("visits", ()):
        visit = msgspec.convert({"ports": [*ports, *ephemeral], **change}, Visit)
        visits[visit.source, visit.target] = visit
    return Rehearsal(given.get("backend", "gloo"), tuple(hosts), tuple(visits.values()))
