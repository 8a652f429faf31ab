"""The rank table that jobs would read, compared with the devices."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.checks.shared.npu import has_planned_address, planned_device
from preflight.facts.reading import Found
from preflight.facts.sections.job import Job, SeenFile
from preflight.facts.types import Hccn, Network
from preflight.model.finding import Finding
from preflight.ranktable.job import addresses_of_job, host_ips_of_job
from preflight.ranktable.live import other_addresses, own_server
from preflight.ranktable.read import read
from preflight.ranktable.rules import shared
from preflight.ranktable.super_pods import without_sdid
from preflight.ranktable.types import RankTable, Server

_VARIABLE = "RANK_TABLE_FILE"
_WRITE_AGAIN = "regenerate the rank table from the devices on the hosts"


def _push(path: str) -> str:
    """Return the command that writes a new table, to the same path if that is absolute."""
    return f"preflight ranktable --push {shlex.quote(path)}" if path.startswith("/") else "preflight ranktable"


@host_check("NPU125", "Rank table addresses", products=NPU, optional=("network",), blocks=False)
def rank_table_addresses(scribe: Here, hccn: Hccn, job: Job, network: Network | None) -> Iterator[Finding]:
    """Why: Jobs with RANK_TABLE_FILE read the devices' addresses from that file. If the addresses change later, jobs
    fail with EI0014 ("inconsistent with the IP address of the network adapter") or a connect timeout.

    Result: FAIL if the rank table and the device have different addresses. NPU101 compares the device with the
    inventory, and NPU104 compares it with /etc/hccn.conf.

    Check manually: Compare the device's address with device_ip in the table. Where jobs run:
      cat "$RANK_TABLE_FILE"
    On the host:
      hccn_tool -i 0 -ip -g

    Fix: Regenerate the rank table from the devices' addresses.
    """
    own = _own_server(scribe, job, network)
    if own.error:
        yield scribe.skip(own.error)
    if own.value is None:
        return
    path = job.variables[_VARIABLE]
    devices = {device.index: device for device in hccn.devices}
    for ranked, actual in other_addresses(own.value.server, hccn):
        if has_planned_address(scribe.host, devices[ranked.device_id]):
            planned = planned_device(scribe.host, ranked.device_id).address
            yield scribe.bad(
                f"{scribe.host.name}: device {ranked.device_id}: address is {ranked.device_ip} in the rank table and "
                f"{actual} on the device",
                device=ranked.device_id,
                expected=actual + (", as planned" if planned else ""),
                found=f"{ranked.device_ip} in {path}",
                remedy=_WRITE_AGAIN,
                commands=(_push(path),),
            )


@host_check("NPU127", "Rank table device assignment", products=NPU, optional=("network",), blocks=False)
def one_rank_a_device(scribe: Here, job: Job, network: Network | None) -> Iterator[Finding]:
    """Why: Two ranks on the same device fail with EJ0001, or compete for its port 16666 (EI0020). From Atlas A2 on,
    ranks may share a device if the rank table has a device_port for each rank. If a rank table of version 1.2 (Atlas
    A3) has no super device ids, the job fails with "super_device_id is invalid".

    Result: FAIL if a rank table breaks one of these rules. The table also needs host_ip for jobs that retry operators
    (HCCL_OP_RETRY_ENABLE). It needs every device_ip for jobs that use RoCE instead of HCCS (HCCL_INTER_HCCS_DISABLE).
    Without a rank table, the start script assigns the devices, and nothing can be checked.

    Check manually: Run this where jobs run. Compare all device_id values of this host's server_id.
      cat "$RANK_TABLE_FILE"

    Fix: Regenerate the rank table with one rank per device. This command shows the SDID of a device.
      npu-smi info -t spod-info -i 0 -c 0
    """
    own = _own_server(scribe, job, network)
    if own.error:
        yield scribe.skip(own.error)
    if own.value is None:
        return
    path = job.variables[_VARIABLE]
    for device in shared(own.value.server):
        yield scribe.bad(
            f"{scribe.host.name}: device {device}: is assigned to several ranks in the rank table",
            device=device,
            expected="one rank per device",
            found=path,
            remedy=f"{_WRITE_AGAIN}, or give each rank a separate device_port",
            commands=(_push(path),),
        )
    for rule in (host_ips_of_job, addresses_of_job):
        for problem in islice(rule(own.value.table, (own.value.server,), job.variables, "where jobs run"), 1):
            yield scribe.bad(
                f"{scribe.host.name}: the rank table: {problem.text}",
                found=path,
                remedy=_WRITE_AGAIN,
                commands=(_push(path),),
            )
    if own.value.table.version == "1.2" and (devices_without_sdid := without_sdid(own.value.server)):
        listed = ", ".join(str(device.device_id) for device in devices_without_sdid[:16])
        yield scribe.bad(
            f"{scribe.host.name}: the rank table has no super_device_id for device {listed}",
            found=path,
            expected="a super_device_id for each device, in a table of version 1.2",
            remedy=_WRITE_AGAIN,
            commands=(_push(path),),
        )


@dataclass(frozen=True)
class _ServerInTable:
    table: RankTable
    server: Server


def _own_server(scribe: Here, job: Job, network: Network | None) -> Found[_ServerInTable]:
    """Return the host's server in the rank table of its jobs; an error if a table is named but does not give it."""
    path = job.variables.get(_VARIABLE)
    if not path:
        return Found()
    file = job.files.get(path)
    if file is None or file.error or file.kind == "missing":  # ENV108 reports the fault
        return Found(error=f"{path} could not be read: {_read_error(file)}")
    parsed = read(file.text)
    if parsed.table is None:
        return Found(error=f"{path} could not be read: {parsed.why}")
    if parsed.table.version == "2.0":
        return Found(error=f"{path} has version 2.0, which lists no servers")
    own = own_server(parsed.table, scribe.host, network)
    if own is None:
        return Found(error=f"{path} lists no server with an address of {scribe.host.name}")
    return Found(_ServerInTable(parsed.table, own))


def _read_error(file: SeenFile | None) -> str:
    return "it was not collected" if file is None else file.error or "it is missing"
