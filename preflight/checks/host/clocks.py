"""Checks of the hosts' clocks."""

from collections.abc import Iterator, Mapping
from statistics import median

from preflight.checks.engine.registry import All, cluster_check
from preflight.facts.types import Clock
from preflight.model.finding import Finding

CLOCK_WARN, CLOCK_FAIL = 0.5, 5.0  # seconds between two hosts


@cluster_check("HST102", "Clock synchronization", blocks=False)
def clocks_agree(scribe: All, clock: Mapping[str, Clock]) -> Iterator[Finding]:
    """Why: You can only put the logs of a failed job in order if the clocks agree. Certificates, tokens and shared file
    systems fail if clocks are far apart.

    Result: WARN if the clocks of two hosts differ by half a second, FAIL if they differ by five seconds.

    Check manually: On both hosts:
      chronyc tracking
      date +%s.%N

    Fix: Use the same time source on every host.
      systemctl enable --now chrony
      chronyc makestep
    """
    median_offset = median(host_clock.offset for host_clock in clock.values())
    reference = min(clock, key=lambda name: (abs(clock[name].offset - median_offset), abs(clock[name].offset), name))
    for name, host_clock in clock.items():
        ahead = host_clock.offset - clock[reference].offset
        doubt = 0.0 if name == reference else host_clock.uncertainty + clock[reference].uncertainty
        certain = abs(ahead) - doubt
        direction = "ahead of" if ahead > 0 else "behind"
        if certain > CLOCK_WARN:
            yield (scribe.bad if certain > CLOCK_FAIL else scribe.warn)(
                f"{name}: the clock is {abs(ahead):.1f} s {direction} {reference} (±{doubt:.1f} s)",
                host=name,
                peer=reference,
                remedy="synchronize the clock",
                commands=(scribe.on(name, "chronyc makestep"),),
            )
        elif doubt > CLOCK_FAIL:
            yield scribe.unknown(
                f"{name}: the clock could not be compared, because the host answered too slowly", host=name
            )
