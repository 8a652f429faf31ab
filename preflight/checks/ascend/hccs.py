"""HCCS between the dies of a chip, which do not reach each other over RoCE."""

import shlex
from collections.abc import Iterator

from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.device_scribe import DeviceScribe
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.ping import Ping


@cluster_check(
    "PNG103",
    "HCCS links between dies",
    severity=Outcome.WARN,
    products=frozenset({Product.ATLAS_A3}),
    several=False,
)
def hccs(scribe: All, pings: tuple[Ping, ...]) -> Iterator[Finding]:
    """Why: The two dies of an Atlas A3 chip communicate over HCCS only. The tool hccn_tool reports "successfully" even
    if every packet of -hccs_ping was lost.

    Result: WARN for lost pings and faulty planes. The check never fails, because the output is known only from the
    driver's source.

    Check manually: Run these as root. Replace ADDRESS with the address from the first command.
      hccn_tool -i 1 -vnic -g
      hccn_tool -i 0 -hccs_ping -g address ADDRESS

    Fix: Read the link's lanes and errors. Then reset the chip, or have it inspected.
      npu-smi info -t hccs -i 0 -c 0
    """
    attempts = [ping for ping in pings if ping.purpose == "hccs" and "not supported on this product" not in ping.error]
    sources = {ping.host for ping in attempts}
    for host in scribe.hosts:
        if host.name not in sources:
            yield scribe.skip("no device has a vNIC address, or the address was not queried", host=host.name)
    for ping in attempts:
        yield from _faulty(scribe, ping)


def _faulty(scribe: All, ping: Ping) -> Iterator[Finding]:
    """Yield the finding about a ping that was not sent, or not answered on a good plane."""
    npu, answers = DeviceScribe(scribe, ping.host, ping.device), f"{ping.received} of {ping.sent}"
    if ping.error or not ping.sent:
        error = ping.error or "no ping was sent"
        yield npu.unknown(f"could not ping {ping.peer} over HCCS: {error}", peer=ping.peer)
    elif ping.received < ping.sent or ping.plane_faults:
        bad = f" ({ping.plane_faults} on a bad plane)" if ping.plane_faults else ""
        yield npu.bad(
            f"{answers} pings to {ping.peer} over HCCS are answered{bad}",
            peer=ping.peer,
            expected=f"{ping.sent} of {ping.sent} answers",
            found=f"{answers} answers",
            remedy=f"find the NPU and chip number of device {ping.device}, then read its HCCS lanes and errors",
            commands=(npu.on("npu-smi info -m"),),
            retest=npu.on(f"hccn_tool -i {ping.device} -hccs_ping -g address {shlex.quote(ping.address)}"),
        )
