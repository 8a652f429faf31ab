"""Checks of the listen queue of the first host, where all ranks of a job meet."""

from collections.abc import Iterator, Mapping

from preflight.checks.engine.registry import All, cluster_check
from preflight.facts.types import Sysctl
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome


@cluster_check("HST114", "Listen backlog", severity=Outcome.WARN)
def backlog(scribe: All, sysctl: Mapping[str, Sysctl]) -> Iterator[Finding]:
    """Why: All ranks connect to rank 0 within a second or two. The kernel drops connections that exceed the backlog,
    without a message. The dropped ranks try again after 1, 2 and 4 seconds. In a large job, the last ranks connect too
    late.

    Result: WARN if a limit is below the number of ranks. The check assumes that rank 0 runs on the inventory's first
    host.

    Check manually:
      sysctl net.core.somaxconn net.ipv4.tcp_max_syn_backlog

    Fix: Write these lines to a file in /etc/sysctl.d.
      net.core.somaxconn = 65535
      net.ipv4.tcp_max_syn_backlog = 65535
    Then load the settings.
      sysctl --system
    """
    host, ranks = scribe.hosts[0].name, scribe.cluster.device_count
    settings = {"net.core.somaxconn": sysctl[host].somaxconn, "net.ipv4.tcp_max_syn_backlog": sysctl[host].syn_backlog}
    if not any(settings.values()):
        yield scribe.skip(f"{host}: neither {' nor '.join(settings)} could be read")
    for key, value in settings.items():
        if 0 < value < ranks:
            yield scribe.bad(
                f"{host}: {key} is {value}, less than the {ranks} ranks of the cluster",
                host=host,
                expected=f"at least {ranks}",
                found=str(value),
                remedy=f"raise the limit now, and add {key} = 65535 to a file in /etc/sysctl.d",
                commands=(scribe.on(host, f"sysctl -w {key}=65535"),),
            )
