"""HCCL's whitelist of hosts, where jobs turn it on."""

import json
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any

from preflight.checks.hccl_nic import Choice, choose
from preflight.checks.registry import NPU, All, cluster_check
from preflight.facts.job import Job, SeenFile
from preflight.facts.quote import quote
from preflight.facts.types import Network
from preflight.model.finding import Finding

_FILE = "HCCL_WHITELIST_FILE"


@cluster_check("HST112", "HCCL's whitelist holds all hosts, where it is on", products=NPU, several=False)
def holds_all(all_: All, job: Mapping[str, Job], network: Mapping[str, Network]) -> Iterator[Finding]:
    """Why: with HCCL_WHITELIST_DISABLE=0 a rank takes connections only from the addresses in host_ip of the file. One
    that is missing looks like a dead network: the firewall is open, every ping answers, and the connect timeout passes.
    The address that counts is that of the NIC which HCCL chooses (HST110).

    By hand: echo $HCCL_WHITELIST_DISABLE; cat $HCCL_WHITELIST_FILE   (where jobs run)

    Mend: add the address to host_ip of the file on every host, or unset HCCL_WHITELIST_DISABLE
    """
    chosen = {name: choose(job[name].variables, network[name]) for name in job}
    wanted = {str(one.address.ip): name for name, one in chosen.items() if isinstance(one, Choice)}
    for host, seen in job.items():
        path = seen.variables.get(_FILE, "")
        if seen.variables.get("HCCL_WHITELIST_DISABLE") != "0" or not path:
            continue  # ENV105 speaks where only one of the two is set
        listed = _listed(path, seen.files.get(path))
        if isinstance(listed, str):
            yield all_.bad(
                f"{host}: {_FILE}: {listed}", host=host, found=path, remedy="write it, or unset the variable"
            )
        elif listed is None:
            yield all_.unknown(f"{host}: {_FILE}: {quote(path)} could not be read", host=host)
        elif missing := [address for address in wanted if address not in listed]:
            names = ", ".join(f"{address} ({wanted[address]})" for address in missing[:4])
            more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
            yield all_.bad(
                f"{host}: the whitelist {quote(path)} lacks {names}{more}", host=host,
                peer=wanted[missing[0]], expected=f"{len(wanted)} addresses", found=", ".join(sorted(listed)),
                remedy=f"add to host_ip of {path}: {', '.join(missing)}",
            )  # fmt: skip


def _listed(path: str, file: SeenFile | None) -> set[str] | str | None:
    """The addresses of host_ip; a sentence of what is wrong with the file; None where it could not be read."""
    if file is None or file.error:
        return None
    if file.kind == "missing":
        return f"{quote(path)} is missing"
    try:
        read: Any = json.loads(file.text)
        return {str(ip_address(address)) for address in read["host_ip"]}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return f"{quote(path)} is no whitelist, an object with a list of addresses host_ip: {quote(str(error))}"
