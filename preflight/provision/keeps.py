"""Values that devices keep after a rollback, because no command unsets them: folded over devices and hosts. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from preflight.inventory import fold
from preflight.model.change import Change, Kind

_NAMES = {Kind.DEVICE_GATEWAY: "gateway ", Kind.DEVICE_DETECT: "detect address "}


def keeping(kept: Iterable[Change]) -> Iterator[str]:
    """Yield a sentence for all devices that keep the same values.

    Example: 'node[01-03]: devices 0-3 keep 10.0.0.1/24 … 10.0.0.12/24 until reboot'. `kept`: the changes that would
    have to unset something.
    """
    of_device: dict[tuple[str, int], dict[Kind, str]] = {}
    for change in sorted(kept, key=lambda change: tuple(Kind).index(change.kind)):
        of_device.setdefault((change.host, change.device or 0), {})[change.kind] = change.before or ""
    for (kinds, numbers), names in _alike(of_device).items():
        subject = f"{fold(names)}: {_devices(numbers)} {'keeps' if len(numbers) == 1 else 'keep'}"
        values = [of_device[host, device] for host in names for device in numbers]
        yield from _kept(subject, kinds, values)


def _alike(
    devices: Mapping[tuple[str, int], Mapping[Kind, str]],
) -> dict[tuple[tuple[Kind, ...], tuple[int, ...]], list[str]]:
    """Return kinds of values and devices that keep them → the hosts where these devices do."""
    by_kinds: dict[tuple[str, tuple[Kind, ...]], list[int]] = {}
    for (host, device), values in sorted(devices.items(), key=itemgetter(0)):
        by_kinds.setdefault((host, tuple(values)), []).append(device)
    hosts: dict[tuple[tuple[Kind, ...], tuple[int, ...]], list[str]] = {}
    for (host, kinds), numbers in by_kinds.items():
        hosts.setdefault((kinds, tuple(numbers)), []).append(host)
    return hosts


def _kept(subject: str, kinds: Sequence[Kind], values: Sequence[Mapping[Kind, str]]) -> Iterator[str]:
    """Yield what devices keep until reboot, and what was restored from their boot file."""
    phrases = [
        f"{_NAMES.get(kind, '')}{_values(of_device[kind] for of_device in values)}"
        for kind in kinds
        if kind is not Kind.DEVICE_RECOVERY
    ]
    if phrases:
        yield f"{subject} {', '.join(phrases)} until reboot"
    if Kind.DEVICE_RECOVERY in kinds:
        were = "it was" if len(values) == 1 else "they were"
        yield f"{subject} what {were} given back from /etc/hccn.conf"


def _devices(numbers: tuple[int, ...]) -> str:
    return f"device{'s' if len(numbers) > 1 else ''} {fold(map(str, numbers)).strip('[]')}"


def _values(values: Iterable[str]) -> str:
    """Return one or two different values, or the first and the last of many."""
    first, *tail = dict.fromkeys(values)
    return f"{first}{' … ' + tail[-1] if len(tail) > 1 else ', ' + tail[0] if tail else ''}"
