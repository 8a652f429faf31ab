"""What variables of a job want of its rank table besides. Pure. Source: HCCL's user guide, hccl_env and
cluster_info_config."""

import re
from collections.abc import Iterable, Iterator, Mapping

from preflight.facts.quote import quote
from preflight.ranktable.rules import why_addresses
from preflight.ranktable.types import Problem, RankTable, Server, called

_RETRY, _ROCE = "HCCL_OP_RETRY_ENABLE", "HCCL_INTER_HCCS_DISABLE"
_RETRIES = re.compile(r"L[0-9]+\s*:\s*1")  # at a level: "L1:0,L2:1"


def host_ips_of_job(
    table: RankTable, servers: Iterable[Server], variables: Mapping[str, str], whose: str
) -> Iterator[Problem]:
    """Where operators are tried again, servers of version 1.2 have a host_ip. `whose`: who sets the variables."""
    value = variables.get(_RETRY, "")
    for server in servers if table.version == "1.2" and _RETRIES.search(value) else ():
        if not server.host_ip:
            text = f"server {server.id} has no host_ip, which {_RETRY}={quote(value)} ({whose}) wants"
            yield Problem("host-ip", text, server.path)


def addresses_of_job(
    table: RankTable, servers: Iterable[Server], variables: Mapping[str, str], whose: str
) -> Iterator[Problem]:
    """Where devices of a super-pod talk over RoCE, all have a device_ip; of several super-pods another rule says so."""
    wanted = variables.get(_ROCE, "").upper() == "TRUE" and table.version == "1.2"
    silent = why_addresses(table.version, len(table.servers), len(table.super_pods), None)
    for server in servers if wanted and not silent else ():
        for device in server.devices:
            if not device.device_ip:
                text = f"{called(server, device)} has no device_ip, which {_ROCE}=TRUE ({whose}) wants"
                yield Problem("device-ip", text, device.path, rank=device.rank)
