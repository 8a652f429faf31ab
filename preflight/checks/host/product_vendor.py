"""The accelerators of the hosts, compared with the inventory's product."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from preflight.attribution.culprit_words import counted
from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.facts.parsers.ascend.npu_smi import product_of
from preflight.facts.sections.accelerators import Accelerators
from preflight.inventory import fold
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.text import quote
from preflight.rules.accelerator_kind import other_kind
from preflight.rules.gpus import GPU

_BY_PCI_ID = {"d801": Product.ATLAS_A1, "d802": Product.ATLAS_A2, "d803": Product.ATLAS_A3}
_ATLAS = 'product = "atlas-a1", "atlas-a2" or "atlas-a3" (npu-smi info shows the chips)'


@cluster_check("HST135", "Accelerator vendor", products=NPU | GPU, several=False, optional=("accelerators",))
def kind(scribe: All, accelerators: Mapping[str, Accelerators | None]) -> Iterator[Finding]:
    """Why: The product determines which facts are collected, which checks run, and which ports and addresses are
    planned. With the wrong vendor's product, most checks have nothing to check, and the planned configuration is
    useless.

    Result: FAIL if the accelerators are from a different vendor than the inventory's product. NPU126 reports NPUs of a
    different generation.

    Check manually:
      ls /dev/davinci* /dev/nvidia*
      lspci -d 19e5:
      lspci -d 10de:
      npu-smi info
      nvidia-smi -L

    Fix: Set product under [cluster] in the inventory. Use a separate inventory for hosts with other accelerators.
    """
    product = scribe.cluster.product
    hosts: dict[tuple[str, str], list[str]] = defaultdict(list)  # (accelerators, line for the inventory) → hosts
    for host in scribe.hosts:
        own = accelerators[host.name]
        if own is None:
            yield scribe.skip("the host's accelerators are unknown", host=host.name)
        elif other_kind(product, own):
            hosts[_described(own), _inventory_line(own)].append(host.name)
    if len(hosts) == 1 and not any(_fits(product, own) for own in accelerators.values()):
        ((described, line),) = hosts
        yield scribe.bad(
            f"{fold(hosts[described, line])}: each host has {described}, but the product in the inventory is {product}",
            host=None,
            expected=product.value,
            found=described,
            remedy=f"set {line} under [cluster] in the inventory",
        )
        return
    for (described, line), names in hosts.items():
        for name in names:
            yield scribe.bad(
                f"{name}: the host has {described}, but the product in the inventory is {product}",
                host=name,
                expected=product.value,
                found=described,
                remedy=f"move {name} to an inventory with {line}",
            )


def _fits(product: Product, accelerators: Accelerators | None) -> bool:
    return accelerators is not None and (accelerators.has_npus if product.is_npu else accelerators.has_gpus)


def _described(accelerators: Accelerators) -> str:
    if accelerators.has_gpus:
        return f"{counted(accelerators.gpus or accelerators.gpu_nodes, 'NVIDIA GPU')} and no NPU"
    names = Counter(accelerators.chips)
    chips = f" ({', '.join(map(quote, sorted(names)))})" if names else ""
    npus = len(accelerators.chips) or len(accelerators.npus) or accelerators.npu_nodes
    return f"{counted(npus, 'NPU')}{chips} and no NVIDIA GPU"


def _inventory_line(accelerators: Accelerators) -> str:
    """Return the line of the inventory that fits."""
    if accelerators.has_gpus:
        return 'product = "nvidia"'
    chip_products = {product_of(chip) for chip in accelerators.chips} or {
        _BY_PCI_ID.get(id_) for id_ in accelerators.npus
    }
    products = [product for product in chip_products if product]
    return f'product = "{products[0]}"' if len(products) == 1 else _ATLAS
