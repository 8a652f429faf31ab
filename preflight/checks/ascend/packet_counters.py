"""Error counters of the device NICs."""

from collections.abc import Iterator

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.checks.shared.npu import untold
from preflight.facts.link_counts import WATCHED
from preflight.facts.sections.nic import Nic
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

SHARE, FEW = 1e-6, 10  # of packets; a link with fewer than one in a million, or than ten in all, counts as healthy


@host_check("NIC109", "Device packet errors", severity=Outcome.WARN, products=NPU)
def counters(scribe: Here, nic: Nic) -> Iterator[Finding]:
    """Why: Lost, damaged or late packets are sent again, and the whole collective waits for them. The counters start
    when the driver is loaded, so the cause may already be fixed. Therefore, the check never fails.

    Result: WARN if there are at least ten such packets, and at least one in a million. If the driver reports no totals,
    the number alone decides.

    Check manually: Run this twice, with traffic in between:
      hccn_tool -i 0 -stat -g

    Fix: Clean or replace the optics and the cable. If packets are out of order or sent again, check PFC and congestion
    on the switches.
    """
    yield from untold(scribe, scribe.host, {device.index: device.packets for device in nic.devices})
    for device in nic.devices:
        counts = device.packets.value or {}
        errors = {
            key: (number, total)
            for key, total_key in WATCHED.items()
            if (number := counts.get(key, 0)) >= max(FEW, SHARE * (total := counts.get(total_key, 0)))
        }
        if errors:
            yield scribe.bad(
                f"{scribe.host.name}: device {device.index}: high error counts in {', '.join(errors)}",
                device=device.index,
                expected="less than one in a million packets",
                found=", ".join(
                    f"{key} {number}" + (f" of {total} packets" if total else " (no total reported)")
                    for key, (number, total) in errors.items()
                ),
                remedy="read the error counters twice. If they still rise, clean or replace the optics and the cable",
                commands=(scribe.on(scribe.host.name, f"hccn_tool -i {device.index} -stat -g"),),
            )
