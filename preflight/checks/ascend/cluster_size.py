"""Numbers of servers and devices in the inventory, compared with those that HCCL takes of the product."""

from collections import Counter
from collections.abc import Iterator

from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

_RINGS = ({0, 1, 2, 3}, {4, 5, 6, 7})  # of an Atlas A1 server


@cluster_check("NPU121", "Server and device counts", products=NPU, several=False)
def counts(scribe: All) -> Iterator[Finding]:
    """Why: HCCL can build its rings only for certain numbers of devices. On Atlas A1, a server can use 1, 2, 4 or 8
    devices. If it uses 2 or 4, they must all be among devices 0-3 or all among devices 4-7. Every server needs the same
    number of devices.

    Result: FAIL for unsupported numbers or positions of devices on Atlas A1. If servers have different numbers of
    devices, FAIL on Atlas A1 and WARN on Atlas A2 and A3. On Atlas A2 with 16 devices in two modules (Box16) over PCIe,
    WARN if the two modules use different positions. The check assumes a job that uses the whole inventory.

    Check manually: Count the devices of each host in the inventory.

    Fix: Remove devices or servers from the inventory, or use only supported numbers of devices in every job.
    """
    product = scribe.cluster.product
    for host in scribe.hosts:
        own = {device.index for device in host.devices}
        if not own:
            yield scribe.skip("the inventory lists no devices", host=host.name)
        elif product is Product.ATLAS_A1 and not _forms_ring(own):
            yield scribe.bad(
                f"{host.name}: HCCL cannot build a ring over devices {_listed(own)}",
                host=host.name,
                expected="1, 2, 4 or 8 devices, and up to 4 of them within 0-3 or within 4-7",
                found=f"{len(own)} devices",
                remedy=f"correct the devices of {host.name} in the inventory, or use a supported set in jobs",
            )
        elif product is Product.ATLAS_A2 and _unequal_modules(own):
            yield scribe.warn(
                f"{host.name}: {_of_modules(own)}",
                host=host.name,
                expected="the same positions (0 and 8, 1 and 9, …), unless jobs set HCCL_INTRA_ROCE_ENABLE=1",
                remedy=f"use devices such as {_listed(_matching(own))} for {host.name} in the inventory, or set "
                "HCCL_INTRA_ROCE_ENABLE=1 in the jobs' environment",
            )
    yield from _unequal_numbers(scribe)


def _unequal_numbers(scribe: All) -> Iterator[Finding]:
    """Yield the hosts with another number of devices than most."""
    numbers = {host.name: len({device.index for device in host.devices}) for host in scribe.hosts if host.devices}
    counts = Counter(numbers.values())
    usual = max(counts, key=counts.__getitem__, default=0)
    for name, number in numbers.items():
        if number != usual:
            yield scribe.finding(
                Outcome.FAIL if scribe.cluster.product is Product.ATLAS_A1 else Outcome.WARN,
                f"{name}: has {number} devices, and most servers have {usual}",
                host=name,
                expected=f"{usual} devices",
                found=f"{number} devices",
                remedy="run jobs with the same number of devices on every server",
            )


def _forms_ring(own: set[int]) -> bool:
    """Return whether HCCL builds a ring over these devices of an Atlas A1 server."""
    return len(own) == 8 or (len(own) in (1, 2, 4) and any(own <= ring for ring in _RINGS))


def _unequal_modules(own: set[int]) -> bool:
    """Return whether a server uses both its modules, 0-7 and 8-15, but not in the same places."""
    second = {index - 8 for index in own if index >= 8}
    return bool(second) and bool(own - set(range(8, 16))) and second != {index for index in own if index < 8}


def _of_modules(own: set[int]) -> str:
    """Return which devices of the two modules have different positions."""
    first, second = ({index for index in own if (index >= 8) is upper} for upper in (False, True))
    return (
        f"devices {_listed(first)} of the first module (0-7) do not match devices {_listed(second)} of the second "
        "(8-15)"
    )


def _matching(own: set[int]) -> set[int]:
    """Return devices with the first module's positions in both modules."""
    first = {index for index in own if index < 8}
    return first | {index + 8 for index in first}


def _listed(devices: set[int]) -> str:
    return ",".join(map(str, sorted(devices)[:16]))
