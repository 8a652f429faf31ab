"""Which addresses a device NIC can have at all.

The vendor's `hccn_tool` refuses some subnets with "The ip address configured is conflicted!", because the driver's own
virtual NICs live there (source: hicann/driver, ascend910B/hccn_tool, `is_ipaddr_conflict` in tool_ops.c and
tool_ops_ext.c). Inventories copied from published rank tables often use them.
"""

from ipaddress import IPv4Address, IPv4Network

from preflight.model.cluster import Product

_REFUSED: dict[Product, tuple[IPv4Network, ...]] = {
    # A1 refuses .1 and .2 always; .3 to .5 in SMP mode, the mode that clusters are run in.
    Product.ATLAS_A1: tuple(IPv4Network(f"192.168.{third}.0/24") for third in range(1, 6)),
    Product.ATLAS_A2: (IPv4Network("192.168.1.0/24"), IPv4Network("192.168.2.0/24")),
    # Outside a super-pod; inside one all of 192.0.0.0/8 is refused, which only the tool itself can know.
    Product.ATLAS_A3: (IPv4Network("192.168.0.0/21"),),
}


def refused_range(product: Product, address: IPv4Address) -> IPv4Network | None:
    """The range in which `hccn_tool` of this product refuses `address`, or None where it takes it."""
    return next((network for network in _REFUSED.get(product, ()) if address in network), None)
