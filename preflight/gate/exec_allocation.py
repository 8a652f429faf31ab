"""Hosts of a job for which there is no inventory."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from preflight.hostlists import slurm_environment
from preflight.hostlists.host_list import ListSource
from preflight.hostlists.inventory_import import ImportOptions, document_of
from preflight.inventory import dump, parse
from preflight.model.cluster import Cluster
from preflight.model.errors import UsageError

_HOW = "preflight inventory import --from slurm-env --product P -o hosts.toml"


def cluster_of(
    environment: Mapping[str, str], product: str, devices: int | None, resolve: Callable[[str], str]
) -> tuple[Cluster, list[str]]:
    """Return the hosts of a Slurm job by their names, and the assumptions about them.

    `product` and `devices` (a host): empty or None to take them from Slurm's variables. `resolve`: name → address, or
    OSError. Raises InventoryError for variables that are missing or malformed, UsageError if they are not enough.
    """
    source = ListSource(slurm_environment.ENVIRONMENT, slurm_environment.text_of(environment))
    listed = slurm_environment.read(source)
    if not (product or listed.product):
        raise UsageError(
            "there is no hosts.toml, and Slurm does not provide the hosts' device type. Set it with --product, or make "
            f"an inventory: {_HOW}"
        )
    hosts = tuple(replace(host, address=host.address or _address(host.name, resolve)) for host in listed.hosts)
    document, assumed = document_of(replace(listed, hosts=hosts), ImportOptions(product=product, devices=devices))
    return parse(dump(document), Path("the job's hosts")), assumed


def _address(name: str, resolve: Callable[[str], str]) -> str:
    try:
        return resolve(name)
    except OSError as error:
        why = f"{name} does not resolve to an address on this machine ({error.strerror})"
        raise UsageError(f"{why}. Make an inventory: {_HOW}") from None
