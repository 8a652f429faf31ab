"""Hosts that are checked without an inventory: their cluster, the product that they show, and what is not checked."""

from collections.abc import Sequence
from dataclasses import replace

from preflight.app.session import Session
from preflight.facts.parsers.ascend.npu_smi import product_of
from preflight.facts.sections.accelerators import Accelerators
from preflight.facts.types import ClusterFacts, HostFacts
from preflight.inventory.hostset import expand
from preflight.model.cluster import Cluster, Device, FirewallPolicy, Host, Product, Ssh
from preflight.model.errors import UsageError
from preflight.model.finding import Finding
from preflight.model.text import quote

AREAS_OF_INVENTORY = ("firewall", "ports")  # areas of checks that compare hosts with the inventory
NO_PROBE = "only an inventory says where jobs run"
NOT_CHECKED = "without an inventory, ports, firewalls, planned addresses and collectives were not checked"


def cluster_of(text: str) -> Cluster:
    """Return a cluster of the hosts in `text`, without accelerators. Raise UsageError for wrong names.

    `localhost` is this machine, and needs no sshd.
    """
    try:
        names = expand(text)
    except ValueError as error:
        raise UsageError(f"--hosts: {error}") from error
    if len(set(names)) < len(names):
        raise UsageError(f"--hosts {text} has a host twice")
    hosts = tuple(Host(name, name, Ssh(transport="local" if name == "localhost" else "fabric")) for name in names)
    return Cluster(f"hosts {text}", Product.CPU, hosts, firewall=FirewallPolicy.LEAVE)


def with_product(s: Session) -> tuple[Session, str]:
    """Return the session with the product and devices that its hosts show, and a note on them."""
    facts = s.collect(sections=("accelerators",))
    sections = accelerators_of(facts)
    product, why = product_shown(sections)
    device_count = max((_device_count(section, product) for section in sections), default=0)
    devices = tuple(Device(index) for index in range(device_count))
    hosts = tuple(replace(host, devices=devices) for host in s.hosts)
    cluster = replace(s.cluster, product=product, hosts=hosts)
    return s._replace(cluster=cluster, hosts=hosts), why


def accelerators_of(facts: ClusterFacts) -> list[Accelerators]:
    sections = (host.accelerators for host in facts.hosts.values() if isinstance(host, HostFacts))
    return [section for section in sections if isinstance(section, Accelerators)]


def product_shown(sections: Sequence[Accelerators]) -> tuple[Product, str]:
    """Return the product that hosts show, and the reason. Without a product that fits all, it is `cpu`."""
    if not sections:
        return Product.CPU, "no host reported its accelerators, so the product is unknown"
    match any(section.has_npus for section in sections), any(section.has_gpus for section in sections):
        case True, True:
            return Product.CPU, "some hosts have NPUs and some GPUs, so neither was checked. Check each kind by itself."
        case False, True:
            return Product.NVIDIA, "the hosts have NVIDIA GPUs, so the product is nvidia"
        case False, False:
            return Product.CPU, "no host shows an NPU or GPU, so the product is cpu"
    return _product_of_chips(sorted({chip for section in sections for chip in section.chips}))


def _product_of_chips(chips: Sequence[str]) -> tuple[Product, str]:
    products = {product_of(chip) for chip in chips}
    shown = [quote(chip) for chip in chips[:4]]
    product = products.pop() if len(products) == 1 else None
    if product is None:
        chips_sentence = f"chips {', '.join(shown)}" if chips else "no chips"
        return (
            Product.CPU,
            f"npu-smi reports {chips_sentence}, so the product is unknown, and the NPUs were not checked",
        )
    return product, f"npu-smi reports the chip {shown[0]}, so the product is {product}"


def _device_count(section: Accelerators, product: Product) -> int:
    if product is Product.NVIDIA:
        return section.gpu_nodes or section.gpus
    return section.npu_nodes or len(section.npus) if product.is_npu else 0


def without_changes(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings without changes, which only an inventory can approve."""
    return [replace(finding, change=None) if finding.change else finding for finding in findings]
