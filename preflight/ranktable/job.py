"""Requirements that a job's environment variables add to its rank table. Pure. Source: HCCL's user guide, hccl_env and
cluster_info_config."""

import re
from collections.abc import Iterable, Iterator, Mapping

from preflight.model.text import quote
from preflight.ranktable.rules import why_addresses
from preflight.ranktable.types import RankTable, Server, TableProblem, rank_problem

_RETRY, _ROCE = "HCCL_OP_RETRY_ENABLE", "HCCL_INTER_HCCS_DISABLE"
_RETRIES = re.compile(r"L[0-9]+\s*:\s*1")  # at a level: "L1:0,L2:1"


def host_ips_of_job(
    table: RankTable, servers: Iterable[Server], variables: Mapping[str, str], setter: str
) -> Iterator[TableProblem]:
    """Yield servers of version 1.2 that lack the host_ip for retried operators. `setter` is the variables' source."""
    value = variables.get(_RETRY, "")
    for server in servers if table.version == "1.2" and _RETRIES.search(value) else ():
        if not server.host_ip:
            text = f"server {server.id} has no host_ip, which {_RETRY}={quote(value)} ({setter}) requires"
            yield TableProblem("host-ip", text, server.path)


def addresses_of_job(
    table: RankTable, servers: Iterable[Server], variables: Mapping[str, str], setter: str
) -> Iterator[TableProblem]:
    """Yield devices of a super-pod that lack the device_ip for RoCE.

    Several super-pods need the addresses anyway, which `addresses_needed` reports.
    """
    roce = variables.get(_ROCE, "").upper() == "TRUE" and table.version == "1.2"
    covered = why_addresses(table.version, len(table.servers), len(table.super_pods), None)
    for server in servers if roce and not covered else ():
        for device in server.devices:
            if not device.device_ip:
                text = f" has no device_ip, which {_ROCE}=TRUE ({setter}) requires"
                yield rank_problem("device-ip", server, device, "", text)
