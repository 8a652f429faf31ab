"""Which devices of its servers a job may use together. Pure. Source: HCCL's user guide, constraints.md; MindSpore's
tutorial on distributed training on Ascend."""

from collections.abc import Iterator, Sequence

from preflight.model.cluster import Product
from preflight.ranktable.types import Path, Problem

_RING = 4  # devices of Atlas A1 that are connected: 0-3 and 4-7
_COUNTS = (1, 2, 4, 8)  # of devices of Atlas A1


def device_set_problems(
    product: Product | None, servers: Sequence[tuple[Path, str, tuple[int, ...]]]
) -> Iterator[Problem]:
    """`servers`: where each stands, what it is called, and its devices, ascending. Without a product, silent."""
    if product is Product.ATLAS_A1:
        yield from _of_a1(servers)
    numbers = {len(devices) for _, _, devices in servers}
    if product is not None and len(numbers) > 1:
        usual = max(numbers, key=lambda number: sum(len(devices) == number for _, _, devices in servers))
        path, name, devices = next(server for server in servers if len(server[2]) != usual)
        text = f"{name} has {len(devices)} devices, others have {usual}"
        if product is Product.ATLAS_A1:
            yield Problem("device-set", f"{text}: Atlas A1 takes the same number from each server", path)
        else:
            yield Problem("device-set", f"{text}: the same number of each is recommended", path, warning=True)


def _of_a1(servers: Sequence[tuple[Path, str, tuple[int, ...]]]) -> Iterator[Problem]:
    for path, name, devices in servers:
        listed = ", ".join(map(str, devices))
        if len(devices) not in _COUNTS:
            text = f"{name}: {len(devices)} devices ({listed}): Atlas A1 takes 1, 2, 4 or 8 of a server"
            yield Problem("device-set", text, path)
        elif len(devices) in (2, 4) and len({device // _RING for device in devices}) > 1:
            text = f"{name}: devices {listed}: on Atlas A1, 2 or 4 devices are all of 0-3, or all of 4-7"
            yield Problem("device-set", text, path)
    if len(servers) > 1 and all(len(devices) < 2 * _RING for _, _, devices in servers):
        text = "several servers with fewer than 8 devices each: HCCL's guide allows it, MindSpore's tutorial does not"
        yield Problem("device-set", text, servers[0][0], warning=True)
