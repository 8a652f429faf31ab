"""Which addresses a device NIC can have at all.

The vendor's `hccn_tool` refuses some subnets with "The ip address configured is conflicted!", because the driver's own
virtual NICs live there (source: hicann/driver, ascend910B/hccn_tool, `is_ipaddr_conflict` in tool_ops.c and
tool_ops_ext.c). Inventories copied from published rank tables often use them.
"""

from ipaddress import IPv4Address, IPv4Network

from preflight.model.cluster import Product


def _third_octets(first: int, last: int) -> tuple[IPv4Network, ...]:
    return tuple(IPv4Network(f"192.168.{third}.0/24") for third in range(first, last + 1))


def refused_ranges(product: Product, *, amp: bool = False, superpod: bool = False) -> tuple[IPv4Network, ...]:
    """The ranges that `hccn_tool` of this product refuses. `amp`: Atlas A1 servers whose NPUs are in AMP mode instead
    of SMP; `superpod`: Atlas A3 servers inside a super-pod, whose virtual NICs have 192.<server>.… addresses."""
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
    """The one of `ranges` in which `address` lies, or None where `hccn_tool` takes it."""
    return next((network for network in ranges if address in network), None)
