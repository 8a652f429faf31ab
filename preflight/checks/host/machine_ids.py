"""Checks of the identity of machines: none is twice in the inventory, none is a copy."""

from collections.abc import Iterator, Mapping

from preflight.checks.engine.registry import All, cluster_check
from preflight.facts.types import Os
from preflight.model.finding import Finding


@cluster_check("HST108", "Host identity")
def own_machine(scribe: All, os: Mapping[str, Os]) -> Iterator[Finding]:
    """Why: If a machine has two names in the inventory, preflight configures it twice at the same time. A job that uses
    both names has half of the devices that it expects. Machines that were cloned from one image share a machine id.

    Result: FAIL if one machine has two names. WARN if machines are clones. preflight tells clones apart by name, but
    DHCP and journald do not.

    Check manually: On both hosts:
      cat /etc/machine-id
      hostname

    Fix: Remove one of the names from the inventory. On clones, create a new machine id.
      rm /etc/machine-id && systemd-machine-id-setup
    """
    first: dict[str, str] = {}  # machine id → the host that has it
    for name, os_of_host in os.items():
        if not os_of_host.machine_id:
            yield scribe.unknown(
                f"{name}: /etc/machine-id is missing or empty",
                host=name,
                remedy="create a machine id",
                commands=(scribe.on(name, "systemd-machine-id-setup"),),
            )
            continue
        first_host = first.setdefault(os_of_host.machine_id, name)
        if first_host != name and os[first_host].hostname == os_of_host.hostname:
            yield scribe.bad(
                f"{name}: this is the same machine as {first_host} (host name {os_of_host.hostname}, "
                f"machine id {os_of_host.machine_id})",
                host=name,
                peer=first_host,
                remedy=f"remove {first_host} or {name} from the inventory",
            )
        elif first_host != name:
            yield scribe.warn(
                f"{name}: the machine id is the same as on {first_host}",
                host=name,
                peer=first_host,
                cause="both hosts were copied from the same disk image",
                remedy="create a new machine id, then reboot",
                commands=(scribe.on(name, "rm /etc/machine-id"), scribe.on(name, "systemd-machine-id-setup")),
            )
