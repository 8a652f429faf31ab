"""The rank table that jobs would read, beside what the devices have."""

from collections.abc import Iterator

from preflight.checks.npu import has_planned_address, planned_device
from preflight.checks.registry import NPU, Here, host_check
from preflight.facts import rank_table
from preflight.facts.job import Job, SeenFile
from preflight.facts.types import Hccn, Network
from preflight.model.finding import Finding

_VARIABLE = "RANK_TABLE_FILE"


@host_check("NPU125", "The rank table has the addresses that the devices have", products=NPU, optional=("network",))
def rank_table_addresses(here: Here, hccn: Hccn, job: Job, network: Network | None) -> Iterator[Finding]:
    """Why: jobs with RANK_TABLE_FILE take the devices' addresses from that file. A table that was written before the
    addresses changed ends in EI0014 ("inconsistent with the IP address of the network adapter"), or in a connect
    timeout. Device and inventory are compared by NPU101, device and /etc/hccn.conf by NPU104: this is the fourth side.

    By hand: echo $RANK_TABLE_FILE, where jobs run; compare its device_ip with hccn_tool -i 0 -ip -g

    Mend: write the rank table again from what the devices have
    """
    path = job.variables.get(_VARIABLE)
    if not path:
        return
    file = job.files.get(path)
    if file is None or file.error or file.kind == "missing":  # ENV108 says what is wrong with it
        yield here.skip(f"{path} could not be read: {_why(file)}")
        return
    table = rank_table.read(file.text)
    servers = table.value.servers if table.value else None
    if servers is None or servers.value is None:
        yield here.skip(f"{path} could not be read: {servers.error if servers else 'it is no JSON: ' + table.error}")
        return
    own = next((servers.value[name] for name in _names(here, network) if name in servers.value), None)
    if own is None:
        yield here.skip(f"{path} names no server with an address of {here.host.name}")
        return
    for device in hccn.devices:
        listed, has = own.addresses.get(device.index), device.address.value
        if listed and has and listed != has and has_planned_address(here.host, device):
            planned = planned_device(here.host, device.index).address
            yield here.bad(
                f"{here.host.name}: device {device.index}: the rank table has {listed}, the device {has}",
                device=device.index, expected=has + (", as planned" if planned else ""), found=f"{listed} in {path}",
                remedy=f"write {path} again from what the devices have",
            )  # fmt: skip


def _names(here: Here, network: Network | None) -> Iterator[str]:
    """What a rank table may call this host."""
    yield from (here.host.address, here.host.name)
    for interface in network.interfaces if network else ():
        yield from (one.partition("/")[0] for one in interface.addresses if not one.startswith(("127.", "::1/")))


def _why(file: SeenFile | None) -> str:
    return "it was not looked at" if file is None else file.error or "it is missing"
