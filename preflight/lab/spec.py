"""The specification of a lab: the command line's words as data, and the names of all its objects in the kernel.

Every name contains the lab's id. So `down` finds everything that a lab made, even if the process that made it is gone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.lab.firewalls import FIREWALLS
from preflight.model.errors import UsageError
from preflight.model.product_names import not_known

NPU_PRODUCTS = ("atlas-a1", "atlas-a2", "atlas-a3")
PRODUCTS = (*NPU_PRODUCTS, "nvidia", "cpu")
FABRICS = ("switched", "direct")

# A Linux bridge has 1,024 ports, and the fabric is one switch. The four-subnet plan has two devices of a host in each
# subnet; beyond 120 hosts its /24s are full.
MAX_DEVICES_PER_HOST = 16
MAX_DEVICES_OF_FOUR_SUBNETS = 8
MAX_FABRIC_PORTS = 1000
MAX_GPUS = 8
MAX_HOSTS = 500
MAX_HOSTS_OF_FOUR_SUBNETS = 120


@dataclass(frozen=True)
class Spec:
    """One requested lab.

    `devices` is per host. `user` is the account that ssh uses: "root", or one with sudo. `leaves` is the number of
    switches that share the hosts, below a spine; 1 is one switch for all.
    """

    hosts: int
    devices: int = 0
    product: str = "cpu"
    firewall: str = "nftables"
    fabric: str = "switched"
    user: str = "root"
    leaves: int = 1

    def __post_init__(self) -> None:
        """Raise UsageError with one sentence for the first impossible value."""
        for refused, sentence in self._impossible():
            if refused:
                raise UsageError(sentence)

    def _impossible(self) -> Iterator[tuple[bool, str]]:
        yield not 1 <= self.hosts <= MAX_HOSTS, f"--hosts must be 1 to {MAX_HOSTS}, not {self.hosts}."
        yield (
            not 0 <= self.devices <= MAX_DEVICES_PER_HOST,
            f"--devices must be 0 to {MAX_DEVICES_PER_HOST}, not {self.devices}.",
        )
        yield self.product not in PRODUCTS, f"--product: {not_known(self.product)}"
        yield self.firewall not in FIREWALLS, f"--firewall must be one of {', '.join(FIREWALLS)}."
        yield self.fabric not in FABRICS, f"--fabric must be one of {', '.join(FABRICS)}."
        yield self.product == "cpu" and self.devices > 0, "--product cpu needs --devices 0."
        yield (
            self.is_gpu and self.devices > MAX_GPUS,
            f"an nvidia host of the lab has at most {MAX_GPUS} GPUs, not {self.devices}.",
        )
        yield (
            self.hosts * self.device_nics > MAX_FABRIC_PORTS,
            f"{self.hosts} hosts × {self.devices} devices exceed the {MAX_FABRIC_PORTS} ports of the switch.",
        )
        yield (
            self.product == "atlas-a1" and self.devices > MAX_DEVICES_OF_FOUR_SUBNETS,
            f"an atlas-a1 server has at most {MAX_DEVICES_OF_FOUR_SUBNETS} devices, not {self.devices}.",
        )
        yield (
            self.product == "atlas-a1" and self.devices > 0 and self.hosts > MAX_HOSTS_OF_FOUR_SUBNETS,
            f"an atlas-a1 lab with devices has at most {MAX_HOSTS_OF_FOUR_SUBNETS} hosts (its subnets are /24).",
        )
        yield self.fabric == "direct" and self.hosts != 2, "--fabric direct is fibre between exactly two hosts."
        yield (
            not 1 <= self.leaves <= max(1, self.hosts),
            f"--leaves must be 1 to {self.hosts}, a host or more each, not {self.leaves}.",
        )
        yield (
            self.leaves > 1 and (self.fabric == "direct" or self.device_nics == 0),
            "--leaves needs a switched fabric and hosts with NPUs.",
        )
        yield (
            re.fullmatch(r"[a-z_][a-z0-9_-]{0,30}", self.user) is None,
            f"--user {self.user!r} is not a valid Linux user name.",
        )

    @property
    def is_npu(self) -> bool:
        """True if the hosts get the Ascend stand-ins."""
        return self.product in NPU_PRODUCTS

    @property
    def is_gpu(self) -> bool:
        """True if the hosts get the NVIDIA stand-ins."""
        return self.product == "nvidia" and self.devices > 0

    @property
    def device_nics(self) -> int:
        """Devices with a network port, per host: NPUs have one, GPUs do not."""
        return self.devices if self.is_npu else 0

    @property
    def host_names(self) -> list[str]:
        """The names of the hosts: node01 … node64, node001 … node256."""
        width = max(2, len(str(self.hosts)))
        return [f"node{number:0{width}d}" for number in range(1, self.hosts + 1)]

    def leaf_of(self, number: int) -> int:
        """Return the leaf, from 0, of host `number` (from 0). Neighbours share one."""
        return number * self.leaves // self.hosts


@dataclass(frozen=True)
class LabNames:
    """Kernel names of the lab with this id (four hexadecimal digits). Interfaces have at most 15 characters."""

    lab: str

    @property
    def prefix(self) -> str:
        """The beginning of the names of all its namespaces."""
        return f"preflight-{self.lab}-"

    @property
    def controller(self) -> str:
        """The only interface in the root namespace: the controller's, in the management network."""
        return f"preflight-{self.lab}"

    @property
    def management(self) -> str:
        """The namespace of the switch between the controller and the hosts."""
        return f"{self.prefix}mgmt"

    @property
    def fabric(self) -> str:
        """The namespace of the switch (and router) between the device NICs."""
        return f"{self.prefix}fabric"

    @property
    def hccs(self) -> str:
        """The namespace of the connections between the devices of one host."""
        return f"{self.prefix}hccs"

    def host(self, name: str) -> str:
        """Return the namespace of a host."""
        return f"{self.prefix}{name}"

    def device(self, name: str, index: int) -> str:
        """Return the namespace of a device."""
        return f"{self.prefix}{name}-d{index}"


def fabric_port(host: str, device: int) -> str:
    """Return a device's switch port in the fabric namespace, which is also its port to siblings in the HCCS one."""
    return f"{host}d{device}"


def leaf_name(leaf: int) -> str:
    """Return the name that leaf 0 reports; with several leaves, the leaf's bridge in the fabric namespace."""
    return f"leaf{leaf + 1:02d}"


def uplink(leaf: int) -> tuple[str, str]:
    """Return the ends of a leaf's cable to the spine: at the leaf, at the spine."""
    return f"up{leaf + 1:02d}", f"down{leaf + 1:02d}"
