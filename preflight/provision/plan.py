"""Plans, made from findings. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from preflight.grouping import grouped
from preflight.model.change import Area, Change, ChangePhase, Kind, Plan, Risk
from preflight.model.errors import PreflightError
from preflight.model.finding import Finding

_PHASES, _ORDER = tuple(ChangePhase), tuple(Kind)
_SUBJECTS = {
    Kind.FILE: "{0.target}",
    Kind.PROGRAM: "{0.target}",
    Kind.SYSCTL: "{0.target}",
    Kind.NFT_RULES: "nftables {0.target}",
    Kind.NFT_INPUT: "nftables chain {0.target}",
    Kind.IPTABLES_RULES: "{0.target} INPUT",
    Kind.IPTABLES_INPUT: "{0.target} chain INPUT",
    Kind.FIREWALLD_RULES: "firewalld zone {0.target}",
    Kind.FIREWALLD_PERMANENT: "firewalld zone {0.target}, permanently",
    Kind.SERVICE: "service {0.target}",
    Kind.SERVICE_AT_BOOT: "service {0.target} at boot",
    Kind.UFW_RULES: "ufw rules",
    Kind.UFW_ENABLED: "ufw enabled",
    Kind.DEVICE_ADDRESS: "device {0.target} address",
    Kind.DEVICE_GATEWAY: "device {0.target} gateway",
    Kind.DEVICE_DETECT: "device {0.target} detect address",
    Kind.DEVICE_MTU: "device {0.target} MTU",
    Kind.DEVICE_SAVED: "device {0.device} in /etc/hccn.conf",
    Kind.DEVICE_RECOVERY: "device {0.device} from /etc/hccn.conf",
}


def make_plan(findings: Iterable[Finding], areas: Iterable[Area], *, temporary: bool = False) -> Plan:
    """Return the changes that findings carry, limited to `areas`, host by host in the order they are applied.

    `temporary`: of the ports, only the kernel's current value and no file. Raises PreflightError if two checks want
    different values for one target.
    """
    wanted = frozenset(areas)
    chosen: dict[tuple[str, Kind, str], Change] = {}
    for finding in findings:
        change = finding.change
        if change is None or change.area not in wanted:
            continue
        if temporary and change.area is Area.PORTS and change.kind is not Kind.SYSCTL:
            continue
        key = (change.host, change.kind, change.target)
        first = chosen.setdefault(key, change)
        if (first.before, first.after) != (change.before, change.after):
            raise PreflightError(_conflict(first, change))
        if change.risk is Risk.DISTURBING:  # one such check is enough
            chosen[key] = replace(first, risk=change.risk, note=change.note or first.note)
    return _ordered(_without_what_a_recovery_does(chosen.values()))


def _without_what_a_recovery_does(changes: Iterable[Change]) -> list[Change]:
    """Return the changes without other settings of a device that is restored from its boot file, which has them all."""
    kept = list(changes)
    restored = {(change.host, change.device) for change in kept if change.kind is Kind.DEVICE_RECOVERY}
    return [c for c in kept if c.kind is Kind.DEVICE_RECOVERY or (c.host, c.device) not in restored]


def _ordered(changes: Iterable[Change]) -> Plan:
    by_host = grouped((change.host, change) for change in changes)
    return Plan(tuple(change for of_host in by_host.values() for change in sorted(of_host, key=_place)))


def _place(change: Change) -> tuple[int, int]:
    return _PHASES.index(change.phase), _ORDER.index(change.kind)


def _conflict(first: Change, second: Change) -> str:
    values = " and ".join(f"{change.why} {short(change.after)}" for change in (first, second))
    return (
        f"{first.host}: two checks need different values of {first.kind} {first.target}: {values}. Nothing was changed."
    )


def short(value: str | None) -> str:
    if value is None:
        return "none"
    return repr(value) if len(value) <= 60 else f"{len(value)} characters"


def subject(change: Change) -> str:
    """Return the target of a change, in the words of the plan."""
    return _SUBJECTS[change.kind].format(change)
