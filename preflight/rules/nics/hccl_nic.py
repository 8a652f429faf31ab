"""The host NIC that HCCL takes, by its own rule (HCCL user guide). Pure.

HCCL takes the NIC of HCCL_IF_IP, else the first NIC that HCCL_SOCKET_IFNAME allows. Without both it takes the lexically
first one that is neither docker nor loopback, then docker, then loopback."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_address

from preflight.facts.types import Interface, Network
from preflight.model.ip import read_interface
from preflight.model.text import quote

FIRST = "the first by name"
Address = IPv4Interface | IPv6Interface


@dataclass(frozen=True)
class NicChoice:
    """A host NIC with its address.

    `why`: the deciding variable or rule, in words for a message. `file`: the file that sets the variable. `unset`: a
    setting that has to go before another one counts."""

    nic: str
    address: Address
    why: str
    file: str = ""
    unset: str = ""


@dataclass(frozen=True)
class NoNic:
    """The reason for no host NIC, as a sentence. `down`: the interface that the setting names, if that is down."""

    why: str
    down: str = ""
    file: str = ""
    unset: str = ""


def choose(variables: Mapping[str, str], network: Network) -> NicChoice | NoNic:
    """Return the NIC that HCCL takes, or why there is none."""
    wanted, names = variables.get("HCCL_IF_IP", ""), variables.get("HCCL_SOCKET_IFNAME", "")
    if wanted:
        return _by_address(wanted, network)
    version = 6 if names and variables.get("HCCL_SOCKET_FAMILY") == "AF_INET6" else 4
    nics = _by_name(network, version)
    if not names:
        return NicChoice(*nics[0], FIRST) if nics else NoNic("no interface that is up has an IPv4 address")
    fitting = [(place, nic) for nic in nics if (place := allowed(names, nic[0])) is not None]
    if not fitting:
        return _none_fits(names, version, network)
    _, first = min(fitting, key=lambda entry: entry[0])
    return NicChoice(*first, f"HCCL_SOCKET_IFNAME={quote(names)}")


def _by_name(network: Network, version: int) -> list[tuple[str, Address]]:
    """Return the NICs that are up, with their addresses of one family, in the order of HCCL's search."""
    nics = [(nic.name, address) for nic in network.interfaces if nic.up for address in addresses(nic, version)]
    return sorted(nics, key=lambda nic: (_search_rank(nic[0]), nic[0]))


def _none_fits(names: str, version: int, network: Network) -> NoNic:
    setting = f"HCCL_SOCKET_IFNAME={quote(names)}"
    present = ", ".join(sorted({name for name, _ in _by_name(network, version)}))
    fitting = (nic.name for nic in network.interfaces if not nic.up and allowed(names, nic.name) is not None)
    down = next(fitting, "")
    why = f"no interface matches {setting}. Interfaces with an IPv{version} address are {present or 'none'}"
    if down:
        why = f"{down} matches {setting}, but {down} is down"
    message = "set ifname to […] by HCCL_SOCKET_IFNAME, but not found in the environment"
    return NoNic(f'{why}. HCCL reports "{message}"', down)


def _by_address(wanted: str, network: Network) -> NicChoice | NoNic:
    try:
        address = ip_address(wanted)
    except ValueError:
        return NoNic(f"HCCL_IF_IP={quote(wanted)} is not an IP address", unset="HCCL_IF_IP")
    for nic in network.interfaces:
        for own in addresses(nic, address.version):
            if own.ip == address:
                return NicChoice(nic.name, own, f"HCCL_IF_IP={address}", unset="HCCL_IF_IP")
    return NoNic(f"HCCL_IF_IP={address} is not an address of this host", unset="HCCL_IF_IP")


def addresses(nic: Interface, version: int) -> Iterator[Address]:
    """Yield the NIC's addresses of one family, without the link-local ones of IPv6."""
    for text in nic.addresses:
        try:
            address = read_interface(text.partition("%")[0])
        except ValueError:
            continue  # not an address
        if address.version == version and not (version == 6 and address.ip.is_link_local):
            yield address


def allowed(patterns: str, nic: str) -> int | None:
    """Return the place of a NIC in HCCL_SOCKET_IFNAME; None if it is not allowed.

    The first word that fits counts: `eth,enp` by beginning, `=eth0` by name, `^` before either for all other NICs."""
    negated = patterns.startswith("^")
    exact = patterns[negated:].startswith("=")
    words = patterns[negated + exact :].split(",")
    fits = (place for place, word in enumerate(words) if word and (nic == word if exact else nic.startswith(word)))
    place = next(fits, None)
    return (0 if place is None else None) if negated else place


def _search_rank(nic: str) -> int:
    """Return the sort key that puts docker and then the loopback last."""
    return 2 if nic == "lo" else int(nic.startswith("docker"))
