"""The vendor of a host's accelerators, compared with that of the inventory's product. Pure."""

from preflight.facts.sections.accelerators import Accelerators
from preflight.model.cluster import Product


def other_kind(product: Product, accelerators: Accelerators | None) -> bool:
    """Return whether a host has the accelerators of the other vendor, and none of the product's."""
    if accelerators is None or product is Product.CPU:
        return False
    has_npus, has_gpus = accelerators.has_npus, accelerators.has_gpus
    return has_gpus and not has_npus if product.is_npu else has_npus and not has_gpus
