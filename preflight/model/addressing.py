"""Addresses that a device NIC cannot have.

The vendor's `hccn_tool` refuses some subnets with "The ip address configured is conflicted!": the driver's own virtual
NICs are there. Source: hicann/driver, ascend910B/hccn_tool, `is_ipaddr_conflict` in tool_ops.c and tool_ops_ext.c.
Inventories that are copied from published rank tables often use them.
"""

from ipaddress import IPv4Address, IPv4Network

from preflight.model.cluster import Product


def _third_octets(first: int, last: int) -> tuple[IPv4Network, ...]:
    return tuple(IPv4Network(f"192.168.{third}.0/24") for third in range(first, last + 1))


def refused_ranges(product: Product, *, amp: bool = False, superpod: bool = False) -> tuple[IPv4Network, ...]:
    """Return the ranges that `hccn_tool` of this product refuses.

    `amp`: Atlas A1 servers with NPUs in AMP mode instead of SMP. `superpod`: Atlas A3 servers in a super-pod, with
    virtual NICs that have 192.<server>.… addresses.
    """
    match product:
        case Product.ATLAS_A1:
            return _third_octets(1, 2) if amp else _third_octets(1, 5)
        case Product.ATLAS_A2:
            return _third_octets(1, 2)
        case Product.ATLAS_A3:
            return (IPv4Network("192.0.0.0/8" if superpod else "192.168.0.0/21"),)
        case _:
            return ()


def refused_range(address: IPv4Address, ranges: tuple[IPv4Network, ...]) -> IPv4Network | None:
    """Return the range of `ranges` that contains `address`, or None if `hccn_tool` accepts it."""
    return next((network for network in ranges if address in network), None)
