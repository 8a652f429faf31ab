"""The inventory's product, compared with the chips of the host."""

import re
from collections import Counter
from collections.abc import Iterator

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.facts.parsers.ascend.npu_smi import product_of
from preflight.facts.types import NpuSmi
from preflight.model.finding import Finding
from preflight.model.text import quote

_INFERENCE = re.compile(r"(Ascend)?310\S*")


@host_check("NPU126", "NPU product", products=NPU)
def product(scribe: Here, npu_smi: NpuSmi) -> Iterator[Finding]:
    """Why: The product determines the rules for subnets, refused addresses, speed, numbers of devices and HCCL
    variables. With a wrong product, preflight plans settings that the driver refuses. HCCL supports at most one server
    with Atlas 300I cards (310). A job over several such servers loses its heartbeats.

    Result: FAIL if chips are from a different product than the expected one. Also FAIL for Atlas 300I cards, because
    they have no device NIC.

    Check manually: npu-smi shows the chip's name next to its number.
      npu-smi info
      lspci | grep d80

    Fix: Set product under [cluster] in the inventory. Use a separate inventory for each product.
    """
    for name, number in sorted(Counter(chip.name for chip in npu_smi.chips).items()):
        chip_product = product_of(name)
        subject = f"{scribe.host.name}: {number} chips are {quote(name)}"
        if _INFERENCE.fullmatch(name):
            yield scribe.bad(
                f"{subject}, which have no device NICs. HCCL runs on at most one server with these chips",
                expected=scribe.cluster.product.value,
                found=name,
                remedy=f"remove {scribe.host.name} from the inventory. Only Atlas A1, A2 and A3 are supported",
            )
        elif chip_product is None:
            yield scribe.unknown(f"{subject}, and preflight does not know this name")
        elif chip_product is not scribe.cluster.product:
            yield scribe.bad(
                f"{subject} ({chip_product}), but the product in the inventory is {scribe.cluster.product}",
                found=f"{name}, {chip_product}",
                expected=scribe.cluster.product.value,
                remedy=f'set product = "{chip_product}" under [cluster] in the inventory, '
                f"or move {scribe.host.name} to another inventory",
            )
