"""Values that devices keep after a rollback, because no command unsets them: folded over devices and hosts. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from preflight.grouping import grouped
from preflight.inventory import fold
from preflight.model.change import Change, Kind

_NAMES = {Kind.DEVICE_GATEWAY: "gateway ", Kind.DEVICE_DETECT: "detect address "}


def kept_values(kept: Iterable[Change]) -> Iterator[str]:
    """Yield a sentence for all devices that keep the same values.

    Example: 'node[01-03]: devices 0-3 keep 10.0.0.1/24 … 10.0.0.12/24 until reboot'. `kept`: the changes that would
    have to unset something.
    """
    of_device: dict[tuple[str, int], dict[Kind, str]] = {}
    for change in sorted(kept, key=lambda change: tuple(Kind).index(change.kind)):
        of_device.setdefault((change.host, change.device or 0), {})[change.kind] = change.before or ""
    devices = grouped(((host, tuple(of_device[host, device])), device) for host, device in sorted(of_device))
    hosts = grouped(((kinds, tuple(numbers)), host) for (host, kinds), numbers in devices.items())
    for (kinds, numbers), names in hosts.items():
        subject = f"{fold(names)}: {_devices(numbers)} {'keeps' if len(numbers) == 1 else 'keep'}"
        yield from _kept(subject, kinds, [of_device[host, device] for host in names for device in numbers])


def _kept(subject: str, kinds: Sequence[Kind], values: Sequence[Mapping[Kind, str]]) -> Iterator[str]:
    """Yield a sentence on the values that devices keep until reboot, and one on a restore from their boot file."""
    phrases = [
        f"{_NAMES.get(kind, '')}{_values(of_device[kind] for of_device in values)}"
        for kind in kinds
        if kind is not Kind.DEVICE_RECOVERY
    ]
    if phrases:
        yield f"{subject} {', '.join(phrases)} until reboot"
    if Kind.DEVICE_RECOVERY in kinds:
        yield f"{subject} the settings restored from /etc/hccn.conf"


def _devices(numbers: tuple[int, ...]) -> str:
    return f"device{'s' if len(numbers) > 1 else ''} {fold(map(str, numbers)).strip('[]')}"


def _values(values: Iterable[str]) -> str:
    """Return one or two different values, or the first and the last of many."""
    first, *tail = dict.fromkeys(values)
    return f"{first}{' … ' + tail[-1] if len(tail) > 1 else ', ' + tail[0] if tail else ''}"
