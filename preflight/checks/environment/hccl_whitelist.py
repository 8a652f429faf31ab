"""HCCL's whitelist of hosts, where jobs turn it on."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
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
    for host, job_of_host in job.items():
        path = job_of_host.variables.get(_FILE, "")
        # ENV105 reports a host that sets only one of the two.
        if path and job_of_host.variables.get("HCCL_WHITELIST_DISABLE") == "0":
            yield from _missing_addresses(scribe, host, path, job_of_host.files.get(path), wanted)


def _missing_addresses(
    scribe: All, host: str, path: str, file: SeenFile | None, wanted: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield the finding about one host's whitelist. `wanted`: address → its host."""
    if file is None or file.error:
        yield scribe.unknown(f"{host}: the HCCL whitelist {quote(path)} could not be read", host=host)
        return
    listed = _addresses(file.text) if file.kind != "missing" else Found(error="is missing")
    if listed.value is None:
        text = f"{host}: the HCCL whitelist {quote(path)} {listed.error}"
        example = json.dumps({"host_ip": [*wanted][:1] or ["10.1.0.1"]})
        remedy = f"write a JSON object such as {example} to the file, or unset {_FILE} in the jobs' environment"
        yield scribe.bad(text, host=host, remedy=remedy)
    elif missing := [address for address in wanted if address not in listed.value]:
        yield scribe.bad(
            f"{host}: the HCCL whitelist {quote(path)} does not contain "
            + _some([f"{address} ({wanted[address]})" for address in missing[:_NAMED]], len(missing)),
            host=host,
            peer=wanted[missing[0]],
            expected=f"{len(wanted)} host addresses",
            found=f"{len(wanted) - len(missing)} host addresses",
            remedy=f"add these addresses to host_ip in {path}: {_some(missing[:_ADDED], len(missing))}",
        )


@lru_cache(maxsize=4)  # all hosts of a cluster have the same text
def _addresses(text: str) -> Found[frozenset[str]]:
    """Return the addresses of host_ip; an error where the text is no whitelist."""
    try:
        document: Any = json.loads(text)
        return Found(frozenset(str(ip_address(address)) for address in document["host_ip"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return Found(error="is not a JSON object with a list of addresses in host_ip")


def _some(shown: Sequence[str], count: int) -> str:
    """Return the first of a list, and the number of the others. With 4,000 hosts a full list would fill a page a
    host."""
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")
