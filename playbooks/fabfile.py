"""A site's bring-up as Fabric tasks. Copy it, and put your own steps in between.

  fab -r playbooks --list
  fab -r playbooks bring-up --inventory hosts.toml --dry-run
  fab -r playbooks bring-up --inventory hosts.toml
  fab -r playbooks take-back --inventory hosts.toml

The hosts come from the inventory, not from fab's -H. preflight opens the connections, many at a time and with strict
host keys. Fabric alone accepts any key. Each step shows a diff and asks, unless --yes.
"""

# Fabric's task has no types.
# mypy: disable-error-code="untyped-decorator"

from pathlib import Path

from fabric import task
from invoke.context import Context
from invoke.exceptions import Exit

from preflight.cli.main import main
from preflight.provision.journal import past_runs, taken_back

HELP = {
    "inventory": "the cluster (hosts.toml)",
    "limit": "only these hosts, such as node[01-04]",
    "yes": "do not ask",
    "dry-run": "only show what would be changed",
}


def preflight(command: str, inventory: str, limit: str = "", yes: bool = False, dry_run: bool = False) -> None:
    """Run one preflight command; end fab with its exit code if that is not 0."""
    words = [*command.split(), "--inventory", inventory]
    words += ["--limit", limit] if limit else []
    words += ["--yes"] if yes else []
    words += ["--dry-run"] if dry_run else []
    print(f"$ preflight {' '.join(words)}", flush=True)
    code = main(words)
    if code:
        raise Exit(code=code)


@task(help=HELP)
def ports(_: Context, inventory: str = "hosts.toml", limit: str = "", yes: bool = False, dry_run: bool = False) -> None:
    """Reserve the ports that jobs bind, now and at boot."""
    preflight("configure-ports", inventory, limit, yes, dry_run)


@task(help=HELP)
def device_addresses(
    _: Context, inventory: str = "hosts.toml", limit: str = "", yes: bool = False, dry_run: bool = False
) -> None:
    """Give every device NIC its address, gateway and detect address."""
    preflight("configure-device-ips", inventory, limit, yes, dry_run)


@task(help=HELP)
def firewall(
    _: Context, inventory: str = "hosts.toml", limit: str = "", yes: bool = False, dry_run: bool = False
) -> None:
    """Open the firewall for the cluster; reverts itself where it would lock preflight out."""
    preflight("configure-firewall", inventory, limit, yes, dry_run)


@task(help=HELP)
def bring_up(
    c: Context, inventory: str = "hosts.toml", limit: str = "", yes: bool = False, dry_run: bool = False
) -> None:
    """Run ports, device-addresses and firewall, then check; stop at the first that fails."""
    for step in (ports, device_addresses, firewall):
        step(c, inventory, limit, yes, dry_run)
    if not dry_run:
        preflight("check", inventory, limit)


def runs_to_take_back(inventory: str) -> list[str]:
    """Return the runs that changed this cluster from this machine and were not undone, the newest first."""
    known = [run for run in past_runs() if run.inventory == str(Path(inventory).absolute())]
    undone = taken_back(known)
    return [run.run for run in known if not run.undoes and run.run not in undone]


@task(help=HELP)
def take_back(
    _: Context, inventory: str = "hosts.toml", limit: str = "", yes: bool = False, dry_run: bool = False
) -> None:
    """Undo every run of this machine, the newest first; leave what others changed since."""
    runs = runs_to_take_back(inventory)
    if not runs:
        print(f"nothing was changed from this machine with {inventory}, or all of it is undone already")
    for run in runs:
        preflight(f"rollback {run}", inventory, limit, yes, dry_run)
