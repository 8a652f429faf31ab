"""The vendor of a host's accelerators, compared with that of the inventory's product. Pure."""

from preflight.facts.sections.accelerators import Accelerators
from preflight.model.cluster import Product


def other_kind(product: Product, seen: Accelerators | None) -> bool:
    """Return whether a host has the accelerators of the other vendor, and none of the product's."""
    if seen is None or product is Product.CPU:
        return False
    return seen.has_gpus and not seen.has_npus if product.is_npu else seen.has_npus and not seen.has_gpus
