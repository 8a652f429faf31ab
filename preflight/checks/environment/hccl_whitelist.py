"""HCCL's whitelist of hosts, where jobs turn it on."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from ipaddress import ip_address
from typing import Any

from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.facts.reading import Found
from preflight.facts.sections.job import Job, SeenFile
from preflight.facts.types import Network
from preflight.model.finding import Finding
from preflight.model.text import quote
from preflight.rules.nics.hccl_nic import NicChoice, choose

_FILE = "HCCL_WHITELIST_FILE"
_NAMED, _ADDED = 4, 64  # addresses that a message and a remedy name


@cluster_check("HST112", "HCCL whitelist", products=NPU, several=False)
def holds_all(scribe: All, job: Mapping[str, Job], network: Mapping[str, Network]) -> Iterator[Finding]:
    """Why: If HCCL_WHITELIST_DISABLE=0 is set, a rank accepts connections only from the addresses in the file's host_ip
    list. If an address is missing, connections from it time out, although the firewall is open and pings pass. The list
    must contain the address of the NIC that HCCL chooses (HST110).

    Result: FAIL for a missing address, and for a missing or invalid file.

    Check manually: Where jobs run:
      echo $HCCL_WHITELIST_DISABLE
      cat $HCCL_WHITELIST_FILE

    Fix: Add the address to the file's host_ip list on every host, or unset HCCL_WHITELIST_DISABLE.
    """
    chosen = {name: choose(job[name].variables, network[name]) for name in job}
    wanted = {str(choice.address.ip): name for name, choice in chosen.items() if isinstance(choice, NicChoice)}
    lacking = cache(partial(_lacking, wanted))  # all hosts of a cluster have the same text
    for host, job_of_host in job.items():
        path = job_of_host.variables.get(_FILE, "")
        # ENV105 reports a host that sets only one of the two.
        if path and job_of_host.variables.get("HCCL_WHITELIST_DISABLE") == "0":
            yield from _of_host(scribe, host, path, job_of_host.files.get(path), lacking)


def _of_host(
    scribe: All, host: str, path: str, file: SeenFile | None, lacking: Callable[[str], Found["_Lacking"]]
) -> Iterator[Finding]:
    """Yield the finding about one host's whitelist. `lacking` returns what the text of one lacks."""
    if file is None or file.error:
        yield scribe.unknown(f"{host}: the HCCL whitelist {quote(path)} could not be read", host=host)
        return
    result = lacking(file.text) if file.kind != "missing" else Found(error="is missing")
    if result.value is None:
        text = f"{host}: the HCCL whitelist {quote(path)} {result.error}"
        example = json.dumps({"host_ip": [scribe.cluster.hosts[0].address]})
        remedy = f"write a JSON object such as {example} to the file, or unset {_FILE} in the jobs' environment"
        yield scribe.bad(text, host=host, remedy=remedy)
    elif count := result.value.count:
        wanted, first = result.value.wanted, result.value.first
        yield scribe.bad(
            f"{host}: the HCCL whitelist {quote(path)} does not contain "
            + _some([f"{address} ({name})" for address, name in first[:_NAMED]], count),
            host=host,
            peer=first[0][1],
            expected=f"{wanted} host addresses",
            found=f"{wanted - count} host addresses",
            remedy=f"add these addresses to host_ip in {path}: {_some([address for address, _ in first], count)}",
        )


@dataclass(frozen=True)
class _Lacking:
    """What a whitelist does not contain of `wanted` addresses: `count` of them, and the first with their hosts."""

    wanted: int
    count: int
    first: tuple[tuple[str, str], ...]


def _lacking(wanted: Mapping[str, str], text: str) -> Found[_Lacking]:
    """Return what the text lacks of `wanted` (address → its host); an error where it is no whitelist."""
    try:
        document: Any = json.loads(text)
        listed = {str(ip_address(address)) for address in document["host_ip"]}
    except (ValueError, TypeError, KeyError, RecursionError):
        return Found(error="is not a JSON object with a list of addresses in host_ip")
    missing = [(address, name) for address, name in wanted.items() if address not in listed]
    return Found(_Lacking(len(wanted), len(missing), tuple(missing[:_ADDED])))


def _some(shown: Sequence[str], count: int) -> str:
    """Return the first of a list, and the number of the others. With 4,000 hosts a full list would fill a page a
    host."""
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")
