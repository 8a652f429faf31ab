"""Devices of its servers that a job may use together. Pure. Source: HCCL's user guide, constraints.md; MindSpore's
tutorial on distributed training on Ascend."""

from collections import Counter
from collections.abc import Iterator, Sequence

from preflight.model.cluster import Product
from preflight.ranktable.types import Path, TableProblem

_RING = 4  # devices of Atlas A1 that are connected: 0-3 and 4-7
_COUNTS = (1, 2, 4, 8)  # of devices of Atlas A1

DeviceSet = tuple[Path, str, tuple[int, ...]]  # path and name of a server, and its devices, ascending


def device_set_problems(product: Product | None, servers: Sequence[DeviceSet]) -> Iterator[TableProblem]:
    """Yield what a product does not take. Without a product, yield nothing."""
    if product is Product.ATLAS_A1:
        yield from _atlas_a1_problems(servers)
    counts = Counter(len(devices) for _, _, devices in servers)
    if product is not None and len(counts) > 1:
        usual = max(counts, key=lambda number: (counts[number], number))
        path, name, devices = next(server for server in servers if len(server[2]) != usual)
        text = f"{name} has {len(devices)} devices, but other servers have {usual}"
        if product is Product.ATLAS_A1:
            yield TableProblem("device-set", f"{text}. Atlas A1 requires the same number on each server", path)
        else:
            yield TableProblem(
                "device-set", f"{text}. The same number on each server is recommended", path, warning=True
            )


def _atlas_a1_problems(servers: Sequence[DeviceSet]) -> Iterator[TableProblem]:
    for path, name, devices in servers:
        listed = ", ".join(map(str, devices))
        if len(devices) not in _COUNTS:
            text = f"{name} has {len(devices)} devices ({listed}). Atlas A1 supports 1, 2, 4 or 8 per server"
            yield TableProblem("device-set", text, path)
        elif len(devices) in (2, 4) and len({device // _RING for device in devices}) > 1:
            text = f"{name} has devices {listed}. On Atlas A1, 2 or 4 devices must be all in 0-3 or all in 4-7"
            yield TableProblem("device-set", text, path)
    if len(servers) > 1 and all(len(devices) < 2 * _RING for _, _, devices in servers):
        text = "all servers have fewer than 8 devices. HCCL's guide allows this, but MindSpore's tutorial does not"
        yield TableProblem("device-set", text, servers[0][0], warning=True)
