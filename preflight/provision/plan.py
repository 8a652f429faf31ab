"""Plans, made from findings. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from preflight.model.change import Area, Change, Kind, Phase, Plan, Risk
from preflight.model.errors import PreflightError
from preflight.model.finding import Finding

_PHASES, _ORDER = tuple(Phase), tuple(Kind)


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
    by_host: dict[str, list[Change]] = {}
    for change in changes:
        by_host.setdefault(change.host, []).append(change)
    return Plan(tuple(change for of_host in by_host.values() for change in sorted(of_host, key=_place)))


def _place(change: Change) -> tuple[int, int]:
    return _PHASES.index(change.phase), _ORDER.index(change.kind)


def _conflict(one: Change, other: Change) -> str:
    values = " and ".join(f"{change.why} {short(change.after)}" for change in (one, other))
    return f"{one.host}: two checks want different things of {one.kind} {one.target}: {values}; nothing was changed"


def short(value: str | None) -> str:
    if value is None:
        return "none"
    return repr(value) if len(value) <= 60 else f"{len(value)} characters"


def subject(change: Change) -> str:
    """Return the target of a change, in the words of the plan."""
    match change.kind:
        case Kind.FILE | Kind.PROGRAM | Kind.SYSCTL:
            return change.target
        case Kind.NFT_RULES:
            return f"nftables {change.target}"
        case Kind.NFT_INPUT:
            return f"nftables chain {change.target}"
        case Kind.IPTABLES_RULES:
            return f"{change.target} INPUT"
        case Kind.IPTABLES_INPUT:
            return f"{change.target} chain INPUT"
        case Kind.FIREWALLD_RULES:
            return f"firewalld zone {change.target}"
        case Kind.FIREWALLD_PERMANENT:
            return f"firewalld zone {change.target}, permanently"
        case Kind.SERVICE:
            return f"service {change.target}"
        case Kind.SERVICE_AT_BOOT:
            return f"service {change.target} at boot"
        case Kind.UFW_RULES:
            return "ufw rules"
        case Kind.UFW_ENABLED:
            return "ufw enabled"
        case Kind.DEVICE_ADDRESS:
            return f"device {change.target} address"
        case Kind.DEVICE_GATEWAY:
            return f"device {change.target} gateway"
        case Kind.DEVICE_DETECT:
            return f"device {change.target} detect address"
        case Kind.DEVICE_MTU:
            return f"device {change.target} MTU"
        case Kind.DEVICE_SAVED:
            return f"device {change.device} in /etc/hccn.conf"
        case Kind.DEVICE_RECOVERY:
            return f"device {change.device} from /etc/hccn.conf"
