"""The rank table that jobs would read, beside what the devices have."""

from collections.abc import Iterator

from preflight.checks.npu import has_planned_address, planned_device
from preflight.checks.registry import NPU, Here, host_check
from preflight.facts.found import Found
from preflight.facts.job import Job, SeenFile
from preflight.facts.rank_table import RankedServer, read
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
    own = _own_server(here, job, network)
    if own.error:
        yield here.skip(own.error)
    if own.value is None:
        return
    path = job.variables[_VARIABLE]
    for device in hccn.devices:
        listed, has = own.value.addresses.get(device.index), device.address.value
        if listed and has and listed != has and has_planned_address(here.host, device):
            planned = planned_device(here.host, device.index).address
            yield here.bad(
                f"{here.host.name}: device {device.index}: the rank table has {listed}, the device {has}",
                device=device.index, expected=has + (", as planned" if planned else ""), found=f"{listed} in {path}",
                remedy=f"write {path} again from what the devices have",
            )  # fmt: skip


@host_check("NPU127", "The rank table gives every rank its own device", products=NPU, optional=("network",))
def one_rank_a_device(here: Here, job: Job, network: Network | None) -> Iterator[Finding]:
    """Why: two ranks on one device end with EJ0001, or fight for its port 16666 (EI0020); only from Atlas A2 on may
    they share one, with a device_port for each in the table. A table of version 1.2 (Atlas A3) without super device
    ids ends with "super_device_id is invalid". Without a rank table the start script decides, and nobody can look.

    By hand: echo $RANK_TABLE_FILE, where jobs run; in it, device_id of this host's server_id

    Mend: write the rank table again, a rank a device; SDIDs are told by npu-smi info -t spod-info -i 0 -c 0
    """
    own = _own_server(here, job, network)
    if own.error:
        yield here.skip(own.error)
    if own.value is None:
        return
    path = job.variables[_VARIABLE]
    for device in own.value.twice:
        yield here.bad(
            f"{here.host.name}: device {device}: the rank table gives it to several ranks", device=device,
            expected="a rank a device", found=path, remedy=f"write {path} again, or give each a device_port of its own",
        )  # fmt: skip
    if own.value.without_sdid:
        listed = ", ".join(map(str, own.value.without_sdid[:16]))
        yield here.bad(
            f"{here.host.name}: the rank table has no super_device_id of device {listed}", found=path,
            expected="a super_device_id for each, in a table of version 1.2", remedy=f"write {path} again, with SDIDs",
        )  # fmt: skip


def _own_server(here: Here, job: Job, network: Network | None) -> Found[RankedServer]:
    """What the rank table of the host's jobs has of it; an error where one is named and this cannot be said."""
    path = job.variables.get(_VARIABLE)
    if not path:
        return Found()
    file = job.files.get(path)
    if file is None or file.error or file.kind == "missing":  # ENV108 says what is wrong with it
        return Found(error=f"{path} could not be read: {_why(file)}")
    table = read(file.text)
    servers = table.value.servers if table.value else None
    if servers is None or servers.value is None:
        return Found(error=f"{path} could not be read: {servers.error if servers else 'it is no JSON: ' + table.error}")
    own = next((servers.value[name] for name in _names(here, network) if name in servers.value), None)
    return Found(own) if own else Found(error=f"{path} names no server with an address of {here.host.name}")


def _names(here: Here, network: Network | None) -> Iterator[str]:
    """What a rank table may call this host."""
    yield from (here.host.address, here.host.name)
    for interface in network.interfaces if network else ():
        yield from (one.partition("/")[0] for one in interface.addresses if not one.startswith(("127.", "::1/")))


def _why(file: SeenFile | None) -> str:
    return "it was not looked at" if file is None else file.error or "it is missing"
